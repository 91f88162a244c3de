"""`box.ctl.compare`: compares the data of this instance with that of another one at the same vclock.

```
there   FETCH_SNAPSHOT: a read view and its vclock; needs the right to replicate and does not stop the other instance
here    a view of every replicated space at the moment when the vclock is the same
```

Both are read in slices, in the order of the primary keys, and never held as a whole. Slices that are equal byte for
byte cost one comparison; the tuples of other slices are matched by their keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from box.data.codec import unpack
from box.errors import BoxError, ErrorCode, client_error
from box.net.dial import open_connection, require_binary
from box.net.peer_connection import PeerConnection
from box.net.uri import check
from box.replication.incoming import expect_ok
from box.replication.local import LocalInstance, ReplicationOptions
from box.replication.silence import tolerated_silence
from box.schema.ids import SpaceId
from box.wire import messages
from box.wire.change import decode_row
from box.wire.constants import RequestType
from box.wire.row import Row
from box.wire.vclock import VClock

if TYPE_CHECKING:
    from box.index.view import TupleView
    from box.journal.journal import Journal
    from box.net.network import Network
    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.txn.synchro import LimboDriver

SHOWN_KEYS: Final = 10
"""The most keys of a space that the result lists; further ones are only counted."""
_SLICE: Final = 512
"""Tuples that are read and compared at a time, before other tasks get their turn."""
_LOOK: Final = 0.002
"""Seconds between two checks whether the vclocks are the same."""


@dataclass(slots=True)
class SpaceDifference:
    """The difference of one space: how many tuples each side has, and how many of them the other side lacks."""

    id: int
    name: str
    here: int = 0
    there: int = 0
    missing_here: int = 0
    missing_there: int = 0
    different: int = 0
    """The number of tuples with the same key and different contents."""
    keys: list[list[Any]] = field(default_factory=list)
    """The first keys that are missing or different, at most `SHOWN_KEYS`."""

    @property
    def is_equal(self) -> bool:
        return not (self.missing_here or self.missing_there or self.different)


@dataclass(slots=True)
class Comparison:
    """The result of a comparison.

    `uuid` is the other instance, `vclock` the position of both, `tuples` the number of compared tuples, `differences`
    the spaces that are not equal.
    """

    uuid: UUID
    vclock: VClock
    tuples: int
    differences: list[SpaceDifference]

    def described(self) -> dict[str, Any]:
        """Return the table that `box.ctl.compare` returns."""
        names = ("id", "name", "here", "there", "missing_here", "missing_there", "different", "keys")
        return {
            "uuid": str(self.uuid),
            "vclock": dict(self.vclock),
            "tuples": self.tuples,
            "is_equal": not self.differences,
            "differences": [{name: getattr(each, name) for name in names} for each in self.differences],
        }


class SpaceMerge:
    """The comparison of one space. `space` and `view` are None if this instance has no space with the id."""

    def __init__(self, space_id: int, space: Space | None, view: TupleView | None) -> None:
        self.result = SpaceDifference(space_id, str(space_id) if space is None else space.name)
        self._view = view
        self._key_def = None if space is None or space.primary is None else space.primary.key_def
        self._is_ordered = space is not None and space.primary is not None and space.primary.definition.type == "tree"
        self._here: list[bytes] = []
        self._there: list[bytes] = []

    def add(self, there: list[bytes]) -> None:
        """Add tuples of the other side, in the order of its view, and compare those that can be compared now.

        A HASH index has an order of its own on each side; its tuples are compared at the end.
        """
        self.result.there += len(there)
        self._there += there
        if self._is_ordered:
            self._advance()

    def finish(self) -> None:
        """Compare the remaining tuples after the last one of the other side."""
        if not self._is_ordered and self._key_def is not None:
            self._there.sort(key=self._key)
        self._advance()
        while self._here or self._fill():
            for raw in self._here:
                self._note(raw, "missing_there")
            self._here = []

    def _fill(self) -> bool:
        if self._view is not None:
            more = self._view.fetch(_SLICE)
            self.result.here += len(more)
            self._here += more
        return bool(self._here)

    def _advance(self) -> None:
        """Compare until all received tuples of the other side are used up."""
        while self._there:
            if len(self._here) < len(self._there) and not self._fill():
                for raw in self._there:
                    self._note(raw, "missing_here")
                self._there = []
                return
            count = min(len(self._here), len(self._there))
            if self._here[:count] != self._there[:count]:
                self._pair(count)
            else:
                del self._here[:count], self._there[:count]

    def _pair(self, count: int) -> None:
        """Match the next `count` tuples of each side by their keys, until one side is used up."""
        one = other = 0
        while one < count and other < count:
            mine, theirs = self._here[one], self._there[other]
            if mine == theirs:
                one, other = one + 1, other + 1
                continue
            my_key, their_key = self._key(mine), self._key(theirs)
            if my_key == their_key:
                self._note(mine, "different")
                one, other = one + 1, other + 1
            elif my_key < their_key:
                self._note(mine, "missing_there")
                one += 1
            else:
                self._note(theirs, "missing_here")
                other += 1
        del self._here[:one], self._there[:other]

    def _key(self, raw: bytes) -> Any:
        assert self._key_def is not None
        return self._key_def.extract(unpack(raw))

    def _note(self, raw: bytes, kind: str) -> None:
        setattr(self.result, kind, getattr(self.result, kind) + 1)
        if len(self.result.keys) < SHOWN_KEYS:
            fields = unpack(raw)
            self.result.keys.append(fields if self._key_def is None else self._key_def.extract_values(fields))


class Comparer:
    """Compares the tuples of this instance's spaces with those of other instances.

    `open_views` opens a view of each replicated space, by id, without a task switch. `journal` returns the journal.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        instance: LocalInstance,
        options: ReplicationOptions,
        *,
        schema: Schema,
        open_views: Callable[[], dict[int, TupleView]],
        journal: Callable[[], Journal],
        synchro: LimboDriver,
        network: Network,
    ) -> None:
        self._loop = loop
        self._instance = instance
        self._options = options
        self._schema = schema
        self._open_views = open_views
        self._journal = journal
        self._synchro = synchro
        self._network = network

    async def compare(self, uri: str) -> Comparison:
        """Compare with the instance at an address.

        Raises:
            ClientError: CFG, the address is malformed; LOADING, this instance has not started;
                REPLICASET_UUID_MISMATCH.
            BoxError: TIMEOUT, the vclocks were not the same at any moment within `replication_connect_timeout`; the
                peer's refusal; a lost connection.
        """
        check(uri, "uri")
        self._journal()
        deadline = self._loop.time() + self._options.connect_timeout
        while True:
            comparison, there = await self._attempt(uri, deadline)
            if comparison is not None:
                return comparison
            if self._loop.time() >= deadline:
                here = self._instance.vclock.without_zero()
                text = f"the vclocks were not the same at any moment: here {here}, there {there}"
                raise BoxError(ErrorCode.TIMEOUT, text)

    async def _attempt(self, uri: str, deadline: float) -> tuple[Comparison | None, VClock]:
        timeout = max(deadline - self._loop.time(), _LOOK)
        connection = await open_connection(self._loop, self._network, uri, timeout, keeps_rows=True)
        try:
            greeting = connection.greeting
            require_binary(greeting, "Unsupported protocol for replication")
            address = check(uri, "uri")
            if address.login is not None:
                await connection.authenticate(address.login, address.password or "", timeout=timeout)
            connection.write_rows([messages.fetch_snapshot_row()])
            answer = await connection.read_row(timeout)
            expect_ok(answer)
            vclock = messages.decode_vclock(answer)
            views = await self._views_at(vclock, deadline)
            if views is None:
                return None, vclock
            try:
                await self._synchro.wait_confirm()
                tuples, differences = await self._merge(connection, views)
            finally:
                for view in views.values():
                    view.close()
            assert greeting.uuid is not None
            return Comparison(greeting.uuid, vclock, tuples, differences), vclock
        finally:
            connection.close()

    async def _views_at(self, vclock: VClock, deadline: float) -> dict[int, TupleView] | None:
        """Return views of this instance at exactly `vclock`; None if it has passed it or does not reach it in time."""
        while self._loop.time() < deadline:
            if self._instance.vclock.without_zero() == vclock:
                views = self._open_views()
                # The views contain changes on their way to the log, so the vclock counts only after they are written.
                written: VClock = await self._journal().sync()
                if written.without_zero() == vclock:
                    return views
                for view in views.values():
                    view.close()
            if not vclock.covers(self._instance.vclock.without_zero()):
                await asyncio.sleep(_LOOK)
                return None
            await asyncio.sleep(_LOOK)
        return None

    async def _merge(
        self, connection: PeerConnection, views: dict[int, TupleView]
    ) -> tuple[int, list[SpaceDifference]]:
        results: list[SpaceDifference] = []
        left = dict(views)
        merge: SpaceMerge | None = None

        def end() -> None:
            if merge is not None:
                merge.finish()
                results.append(merge.result)

        is_over = False
        while not is_over:
            rows = await connection.read_rows(tolerated_silence(self._options) + self._options.connect_timeout)
            for start in range(0, len(rows), _SLICE):
                for space_id, tuples, is_over in _by_space(rows[start : start + _SLICE]):
                    if is_over:
                        break
                    if merge is None or merge.result.id != space_id:
                        end()
                        merge = SpaceMerge(space_id, self._schema.spaces.get(space_id), left.pop(space_id, None))
                    merge.add(tuples)
                    self._check_replicaset(space_id, tuples)
                await asyncio.sleep(0)
        end()
        for space_id, view in left.items():
            merge = SpaceMerge(space_id, self._schema.spaces.get(space_id), view)
            end()
        return sum(max(each.here, each.there) for each in results), [each for each in results if not each.is_equal]

    def _check_replicaset(self, space_id: int, tuples: list[bytes]) -> None:
        if space_id != SpaceId.SCHEMA:
            return
        for raw in tuples:
            fields = unpack(raw)
            here = str(self._instance.replicaset_uuid)
            if fields[0] == "cluster" and fields[1] != here:
                raise client_error(ErrorCode.REPLICASET_UUID_MISMATCH, fields[1], here)


def _by_space(rows: list[Row]) -> list[tuple[int, list[bytes], bool]]:
    """Group rows to runs of `(space id, tuples, is over)`; `is over` is true for the item that stands for the end."""
    found: list[tuple[int, list[bytes], bool]] = []
    for row in rows:
        if row.type != RequestType.INSERT:
            expect_ok(row)
            found.append((0, [], True))
            break
        space_id, request = decode_row(row)
        if not found or found[-1][0] != space_id:
            found.append((space_id, [], False))
        found[-1][1].append(request.tuple)
    return found
