"""Watching a space: `async for change in node.space["q"].changes()`.

```
a statement changes the space      noted in its transaction
the transaction is committed       its changes are put into the queue of every watcher, in its order
it is rolled back                  nothing
the space is truncated             one change without tuples
the queue is full                  the reader gets what is in it, then ChangesLost: no gap goes unnoticed
```

The queue is bound by the number of changes and by the bytes of their tuples.

Changes arrive in the order of commits, also those that other instances made and replication brought. A watcher costs
each change of its space a few microseconds, because the statement no longer takes the shortest way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from box.data.codec import unpack
from box.errors import ClientError, ErrorCode, client_error
from box.schema.ids import SpaceId
from box.schema.space import NOTHING

if TYPE_CHECKING:
    from box.embed.embedding import Embedding
    from box.embed.named_rows import NamedRow, RowCodec
    from box.schema.space import Space
    from box.session import Context
    from box.txn.transaction import Statement

MAX_BYTES: Final = 64 * 1024 * 1024
_OWN_SIZE: Final = 100
_Raw = tuple[bytes | None, bytes | None, int | None, int | None]


class Change(NamedTuple):
    """A committed change of one tuple. `old` is None for an insertion, `new` for a deletion, both when the space was
    truncated: all its tuples are gone.

    `lsn` and `replica_id` are those of its row in the log: its number, and the instance that made it. Both are None for
    a temporary space, which has no rows there.
    """

    old: NamedRow | None
    new: NamedRow | None
    lsn: int | None
    replica_id: int | None

    @property
    def is_truncation(self) -> bool:
        """Whether the whole space was emptied."""
        return self.old is None and self.new is None


class ChangesLost(ClientError):
    """The reader of `changes()` was too slow: `limit` changes, or `max_bytes` of tuples, waited when another came.

    Everything before it was given. Open a new watcher, then read the space anew to go on. Type ClientError, code
    ILLEGAL_PARAMS.
    """

    __slots__ = ()


class ChangeStream:
    """An asynchronous iterator over the changes of a space since it was made; see the module's text.

    Watching begins with the call of `changes()` and ends with `close()` or `async with`; a stream that is given up is
    closed when its queue is full. The stream ends with NO_SUCH_SPACE when the space is dropped (also if that is rolled
    back), and as a loop does when the node stops. One task at a time reads.
    """

    def __init__(self, embedding: Embedding, space: Space, limit: int, max_bytes: int) -> None:
        self._embedding = embedding
        self._space = space
        self._codec: RowCodec = embedding.codec(space)
        self._limit = limit
        self._bytes_left = max_bytes
        self._max_bytes = max_bytes
        self._waiting: deque[_Raw] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._end: BaseException | None = None
        self._is_closed = False
        self._schema = embedding.core.schema
        self._truncations = self._schema.spaces[SpaceId.TRUNCATE]
        for watched in (space, self._truncations):
            watched.on_replace.append(self)
        self._schema.on_alter_spaces.append(self._altered)
        embedding.watchers[self] = None

    async def call(self, ctx: Context, old: bytes | None, new: bytes | None, space_name: str, op: str) -> Any:
        """Note that the transaction of a statement changes the space."""
        txn = ctx.txn
        if txn is not None and self._committed not in txn.on_commit:
            txn.on_commit.append(self._committed)
        return NOTHING

    def _committed(self, statements: list[Statement]) -> None:
        for statement in statements:
            if statement.space is self._space and not (statement.old is None and statement.new is None):
                self._put((statement.old, statement.new, *place_of(statement)))
            elif statement.space is self._truncations and self._is_truncation(statement):
                self._put((None, None, *place_of(statement)))

    def _is_truncation(self, statement: Statement) -> bool:
        return statement.new is not None and unpack(statement.new)[0] == self._space.id

    def _put(self, change: _Raw) -> None:
        if self._is_closed:
            return
        if len(self._waiting) >= self._limit or self._bytes_left < 0:
            waiting = f"{len(self._waiting)} changes of {self._max_bytes - self._bytes_left} bytes wait for it"
            text = f"the reader of changes of space '{self._space.name}' is too slow: {waiting}"
            self._finish(ChangesLost(ErrorCode.ILLEGAL_PARAMS, f"Illegal parameters, {text}"))
            return
        self._bytes_left -= _size(change)
        self._waiting.append(change)
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _finish(self, end: BaseException) -> None:
        """Take nothing more; `end` follows what is waiting."""
        if self._is_closed:
            return
        self._is_closed = True
        self._end = end
        for watched in (self._space, self._truncations):
            if self in watched.on_replace:
                watched.on_replace.remove(self)
        self._schema.on_alter_spaces.remove(self._altered)
        self._embedding.watchers.pop(self, None)
        self._wake()

    def _altered(self, spaces: list[Space]) -> None:
        space = self._space
        if space in spaces and not self._schema.has_space(space.id):
            self._finish(client_error(ErrorCode.NO_SUCH_SPACE, space.name))

    def close(self) -> None:
        """Stop watching. What is waiting can still be read; then the loop ends."""
        self._finish(StopAsyncIteration())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        """The next change. NO_SUCH_SPACE (dropped), ChangesLost."""
        while not self._waiting:
            if self._end is not None:
                end, self._end = self._end, StopAsyncIteration()
                raise end
            if self._reader is not None:
                raise RuntimeError("changes() is read by two tasks at once: give each a stream of its own")
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        change = self._waiting.popleft()
        self._bytes_left += _size(change)
        old, new, lsn, replica_id = change
        return change_of(self._codec.decode, old, new, lsn, replica_id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def _size(change: _Raw) -> int:
    """Bytes of the tuples of a change, and some for itself."""
    old, new, _, _ = change
    return _OWN_SIZE + len(old or b"") + len(new or b"")


def place_of(statement: Statement) -> tuple[int | None, int | None]:
    """The lsn and the replica id of a statement's row in the log; None without one."""
    row = statement.row
    return (None, None) if row is None or not row.lsn else (row.lsn, row.replica_id)


def change_of(
    decode: Callable[[bytes], NamedRow], old: bytes | None, new: bytes | None, lsn: int | None, replica_id: int | None
) -> Change:
    """A change of tuples that are still packed."""
    return Change(None if old is None else decode(old), None if new is None else decode(new), lsn, replica_id)
