"""Watching a space: `async for change in node.space.q.changes()`.

```
a statement changes the space      noted in its transaction
the transaction is committed       its changes are put into the queue of every watcher, in the order of its statements
it is rolled back                  its changes are dropped
the space is truncated             one change without tuples
the queue is full                  the reader gets what is in it, then ChangesLost: no gap goes unnoticed
```

The queue is bound by the number of changes and by the bytes of their tuples. A stream with a `start` gives changes from
the log first (`box.embed.log_replay`), those that come meanwhile from the queue.

Changes arrive in the order of commits, also those that other instances made and replication brought. A watcher costs
each change of its space a few microseconds, because the statement no longer takes the fast path.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Self

from box.embed.commit_listener import CommitListener, RawChange
from box.embed.log_replay import LogReplay, settled
from box.errors import ClientError, ErrorCode, client_error, unsupported
from box.journal.xlog_errors import XlogError
from box.schema.ids import SpaceId
from box.wire.vclock import VClock

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from box.embed.embedding import Embedding
    from box.embed.named_rows import NamedRow, RowCodec
    from box.schema.space import Space

    R = TypeVar("R", default=NamedRow)
else:
    from typing import TypeVar

    R = TypeVar("R")

MAX_BYTES: Final = 64 * 1024 * 1024
"""The default of `max_bytes`, see `changes`."""
_OWN_SIZE: Final = 100
"""About the bytes of a waiting change without its tuples."""


class Change(NamedTuple, Generic[R]):
    """A committed change of one tuple.

    `old` is None for an insertion, `new` for a deletion. Both are None when the space was truncated, which removes all
    its tuples.

    `lsn` and `replica_id` are those of its row in the log: its number, and the instance that made it. Both are None for
    a temporary space, which has no rows there.
    """

    old: R | None
    new: R | None
    lsn: int | None
    replica_id: int | None

    @property
    def is_truncation(self) -> bool:
        """True if the change is a truncation, which emptied the whole space."""
        return self.old is None and self.new is None


class ChangesLost(ClientError):
    """A stream of changes ends, because it could not continue without a gap. The code is ILLEGAL_PARAMS.

    There are two reasons:

    - The reader was too slow: `limit` changes, or `max_bytes` of their tuples, waited when another change was
      committed. The reader has got all waiting changes; `changes(start=stream.position)` continues after them.
    - The log no longer contains the changes after `start`. Open a new stream, then read the whole space.
    """

    __slots__ = ()


def _lost(text: str) -> ChangesLost:
    return ChangesLost(ErrorCode.ILLEGAL_PARAMS, f"Illegal parameters, {text}")


class ChangeStream(CommitListener, Generic[R]):
    """An asynchronous iterator over the changes of a space, from now on or from a vclock in the log.

    The call of `changes()` begins to watch; `close()`, or the end of `async with`, stops watching. A stream that nobody
    reads is closed when its queue is full. When the node stops, the iteration ends. Only one task at a time may read.

    Raises:
        NoSuchSpaceError: the space was dropped, even if the drop was rolled back.
        ChangesLost: the reader was too slow, or the log no longer contains the changes after `start`.
        RuntimeError: another task reads the stream.
    """

    def __init__(
        self,
        embedding: Embedding,
        space: Space,
        limit: int,
        max_bytes: int,
        codec: RowCodec,
        start: Mapping[int, int] | None,
    ) -> None:
        core = embedding.core
        if start is not None and (core.journal is None or core.journal.is_void):
            raise unsupported("wal_mode 'none'", "changes(start=...)")
        super().__init__(space.id, self._put)
        self._embedding = embedding
        self._space = space
        self._codec = codec
        self._limit = limit
        self._bytes_left = max_bytes
        self._max_bytes = max_bytes
        self._waiting: deque[RawChange] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._end: BaseException | None = None
        self._is_closed = False
        self._schema = core.schema
        self._truncations = self._schema.spaces[SpaceId.TRUNCATE]
        self._position = dict(core.state.vclock if start is None else start)
        self._history: _History | None = None
        self._from_log: set[tuple[int | None, int | None]] = set()
        """The places of the changes that the log has already delivered and that may be in the queue as well."""
        for watched in (space, self._truncations):
            watched.on_replace.append(self)
        for txn in core.tuples.open_transactions:
            if any(statement.space is space for statement in txn.statements):
                txn.on_commit.append(self._committed)
        self._schema.on_alter_spaces.append(self._altered)
        embedding.watchers[self] = None
        if start is not None:
            self._history = _History(embedding, space.id, VClock(start), self._wake)

    @property
    def position(self) -> dict[int, int]:
        """The vclock of the changes read so far, by replica id; pass it as `start` to continue with a later stream."""
        return dict(self._position)

    def _put(self, change: RawChange) -> None:
        if self._is_closed:
            return
        if len(self._waiting) >= self._limit or self._bytes_left < 0:
            waiting = f"{len(self._waiting)} changes of {self._max_bytes - self._bytes_left} bytes wait for it"
            self._finish(_lost(f"the reader of changes of space '{self._space.name}' is too slow: {waiting}"))
            return
        self._bytes_left -= _size(change)
        self._waiting.append(change)
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _finish(self, end: BaseException) -> None:
        """Accept no more changes; the reader gets `end` after the changes that are waiting."""
        if self._is_closed:
            return
        self._is_closed = True
        self._end = end
        for watched in (self._space, self._truncations):
            if self in watched.on_replace:
                watched.on_replace.remove(self)
        self._schema.on_alter_spaces.remove(self._altered)
        self._embedding.watchers.pop(self, None)
        if self._history is not None and isinstance(end, StopAsyncIteration):
            self._history.close()
            self._history = None
        self._wake()

    def _altered(self, spaces: list[Space]) -> None:
        space = self._space
        if space in spaces and not self._schema.has_space(space.id):
            self._finish(client_error(ErrorCode.NO_SUCH_SPACE, space.name))

    def close(self) -> None:
        """Stop watching. Changes that are waiting can still be read; then the loop ends."""
        self._finish(StopAsyncIteration())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change[R]:
        """Wait for the next change.

        Raises:
            NoSuchSpaceError: the space was dropped.
            ChangesLost: the reader was too slow, or the log does not reach back to `start`.
        """
        while True:
            change = self._next()
            if change is not None:
                break
            if self._reader is not None:
                raise RuntimeError("changes() is read by two tasks at once: give each a stream of its own")
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        old, new, lsn, replica_id = change
        if lsn is not None and replica_id is not None:
            self._position[replica_id] = max(lsn, self._position.get(replica_id, 0))
        return change_of(self._codec.decode, old, new, lsn, replica_id)

    def _next(self) -> RawChange | None:
        """Return the next waiting change, or None if there is none yet.

        Raises the exception that ends the stream, once no change is waiting.
        """
        history = self._history
        if history is not None:
            change = history.next()
            if change is not None or not history.has_ended:
                return change
            self._history, self._from_log = None, history.places
        while self._waiting:
            change = self._waiting.popleft()
            self._bytes_left += _size(change)
            if change[2] is None or change[2:] not in self._from_log:
                return change
        if self._end is not None:
            end, self._end = self._end, StopAsyncIteration()
            raise end
        return None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class _History:
    """The changes of one stream that come from the log; it calls `wake` when some are ready."""

    def __init__(self, embedding: Embedding, space_id: int, start: VClock, wake: Callable[[], None]) -> None:
        self._core = embedding.core
        self._start = start
        self._space_id = space_id
        self._wake = wake
        self._embedding = embedding
        self._batches: deque[deque[RawChange]] = deque()
        self._replay: LogReplay | None = None
        self._error: BaseException | None = None
        self._before = self._core.state.vclock.copy()
        self.has_ended = False
        self.places: set[tuple[int | None, int | None]] = set()
        """The places of the delivered changes that may be in the stream's queue as well."""
        self._task = self._core.loop.create_task(self._run(), name="changes")
        embedding.keep(self._task)

    async def _run(self) -> None:
        try:
            stop = await settled(self._core)
            self._replay = LogReplay(self._core, self._space_id, self._start, stop, self._take, self._fail)
            await asyncio.shield(self._embedding.keep(self._replay.run()))
        except Exception as error:
            self._fail(error)

    def _take(self, batch: list[RawChange] | None) -> None:
        if batch is None:
            self.has_ended = True
        else:
            self._batches.append(deque(batch))
        self._wake()

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, XlogError):
            error = _lost(f"the log does not reach back to {self._start}: {error.message}")
        self._error = error
        self._wake()

    def next(self) -> RawChange | None:
        """Return the next change, or None if there is none yet or none any more. Raises the error that ended the
        reading.
        """
        while self._batches:
            batch = self._batches[0]
            if batch:
                change = batch.popleft()
                if change[3] is not None and (change[2] or 0) > self._before[change[3]]:
                    self.places.add(change[2:])
                return change
            self._batches.popleft()
            if self._replay is not None:
                self._replay.release()
        if self._error is not None:
            self.has_ended = True
            error, self._error = self._error, None
            raise error
        return None

    def close(self) -> None:
        """Stop reading the log."""
        self._task.cancel()
        if self._replay is not None:
            self._replay.close()


def _size(change: RawChange) -> int:
    """Return the bytes that a waiting change counts for: its tuples and a fixed overhead."""
    old, new, _, _ = change
    return _OWN_SIZE + len(old or b"") + len(new or b"")


def change_of(
    decode: Callable[[bytes], Any], old: bytes | None, new: bytes | None, lsn: int | None, replica_id: int | None
) -> Change[Any]:
    """Decode the packed tuples of a change and return it as a `Change`."""
    return Change(None if old is None else decode(old), None if new is None else decode(new), lsn, replica_id)
