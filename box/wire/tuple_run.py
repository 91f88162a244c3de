"""Runs of tuples: consecutive rows of a snapshot that differ in nothing but the tuple.

```
row = header, 82 10 <space id> 21, tuple        header: of an INSERT, with a type and at most a sync
```
"""

from __future__ import annotations

from typing import Final, NamedTuple

from box.errors import BoxError
from box.wire.constants import RequestType
from box.wire.row import decode_header

_UINT_SIZES: Final = {0xCC: 1, 0xCD: 2, 0xCE: 4}
_SPACE_ID: Final = b"\x82\x10"
_TUPLE: Final = 0x21
_LONGEST_HEAD: Final = 64


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
    if mark >= 0x80 and not size:
        return None
    tuple_at = pos + 3 + size
    space_id = int.from_bytes(packet[pos + 3 : tuple_at], "big") if size else mark
    if len(packet) <= tuple_at + 1 or packet[tuple_at] != _TUPLE:
        return None
    return space_id, tuple_at + 1
