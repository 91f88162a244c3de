"""Reading: get, select, count, min, max, random, len and cursors.

The order of checks is Tarantool's: iterator type, read access to the space, index, key. Views of system spaces show the
tuples that the reader may see, `_session_settings` shows the settings of the reader's session.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from box.errors import BoxError, ErrorCode, client_error, illegal_params
from box.index.long_read import LONG, LONG_FILTERED, LongRead
from box.index.ordered import BackwardCursor, ForwardCursor, OrderedIndex, PointCursor
from box.index.position import check_pages, place_of_position, position_of_fields, position_of_place
from box.index.tree import TreeIndex
from box.schema.access import Privilege
from box.wire.constants import RequestType

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.index import Cursor, Index
    from box.index.frozen import FrozenIndex
    from box.index.view import TupleView
    from box.schema.space import Space
    from box.session import Context
    from box.txn.lifecycle import TransactionManager
    from box.txn.transaction import Transaction

_ITERATOR_MAX: Final = 12
"""The number of iterator types; valid types are below it."""
_READ: Final = int(Privilege.R | Privilege.U)
"""The privileges that let a user read every space without a check of the space."""
_SELECT: Final = int(RequestType.SELECT)
"""The counter of reads. As in Tarantool, a select always counts, a get or a cursor only if it raises no error."""


class Page(NamedTuple):
    """Tuples, and the position just after the last one: None without tuples."""

    rows: list[bytes]
    position: bytes | None


class Reader:
    """All reads of one node. Tuples are bytes, keys are lists of decoded values; `counters` are those of `Dml`."""

    def __init__(self, txns: TransactionManager, counters: list[int]) -> None:
        self.txns = txns
        self._storage = txns.storage
        self._is_versioned = self.has_versions = txns.storage.allows_yield
        self.counters = counters

    def get(self, ctx: Context, space: Space, iid: int, key: list[Any]) -> bytes | None:
        """Return the tuple with a full key of a unique index, or None.

        Raises:
            ClientError: ACCESS_DENIED, NO_SUCH_INDEX_ID, MORE_THAN_ONE_TUPLE, EXACT_MATCH or KEY_PART_TYPE.
        """
        if _READ & ~ctx.credentials.universal:
            space.check_access(ctx.credentials, Privilege.R)
        index = space.index(iid)
        if not index.is_unique:
            raise client_error(ErrorCode.MORE_THAN_ONE_TUPLE)
        if ctx.txn is not None:
            self._bind(ctx.txn, space, partial(index.key_def.parse, key))
        found = space.engine.find(ctx, space, index, key)
        self.counters[_SELECT] += 1
        return found

    def plain_primary(self, ctx: Context, space: Space) -> Index | None:
        """Return the primary index of a space for this turn of the loop, if its entries are the tuples that `get`
        finds, and the user may read them; otherwise None.
        """
        if ctx.txn is not None or not space.is_plain or (self._is_versioned and self._storage.has_versions):
            return None
        try:
            space.check_access(ctx.credentials, Privilege.R)
        except BoxError:
            return None
        return space.primary

    def select(
        self, ctx: Context, space: Space, iid: int, iterator: int, offset: int, limit: int, key: list[Any]
    ) -> list[bytes]:
        """Return at most `limit` tuples of an iteration, after the first `offset`.

        Raises:
            ClientError: ILLEGAL_PARAMS (iterator), ACCESS_DENIED, NO_SUCH_INDEX_ID, KEY_PART_COUNT, KEY_PART_TYPE,
                PARTIAL_KEY or UNSUPPORTED_INDEX_FEATURE.
        """
        self.counters[_SELECT] += 1
        index = self._checked_index(ctx, space, iid, iterator)
        if offset + limit > sys.maxsize:  # `islice` takes no greater numbers
            offset, limit = min(offset, sys.maxsize), max(0, min(limit, sys.maxsize - offset))
        if ctx.txn is not None:
            self._bind(ctx.txn, space, partial(index.cursor, iterator, key))
        return space.engine.select(ctx, space, index, iterator, key, offset, limit)

    def page(
        self,
        ctx: Context,
        space: Space,
        iid: int,
        iterator: int,
        offset: int,
        limit: int,
        key: list[Any],
        after: bytes,
    ) -> Page:
        """Return a page: the tuples of a `select` that begins after a position (b"" is the beginning), and the position
        of its end.

        Raises:
            ClientError: ITERATOR_POSITION, or an error of `select`.
        """
        self.counters[_SELECT] += 1
        source, places = self._places(ctx, space, iid, iterator, key, after)
        if offset + limit > sys.maxsize:
            offset, limit = min(offset, sys.maxsize), max(0, min(limit, sys.maxsize - offset))
        last, rows = None, []
        for last in islice(places, offset, offset + limit):
            rows.append(last[1])
        return Page(rows, None if last is None else position_of_place(source, last[1], last[0]))

    def cursor_after(
        self, ctx: Context, space: Space, iid: int, iterator: int, key: list[Any], after: bytes
    ) -> Iterator[bytes]:
        """Return an iterator as `cursor` does, which begins after a position.

        Raises:
            ClientError: ITERATOR_POSITION, or an error of `cursor`.
        """
        _, places = self._places(ctx, space, iid, iterator, key, after)
        self.counters[_SELECT] += 1
        return (raw for _, raw in places)

    def position(self, ctx: Context, space: Space, iid: int, fields: list[Any]) -> bytes:
        """Return the position just after a tuple.

        Raises:
            ClientError: ACCESS_DENIED, NO_SUCH_INDEX_ID, UNSUPPORTED or ITERATOR_POSITION.
        """
        index = self._checked_index(ctx, space, iid, 0)
        return position_of_fields(space.engine.source(index) or index, fields)

    def _places(
        self, ctx: Context, space: Space, iid: int, iterator: int, key: list[Any], after: bytes
    ) -> tuple[Index, Iterator[tuple[SortKey, bytes]]]:
        """Return the index that holds the tuples, and an iterator over keys and tuples of a page."""
        index = self._checked_index(ctx, space, iid, iterator)
        source = self._open(ctx, space, index)
        if source is None:
            raise index.unsupported_feature("pagination")
        place = place_of_position(source, iterator, key, after) if after else None
        check_pages(source)
        places, visible = self._storage.places(ctx.txn, source, iterator, key, place), space.row_filter
        if visible is not None:
            places = (found for found in places if visible(ctx.credentials, found[1]))
        return source, places

    def begin_long_page(
        self,
        ctx: Context,
        space: Space,
        iid: int,
        iterator: int,
        offset: int,
        limit: int,
        key: list[Any],
        after: bytes,
    ) -> LongRead | None:
        """Begin a `page` that is read over several turns of the loop. Returns None if the page is small, or has to be
        read at once.

        Raises:
            ClientError: an error of `page`.
        """
        if limit < LONG or ctx.txn is not None or not space.is_plain:
            return None
        source, _ = self._places(ctx, space, iid, iterator, key, after)
        if len(source) < LONG or not isinstance(source, TreeIndex) or source.has_many_keys:
            return None
        self.counters[_SELECT] += 1
        place = place_of_position(source, iterator, key, after) if after else None
        cursor = source.cursor_after(iterator, key, place)

        def again() -> list[bytes]:
            _, places = self._places(ctx, space, iid, iterator, key, after)
            return [raw for _, raw in islice(places, offset, offset + limit)]

        view = self._storage.view_of(source, cursor) if self._is_versioned else None
        return LongRead(
            source,
            cursor,
            offset,
            limit,
            again,
            view,
            position_of=lambda raw: position_of_place(source, raw, None),
        )

    def begin_long(
        self, ctx: Context, space: Space, iid: int, iterator: int, offset: int, limit: int, key: list[Any]
    ) -> LongRead | None:
        """Begin a `select` that is large enough to be spread over turns of the loop; returns None for any other.

        Raises:
            BoxError: as `select`.
        """
        hides = space.row_filter
        if limit < LONG or ctx.txn is not None or not (space.is_plain or hides):
            return None
        index = self._checked_index(ctx, space, iid, iterator)
        source = self._open(ctx, space, index)
        if not isinstance(source, OrderedIndex) or len(source) < (LONG_FILTERED if hides else LONG):
            return None
        cursor = source.cursor(iterator, key)
        if isinstance(cursor, PointCursor):
            return None
        self.counters[_SELECT] += 1
        is_in_order = isinstance(cursor, (ForwardCursor, BackwardCursor))
        view = self._storage.view_of(source, cursor) if not is_in_order or self._is_versioned or hides else None
        return LongRead(
            source,
            cursor if isinstance(cursor, (ForwardCursor, BackwardCursor)) else None,
            offset,
            limit,
            lambda: list(islice(self._rows(ctx, space, index, iterator, key), offset, offset + limit)),
            view,
            partial(hides, ctx.credentials) if hides else None,
        )

    def cursor(self, ctx: Context, space: Space, iid: int, iterator: int, key: list[Any]) -> Iterator[bytes]:
        """Return an iterator over tuples; each step sees the index as it is then.

        Raises:
            BoxError: as `select`, at once.
        """
        rows = self._rows(ctx, space, self._checked_index(ctx, space, iid, iterator), iterator, key)
        self.counters[_SELECT] += 1
        return rows

    def begin_cursor(self, ctx: Context, space: Space, iid: int, iterator: int, key: list[Any]) -> Cursor:
        """Return a cursor of an index that is read outside of a transaction; its entries are those of the index.

        Raises:
            BoxError: as `select`.
        """
        found = self._checked_index(ctx, space, iid, iterator).cursor(iterator, key)
        self.counters[_SELECT] += 1
        return found

    def freeze(self, index: OrderedIndex) -> FrozenIndex:
        """Return an index as a reader outside of transactions sees it now; it stays so until it is closed."""
        return self._storage.freeze(index)

    def view(self, ctx: Context, space: Space, iid: int, iterator: int, key: list[Any]) -> TupleView:
        """Open a view of the present tuples of an iteration, to be read in slices outside of a transaction.

        The caller closes it, unless it was read to the end.

        Raises:
            BoxError: as `select`.
        """
        index = self._checked_index(ctx, space, iid, iterator)
        return space.engine.view_of(ctx, space, index, iterator, key)

    def count(self, ctx: Context, space: Space, iid: int, iterator: int, key: list[Any]) -> int:
        """Return the number of tuples of an iteration.

        Raises:
            BoxError: as `select`.
        """
        index = self._checked_index(ctx, space, iid, iterator)
        if ctx.txn is not None:
            self._bind(ctx.txn, space, partial(index.cursor, iterator, key))
        return space.engine.count(ctx, space, index, iterator, key)

    def min(self, ctx: Context, space: Space, iid: int, key: list[Any]) -> bytes | None:
        """Return the least tuple whose key begins with `key`, or None.

        Raises:
            UnsupportedError: UNSUPPORTED_INDEX_FEATURE, the index is not a TREE.
        """
        index = self._ordered(ctx, space, iid, "min()", key)
        return space.engine.least(ctx, space, index, key)

    def max(self, ctx: Context, space: Space, iid: int, key: list[Any]) -> bytes | None:
        """Return the greatest tuple whose key begins with `key`, or None.

        Raises:
            UnsupportedError: UNSUPPORTED_INDEX_FEATURE, the index is not a TREE.
        """
        index = self._ordered(ctx, space, iid, "max()", key)
        return space.engine.greatest(ctx, space, index, key)

    def random(self, ctx: Context, space: Space, iid: int, seed: int) -> bytes | None:
        """Return a tuple chosen by `seed`, or None. Equal seeds and contents give equal tuples."""
        space.check_access(ctx.credentials, Privilege.R)
        return space.engine.random(ctx, space.index(iid), seed)

    def len(self, ctx: Context, space: Space, iid: int = 0) -> int:
        """Return the number of tuples.

        Raises:
            UnsupportedError: UNSUPPORTED_INDEX_FEATURE, for views and `_session_settings`.
        """
        space.check_access(ctx.credentials, Privilege.R)
        return space.engine.size(ctx, space.index(iid))

    def bsize(self, space: Space) -> int:
        """Return the bytes of all tuples of a space; under MVCC without those of open transactions."""
        return space.primary.tuple_bytes if space.is_plain and space.primary is not None else 0

    def read_view(self, space: Space) -> list[bytes]:
        """Return all tuples in the order of the primary index, for a checkpoint or a join.

        The view includes changes on their way to the log, but not those of open transactions. The caller must wait
        until the log and the limbo have settled (`Journal.sync`, `LimboDriver.wait_confirm`) before it relies on the
        view. Settings and the values of generated sequences are not stored as tuples, so they are not included.
        """
        return list(space.engine.tuples(space)) if space.is_plain else []

    # -- helpers

    def _checked_index(self, ctx: Context, space: Space, iid: int, iterator: int) -> Index:
        """Check iterator type and read access, and return the index."""
        if not 0 <= iterator < _ITERATOR_MAX:
            raise self.txns.refused(illegal_params("Invalid iterator type"))
        if _READ & ~ctx.credentials.universal:
            space.check_access(ctx.credentials, Privilege.R)
        return space.index(iid)

    def _ordered(self, ctx: Context, space: Space, iid: int, feature: str, key: list[Any]) -> Index:
        """Check read access, and return an index that must be a TREE."""
        space.check_access(ctx.credentials, Privilege.R)
        index = space.index(iid)
        if index.definition.type.upper() != "TREE":
            raise index.unsupported_feature(feature)
        if ctx.txn is not None:
            self._bind(ctx.txn, space, partial(index.key_def.parse, key, False))
        return index

    def _bind(self, txn: Transaction, space: Space, check_key: Callable[[], object]) -> None:
        """Bind a transaction to the engine of a space that it reads. Its first read checks the key before, because a
        read with a wrong key leaves it unbound: a wait does not undo it then.
        """
        if txn.engine is None and space.engine.is_transactional:
            check_key()
        self.txns.use_engine(txn, space)

    def _open(self, ctx: Context, space: Space, index: Index) -> Index | None:
        """Bind the open transaction to the engine. Returns the index that holds the tuples (for a view, that of its
        source), or None.
        """
        if ctx.txn is not None:
            self.txns.use_engine(ctx.txn, space)
        return space.engine.source(index)

    def _rows(self, ctx: Context, space: Space, index: Index, iterator: int, key: list[Any]) -> Iterator[bytes]:
        """Return an iterator over the tuples that the reader may see."""
        if ctx.txn is not None:
            self._bind(ctx.txn, space, partial(index.cursor, iterator, key))
        return space.engine.rows(ctx, space, index, iterator, key)
