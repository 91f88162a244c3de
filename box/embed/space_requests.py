"""Requests of one space, with rows in and out: behind `SpaceHandle` and `IndexHandle`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from box.embed.callables import SpaceTrigger
from box.embed.change_stream import ChangeStream
from box.embed.named_rows import NamedRow, encode_values, explained
from box.errors import BoxError, ErrorCode, client_error, illegal_params
from box.index import IteratorType
from box.txn.pending import Pending
from box.wire.change import Request

if TYPE_CHECKING:
    from box.embed.callables import PythonFunction
    from box.embed.embedding import Embedding
    from box.index import Index
    from box.schema.space import Space
    from box.session import Context

_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**64 - 1
_CHUNK: Final = 256
"""Tuples that are read and decoded between two turns of others: one or two milliseconds for wide rows."""


class Requests:
    """Requests of one space, each in the context that `context(caller)` gives."""

    def __init__(self, embedding: Embedding, name: str, context: Callable[[str], Context]) -> None:
        self._embedding = embedding
        self._new_context = context
        self.name = name

    @property
    def space(self) -> Space:
        """NO_SUCH_SPACE, LOADING."""
        return self._embedding.core.schema.space_by_name(self.name)

    def _context(self) -> Context:
        return self._new_context(f"the handle of space {self.name!r}")

    def iid(self, index: str | int, space: Space | None = None) -> int:
        """The number of an index. NO_SUCH_INDEX_NAME."""
        return index if isinstance(index, int) else (space or self.space).index_by_name(index).iid

    # -- changes

    async def insert(self, row: Sequence[Any] | Mapping[str, Any]) -> NamedRow | None:
        return await self._write(lambda space: Request.insert(self._embedding.codec(space).encode(row)), ())

    async def replace(self, row: Sequence[Any] | Mapping[str, Any]) -> NamedRow | None:
        return await self._write(lambda space: Request.replace(self._embedding.codec(space).encode(row)), ())

    async def update(self, index: str | int, key: Any, operations: Sequence[Sequence[Any]]) -> NamedRow | None:
        values, ops = key_values(key), [list(operation) for operation in operations]
        return await self._write(lambda space: Request.update(values, ops, self.iid(index, space)), (values, ops))

    async def upsert(self, row: Sequence[Any] | Mapping[str, Any], operations: Sequence[Sequence[Any]]) -> None:
        ops = [list(operation) for operation in operations]
        encode_values(ops)  # an operation that fails is skipped silently
        await self._write(lambda space: Request.upsert(self._embedding.codec(space).encode(row), ops), ops)

    async def delete(self, index: str | int, key: Any) -> NamedRow | None:
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
        await self._embedding.eval(source, space_id, *args)

    # -- triggers

    def add_trigger(self, kind: str, function: PythonFunction) -> SpaceTrigger:
        """Set a trigger of the space."""
        self._context()
        return SpaceTrigger(self._embedding, self.space, kind, function)

    def watch(self, limit: int, max_bytes: int) -> ChangeStream:
        """Open a stream of changes."""
        if limit < 1:
            raise illegal_params("limit of changes must be positive")
        self._context()
        return ChangeStream(self._embedding, self.space, limit, max_bytes)

    async def _write(self, make: Callable[[Space], Request], given: Iterable[Any]) -> NamedRow | None:
        ctx, space = self._context(), self.space
        codec = self._embedding.codec(space)
        try:
            outcome = self._embedding.core.dml.write(ctx, space, make(space))
            raw = await _ended(ctx, outcome) if isinstance(outcome, Pending) else outcome
        except BoxError as error:
            if error.code == ErrorCode.PROC_RET:
                raise explained(error, list(given)) from None
            raise
        return None if raw is None else codec.decode(raw)

    # -- reads

    def get(self, index: str | int, key: Any) -> NamedRow | None:
        ctx, space = self._context(), self.space
        raw = self._embedding.core.dml.reads.get(ctx, space, self.iid(index, space), key_values(key))
        return self._row(space, raw)

    async def select(
        self, index: str | int, key: Any, iterator: str | IteratorType | None, offset: int, limit: int
    ) -> list[NamedRow]:
        ctx, space, values = self._context(), self.space, key_values(key)
        kind, iid = iterator_type(iterator, values), self.iid(index, space)
        reads, decode = self._embedding.core.dml.reads, self._embedding.codec(space).decode
        if ctx.txn is not None:
            if limit > _CHUNK and self._embedding.core.tuples.allows_yield:
                return await self._select_by_turns(ctx, space, iid, kind, offset, limit, values)
            return [*map(decode, reads.select(ctx, space, iid, kind, offset, limit, values))]
        first = reads.select(ctx, space, iid, kind, offset, min(limit, _CHUNK), values)
        if limit <= _CHUNK or len(first) < _CHUNK:
            return [*map(decode, first)]
        rows: list[NamedRow] = []
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
    ) -> list[NamedRow]:
        """A select of a transaction that may wait: what others commit meanwhile is a conflict or not seen."""
        decode = self._embedding.codec(space).decode
        cursor, scanned = self._embedding.core.dml.reads.cursor(ctx, space, iid, kind, values), space.index(iid)
        rows: list[NamedRow] = []
        while len(rows) < limit and (raws := list(islice(cursor, _CHUNK))):
            rows += map(decode, raws[offset : offset + limit - len(rows)])
            offset = max(0, offset - len(raws))
            await asyncio.sleep(0)
            self._check_same(space, scanned)
        return rows

    async def pairs(
        self, index: str | int, key: Any, iterator: str | IteratorType | None
    ) -> AsyncGenerator[NamedRow, None]:
        ctx, space, values = self._context(), self.space, key_values(key)
        kind, iid = iterator_type(iterator, values), self.iid(index, space)
        reads, decode = self._embedding.core.dml.reads, self._embedding.codec(space).decode
        if ctx.txn is not None:
            rows, scanned = reads.cursor(ctx, space, iid, kind, values), space.index(iid)
            while chunk := list(islice(rows, _CHUNK)):
                for raw in chunk:
                    yield decode(raw)
                if self._embedding.core.tuples.allows_yield:
                    await asyncio.sleep(0)
                self._check_same(space, scanned)
            return
        view = reads.view(ctx, space, iid, kind, values)
        try:
            while (raws := view.take(_CHUNK)) is not None:
                for raw in raws:
                    yield decode(raw)
                await asyncio.sleep(0)
                self._embedding.new_context(f"pairs() of space {self.name!r}")
        finally:
            view.close()

    def _check_same(self, space: Space, index: Index) -> None:
        """Refuse to go on with a space or an index that is not what it was."""
        if self._embedding.core.schema.spaces.get(space.id) is not space:
            raise client_error(ErrorCode.NO_SUCH_SPACE, self.name)
        if space.index(index.iid) is not index:
            raise illegal_params(f"index '{index.name}' of space '{space.name}' was rebuilt while it was read")

    def count(self, index: str | int, key: Any, iterator: str | IteratorType | None) -> int:
        ctx, space, values = self._context(), self.space, key_values(key)
        kind = iterator_type(iterator, values)
        return self._embedding.core.dml.reads.count(ctx, space, self.iid(index, space), kind, values)

    def least(self, index: str | int, key: Any) -> NamedRow | None:
        ctx, space = self._context(), self.space
        reads = self._embedding.core.dml.reads
        return self._row(space, reads.min(ctx, space, self.iid(index, space), key_values(key)))

    def greatest(self, index: str | int, key: Any) -> NamedRow | None:
        ctx, space = self._context(), self.space
        reads = self._embedding.core.dml.reads
        return self._row(space, reads.max(ctx, space, self.iid(index, space), key_values(key)))

    def random(self, index: str | int, seed: int) -> NamedRow | None:
        ctx, space = self._context(), self.space
        return self._row(space, self._embedding.core.dml.reads.random(ctx, space, self.iid(index, space), seed))

    def size(self, index: str | int = 0) -> int:
        ctx, space = self._context(), self.space
        return self._embedding.core.dml.reads.len(ctx, space, self.iid(index, space))

    def _row(self, space: Space, raw: bytes | None) -> NamedRow | None:
        return None if raw is None else self._embedding.codec(space).decode(raw)

    # -- texts

    def describe(self) -> str:
        """The representation of a handle."""
        embedding = self._embedding
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


def key_values(key: Any) -> list[Any]:
    """The parts of a key: it may be given as a sequence, or alone. Errors as of `encode_values`."""
    values = list(key) if isinstance(key, (list, tuple)) else [key]
    for value in values:
        kind = type(value)
        if kind is not str and not (kind is int and _INT_MIN <= value <= _INT_MAX):
            encode_values([value])
    return values


def iterator_type(iterator: str | IteratorType | None, key: list[Any]) -> IteratorType:
    """An iterator by name or number; without one EQ, or ALL without a key. ITERATOR_TYPE."""
    if iterator is None:
        return IteratorType.EQ if key else IteratorType.ALL
    if isinstance(iterator, IteratorType):
        return iterator
    try:
        return IteratorType[iterator.upper()]
    except KeyError:
        raise client_error(ErrorCode.ITERATOR_TYPE, iterator) from None
