"""The usual header of a request, read in one call.

```
ce <u32 length>  82  00 <type>  01 <sync>      type below 0x80; the first byte of the sync, at offset 9, tells its width
```

Any other form takes the general decoder (`box.wire.row`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

_HeaderReader = Callable[[bytes, int], tuple[Any, ...]]


def _header_shapes() -> dict[int, tuple[_HeaderReader, int]]:
    """By the first byte of the sync: how to read `ce <length> 82 00 <type> 01 <sync>`, and its size.

    The fields are 0xCE, length, 0x8200, type, 0x01, sync. Other forms of a header do not match the constants.
    """
    one_byte = struct.Struct(">BIHBBB").unpack_from
    shapes: dict[int, tuple[_HeaderReader, int]] = dict.fromkeys(range(128), (one_byte, 10))
    for mark, (form, width) in {0xCC: ("B", 1), 0xCD: ("H", 2), 0xCE: ("I", 4), 0xCF: ("Q", 8)}.items():
        shapes[mark] = (struct.Struct(">BIHBBx" + form).unpack_from, 10 + width)
    return shapes


HEADER_SHAPES: Final = _header_shapes()
"""A reader and the size of what it reads, by the first byte of the sync."""
