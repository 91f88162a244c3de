"""The version of this package. The version of Tarantool that it implements is `box.wire.tarantool_version.VERSION`."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.2.0"
"""The version of the package. It repeats the package's metadata, because looking those up takes long."""
