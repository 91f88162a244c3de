"""The version that this node behaves like."""

from __future__ import annotations

from typing import Final

PACKAGE_VERSION: Final = "2.8.1-0-g0000000"
"""What `box.info.version` and the log tell: the peer's."""
