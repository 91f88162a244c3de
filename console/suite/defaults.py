"""Constants of the runner: the defaults of its command line."""

from __future__ import annotations

import sys
from typing import Final

OWN_EXECUTABLE: Final = (sys.executable, "-m", "console")
ENVIRONMENT: Final = {"LUNABOX_HASH_ORDER": "slots"}
"""Variables of nodes, unless the user has set them. Result files contain the order of HASH indexes."""
TIMEOUT: Final = 240.0
"""Seconds that a command may take without output."""
SYNC_TIMEOUT: Final = 100
"""Seconds, `replication_sync_timeout` of nodes that do not set it."""
LARGEST: Final = 1 << 17
"""The most bytes of a request to the process that forks nodes, and of a reply."""
