"""The version of this package. The version of Tarantool that it implements is `box.wire.constants.VERSION`."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.2.0"
"""The same as in the package's metadata, which take long to look up."""
