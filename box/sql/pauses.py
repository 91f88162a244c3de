"""The pauses of a long query, in which the loop serves others.

SQLite calls `Pauses.look` after every thousand steps of its program, and while it merges what it sorts. A query that
has run for a millisecond waits for the next turn of the loop. All its reads are of one moment: at its first pause
the indexes of its tables are frozen (`box.index.frozen`), so that it finds what it would have found without a pause.

A query inside a transaction never waits, as in Tarantool. Its pauses only tell whether it should go on on copies of the
spaces (`box.sql.copies`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from box.apart import is_apart, wait_for
from box.errors import fiber_is_cancelled
from box.index.hash import HashIndex
from box.index.tree import TreeIndex

if TYPE_CHECKING:
    from box.index import Index
    from box.index.base import Cursor
    from box.index.frozen import FrozenIndex
    from box.schema.space import Space
    from box.session import Context
    from box.txn.reads import Reader

_TURN: Final = 0.001
"""The longest part of a query that runs without a pause, in seconds."""


class Pauses:
    """The pauses of one query, which reads these spaces. Call `end` afterwards."""

    def __init__(
        self,
        ctx: Context,
        reads: Reader,
        spaces: list[Space],
        clock: Callable[[], float],
        has_node_ended: Callable[[], bool],
        on_pause: Callable[[], None] | None = None,
    ) -> None:
        self._ctx = ctx
        self._reads = reads
        self._spaces = spaces
        self._clock = clock
        self._has_node_ended = has_node_ended
        self._on_pause = on_pause
        """Called before each pause; it may end the query by an error."""
        self._is_waiting = ctx.txn is None
        self._due = clock() + _TURN
        self._indexes: dict[int, dict[int, Index]] | None = None
        """The indexes of the spaces when they were frozen, by the id of the space and their own; None before."""
        self._frozen: dict[Index, FrozenIndex] = {}
        self._cursors: dict[Any, tuple[Index, Cursor]] = {}
        if reads.has_versions:  # outside of a transaction, the entries of an index are not always tuples
            self.freeze()

    @staticmethod
    def are_possible(ctx: Context, reads: Reader, spaces: list[Space]) -> bool:
        """Return whether a query that runs now, and reads these spaces, may have pauses. In a transaction with versions
        it may not: its reads have to be noted.
        """
        may_read = is_apart() if ctx.txn is None else not reads.has_versions
        return may_read and all(space.is_plain for space in spaces)

    def look(self) -> None:
        """Wait for the next turn if this one was long enough.

        Raises:
            CancelledError: the task was cancelled.
            FiberIsCancelled: the node has stopped.
        """
        if self._clock() < self._due:
            return
        if self._on_pause is not None:
            self._on_pause()
        if self._is_waiting:
            self._wait()
        self._due = self._clock() + _TURN

    def _wait(self) -> None:
        self.freeze()
        wait_for(asyncio.sleep(0))
        if self._has_node_ended():
            raise fiber_is_cancelled()

    def freeze(self) -> None:
        """Let the query see the spaces as they are now, unless it sees a former moment already."""
        if self._indexes is not None:
            return
        self._indexes = {}
        for space in self._spaces:
            self._indexes[space.id] = dict(space.indexes)
            for index in space.indexes.values():
                if isinstance(index, TreeIndex | HashIndex):
                    self._frozen[index] = self._reads.freeze(index)
        for index, cursor in self._cursors.values():
            self._adopt(index, cursor)

    def _adopt(self, index: Index, cursor: Cursor) -> None:
        self._frozen[index].adopt(cursor)

    # --- reading ---

    def indexes(self, space: Space) -> Mapping[int, Index]:
        """Return the indexes of a space by id, those of the moment that the query sees."""
        return space.indexes if self._indexes is None else self._indexes[space.id]

    def scan(self, owner: Any, space: Space, iid: int, iterator: int, key: list[Any]) -> Cursor:
        """Return a cursor over an index. It replaces the one that `owner` had before. Errors as `Reader.select`."""
        if self._indexes is None:
            index = space.index(iid)
            cursor = self._reads.begin_cursor(self._ctx, space, iid, iterator, key)
        else:
            index = self._indexes[space.id][iid]
            cursor = index.cursor(iterator, key)
            self._adopt(index, cursor)
        self._cursors[owner] = index, cursor
        return cursor

    def find(self, space: Space, iid: int, key: list[Any]) -> bytes | None:
        """Return the tuple with a full key of a unique index, or None. Errors as `Reader.get`."""
        if self._indexes is None:
            return self._reads.get(self._ctx, space, iid, key)
        index = self._indexes[space.id][iid]
        found: bytes | None = self._frozen[index].find(index.key_def.parse(key, True))
        return found

    def end(self) -> None:
        """Let go of the frozen indexes and the cursors."""
        for frozen in self._frozen.values():
            frozen.close()
        self._frozen.clear()
        self._cursors.clear()
