"""The usual header of a request, read in one call.

```
ce <u32 length>  82  00 <type>  01 <sync>      type below 0x80; the first byte of the sync, at offset 9, tells its width
```

Headers of any other form go to the general decoder (`box.wire.row`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

_HeaderReader = Callable[[bytes, int], tuple[Any, ...]]


def _header_shapes() -> dict[int, tuple[_HeaderReader, int]]:
    """Return how to read `ce <length> 82 00 <type> 01 <sync>`: for each first byte of the sync a reader and the
    header's size.

    The reader returns 0xCE, length, 0x8200, type, 0x01 and sync. Headers of other forms do not match the constants.
    """
    # A sync below 128 is a MessagePack fixint: its first byte is the number itself.
    one_byte = struct.Struct(">BIHBBB").unpack_from
    shapes: dict[int, tuple[_HeaderReader, int]] = dict.fromkeys(range(128), (one_byte, 10))
    # uint8 to uint64: a mark, which "x" skips, and the number in big-endian order.
    for mark, (form, width) in {0xCC: ("B", 1), 0xCD: ("H", 2), 0xCE: ("I", 4), 0xCF: ("Q", 8)}.items():
        shapes[mark] = (struct.Struct(">BIHBBx" + form).unpack_from, 10 + width)
    return shapes


HEADER_SHAPES: Final = _header_shapes()
"""For each first byte of the sync: a function that unpacks such a header, and the size of the header in bytes."""
