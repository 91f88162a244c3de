"""Requests of one space on Python rows; `SpaceHandle`, `IndexHandle` and the blocking handles are built on them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from box.data.codec import unpack
from box.embed.arguments import (
    IteratorName,
    Operations,
    Row,
    check_offset,
    checked_count,
    checked_function,
    checked_integer,
    checked_text,
    checked_vclock,
    iterator_type,
    key_values,
    limit_of,
    operation_list,
    rows_of,
)
from box.embed.callables import SpaceTrigger
from box.embed.change_stream import ChangeStream
from box.embed.named_rows import encode_values, explained
from box.embed.row_page import RowPage
from box.embed.row_types import field_names
from box.embed.shown_values import shown_with_type
from box.errors import BoxError, ErrorCode, client_error, illegal_params
from box.index import IteratorType
from box.txn.pending import Outcome, Pending
from box.wire.change import DELETE, INSERT, UPDATE, Request

if TYPE_CHECKING:
    from box.embed.callables import PythonFunction
    from box.embed.embedding import ContextSource, Embedding
    from box.index import Index
    from box.index.view import TupleView
    from box.schema.space import Space
    from box.session import Context

CHUNK: Final = 256
"""The number of tuples that are read and decoded in one turn: one or two milliseconds for wide rows."""
_NOTHING: Final[list[Any]] = []
_USUAL_INTEGERS: Final = 1 << 63
"""Integers from 0 up to this one always have a MessagePack form, so that they need no check."""
_SEVERAL: Final = "insert_many() and replace_many() take several rows at once"


class Requests:
    """Requests of one space, in the contexts that `contexts` supplies; `row` is the class of its rows.

    A change returns the outcome of `Dml`: the tuple as bytes, None, or a `Pending`. `decode` makes a row of bytes.

    The space, its codec and the request functions are looked up once, and again when the dictionary has changed or the
    node was restarted: `Embedding.epoch` is another object then.
    """

    def __init__(
        self, embedding: Embedding, name: str, contexts: ContextSource | None = None, row: type | None = None
    ) -> None:
        self.embedding = embedding
        self.name = name
        self.row = row
        self._given_contexts = contexts
        self._epoch: object = None

    def with_rows(self, row: type) -> Requests:
        """Return requests whose rows are objects of another class; the format has to fit it."""
        field_names(row)
        made = Requests(self.embedding, self.name, self._given_contexts, row)
        made.bind()
        made._codec.check()
        return made

    def with_contexts(self, contexts: ContextSource) -> Requests:
        """Return requests that run in other contexts."""
        return Requests(self.embedding, self.name, contexts, self.row)

    def rename(self, name: str) -> None:
        """Follow the space to its new name."""
        self.name = name
        self._epoch = None

    def bind(self) -> None:
        """Look up the space, its codec and the functions of the node.

        Raises:
            NoSuchSpaceError: no space has this name.
            ClientError: LOADING, the node is still starting.
        """
        embedding = self.embedding
        core = embedding.core
        self._space = core.schema.space_by_name(self.name)
        self._codec = codec = embedding.codec(self._space, self.row)
        self._encode, self.row_of_fields = codec.encode, codec.of_fields
        self.decode, self.decode_many = codec.decode, codec.decode_many
        self._dml, self._reads = core.dml, core.dml.reads
        self._contexts = self._given_contexts or embedding.contexts
        self._caller = f"the handle of space {self.name!r}"
        self._commits = self._contexts.commits
        self._allows_yield = core.tuples.allows_yield
        # Only `Commits` of box.sync have to know of each change, and those of versions.
        self._is_direct = self._given_contexts is None and not self._allows_yield
        self._is_void = self._is_direct and core.journal is not None and core.journal.is_void
        self._runs_lua = any("func" in index.definition.opts for index in self._space.indexes.values())
        self._epoch = embedding.epoch

    @property
    def space(self) -> Space:
        """The space.

        Raises:
            NoSuchSpaceError: no space has this name.
            ClientError: LOADING, the node is still starting.
        """
        if self._epoch is not self.embedding.epoch:
            self.bind()
        return self._space

    def context(self) -> Context:
        """Return the context of one call."""
        if self._epoch is not self.embedding.epoch:
            self.bind()
        return self._contexts.at_hand() or self._contexts.current(self._caller)

    def has_triggers(self) -> bool:
        """Return True if a change may run code of the program, or may wait for it."""
        if self._epoch is not self.embedding.epoch:
            self.bind()
        space = self._space
        return bool(space.on_replace or space.before_replace or space.system_trigger is not None) or self._runs_lua

    def _context_of_change(self) -> Context:
        """Return the context of a change: a new one if triggers or versions may keep it for a while."""
        if self._epoch is not self.embedding.epoch:
            self.bind()
        contexts = self._contexts
        if self._is_direct and (ctx := contexts.at_hand()) is not None:
            if ctx.txn is not None:
                return ctx
            space = self._space
            plan = space.write_plan
            if plan is not None and plan.is_usual and not (space.on_replace or space.before_replace):
                return ctx
        return contexts.current(self._caller)

    def iid(self, index: str | int) -> int:
        """Return the number of an index.

        Raises:
            NoSuchIndexError: the space has no index with this name.
            TypeError: `index` is neither a name nor a number.
        """
        if index.__class__ is int:
            return index
        if not isinstance(index, str):
            raise TypeError(f"index is a name or a number, not {shown_with_type(index)}")
        return self.space.index_by_name(index).iid

    # -- changes

    def store(self, kind: int, row: Any) -> Outcome | list[Any]:
        """Store a row; `kind` is INSERT or REPLACE. If the stored tuple is as the program gave it, returns a list of
        its fields, of which `row_of_fields` makes the row.
        """
        ctx = self._context_of_change()
        raw = self._encode(row)
        fields: list[Any] = unpack(raw)  # once, for the check of the fields and for the row
        try:
            if self._is_void or (self._is_direct and ctx.txn is not None):
                outcome: Outcome = self._dml.store(ctx, self._space, kind, raw, None, fields)
            else:
                outcome = self._commits.run(self._dml.store, ctx, self._space, kind, raw, None, fields)
        except BoxError as error:
            if error.code == ErrorCode.FIELD_TYPE and _are_several(row):
                error.add_note(_SEVERAL)
            raise
        return fields if outcome is raw else outcome

    def update(self, index: str | int, key: Any, operations: Operations) -> Outcome:
        """Update the tuple with a key."""
        is_usual = key.__class__ is str or (key.__class__ is int and 0 <= key < _USUAL_INTEGERS)
        values, ops = [key] if is_usual else key_values(key), operation_list(operations)
        iid = index if index.__class__ is int else self.iid(index)
        return self._change(Request(UPDATE, b"", values, ops, iid, 1), values, ops)

    def upsert(self, row: Any, operations: Operations) -> Outcome:
        """Insert a row, or update the tuple with its primary key."""
        ops = operation_list(operations)
        encode_values(ops)  # checked here, because an upsert silently skips an operation that fails
        self.space  # noqa: B018 - binds the codec
        return self._change(Request.upsert(self._encode(row), ops), _NOTHING, ops)

    def delete(self, index: str | int, key: Any) -> Outcome:
        """Delete the tuple with a key."""
        values = key_values(key)
        return self._change(Request(DELETE, b"", values, _NOTHING, self.iid(index)), values, _NOTHING)

    def _change(self, request: Request, key: list[Any], ops: list[Any]) -> Outcome:
        ctx = self._context_of_change()
        try:
            if self._is_void or (self._is_direct and ctx.txn is not None):
                return self._dml.store(ctx, self._space, request.type, request.tuple, request)
            return self._commits.run(self._dml.write, ctx, self._space, request)
        except BoxError as error:
            if error.code == ErrorCode.PROC_RET:
                raise explained(error, [key, ops]) from None
            raise

    async def ended(self, pending: Pending) -> bytes | None:
        """Wait for a pending change and return its tuple. If the caller is cancelled, an open transaction is rolled
        back.

        Raises:
            RuntimeError: the caller runs in another event loop than the node, where it would wait for ever.
        """
        self._check_loop()
        try:
            return await pending.wait()
        except asyncio.CancelledError:
            if pending.may_be_cancelled and not pending.done and self._contexts.current("a change").txn is not None:
                pending.cancel()
                with suppress(BoxError):
                    await pending.wait()
            raise

    async def row_of(self, outcome: Outcome | list[Any]) -> Any:
        """Return the row of a change, after the end of a pending one."""
        return self.row_from(await self.ended(outcome) if isinstance(outcome, Pending) else outcome)

    # -- many rows

    def batches(self, kind: int, rows: Iterable[Any], batch: int | None) -> Iterator[list[bytes]]:
        """Yield packed rows in lists: one list of all rows, or lists of `batch` rows."""
        if batch is not None:
            checked_count("batch", batch, 1)
        rows = rows_of("insert_many()" if kind == INSERT else "replace_many()", rows)
        self.space  # noqa: B018 - binds the codec
        source, most = iter(rows), sys.maxsize if batch is None else min(batch, sys.maxsize)
        while raws := self._codec.encode_many(source, most):
            yield raws

    async def store_many(self, kind: int, rows: Iterable[Any], batch: int | None) -> int:
        """Store rows in one transaction, or in one for each `batch` of them. Returns their number."""
        count, space = 0, self.space
        for raws in self.batches(kind, rows, batch):
            if count:
                await asyncio.sleep(0)
                self._check_there(space)
            await self.store_raws(kind, raws)
            count += len(raws)
        return count

    async def store_raws(self, kind: int, raws: list[bytes]) -> None:
        """Store packed tuples in the open transaction, or together in a new one.

        Without tuple versions only a trigger may wait in the transaction, and such a wait rolls the transaction back.
        """
        if not self.has_triggers():
            pending = self.store_at_once(kind, raws)
        else:
            pending = await self._store_one_by_one(kind, raws)
        if pending is not None:
            self._check_loop()
            await pending.wait()

    def _check_loop(self) -> None:
        self.embedding.contexts.check_loop(f"the handle of space {self.name!r}")

    def store_at_once(self, kind: int, raws: list[bytes]) -> Any:
        """Store packed tuples in a space without triggers. Returns the pending commit, if there is one to wait for."""
        return self._commits.run(self._store_together, kind, raws)

    def _store_together(self, kind: int, raws: list[bytes]) -> Pending | None:
        ctx = self._contexts.current("insert_many()")
        if self._dml.store_alone(ctx, self._space, kind, raws):
            return None
        with self._together(ctx) as inner:
            self._dml.store_all(inner, self._space, kind, raws, commits=inner is not ctx)
        return None if inner is ctx else self._dml.commit(inner)

    async def _store_one_by_one(self, kind: int, raws: list[bytes]) -> Pending | None:
        space, ctx = self._space, self._contexts.current("insert_many()")
        with self._together(ctx) as inner:
            for raw in raws:
                outcome = self._dml.store(inner, space, kind, raw)
                if isinstance(outcome, Pending):
                    await self.ended(outcome)
        return None if inner is ctx else self._commits.run(self.embedding.core.txns.commit, inner)

    @contextmanager
    def _together(self, ctx: Context) -> Iterator[Context]:
        """Yield `ctx` if it has an open transaction, else a new context with a new transaction. An error undoes the
        changes made in the block.
        """
        txns, is_own = self.embedding.core.txns, ctx.txn is None
        if is_own:
            ctx = self._contexts.new()
            txns.begin(ctx)
        before = txns.savepoint(ctx)
        try:
            yield ctx
        except BaseException:
            if is_own:
                txns.fiber_stopped(ctx)
            elif ctx.txn is not None:
                txns.rollback_to_savepoint(ctx, before)
            raise

    # -- the dictionary

    async def truncate(self) -> None:
        """Delete all tuples."""
        await self.run("truncate()")

    async def run(self, method: str, *args: Any) -> None:
        """Call a method of the space in Lua. `method` is the name with its argument list, in which `...` stands for
        `args`.

        Raises:
            NoSuchSpaceError: the space no longer exists.
        """
        await self._run("", method, self.space.id, *args)

    async def run_index(self, index: str, method: str, *args: Any) -> None:
        """Call a method of an index in Lua, as `run` does for the space.

        Raises:
            NoSuchIndexError: the space has no such index.
        """
        await self._run(f".index[{self.iid(index)}]", method, self.space.id, *args)

    async def _run(self, place: str, method: str, space_id: int, *args: Any) -> None:
        self.context()
        source = f"local s = box.space[(...)] return (function(...) s{place}:{method} end)(select(2, ...))"
        await self.embedding.eval(source, space_id, *args)

    # -- triggers

    def add_trigger(self, kind: str, function: PythonFunction) -> SpaceTrigger:
        """Add a trigger to the space; `kind` is on_replace or before_replace."""
        checked_function(function)
        self.context()
        return SpaceTrigger(self.embedding, self._space, kind, function, self._codec)

    def watch(self, limit: int, max_bytes: int, start: Mapping[int, int] | None = None) -> ChangeStream[Any]:
        """Open a stream of changes."""
        checked_count("limit of changes", limit, 1)
        checked_count("max_bytes", max_bytes)
        if start is not None:
            checked_vclock(start)
        self.context()
        self._check_loop()
        return ChangeStream(self.embedding, self._space, limit, max_bytes, self._codec, start)

    # -- reads

    def find(self, index: str | int, key: Any) -> bytes | None:
        """Return the packed tuple with a full key of a unique index, or None."""
        if self._epoch is not self.embedding.epoch:
            self.bind()
        ctx = self._contexts.at_hand() or self.context()
        is_usual = key.__class__ is str or (key.__class__ is int and 0 <= key < _USUAL_INTEGERS)
        values = [key] if is_usual else key_values(key)
        return self._reads.get(ctx, self._space, index if index.__class__ is int else self.iid(index), values)

    def get(self, index: str | int, key: Any) -> Any:
        """Return the row with a full key of a unique index, or None."""
        raw = self.find(index, key)
        return None if raw is None else self.decode(raw)

    def first(
        self, key: Any, index: str | int, iterator: IteratorName | IteratorType | None, offset: int, limit: int
    ) -> list[bytes]:
        """Return the packed tuples of a select: at most `limit` of them, after the first `offset`."""
        ctx, values = self.context(), key_values(key)
        kind, iid = iterator_type(iterator, values), self.iid(index)
        return self._reads.select(ctx, self._space, iid, kind, offset, limit, values)

    def view(self, key: Any, index: str | int, iterator: IteratorName | IteratorType | None) -> TupleView:
        """Return a frozen view of the tuples of a select outside of a transaction, to be read in slices."""
        ctx, values = self.context(), key_values(key)
        return self._reads.view(ctx, self._space, self.iid(index), iterator_type(iterator, values), values)

    def cursor(
        self, key: Any, index: str | int, iterator: IteratorName | IteratorType | None
    ) -> tuple[Iterator[bytes], Index]:
        """Return an iterator over the tuples of a select inside a transaction, and the index that it reads."""
        ctx, values = self.context(), key_values(key)
        iid = self.iid(index)
        rows = self._reads.cursor(ctx, self._space, iid, iterator_type(iterator, values), values)
        return rows, self._space.index(iid)

    @property
    def is_long(self) -> bool:
        """True if a select inside a transaction may yield to other tasks."""
        return self._allows_yield

    async def select(
        self, index: str | int, key: Any, iterator: IteratorName | IteratorType | None, offset: int, limit: int | None
    ) -> list[Any]:
        """Return the rows of a select as a list."""
        most = limit_of(limit)
        check_offset(offset)
        if self.context().txn is not None:
            if most > CHUNK and self._allows_yield:
                return await self._select_by_turns(index, key, iterator, offset, most)
            return self.decode_many(self.first(key, index, iterator, offset, most))
        first = self.first(key, index, iterator, offset, min(most, CHUNK))
        if most <= CHUNK or len(first) < CHUNK:
            return self.decode_many(first)
        rows: list[Any] = []
        view, decode_many = self.view(key, index, iterator), self.decode_many
        try:
            while len(rows) < most and (raws := view.take(CHUNK)) is not None:
                rows += decode_many(raws[offset : offset + most - len(rows)])
                offset = max(0, offset - len(raws))
                await asyncio.sleep(0)
        finally:
            view.close()
        return rows

    def page(
        self,
        index: str | int,
        key: Any,
        iterator: IteratorName | IteratorType | None,
        limit: int | None,
        after: str | Row | None,
    ) -> RowPage[Any]:
        """Return at most `limit` rows of a select that come after a position or a row."""
        ctx, values, iid = self.context(), key_values(key), self.iid(index)
        position = self._position(ctx, iid, after)
        kind = iterator_type(iterator, values)
        found = self._reads.page(ctx, self._space, iid, kind, 0, limit_of(limit), values, position)
        end = found.position
        return RowPage(self.decode_many(found.rows), None if end is None else end.decode())

    def _position(self, ctx: Context, iid: int, after: str | Row | None) -> bytes:
        if after is None:
            return b""
        if isinstance(after, str):
            return bytes(checked_text("after", after).encode())
        return self._reads.position(ctx, self._space, iid, unpack(self._encode(after)))

    async def page_by_turns(
        self,
        index: str | int,
        key: Any,
        iterator: IteratorName | IteratorType | None,
        limit: int | None,
        after: str | Row | None,
    ) -> RowPage[Any]:
        """Return a page. Other tasks run while a long page is read, unless waiting would roll back the open
        transaction.
        """
        limit = limit_of(limit)
        found = self.page(index, key, iterator, min(limit, CHUNK), after)
        rows, end = found.rows, found.position
        while len(rows) < limit and len(found.rows) == CHUNK:
            if self.context().txn is None or self._allows_yield:
                await asyncio.sleep(0)
            found = self.page(index, key, iterator, min(limit - len(rows), CHUNK), end)
            rows += found.rows
            end = found.position or end
        return RowPage(rows, end)

    async def _select_by_turns(
        self, index: str | int, key: Any, iterator: IteratorName | IteratorType | None, offset: int, limit: int
    ) -> list[Any]:
        """Run a select of a transaction in slices, yielding in between.

        Changes that others commit meanwhile are invisible or cause a conflict.
        """
        cursor, scanned = self.cursor(key, index, iterator)
        space, decode_many = self._space, self.decode_many
        rows: list[Any] = []
        while len(rows) < limit and (raws := list(islice(cursor, CHUNK))):
            rows += decode_many(raws[offset : offset + limit - len(rows)])
            offset = max(0, offset - len(raws))
            await asyncio.sleep(0)
            self.check_same(space, scanned)
        return rows

    async def pairs(
        self, index: str | int, key: Any, iterator: IteratorName | IteratorType | None
    ) -> AsyncGenerator[Any, None]:
        """Yield the rows of a select one by one."""
        if self.context().txn is not None:
            rows, scanned = self.cursor(key, index, iterator)
            space, decode = self._space, self.decode
            while chunk := list(islice(rows, CHUNK)):
                for raw in chunk:
                    yield decode(raw)
                if self._allows_yield:
                    await asyncio.sleep(0)
                self.check_same(space, scanned)
            return
        view, decode = self.view(key, index, iterator), self.decode
        try:
            while (raws := view.take(CHUNK)) is not None:
                for raw in raws:
                    yield decode(raw)
                await asyncio.sleep(0)
                self.embedding.contexts.check_thread(f"pairs() of space {self.name!r}")
        finally:
            view.close()

    def _check_there(self, space: Space) -> None:
        if self.embedding.core.schema.spaces.get(space.id) is not space:
            raise client_error(ErrorCode.NO_SUCH_SPACE, self.name)

    def check_same(self, space: Space, index: Index) -> None:
        """Raise an error if the space or index was dropped or rebuilt during an iteration."""
        self._check_there(space)
        if space.index(index.iid) is not index:
            raise illegal_params(f"index '{index.name}' of space '{space.name}' was rebuilt while it was read")

    def count(self, index: str | int, key: Any, iterator: IteratorName | IteratorType | None) -> int:
        """Return the number of tuples of a select."""
        ctx, values = self.context(), key_values(key)
        return self._reads.count(ctx, self._space, self.iid(index), iterator_type(iterator, values), values)

    def least(self, index: str | int, key: Any) -> Any:
        """Return the first row whose key begins with `key`, or None."""
        ctx = self.context()
        return self.row_from(self._reads.min(ctx, self._space, self.iid(index), key_values(key)))

    def greatest(self, index: str | int, key: Any) -> Any:
        """Return the last row whose key begins with `key`, or None."""
        ctx = self.context()
        return self.row_from(self._reads.max(ctx, self._space, self.iid(index), key_values(key)))

    def random(self, index: str | int, seed: int) -> Any:
        """Return the row that `seed` selects, or None in an empty space."""
        ctx = self.context()
        checked_integer("seed", seed)
        return self.row_from(self._reads.random(ctx, self._space, self.iid(index), seed))

    def size(self, index: str | int = 0) -> int:
        """Return the number of tuples in an index."""
        ctx = self.context()
        return self._reads.len(ctx, self._space, self.iid(index))

    def row_from(self, found: bytes | list[Any] | None) -> Any:
        """Make a row of a packed tuple, or of the list of its fields; None of None."""
        if found is None:
            return None
        return self.row_of_fields(found) if isinstance(found, list) else self.decode(found)

    # -- texts

    def describe(self) -> str:
        """Return the `repr` of a space handle."""
        embedding = self.embedding
        if not embedding.is_running or self.name not in (one.name for one in embedding.core.schema.spaces.values()):
            return f"<space {self.name!r}, which is not there>"
        space = self.space
        names = ", ".join(field.name or "" for field in space.definition.fields)
        indexes = ", ".join(index.name for index in space.indexes.values())
        return f"<space {self.name!r} {space.engine.name} ({names or 'no format'}) indexes: {indexes or 'none'}>"

    def describe_index(self, name: str) -> str:
        """Return the `repr` of an index handle."""
        return f"<index {name!r} of space {self.name!r}>"


def _are_several(row: Any) -> bool:
    """True if a row looks like a list of rows."""
    return isinstance(row, Sequence) and bool(row) and all(isinstance(one, (list, tuple, Mapping)) for one in row)
