"""Reading: get, select, count, min, max, random, len and cursors.

Order of checks, as Tarantool has it: iterator type, read access to the space, index, key. Views of system spaces
show the tuples that the reader may see, `_session_settings` the settings of the reader's session.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from box.errors import ErrorCode, client_error, illegal_params
from box.index.long_read import LONG, LONG_FILTERED, LongRead
from box.index.ordered import BackwardCursor, ForwardCursor, OrderedIndex, PointCursor
from box.index.view import ListView, TupleView
from box.schema.access import Privilege
from box.wire.constants import RequestType

if TYPE_CHECKING:
    from box.index import Index
    from box.schema.space import Space
    from box.schema.sysview import ViewIndex
    from box.session import Context
    from box.txn.lifecycle import TransactionManager

_ITERATOR_MAX: Final = 12
_READ: Final = int(Privilege.R | Privilege.U)
_SELECT: Final = int(RequestType.SELECT)
"""As in Tarantool a select counts in any case, a get and a cursor only without an error."""


class Reader:
    """All reads of one node. Tuples are bytes, keys are lists of decoded values. `counters` are those of `Dml`."""

    def __init__(self, txns: TransactionManager, counters: list[int]) -> None:
        self.txns = txns
        self._storage = txns.storage
        self._is_versioned = txns.storage.allows_yield
        self.counters = counters

    def get(self, ctx: Context, space: Space, iid: int, key: list[Any]) -> bytes | None:
        """The tuple with a full key of a unique index.

        ACCESS_DENIED, NO_SUCH_INDEX_ID, MORE_THAN_ONE_TUPLE, EXACT_MATCH, KEY_PART_TYPE.
        """
        if _READ & ~ctx.credentials.universal:
            space.check_access(ctx.credentials, Privilege.R)
        index = space.index(iid)
        if not index.is_unique:
            raise client_error(ErrorCode.MORE_THAN_ONE_TUPLE)
        if space.service is not None:
            found = space.service.get(ctx.session, key)
        else:
            index = self._open(ctx, space, index)
            found = self._storage.find(ctx.txn, index, index.key_def.parse(key, True))
        self.counters[_SELECT] += 1
        if found is not None and space.row_filter is not None and not space.row_filter(ctx.credentials, found):
            return None
        return found

    def select(
        self, ctx: Context, space: Space, iid: int, iterator: int, offset: int, limit: int, key: list[Any]
    ) -> list[bytes]:
        """At most `limit` tuples of an iteration, the first `offset` left out.

        ILLEGAL_PARAMS (iterator), ACCESS_DENIED, NO_SUCH_INDEX_ID, KEY_PART_COUNT, KEY_PART_TYPE, PARTIAL_KEY,
        UNSUPPORTED_INDEX_FEATURE.
        """
        self.counters[_SELECT] += 1
        index = self._checked_index(ctx, space, iid, iterator)
        if offset + limit > sys.maxsize:  # more than any iterator can count
            offset, limit = min(offset, sys.maxsize), max(0, min(limit, sys.maxsize - offset))
        if space.is_plain:
            if ctx.txn is not None:
                self.txns.use_engine(ctx.txn, space)
            return self._storage.select(ctx.txn, index, iterator, key, offset, limit)
        return list(islice(self._rows(ctx, space, index, iterator, key), offset, offset + limit))

    def begin_long(
        self, ctx: Context, space: Space, iid: int, iterator: int, offset: int, limit: int, key: list[Any]
    ) -> LongRead | None:
        """A `select` that is worth some turns of the loop and can have them; None for another. Errors as `select`."""
        hides = space.row_filter
        if limit < LONG or ctx.txn is not None or not (space.is_plain or hides):
            return None
        index = self._checked_index(ctx, space, iid, iterator)
        source = self._open(ctx, space, index)
        if len(source) < (LONG_FILTERED if hides else LONG):
            return None
        cursor = source.cursor(iterator, key)
        if not isinstance(source, OrderedIndex) or isinstance(cursor, PointCursor):
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
        """An iteration step by step; each step sees the index as it is then. Errors as `select`, raised at once."""
        rows = self._rows(ctx, space, self._checked_index(ctx, space, iid, iterator), iterator, key)
        self.counters[_SELECT] += 1
        return rows

    def view(self, ctx: Context, space: Space, iid: int, iterator: int, key: list[Any]) -> TupleView:
        """An iteration outside of a transaction, to be read in slices: the tuples are those of now. Errors as `select`.

        Whoever opens it closes it, unless it was read to its end."""
        index = self._checked_index(ctx, space, iid, iterator)
        if not space.is_plain:
            return ListView(self._rows(ctx, space, index, iterator, key))
        return self._storage.view_of(index, index.cursor(iterator, key))

    def count(self, ctx: Context, space: Space, iid: int, iterator: int, key: list[Any]) -> int:
        """The number of tuples of an iteration; errors as `select`."""
        index = self._checked_index(ctx, space, iid, iterator)
        if not space.is_plain:
            return sum(1 for _ in self._rows(ctx, space, index, iterator, key))
        return self._storage.count(ctx.txn, self._open(ctx, space, index), iterator, key)

    def min(self, ctx: Context, space: Space, iid: int, key: list[Any]) -> bytes | None:
        """The least tuple whose key begins with `key`; TREE only (UNSUPPORTED_INDEX_FEATURE)."""
        index = self._ordered(ctx, space, iid, "min()")
        return self._storage.least(ctx.txn, self._open(ctx, space, index), key)

    def max(self, ctx: Context, space: Space, iid: int, key: list[Any]) -> bytes | None:
        """The greatest tuple whose key begins with `key`; TREE only (UNSUPPORTED_INDEX_FEATURE)."""
        index = self._ordered(ctx, space, iid, "max()")
        return self._storage.greatest(ctx.txn, self._open(ctx, space, index), key)

    def random(self, ctx: Context, space: Space, iid: int, seed: int) -> bytes | None:
        """Some tuple, the same for the same seed and contents."""
        space.check_access(ctx.credentials, Privilege.R)
        return self._storage.random(ctx.txn, space.index(iid), seed)

    def len(self, ctx: Context, space: Space, iid: int = 0) -> int:
        """The number of tuples. UNSUPPORTED_INDEX_FEATURE for views."""
        space.check_access(ctx.credentials, Privilege.R)
        return self._storage.size(ctx.txn, space.index(iid))

    def bsize(self, space: Space) -> int:
        """Bytes of all tuples of a space, without those of open transactions where tuples have versions."""
        return space.primary.tuple_bytes if space.is_plain and space.primary is not None else 0

    def read_view(self, space: Space) -> list[bytes]:
        """All tuples in the order of the primary index, for a checkpoint or a join.

        What is on its way to the log is in the view, open transactions are not. The caller waits until the log
        and the limbo have settled (`Journal.sync`, `LimboDriver.wait_confirm`) before it trusts the view.
        Settings and the values of generated sequences are not stored anywhere, so they are not in it.
        """
        return self._storage.read_view(space) if space.is_plain else []

    # -- helpers

    def _checked_index(self, ctx: Context, space: Space, iid: int, iterator: int) -> Index:
        if not 0 <= iterator < _ITERATOR_MAX:
            raise illegal_params("Invalid iterator type")
        if _READ & ~ctx.credentials.universal:
            space.check_access(ctx.credentials, Privilege.R)
        return space.index(iid)

    def _ordered(self, ctx: Context, space: Space, iid: int, feature: str) -> Index:
        space.check_access(ctx.credentials, Privilege.R)
        index = space.index(iid)
        if index.definition.type.upper() != "TREE" or not space.is_plain:
            raise index.unsupported_feature(feature)
        return index

    def _open(self, ctx: Context, space: Space, index: Index) -> Index:
        """Bind an open transaction to the engine; the index that really holds the tuples."""
        if ctx.txn is not None:
            self.txns.use_engine(ctx.txn, space)
        return index if space.row_filter is None else cast("ViewIndex", index).source

    def _rows(self, ctx: Context, space: Space, index: Index, iterator: int, key: list[Any]) -> Iterator[bytes]:
        if space.service is not None:
            return iter(space.service.select(ctx.session, iterator, key))
        rows = self._storage.scan(ctx.txn, self._open(ctx, space, index), iterator, key)
        visible = space.row_filter
        return rows if visible is None else (raw for raw in rows if visible(ctx.credentials, raw))
