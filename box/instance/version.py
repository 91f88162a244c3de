"""The version that this node behaves like."""

from __future__ import annotations

from typing import Final

PACKAGE_VERSION: Final = "2.8.1-0-g0000000"
"""The version in `box.info.version` and in the log: the peer's."""
