"""Requests of one space, with rows in and out: behind `SpaceHandle` and `IndexHandle`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from box.embed.arguments import IteratorName, Operations, iterator_type, key_values, limit_of, operation_list, rows_of
from box.embed.callables import SpaceTrigger
from box.embed.change_stream import ChangeStream
from box.embed.named_rows import RowCodec, encode_values, explained
from box.errors import BoxError, ErrorCode, client_error, illegal_params
from box.index import IteratorType
from box.txn.pending import Outcome, Pending
from box.wire.change import INSERT, REPLACE, Request

if TYPE_CHECKING:
    from box.embed.callables import PythonFunction
    from box.embed.embedding import ContextSource, Embedding
    from box.index import Index
    from box.schema.space import Space
    from box.session import Context

_CHUNK: Final = 256
"""Tuples that are read and decoded between two turns of others: one or two milliseconds for wide rows."""
_SEVERAL: Final = "insert_many() and replace_many() take several rows at once"


class Requests:
    """Requests of one space, each in the context that `context(caller)` gives; `row` is the class of its rows."""

    def __init__(self, embedding: Embedding, name: str, context: ContextSource, row: type | None = None) -> None:
        self.embedding = embedding
        self._new_context = context
        self.name = name
        self.row = row

    def with_rows(self, row: type) -> Requests:
        """Requests whose rows are objects of another class, which the format has to fit."""
        made = Requests(self.embedding, self.name, self._new_context, row)
        codec = made.codec(made.space)
        codec.check()
        return made

    @property
    def space(self) -> Space:
        """NO_SUCH_SPACE, LOADING."""
        return self.embedding.core.schema.space_by_name(self.name)

    def codec(self, space: Space) -> RowCodec:
        """The codec of the rows."""
        return self.embedding.codec(space, self.row)

    def _context(self) -> Context:
        return self._new_context(f"the handle of space {self.name!r}")

    def iid(self, index: str | int, space: Space | None = None) -> int:
        """The number of an index. NO_SUCH_INDEX_NAME."""
        return index if isinstance(index, int) else (space or self.space).index_by_name(index).iid

    # -- changes

    async def insert(self, row: Any) -> Any:
        return await self._store(INSERT, row)

    async def replace(self, row: Any) -> Any:
        return await self._store(REPLACE, row)

    async def _store(self, kind: int, row: Any) -> Any:
        ctx, space = self._context(), self.space
        codec = self.codec(space)
        raw = codec.encode(row)
        try:
            outcome = self.embedding.core.dml.store(ctx, space, kind, raw)
            stored = await _ended(ctx, outcome) if isinstance(outcome, Pending) else outcome
        except BoxError as error:
            if error.code == ErrorCode.FIELD_TYPE and _are_several(row):
                error.add_note(_SEVERAL)
            raise
        return None if stored is None else codec.decode(stored)

    async def store_many(self, kind: int, rows: Iterable[Any], batch: int | None) -> int:
        """Store rows in one transaction, or in one for each `batch` of them. Gives their number."""
        caller = "insert_many()" if kind == INSERT else "replace_many()"
        if batch is not None and batch < 1:
            raise illegal_params("batch must be positive")
        ctx, space = self._context(), self.space
        encode, count = self.codec(space).encode, 0
        source = map(encode, rows_of(caller, rows))
        while raws := list(source if batch is None else islice(source, batch)):
            if ctx.txn is not None:
                await self._store_all(ctx, space, kind, raws)
            else:
                await self._store_together(ctx, space, kind, raws)
                if batch is not None:
                    await asyncio.sleep(0)
                    ctx = self._context()
                    self._check_there(space)
            count += len(raws)
            if batch is None:
                break
        return count

    async def _store_all(self, ctx: Context, space: Space, kind: int, raws: list[bytes]) -> None:
        store = self.embedding.core.dml.store
        for raw in raws:
            outcome = store(ctx, space, kind, raw)
            if isinstance(outcome, Pending):
                await _ended(ctx, outcome)

    async def _store_together(self, ctx: Context, space: Space, kind: int, raws: list[bytes]) -> None:
        """A transaction of all. Without versions of tuples nothing but a trigger may wait in it, which undoes it."""
        txns = self.embedding.core.txns
        txns.begin(ctx)
        try:
            await self._store_all(ctx, space, kind, raws)
        except BaseException:
            txns.fiber_stopped(ctx)
            raise
        pending = txns.commit(ctx)
        if pending is not None:
            await pending.wait()

    async def update(self, index: str | int, key: Any, operations: Operations) -> Any:
        values, ops = key_values(key), operation_list(operations)
        return await self._write(lambda space: Request.update(values, ops, self.iid(index, space)), (values, ops))

    async def upsert(self, row: Any, operations: Operations) -> None:
        ops = operation_list(operations)
        encode_values(ops)  # an operation that fails is skipped silently
        await self._write(lambda space: Request.upsert(self.codec(space).encode(row), ops), ops)

    async def delete(self, index: str | int, key: Any) -> Any:
        values = key_values(key)
        return await self._write(lambda space: Request.delete(values, self.iid(index, space)), values)

    async def truncate(self) -> None:
        await self.run("truncate()")

    async def run(self, method: str, *args: Any) -> None:
        """Call a method of the space in Lua: its name and arguments, `...` being `args`. NO_SUCH_SPACE."""
        await self._run("", method, self.space.id, *args)

    async def run_index(self, index: str, method: str, *args: Any) -> None:
        """As `run`, of an index. NO_SUCH_INDEX_NAME."""
        space = self.space
        await self._run(f".index[{self.iid(index, space)}]", method, space.id, *args)

    async def _run(self, place: str, method: str, space_id: int, *args: Any) -> None:
        self._context()
        source = f"local s = box.space[(...)] return (function(...) s{place}:{method} end)(select(2, ...))"
        await self.embedding.eval(source, space_id, *args)

    # -- triggers

    def add_trigger(self, kind: str, function: PythonFunction) -> SpaceTrigger:
        """Set a trigger of the space."""
        self._context()
        return SpaceTrigger(self.embedding, self.space, kind, function, self.codec(self.space))

    def watch(self, limit: int, max_bytes: int, start: Mapping[int, int] | None = None) -> ChangeStream[Any]:
        """Open a stream of changes."""
        if limit < 1:
            raise illegal_params("limit of changes must be positive")
        self._context()
        space = self.space
        return ChangeStream(self.embedding, space, limit, max_bytes, self.codec(space), start)

    async def _write(self, make: Callable[[Space], Request], given: Iterable[Any]) -> Any:
        ctx, space = self._context(), self.space
        codec = self.codec(space)
        try:
            outcome: Outcome = self.embedding.core.dml.write(ctx, space, make(space))
            raw = await _ended(ctx, outcome) if isinstance(outcome, Pending) else outcome
        except BoxError as error:
            if error.code == ErrorCode.PROC_RET:
                raise explained(error, list(given)) from None
            raise
        return None if raw is None else codec.decode(raw)

    # -- reads

    def get(self, index: str | int, key: Any) -> Any:
        ctx, space = self._context(), self.space
        raw = self.embedding.core.dml.reads.get(ctx, space, self.iid(index, space), key_values(key))
        return self._row(space, raw)

    async def select(
        self, index: str | int, key: Any, iterator: IteratorName | IteratorType | None, offset: int, limit: int | None
    ) -> list[Any]:
        ctx, space, values, limit = self._context(), self.space, key_values(key), limit_of(limit)
        kind, iid = iterator_type(iterator, values), self.iid(index, space)
        reads, decode = self.embedding.core.dml.reads, self.codec(space).decode
        if ctx.txn is not None:
            if limit > _CHUNK and self.embedding.core.tuples.allows_yield:
                return await self._select_by_turns(ctx, space, iid, kind, offset, limit, values)
            return [*map(decode, reads.select(ctx, space, iid, kind, offset, limit, values))]
        first = reads.select(ctx, space, iid, kind, offset, min(limit, _CHUNK), values)
        if limit <= _CHUNK or len(first) < _CHUNK:
            return [*map(decode, first)]
        rows: list[Any] = []
        view = reads.view(ctx, space, iid, kind, values)
        try:
            while len(rows) < limit and (raws := view.take(_CHUNK)) is not None:
                rows += map(decode, raws[offset : offset + limit - len(rows)])
                offset = max(0, offset - len(raws))
                await asyncio.sleep(0)
        finally:
            view.close()
        return rows

    async def _select_by_turns(
        self, ctx: Context, space: Space, iid: int, kind: int, offset: int, limit: int, values: list[Any]
    ) -> list[Any]:
        """A select of a transaction that may wait: what others commit meanwhile is a conflict or not seen."""
        decode = self.codec(space).decode
        cursor, scanned = self.embedding.core.dml.reads.cursor(ctx, space, iid, kind, values), space.index(iid)
        rows: list[Any] = []
        while len(rows) < limit and (raws := list(islice(cursor, _CHUNK))):
            rows += map(decode, raws[offset : offset + limit - len(rows)])
            offset = max(0, offset - len(raws))
            await asyncio.sleep(0)
            self._check_same(space, scanned)
        return rows

    async def pairs(
        self, index: str | int, key: Any, iterator: IteratorName | IteratorType | None
    ) -> AsyncGenerator[Any, None]:
        ctx, space, values = self._context(), self.space, key_values(key)
        kind, iid = iterator_type(iterator, values), self.iid(index, space)
        reads, decode = self.embedding.core.dml.reads, self.codec(space).decode
        if ctx.txn is not None:
            rows, scanned = reads.cursor(ctx, space, iid, kind, values), space.index(iid)
            while chunk := list(islice(rows, _CHUNK)):
                for raw in chunk:
                    yield decode(raw)
                if self.embedding.core.tuples.allows_yield:
                    await asyncio.sleep(0)
                self._check_same(space, scanned)
            return
        view = reads.view(ctx, space, iid, kind, values)
        try:
            while (raws := view.take(_CHUNK)) is not None:
                for raw in raws:
                    yield decode(raw)
                await asyncio.sleep(0)
                self.embedding.new_context(f"pairs() of space {self.name!r}")
        finally:
            view.close()

    def _check_there(self, space: Space) -> None:
        if self.embedding.core.schema.spaces.get(space.id) is not space:
            raise client_error(ErrorCode.NO_SUCH_SPACE, self.name)

    def _check_same(self, space: Space, index: Index) -> None:
        """Refuse to go on with a space or an index that is not what it was."""
        self._check_there(space)
        if space.index(index.iid) is not index:
            raise illegal_params(f"index '{index.name}' of space '{space.name}' was rebuilt while it was read")

    def count(self, index: str | int, key: Any, iterator: IteratorName | IteratorType | None) -> int:
        ctx, space, values = self._context(), self.space, key_values(key)
        kind = iterator_type(iterator, values)
        return self.embedding.core.dml.reads.count(ctx, space, self.iid(index, space), kind, values)

    def least(self, index: str | int, key: Any) -> Any:
        ctx, space = self._context(), self.space
        reads = self.embedding.core.dml.reads
        return self._row(space, reads.min(ctx, space, self.iid(index, space), key_values(key)))

    def greatest(self, index: str | int, key: Any) -> Any:
        ctx, space = self._context(), self.space
        reads = self.embedding.core.dml.reads
        return self._row(space, reads.max(ctx, space, self.iid(index, space), key_values(key)))

    def random(self, index: str | int, seed: int) -> Any:
        ctx, space = self._context(), self.space
        return self._row(space, self.embedding.core.dml.reads.random(ctx, space, self.iid(index, space), seed))

    def size(self, index: str | int = 0) -> int:
        ctx, space = self._context(), self.space
        return self.embedding.core.dml.reads.len(ctx, space, self.iid(index, space))

    def _row(self, space: Space, raw: bytes | None) -> Any:
        return None if raw is None else self.codec(space).decode(raw)

    # -- texts

    def describe(self) -> str:
        """The representation of a handle."""
        embedding = self.embedding
        if not embedding.is_running or self.name not in (one.name for one in embedding.core.schema.spaces.values()):
            return f"<space {self.name!r}, which is not there>"
        space = self.space
        names = ", ".join(field.name or "" for field in space.definition.fields)
        indexes = ", ".join(index.name for index in space.indexes.values())
        return f"<space {self.name!r} {space.engine} ({names or 'no format'}) indexes: {indexes or 'none'}>"

    def describe_index(self, name: str) -> str:
        """The representation of an index's handle."""
        return f"<index {name!r} of space {self.name!r}>"


async def _ended(ctx: Context, pending: Pending) -> bytes | None:
    """The result of a write. One of an open transaction does not outlive its caller."""
    waiting: Awaitable[bytes | None] = pending.wait()
    try:
        return await waiting
    except asyncio.CancelledError:
        if ctx.txn is not None and pending.may_be_cancelled and not pending.done:
            pending.cancel()
            with suppress(BoxError):
                await pending.wait()
        raise


def _are_several(row: Any) -> bool:
    """Whether a row looks like a list of rows."""
    return isinstance(row, Sequence) and bool(row) and all(isinstance(one, (list, tuple, Mapping)) for one in row)
