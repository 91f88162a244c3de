"""Rows on their way from the log to other instances: packets that are made once, sent to many, and never decoded.

```
run    = packet, packet, ...              rows of one origin in the order of the log, none of them twice
packet = ce length (u32), header, body    header and body byte for byte as in the log, where the length is missing
```

Rows that only this instance has (local spaces) are in runs of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from box.wire.packet import packet_bounds
from box.wire.row import Row, decode_row


class PacketRun(NamedTuple):
    """Encoded rows with growing lsns; `first` and `last` are the lsns at both ends."""

    replica_id: int
    is_local: bool
    """True for rows of local spaces."""
    first: int
    last: int
    data: bytes

    def rows(self) -> list[Row]:
        """Return the rows as objects.

        Raises:
            ClientError: INVALID_MSGPACK.
        """
        data = self.data
        rows, pos = [], 0
        while pos < len(data):
            start, pos = packet_bounds(data, pos)
            rows.append(decode_row(data[start:pos]))
        return rows

    def after(self, lsn: int) -> PacketRun | None:
        """Return the rows later than `lsn` as a run, or None if there are none."""
        if lsn < self.first:
            return self
        if lsn >= self.last:
            return None
        return self._part(lsn, is_after=True)

    def up_to(self, lsn: int) -> PacketRun | None:
        """Return the rows not later than `lsn` as a run, or None if there are none."""
        if lsn >= self.last:
            return self
        if lsn < self.first:
            return None
        return self._part(lsn, is_after=False)

    def _part(self, lsn: int, *, is_after: bool) -> PacketRun:
        data = self.data
        pos = last = 0
        while pos < len(data):
            start, end = packet_bounds(data, pos)
            here = decode_row(data[start:end]).lsn
            if here > lsn:
                break
            pos, last = end, here
        if is_after:
            return self._replace(first=here, data=data[pos:])
        return self._replace(last=last, data=data[:pos])


def rows_of(runs: Iterable[PacketRun]) -> list[Row]:
    """Return all rows of several runs as objects."""
    return [row for run in runs for row in run.rows()]


class RunBuilder:
    """Collects packets into runs. A run ends where the origin changes or an lsn does not grow."""

    __slots__ = ("_first", "_is_local", "_packed", "_parts", "_replica_id", "_runs", "last")

    def __init__(self) -> None:
        self.last = 0
        """The lsn of the newest row. Callers that add rows without `begin` have to set it."""
        self._runs: list[PacketRun] = []
        self._parts: list[bytes] = []
        self._packed = 0
        """How many parts at the beginning of `_parts` are joined already, each from many packets."""
        self._replica_id = -1
        self._is_local = False
        self._first = 0

    def begin(self, replica_id: int, is_local: bool, lsn: int) -> list[bytes]:
        """Return the list that takes the frame and the bytes of the next row.

        The caller may append further rows of this origin with growing lsns directly, and then has to set `last`.
        """
        if replica_id != self._replica_id or is_local is not self._is_local or lsn <= self.last:
            self._close()
            self._replica_id, self._is_local, self._first = replica_id, is_local, lsn
        self.last = lsn
        return self._parts

    def pack(self) -> None:
        """Join the pieces added since the last call, because a single join of hundreds of thousands would take long."""
        new = self._parts[self._packed :]
        if new:
            self._parts[self._packed :] = [b"".join(new)]
            self._packed += 1

    def _close(self) -> None:
        if self._parts:
            data = b"".join(self._parts)
            self._runs.append(PacketRun(self._replica_id, self._is_local, self._first, self.last, data))
            self._parts.clear()
            self._packed = 0

    def finish(self) -> list[PacketRun]:
        """Return all runs and empty the builder."""
        self._close()
        runs, self._runs, self._replica_id = self._runs, [], -1
        return runs
