"""The relay's side of `replication_fetch_once`: selects the wanted rows and announces the skipped ones before them.

The skipped rows reach the subscriber from other peers, possibly later. A row that follows them in the log here may
depend on them. So before it sends the row, the relay sends a position: the vclock of the skipped rows.

```
log here (1)       {2: 7}   {1: 5}   {2: 8}   {3: 4}   {1: 6}   {1: 7}
sent, wanted {1}   after {2: 7}, {1: 5}, after {2: 8, 3: 4}, {1: 6}, {1: 7}
```

The rows before one of this instance's own rows were here when it was written, so it may really depend on them. Rows of
third instances are in the log where they arrived, which can be after rows that they do not depend on. As long as only
one peer sends a subscriber rows of third instances, the streams cannot wait for each other in a circle, because the
order of that peer's log agrees with all of them. If several peers do, the limit of the wait ends such a circle
(`box.replication.row_order`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from uuid import UUID

from box.wire import messages
from box.wire.row import Row
from box.wire.vclock import VClock


class WhiteList:
    """The selection of one relay's rows.

    `wanted` are the instances whose rows are sent. `left_out` are ids whose rows the subscriber gets from others.
    `members` returns the members as they are known here; rows of an origin that is unknown here are sent.
    """

    def __init__(
        self,
        wanted: frozenset[UUID],
        left_out: frozenset[int],
        members: Callable[[], Mapping[int, UUID | None]],
        *,
        subscriber_id: int,
    ) -> None:
        self._wanted = wanted
        self._left_out = left_out
        self._members = members
        self._subscriber_id = subscriber_id
        self._passed = VClock()
        """The last lsn of each origin that was skipped since the last position was sent."""

    def unwanted(self) -> frozenset[int]:
        """Return the ids whose rows are not sent. Call it for each batch, because members come and go."""
        wanted = self._wanted
        unlisted = {replica_id for replica_id, uuid in self._members().items() if uuid not in wanted}
        return self._left_out | unlisted

    def pass_over(self, origin: int, lsn: int) -> None:
        """Note that the rows of an unwanted origin up to `lsn` are skipped."""
        if origin != self._subscriber_id and lsn > self._passed[origin]:
            self._passed[origin] = lsn

    def position_before(self, origin: int) -> Row | None:
        """Return the position to send before the next rows of an origin, or None if none is needed."""
        if not self._passed or origin == self._subscriber_id:
            return None
        position = messages.after_row(self._passed)
        self._passed.clear()
        return position

    def select(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the wanted rows, with positions between them."""
        unwanted = self.unwanted()
        for row in rows:
            origin = row.replica_id
            if origin in unwanted:
                self.pass_over(origin, row.lsn)
                continue
            position = self.position_before(origin)
            if position is not None:
                yield position
            yield row
