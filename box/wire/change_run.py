"""Runs of changes: consecutive one-row transactions of one origin, in the order of the other instance's log.

A run holds columns instead of objects for its rows, because thousands of them may arrive in a second. All its rows have
the usual header, so that the columns describe them completely:

```
header = 84, 00 type, 02 replica id, 03 cd|ce lsn, 04 cb time                six bytes (`head`), the lsn, ten bytes
header = 85, as above, then 09 06                                            of a synchronous transaction
```

A run holds headers of one of the two kinds only.
"""

from __future__ import annotations

from typing import Final

from box.errors import ErrorCode, client_error
from box.wire.constants import Flag, RequestType
from box.wire.row import Row, is_msgpack
from box.wire.vclock import VCLOCK_MAX

HEAD_SIZE: Final = 6
"""The size of a header before the lsn, in bytes: the map, the type and the replica id."""
SYNCHRONOUS: Final = int(Flag.WAIT_SYNC | Flag.WAIT_ACK)
"""The flags of every row of a run whose transactions are synchronous."""
SYNCHRONOUS_TAIL: Final = bytes((9, SYNCHRONOUS))
"""The pair that ends the headers of such a run, after the time: key 9 and the flags."""
_MAPS: Final = b"\x84\x85"
"""The first bytes of headers without and with flags: maps of four and of five pairs."""
USUAL_TYPES: Final = frozenset(
    {RequestType.INSERT, RequestType.REPLACE, RequestType.UPDATE, RequestType.DELETE, RequestType.UPSERT}
)
"""The types of rows that change one tuple of a space."""


class ChangeRun:
    """Changes in columns: `heads`, `lsns` and `bodies` have one item for each row, and the lsns grow.

    `flags` is the flags of every row: 0 or SYNCHRONOUS. `tm` is the time stamp of the last row.
    """

    __slots__ = ("bodies", "flags", "heads", "lsns", "replica_id", "tm")

    def __init__(self, replica_id: int, flags: int = 0) -> None:
        self.replica_id = replica_id
        self.flags = flags
        self.heads: list[bytes] = []
        self.lsns: list[int] = []
        self.bodies: list[bytes] = []
        self.tm = 0.0

    def __len__(self) -> int:
        return len(self.lsns)

    def row(self, number: int) -> Row:
        """Return one row as an object."""
        lsn = self.lsns[number]
        kind, body = self.heads[number][2], self.bodies[number]
        return Row(kind, self.replica_id, lsn, self.tm, tsn=lsn, flags=self.flags, body=body)

    def checked_row(self, number: int) -> Row:
        """Return one row as an object, after a check of its body.

        Raises:
            ClientError: INVALID_MSGPACK (`packet body`), the body is not MessagePack.
        """
        if not is_msgpack(self.bodies[number]):
            raise client_error(ErrorCode.INVALID_MSGPACK, "packet body")
        return self.row(number)

    def rows(self) -> list[Row]:
        """Return all rows as objects."""
        return [self.row(number) for number in range(len(self))]

    def part(self, start: int, stop: int) -> ChangeRun:
        """Return the rows from `start` to `stop` as a run."""
        run = ChangeRun(self.replica_id, self.flags)
        run.heads, run.lsns, run.bodies = self.heads[start:stop], self.lsns[start:stop], self.bodies[start:stop]
        run.tm = self.tm
        return run


def origin_of_head(head: bytes) -> int | None:
    """Return the replica id in the first bytes of a usual header, or None for another header.

    A header with 85 counts as usual here; only its fifth pair tells whether it is one.
    """
    # 0, 2 and 3 are the keys of type, replica id and lsn, with values of one byte each between them.
    if len(head) != HEAD_SIZE or head[0] not in _MAPS or head[1] != 0 or head[3] != 2 or head[5] != 3:
        return None
    return head[4] if head[2] in USUAL_TYPES and 0 < head[4] < VCLOCK_MAX else None
