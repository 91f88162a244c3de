"""Constants of the runner: the defaults of its command line."""

from __future__ import annotations

import sys
from typing import Final

OWN_EXECUTABLE: Final = (sys.executable, "-m", "console")
TIMEOUT: Final = 240.0
"""Seconds without output from a command."""
LARGEST: Final = 1 << 17
"""Bytes of a request to the process that forks nodes, or of its reply."""
