"""The version of this package, and the one that its node behaves like."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.2.0"
"""The same as in the package's metadata, which take long to look up."""
PACKAGE_VERSION: Final = "2.8.1-0-g0000000"
"""The version in `box.info.version` and in the log: the peer's."""
