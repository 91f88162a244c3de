"""The first byte of a MessagePack value, its *mark*: it tells the type, and the size or where to read it.

```
00..7f  a small integer, which is its own mark        c0, c2, c3  nil, false, true
80..8f  a map of 0 to 15 pairs                        c4..c6      binary, after its length (1, 2 or 4 bytes)
90..9f  an array of 0 to 15 elements                  c7..c9      extension, after its length and its type
a0..bf  a string of 0 to 31 bytes                     ca, cb      float, double
e0..ff  a negative integer from -32 on                cc..cf      unsigned integer of 1, 2, 4 or 8 bytes
c1      means nothing                                 d0..d3      signed integer of 1, 2, 4 or 8 bytes
d4..d8  extension of 1, 2, 4, 8 or 16 bytes           d9..db      string, after its length (1, 2 or 4 bytes)
dc, dd  array, after its count (2 or 4 bytes)         de, df      map, after its count (2 or 4 bytes)
```

Loops that run for every row or value keep the numbers, because a name costs a look-up there. Source: MessagePack's
specification, whose names these are.
"""

from __future__ import annotations

from typing import Final

FIXMAP: Final = 0x80
"""An empty map; the number of pairs is added. Every byte below it is a small integer."""
FIXARRAY: Final = 0x90
"""An empty array; the number of elements is added."""
FIXSTR: Final = 0xA0
"""An empty string; the number of bytes is added."""
NIL: Final = 0xC0
FALSE: Final = 0xC2
TRUE: Final = 0xC3
BIN8: Final = 0xC4
BIN32: Final = 0xC6
EXT8: Final = 0xC7
EXT32: Final = 0xC9
FLOAT32: Final = 0xCA
FLOAT64: Final = 0xCB
UINT8: Final = 0xCC
UINT16: Final = 0xCD
UINT32: Final = 0xCE
UINT64: Final = 0xCF
INT8: Final = 0xD0
INT64: Final = 0xD3
FIXEXT1: Final = 0xD4
FIXEXT16: Final = 0xD8
STR8: Final = 0xD9
STR32: Final = 0xDB
ARRAY16: Final = 0xDC
ARRAY32: Final = 0xDD
MAP16: Final = 0xDE
MAP32: Final = 0xDF
NEGATIVE_FIXINT: Final = 0xE0
"""The integer -32. Every byte above it is a greater negative integer, up to -1."""
