"""Runs of tuples: consecutive rows of a snapshot that differ in nothing but the tuple.

```
row = header, 82 10 <space id> 21, tuple        header: of an INSERT, with a type and at most a sync
```
"""

from __future__ import annotations

from typing import Final, NamedTuple

from box.data.marks import FIXMAP, UINT8, UINT16, UINT32
from box.errors import BoxError
from box.wire.constants import Key, RequestType
from box.wire.row import decode_header

_UINT_SIZES: Final = {UINT8: 1, UINT16: 2, UINT32: 4}
_SPACE_ID: Final = bytes((FIXMAP | 2, Key.SPACE_ID))
"""The beginning of the body: a map of two pairs, and the key of the first."""
_TUPLE: Final = int(Key.TUPLE)
_LONGEST_HEAD: Final = 64
"""The number of bytes that are searched for the header, which is far shorter; a large tuple is not copied for it."""


class TupleRun(NamedTuple):
    """Consecutive tuples of one space."""

    space_id: int
    tuples: list[bytes]


def tuple_head(packet: bytes) -> tuple[int, int] | None:
    """Return the space id of an INSERT row, and the size of everything before its tuple in the packet.

    Returns None for another row. The tuple itself is not checked.
    """
    try:
        row, pos = decode_header(packet[:_LONGEST_HEAD])
    except BoxError:
        return None
    if row.type != RequestType.INSERT or row.lsn or row.replica_id or row.tm or row.group_id or row.flags:
        return None
    if not packet.startswith(_SPACE_ID, pos) or len(packet) < pos + 4:
        return None
    mark = packet[pos + 2]
    size = _UINT_SIZES.get(mark, 0)
    if mark >= FIXMAP and not size:  # neither a small integer, which is its own mark, nor another space id
        return None
    tuple_at = pos + 3 + size
    space_id = int.from_bytes(packet[pos + 3 : tuple_at], "big") if size else mark
    if len(packet) <= tuple_at + 1 or packet[tuple_at] != _TUPLE:
        return None
    return space_id, tuple_at + 1
