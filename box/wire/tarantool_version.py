"""The version of Tarantool that a node implements and announces."""

from __future__ import annotations

from typing import Final


def version_id(major: int, minor: int, patch: int) -> int:
    """Return a version as the number that SUBSCRIBE carries: one byte for each part."""
    return major << 16 | minor << 8 | patch


VERSION: Final = "2.8.1"
VERSION_ID: Final = version_id(2, 8, 1)
PACKAGE_VERSION: Final = f"{VERSION}-0-g0000000"
"""The version in `box.info.version`, in the log, and in the first lines of xlog and snapshot files."""
