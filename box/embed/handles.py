"""Spaces and indexes of an embedded node, with every request that Lua has for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from box.embed.change_stream import MAX_BYTES
from box.embed.space_requests import Requests
from box.index import IteratorType

if TYPE_CHECKING:
    from box.embed.callables import PythonFunction, SpaceTrigger
    from box.embed.change_stream import ChangeStream
    from box.embed.embedding import Embedding
    from box.embed.named_rows import NamedRow
    from box.schema.space import Space
    from box.session import Context

Row = Sequence[Any] | Mapping[str, Any]
"""A tuple as it is given: a sequence, or a dict by the names of the space's format."""

NO_LIMIT = 0xFFFFFFFF


class SpaceHandle:
    """One space of an embedded node.

    Rows are given as sequences, or as dicts by the names of the format; results are `NamedRow`s. A key of one part may
    be given as it is; `index` is a name or a number. Every method raises BoxError with the code that Lua would see:
    NO_SUCH_SPACE once the space is dropped, NO_SUCH_INDEX_ID, KEY_PART_TYPE, READONLY, ...

    A call is part of the transaction that its task has open, else a transaction of its own, whatever other calls wait
    for. In another thread than the node's it raises RuntimeError.
    """

    def __init__(self, embedding: Embedding, name: str, context: Callable[[str], Context] | None = None) -> None:
        self._requests = Requests(embedding, name, context or embedding.new_context)
        self.name = name

    def __repr__(self) -> str:
        return self._requests.describe()

    @property
    def id(self) -> int:
        """The number of the space."""
        return self._requests.space.id

    @property
    def index(self) -> Indexes:
        """The indexes by name: `space.index["name"]`."""
        return Indexes(self._requests)

    async def insert(self, row: Row) -> NamedRow | None:
        """Add a tuple; TUPLE_FOUND if its key exists. What is stored; None if a before_replace trigger prevented it."""
        return await self._requests.insert(row)

    async def replace(self, row: Row) -> NamedRow | None:
        """Add a tuple or replace the one with its primary key. Result as of `insert`."""
        return await self._requests.replace(row)

    async def update(self, key: Any, operations: Sequence[Sequence[Any]], index: str | int = 0) -> NamedRow | None:
        """Apply operations to a tuple; the tuple as it is then, None without one.

        An operation is `[operator, field, ...]`: `["=", "name", "x"]`, `["+", 3, 1]`, `[":", 2, 1, 2, "ab"]`,
        `["!", 4, value]`, `["#", 4, 1]`, also `-`, `&`, `|`, `^`. Fields are names, paths or numbers counted from 1.
        """
        return await self._requests.update(index, key, operations)

    async def upsert(self, row: Row, operations: Sequence[Sequence[Any]]) -> None:
        """Insert the tuple, or apply the operations (as of `update`) to the one with its primary key."""
        await self._requests.upsert(row, operations)

    async def delete(self, key: Any, index: str | int = 0) -> NamedRow | None:
        """Remove a tuple and return it; None without it."""
        return await self._requests.delete(index, key)

    async def get(self, key: Any, index: str | int = 0) -> NamedRow | None:
        """The tuple with a full key of a unique index."""
        return self._requests.get(index, key)

    async def select(
        self,
        key: Any = (),
        *,
        index: str | int = 0,
        iterator: str | IteratorType | None = None,
        offset: int = 0,
        limit: int = NO_LIMIT,
    ) -> list[NamedRow]:
        """At most `limit` tuples by a (partial) key, without the first `offset`, as they are at the call.

        `iterator` is EQ (the default with a key), ALL (the default without), REQ, LT, LE, GE or GT, in either case; a
        HASH index knows EQ, ALL and GT. ITERATOR_TYPE.Others have their turn while a long
        result is put together, but not inside a transaction.
        """
        return await self._requests.select(index, key, iterator, offset, limit)

    def pairs(
        self, key: Any = (), *, index: str | int = 0, iterator: str | IteratorType | None = None
    ) -> AsyncIterator[NamedRow]:
        """`async for row in space.pairs(...)`: the tuples that `select` gives, without a list of them all.

        Tuples are read some hundreds at a time, and others have their turn in between. The tuples are those of the
        first step, whatever is changed or dropped meanwhile. Inside a transaction they are those that the transaction
        sees, its own changes on the way included; without `memtx_use_mvcc_engine`, where it must not give way, nobody
        else has a turn then. LOADING if the node stops meanwhile.
        """
        return self._requests.pairs(index, key, iterator)

    def __aiter__(self) -> AsyncIterator[NamedRow]:
        return self.pairs()

    async def count(self, key: Any = (), *, index: str | int = 0, iterator: str | IteratorType | None = None) -> int:
        """The number of tuples that `select` would give."""
        return self._requests.count(index, key, iterator)

    async def min(self, key: Any = (), *, index: str | int = 0) -> NamedRow | None:
        """The first tuple by an index, of those that begin with `key`. UNSUPPORTED_INDEX_FEATURE (HASH)."""
        return self._requests.least(index, key)

    async def max(self, key: Any = (), *, index: str | int = 0) -> NamedRow | None:
        """The last tuple by an index, of those that begin with `key`. UNSUPPORTED_INDEX_FEATURE (HASH)."""
        return self._requests.greatest(index, key)

    async def random(self, seed: int, *, index: str | int = 0) -> NamedRow | None:
        """Some tuple, the same for the same seed and contents; None if there is none."""
        return self._requests.random(index, seed)

    async def len(self) -> int:
        """The number of tuples."""
        return self._requests.size()

    async def truncate(self) -> None:
        """Remove all tuples."""
        await self._requests.truncate()

    # -- the dictionary

    async def create_index(
        self,
        name: str,
        *,
        type: str | None = None,
        parts: Sequence[Any] | None = None,
        unique: bool | None = None,
        id: int | None = None,
        sequence: bool | str | None = None,
        if_not_exists: bool = False,
        **options: Any,
    ) -> IndexHandle:
        """Create an index; the first one of a space is the primary one.

        `type` is "TREE" (the default) or "HASH"; `parts` are names or numbers of fields, or dicts with `field`, `type`,
        `path`, `is_nullable`, `exclude_null`, `collation`; the first field by default. `sequence` True makes a sequence
        that fills the first part. INDEX_EXISTS, MODIFY_INDEX, WRONG_INDEX_PARTS, TUPLE_FOUND, FIELD_TYPE, ...
        """
        given = {
            "type": type,
            "parts": None if parts is None else list(parts),
            "unique": unique,
            "id": id,
            "sequence": sequence,
            "if_not_exists": if_not_exists or None,
            **options,
        }
        await self._requests.run("create_index(...)", name, {k: v for k, v in given.items() if v is not None})
        return self.index[name]

    @property
    def format(self) -> list[dict[str, Any]]:
        """The fields of the space, each a dict with `name`, `type` and what else was given."""
        return [dict(field) for field in self._requests.space.definition.format]

    async def set_format(self, fields: Sequence[str | Sequence[Any] | Mapping[str, Any]]) -> None:
        """Give the space another format, which all tuples must fit. FIELD_TYPE, FIELD_MISSING, ..."""
        await self._requests.run("format(...)", list(fields))

    async def rename(self, name: str) -> None:
        """Give the space another name; this handle follows."""
        await self._requests.run("rename(...)", name)
        self.name = self._requests.name = name

    async def drop(self) -> None:
        """Drop the space with its tuples and indexes."""
        await self._requests.run("drop()")

    # -- triggers

    def on_replace(self, function: PythonFunction) -> SpaceTrigger:
        """Have `function(old, new)` called after each change of a tuple, before the commit; also as a decorator.

        Both are rows, None where there is none. It belongs to the transaction of the change: what it writes commits
        with it, an exception undoes the statement and is what its caller gets. A coroutine function may wait; without
        `memtx_use_mvcc_engine` that undoes the transaction (TRANSACTION_YIELD). The newest trigger runs first.
        `remove()` of the result takes it away.
        """
        return self._requests.add_trigger("on_replace", function)

    def before_replace(self, function: PythonFunction) -> SpaceTrigger:
        """As `on_replace`, before the change is made. What the function returns is stored instead of `new`: `new`
        itself, another row or dict, `old` (nothing changes), or None (the tuple is removed, or not inserted)."""
        return self._requests.add_trigger("before_replace", function)

    def changes(self, limit: int = 10_000, *, max_bytes: int = MAX_BYTES) -> ChangeStream:
        """`async for change in space.changes()`: committed changes from now on, as `Change(old, new, lsn, replica_id)`.

        At most `limit` changes, and about `max_bytes` of their tuples, wait for a reader that is slow; one more ends
        the stream with ChangesLost after what is waiting. See `ChangeStream`.
        """
        return self._requests.watch(limit, max_bytes)


class IndexHandle:
    """One index of a space: `node.space["goods"].index["by_name"]`. The methods are those of `SpaceHandle`."""

    def __init__(self, requests: Requests, name: str) -> None:
        self._requests = requests
        self.name = name

    def __repr__(self) -> str:
        return self._requests.describe_index(self.name)

    @property
    def id(self) -> int:
        """The number of the index in its space; 0 is the primary one. NO_SUCH_INDEX_NAME once it is dropped."""
        return self._requests.iid(self.name)

    async def get(self, key: Any) -> NamedRow | None:
        """The tuple with a full key; MORE_THAN_ONE_TUPLE unless the index is unique."""
        return self._requests.get(self.name, key)

    async def select(
        self, key: Any = (), *, iterator: str | IteratorType | None = None, offset: int = 0, limit: int = NO_LIMIT
    ) -> list[NamedRow]:
        """See `SpaceHandle.select`."""
        return await self._requests.select(self.name, key, iterator, offset, limit)

    def pairs(self, key: Any = (), *, iterator: str | IteratorType | None = None) -> AsyncIterator[NamedRow]:
        """See `SpaceHandle.pairs`."""
        return self._requests.pairs(self.name, key, iterator)

    def __aiter__(self) -> AsyncIterator[NamedRow]:
        return self.pairs()

    async def update(self, key: Any, operations: Sequence[Sequence[Any]]) -> NamedRow | None:
        """See `SpaceHandle.update`; MORE_THAN_ONE_TUPLE unless the index is unique."""
        return await self._requests.update(self.name, key, operations)

    async def delete(self, key: Any) -> NamedRow | None:
        """See `SpaceHandle.delete`; MORE_THAN_ONE_TUPLE unless the index is unique."""
        return await self._requests.delete(self.name, key)

    async def count(self, key: Any = (), *, iterator: str | IteratorType | None = None) -> int:
        """The number of tuples that `select` would give."""
        return self._requests.count(self.name, key, iterator)

    async def min(self, key: Any = ()) -> NamedRow | None:
        """The first tuple of those that begin with `key`."""
        return self._requests.least(self.name, key)

    async def max(self, key: Any = ()) -> NamedRow | None:
        """The last tuple of those that begin with `key`."""
        return self._requests.greatest(self.name, key)

    async def random(self, seed: int) -> NamedRow | None:
        """Some tuple, the same for the same seed and contents; None if there is none."""
        return self._requests.random(self.name, seed)

    async def len(self) -> int:
        """The number of tuples in the index."""
        return self._requests.size(self.name)

    async def alter(self, **options: Any) -> None:
        """Change `parts`, `unique`, `type`, ...: options as of `SpaceHandle.create_index`."""
        await self._requests.run_index(self.name, "alter(...)", options)

    async def rename(self, name: str) -> None:
        """Give the index another name; this handle follows."""
        await self._requests.run_index(self.name, "rename(...)", name)
        self.name = name

    async def drop(self) -> None:
        """Drop the index. DROP_PRIMARY_KEY while there are others."""
        await self._requests.run_index(self.name, "drop()")


class Indexes(Mapping[str, IndexHandle]):
    """`space.index`: the indexes of a space by name, in the order of their numbers."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def __getitem__(self, name: str) -> IndexHandle:
        """NO_SUCH_INDEX_NAME."""
        self._requests.iid(name)
        return IndexHandle(self._requests, name)

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def get(self, name: str, default: Any = None) -> Any:
        """The index, or `default` without one."""
        return default if name not in self else self.__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        return iter([index.name for index in self._requests.space.indexes.values()])

    def __len__(self) -> int:
        return len(self._requests.space.indexes)

    def __repr__(self) -> str:
        return f"<indexes of {self._requests.name!r}: {', '.join(self) or 'none'}>"


class Spaces(Mapping[str, SpaceHandle]):
    """`node.space`: the user's spaces by name, in the order of their numbers.

    `node.space["_schema"]` and other system spaces can be asked for as well; they are not listed.
    """

    def __init__(self, embedding: Embedding, context: Callable[[str], Context] | None = None) -> None:
        self._embedding = embedding
        self._context = context

    def _listed(self) -> list[Space]:
        spaces = self._embedding.core.schema.spaces.values()
        return sorted((space for space in spaces if not space.is_system), key=lambda space: space.id)

    def __getitem__(self, name: str) -> SpaceHandle:
        """NO_SUCH_SPACE."""
        self._embedding.core.schema.space_by_name(name)
        return SpaceHandle(self._embedding, name, self._context)

    def __contains__(self, name: object) -> bool:
        return any(space.name == name for space in self._embedding.core.schema.spaces.values())

    def get(self, name: str, default: Any = None) -> Any:
        """The space, or `default` without one."""
        return default if name not in self else self.__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        return iter([space.name for space in self._listed()])

    def __len__(self) -> int:
        return len(self._listed())

    def __repr__(self) -> str:
        if not self._embedding.is_running:
            return "<spaces of a node that does not run>"
        return f"<spaces: {', '.join(self) or 'none'}>"
