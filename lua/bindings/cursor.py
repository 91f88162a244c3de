"""Cursors of `index:pairs()`: they read tuples in chunks as long as nothing changes during the loop."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from box.data.codec import unpack
from box.index.ordered import BackwardCursor, ForwardCursor, PointCursor, is_within
from box.index.placed import PlacedCursor
from box.schema.access import Privilege
from box.wire.constants import RequestType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from box.index import Index
    from box.schema.space import Space
    from box.session import Context
    from box.txn.dml import Dml


class ReadAhead:
    """A cursor over an index of plain tuples."""

    __slots__ = ("_cursor", "_fetched", "_iid", "_index", "_space", "_version")

    def __init__(self, space: Space, index: Index, iterator: int, key: list[Any]) -> None:
        self._space = space
        self._iid = index.definition.iid
        self._index = index
        self._cursor = index.cursor(iterator, key)
        self._version = index.version
        self._fetched = 0

    def go_after(self, raw: bytes) -> None:
        """Continue after a tuple that was in the index."""
        self._cursor.go_after(self._index.stored_keys(raw, unpack(raw))[0])

    def skip(self, count: int) -> None:
        """Pass over tuples, at the beginning of the loop."""
        self._cursor.fetch(count)

    def go_after_number(self, number: int) -> None:
        """Continue after the tuple that had this number in a `PlacedIndex`."""
        assert isinstance(self._cursor, PlacedCursor)
        self._cursor.go_after_number(number)

    def go_after_nth(self, raw: bytes, nth: int) -> bool:
        """Continue after the key under which the loop met a tuple for the `nth` time.

        Returns False if the tuple has no such key, because the function of the index is not deterministic.
        """
        cursor = self._cursor
        if isinstance(cursor, PointCursor):
            cursor.fetch(1)
            return True
        assert isinstance(cursor, ForwardCursor | BackwardCursor)
        keys = sorted(key for key in set(self._index.stored_keys(raw, unpack(raw))) if is_within(key, cursor.bounds))
        if nth > len(keys):
            return False
        cursor.go_after(keys[-nth if cursor.is_reverse else nth - 1])
        return True

    def fetch(self, size: int, used: int) -> list[bytes] | None:
        """Return the next tuples, or [] at the end.

        None means that the tuples after the first `used` of the last chunk are still valid.
        """
        index = self._index
        if self._space.indexes.get(self._iid) is not index:
            return []
        if used < self._fetched:
            if index.version == self._version:
                return None
            self._cursor.rewind(used)
        rows: list[bytes] = self._cursor.fetch(size)
        self._version = index.version
        self._fetched = len(rows)
        return rows


class OneByOne:
    """A cursor over tuples with versions, views or settings, which reads one at a time."""

    __slots__ = ("_iid", "_index", "_rows", "_space")

    def __init__(self, rows: Iterator[bytes], space: Space, iid: int) -> None:
        self._rows = rows
        self._space = space
        self._iid = iid
        self._index = space.indexes.get(iid)

    def fetch(self, size: int, used: int) -> list[bytes] | None:
        """Return a list of the next tuple, or [] at the end. As in Tarantool, a loop ends if its index is dropped or
        altered.
        """
        return list(islice(self._rows, 1)) if self._space.indexes.get(self._iid) is self._index else []


def open_cursor(
    dml: Dml, ctx: Context, space: Space, iid: int, iterator: int, key: list[Any], after: bytes
) -> ReadAhead | OneByOne:
    """Open a cursor that begins after a position (b"" is the beginning). Raises the errors of `Reader.page`."""
    if after:
        return OneByOne(dml.reads.cursor_after(ctx, space, iid, iterator, key, after), space, iid)
    if not space.is_plain or dml.txns.storage.allows_yield:
        return OneByOne(dml.reads.cursor(ctx, space, iid, iterator, key), space, iid)
    space.check_access(ctx.credentials, Privilege.R)
    index = space.index(iid)
    if ctx.txn is not None:
        dml.txns.use_engine(ctx.txn, space)
    cursor = ReadAhead(space, index, iterator, key)
    dml.counters[RequestType.SELECT] += 1
    return cursor
