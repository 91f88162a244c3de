"""The relay's side of `replication_fetch_once`: rows of the wanted instances only, and what came before them.

The rows that are passed over reach the subscriber from others, maybe later. A row that stands behind them here may
build upon them. So the subscriber is told how far they go before it gets the row:

```
log here (1)       {2: 7}   {1: 5}   {2: 8}   {3: 4}   {1: 6}   {1: 7}
sent, wanted {1}   after {2: 7}, {1: 5}, after {2: 8, 3: 4}, {1: 6}, {1: 7}
```

Before a row of this instance itself stands what was here when it was written: all of that really comes before it. Rows
of third instances stand where they have arrived, which may be behind others that they do not build upon. As long as one
peer alone sends a subscriber rows of third instances, its streams cannot wait for each other in a circle: the order of
that peer's log agrees with all of them. Where several do, patience ends such a wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from uuid import UUID

from box.wire import messages
from box.wire.row import Row
from box.wire.vclock import VClock


class WhiteList:
    """`wanted` are the listed instances, `left_out` ids that the subscriber gets from others in any case, `members`
    gives the replica set as it is known here; an origin that is not known here is let through."""

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
        """The rows that were passed over since the subscriber was told."""

    def unwanted(self) -> frozenset[int]:
        """Ids whose rows are not sent. Members come and go, so it is made anew for each batch."""
        wanted = self._wanted
        unlisted = {replica_id for replica_id, uuid in self._members().items() if uuid not in wanted}
        return self._left_out | unlisted

    def pass_over(self, origin: int, lsn: int) -> None:
        """Rows of an unwanted origin up to `lsn` are not sent."""
        if origin != self._subscriber_id and lsn > self._passed[origin]:
            self._passed[origin] = lsn

    def position_before(self, origin: int) -> Row | None:
        """The position that goes before the next rows of an origin, if one is needed."""
        if not self._passed or origin == self._subscriber_id:
            return None
        position = messages.after_row(self._passed)
        self._passed.clear()
        return position

    def select(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The wanted ones of the rows, with positions between them."""
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
