"""Look-ups that tell Lua where a tuple is instead of handing it over.

A string that crosses to Lua is interned, and the older LuaJIT hashes four words of it only: tuples that differ
elsewhere share a hash, and each new one is compared with all that are not collected yet. So the shortest way to a tuple
returns the address of its `bytes` object, and Lua copies from there at once, while the index still holds the object:

    CPython, 64 bits    offset 16  size (int64)    offset 32  the bytes
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

_SIZE_AT: Final = 16
_DATA_AT: Final = 32


def _is_layout_known() -> bool:
    sample = b"\x93sample of some bytes"
    if bytes.__basicsize__ != _DATA_AT + 1 or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    size = ctypes.c_int64.from_address(id(sample) + _SIZE_AT).value
    return size == len(sample) and ctypes.string_at(id(sample) + _DATA_AT, size) == sample


IS_LAYOUT_KNOWN: Final = _is_layout_known()


def locator(find: Callable[[Any], bytes | None]) -> Callable[[Any], int]:
    """The look-up of an index's container with an address as its result, 0 for None."""

    def locate(key: Any) -> int:
        raw = find(key)
        return 0 if raw is None else id(raw)

    return locate
