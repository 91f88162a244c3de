"""Spaces and indexes of an embedded node, with every request that Lua has for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, cast

from box.embed.arguments import checked_text, field_list, part_list
from box.embed.change_stream import MAX_BYTES
from box.embed.row_page import PAGE_SIZE, RowPage
from box.embed.space_requests import Requests
from box.errors import ErrorCode, client_error
from box.txn.pending import Pending
from box.wire.change import INSERT, REPLACE

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from box.embed.arguments import IteratorName, Operations, Row
    from box.embed.callables import PythonFunction, SpaceTrigger
    from box.embed.change_stream import ChangeStream
    from box.embed.embedding import ContextSource, Embedding
    from box.embed.named_rows import NamedRow
    from box.index import IteratorType
    from box.schema.space import Space

    R = TypeVar("R", default=NamedRow)
    S = TypeVar("S")
else:
    from typing import TypeVar

    R = TypeVar("R")


class SpaceHandle(Generic[R]):
    """A space of an embedded node: `node.space["goods"]` or `node.space.goods`.

    Rows are given as sequences, as dicts by the names of the format, or as dataclasses. Results are `NamedRow`s, or
    objects of the class given to `rows_as` or `create_space(row=...)`. A key with one part may be given as the bare
    value. `index` is a name or a number; 0 is the primary index.

    A call is part of the transaction that its task has open. Otherwise it is a transaction of its own, even while other
    calls are waiting.

    Raises:
        NoSuchSpaceError: the space no longer exists.
        NoSuchIndexError: the space has no such index.
        DataError: a key, a row or an operation does not fit.
        ReadOnlyError: the instance accepts no changes.
        TransactionError: the transaction of the task was rolled back.
        NotReadyError: the node does not run.
        TypeError: an argument has a wrong type.
        RuntimeError: the call comes from another thread or event loop than the node's.
    """

    def __init__(
        self, embedding: Embedding, name: str, contexts: ContextSource | None = None, row: type[R] | None = None
    ) -> None:
        self._requests = Requests(embedding, name, contexts, row)
        self.name = name

    @classmethod
    def _of(cls, requests: Requests) -> SpaceHandle[Any]:
        handle: SpaceHandle[Any] = cls.__new__(cls)
        handle._requests = requests
        handle.name = requests.name
        return handle

    def __repr__(self) -> str:
        return self._requests.describe()

    @property
    def id(self) -> int:
        """The number of the space."""
        return self._requests.space.id

    @property
    def index(self) -> Indexes[R]:
        """The indexes by name: `space.index["name"]` or `space.index.name`."""
        return Indexes(self._requests)

    def rows_as(self, row: type[S]) -> SpaceHandle[S]:
        """Return a handle of the space whose rows are objects of a class: a NamedTuple or a dataclass.

        The field names of the class are names of the format, in any order.

        Raises:
            DataError: NO_SUCH_FIELD_NAME_IN_SPACE, the format lacks a field of the class.
            TypeError: the class is neither a NamedTuple nor a dataclass.
        """
        return SpaceHandle._of(self._requests.with_rows(row))

    # -- changes

    async def insert(self, row: R | Row) -> R | None:
        """Add a tuple. Returns the stored tuple, or None if a before_replace trigger prevented the insertion.

        Raises:
            DuplicateKeyError: the primary key, or the key of another unique index, is taken.
        """
        requests = self._requests
        stored = requests.store(INSERT, row)
        if stored.__class__ is list:
            return cast("R", requests.row_of_fields(stored))
        return cast("R | None", await requests.row_of(stored))

    async def replace(self, row: R | Row) -> R | None:
        """Add a tuple, or replace the tuple with the same primary key.

        Returns the stored tuple, or None if a before_replace trigger prevented the change.

        Raises:
            DuplicateKeyError: a key of another unique index is taken.
        """
        requests = self._requests
        stored = requests.store(REPLACE, row)
        if stored.__class__ is list:
            return cast("R", requests.row_of_fields(stored))
        return cast("R | None", await requests.row_of(stored))

    async def insert_many(self, rows: Iterable[R | Row], *, batch: int | None = None) -> int:
        """Add many tuples, all in one transaction or `batch` in each. Returns the number of stored tuples.

        A transaction that fails stores nothing; earlier batches stay. Inside an open transaction the rows are part of
        it. Other tasks run between batches only, so pass `batch` for 10,000 rows and more.

        Raises:
            DuplicateKeyError: a key is taken.
            TypeError: `rows` is a single row, or `batch` is not an integer.
            ClientError: ILLEGAL_PARAMS, `batch` is less than 1.
        """
        return await self._requests.store_many(INSERT, rows, batch)

    async def replace_many(self, rows: Iterable[R | Row], *, batch: int | None = None) -> int:
        """Add or replace many tuples, all in one transaction or `batch` in each. Returns the number of stored tuples.

        A transaction that fails stores nothing; earlier batches stay. Inside an open transaction the rows are part of
        it.

        Raises:
            DuplicateKeyError: a key of another unique index is taken.
        """
        return await self._requests.store_many(REPLACE, rows, batch)

    async def update(self, key: Any, operations: Operations, *, index: str | int = 0) -> R | None:
        """Change fields of a tuple. Returns the updated tuple, or None if the key is absent.

        `operations` is a dict of assignments by field, `{"price": 3}`, or a list of operations, each a list of an
        operator, a field and arguments: `["=", "name", "x"]`, `["+", 3, 1]`, `[":", 2, 1, 2, "ab"]`, `["!", 4, value]`,
        `["#", 4, 1]`, also `-`, `&`, `|`, `^`. Fields are names, paths or numbers counted from 1.

        Raises:
            DataError: the index is not unique, a field is missing or has another type, or the primary key would change.
            TypeError: the operations are neither a dict nor a list of lists.
        """
        requests = self._requests
        outcome = requests.update(index, key, operations)
        if outcome.__class__ is bytes:
            return cast("R", requests.decode(outcome))
        return await requests.row_of(outcome) if isinstance(outcome, Pending) else None

    async def upsert(self, row: R | Row, operations: Operations) -> None:
        """Insert a tuple, or apply operations (see `update`) to the tuple with the same primary key."""
        outcome = self._requests.upsert(row, operations)
        if isinstance(outcome, Pending):
            await self._requests.ended(outcome)

    async def delete(self, key: Any, *, index: str | int = 0) -> R | None:
        """Remove a tuple. Returns it, or None if the key is absent.

        Raises:
            DataError: the index is not unique, or the key lacks parts.
        """
        requests = self._requests
        outcome = requests.delete(index, key)
        if outcome.__class__ is bytes:
            return cast("R", requests.decode(outcome))
        return await requests.row_of(outcome) if isinstance(outcome, Pending) else None

    async def truncate(self) -> None:
        """Remove all tuples."""
        await self._requests.truncate()

    # -- reads

    async def get(self, key: Any, *, index: str | int = 0) -> R | None:
        """Look up a tuple by a full key of a unique index. Returns None if the key is absent.

        Raises:
            DataError: the index is not unique, or the key lacks parts.
        """
        return cast("R | None", self._requests.get(index, key))

    async def select(
        self,
        key: Any = (),
        *,
        index: str | int = 0,
        iterator: IteratorName | IteratorType | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> list[R]:
        """List the tuples that match a full or partial key: at most `limit` of them, after the first `offset`.

        `iterator` is EQ (the default with a key), ALL (the default without), REQ, LT, LE, GE or GT, in upper or lower
        case. A HASH index supports EQ, ALL and GT. Other tasks run while a long result is built, except inside a
        transaction; the result has none of their changes.

        Raises:
            DataError: ITERATOR_TYPE, no iterator has this name, or the key does not fit the index.
            ClientError: ILLEGAL_PARAMS, `limit` or `offset` is negative.
            TypeError: `limit` or `offset` is not an integer.
        """
        return await self._requests.select(index, key, iterator, offset, limit)

    async def page(
        self,
        key: Any = (),
        *,
        index: str | int = 0,
        iterator: IteratorName | IteratorType | None = None,
        limit: int | None = PAGE_SIZE,
        after: str | Row | None = None,
    ) -> RowPage[R]:
        """Read a page: at most `limit` of the rows of `select` that come after `after`; None means all of them.

        `after` is the position of the previous page, or a row, which need not exist any more; None asks for the
        first page. A page without rows has the position None. Only TREE indexes have pages. Other tasks run while a
        page of more than some hundred rows is read, and its later rows may show their changes.

        Raises:
            DataError: ITERATOR_POSITION, `after` is no position of this index or lies outside of the key's range.
            ClientError: ILLEGAL_PARAMS, `limit` is negative.
            TypeError: `limit` is not an integer.
            UnsupportedError: a row for `after` in a multikey or functional index.
        """
        return await self._requests.page_by_turns(index, key, iterator, limit, after)

    def pairs(
        self, key: Any = (), *, index: str | int = 0, iterator: IteratorName | IteratorType | None = None
    ) -> AsyncIterator[R]:
        """Iterate over tuples: `async for row in space.pairs(...)` yields the tuples of `select` without a list of them
        all.

        Tuples are read some hundreds at a time, and other tasks run in between. The tuples are those that exist at the
        first step, whatever is changed or dropped later. Inside a transaction they are those that the transaction sees,
        including changes it makes meanwhile. Without `memtx_use_mvcc_engine` a transaction must not yield, so no other
        task runs during the iteration.

        Raises:
            NotReadyError: the node stops during the iteration.
        """
        return self._requests.pairs(index, key, iterator)

    def __aiter__(self) -> AsyncIterator[R]:
        return self.pairs()

    async def count(
        self, key: Any = (), *, index: str | int = 0, iterator: IteratorName | IteratorType | None = None
    ) -> int:
        """Count the tuples that `select` with these arguments would return."""
        return self._requests.count(index, key, iterator)

    async def min(self, key: Any = (), *, index: str | int = 0) -> R | None:
        """Find the first tuple in the order of an index whose key begins with `key`; None if there is none.

        Raises:
            UnsupportedError: the index is of type HASH.
        """
        return cast("R | None", self._requests.least(index, key))

    async def max(self, key: Any = (), *, index: str | int = 0) -> R | None:
        """Find the last tuple in the order of an index whose key begins with `key`; None if there is none.

        Raises:
            UnsupportedError: the index is of type HASH.
        """
        return cast("R | None", self._requests.greatest(index, key))

    async def random(self, seed: int, *, index: str | int = 0) -> R | None:
        """Return a tuple chosen by the number `seed`, or None if the space is empty.

        While the data does not change, equal seeds choose equal tuples.

        Raises:
            TypeError: the seed is not an integer.
        """
        return cast("R | None", self._requests.random(index, seed))

    async def len(self) -> int:
        """Count all tuples of the space."""
        return self._requests.size()

    # -- the dictionary

    async def create_index(
        self,
        name: str,
        *,
        type: str | None = None,
        parts: str | Sequence[Any] | None = None,
        unique: bool | None = None,
        id: int | None = None,
        sequence: bool | str | None = None,
        if_not_exists: bool = False,
        **options: Any,
    ) -> IndexHandle[R]:
        """Create an index; the first index of a space is the primary one.

        `type` is "TREE" (the default), "HASH", "BITSET" or "RTREE". `dimension` and `distance` are options of an RTREE.
        `parts` is one name, or a list: of names or numbers of fields, or of dicts with `field`, `type`, `path`,
        `is_nullable`, `exclude_null`, `collation`. The default is the first field, or the second field for BITSET and
        RTREE. With `sequence` the first part is filled from a sequence: True creates one, a name selects an existing
        one.

        Raises:
            AlreadyExistsError: an index with this name exists.
            SchemaError: the definition is wrong.
            DataError: a tuple does not fit the parts.
            DuplicateKeyError: two tuples have the same key in a unique index.
        """
        checked_text("name", name)
        given = {
            "type": type,
            "parts": None if parts is None else part_list(parts),
            "unique": unique,
            "id": id,
            "sequence": sequence,
            "if_not_exists": if_not_exists,
            **options,
        }
        await self._requests.run("create_index(...)", name, {k: v for k, v in given.items() if v is not None})
        return self.index[name]

    @property
    def format(self) -> list[dict[str, Any]]:
        """The fields of the space, each a dict with `name`, `type` and the other attributes that were given."""
        return [dict(field) for field in self._requests.space.definition.format]

    async def set_format(self, fields: Sequence[str | Sequence[Any] | Mapping[str, Any]]) -> None:
        """Set the format of the space; all its tuples must fit.

        Raises:
            DataError: a tuple does not fit.
            SchemaError: the format is wrong.
            TypeError: the format is no list of fields.
        """
        await self._requests.run("format(...)", field_list(fields))

    async def rename(self, name: str) -> None:
        """Rename the space; this handle follows."""
        await self._requests.run("rename(...)", checked_text("name", name))
        self._requests.rename(name)
        self.name = name

    async def drop(self) -> None:
        """Drop the space with its tuples and indexes."""
        await self._requests.run("drop()")

    # -- triggers

    def on_replace(self, function: PythonFunction) -> SpaceTrigger:
        """Have `function(old, new)` called after each change of a tuple and before its commit; usable as a decorator.

        `old` and `new` are rows; `old` is None for an insertion, `new` for a deletion. The function is part of the
        transaction: its writes commit together with the change. An exception undoes the statement and is raised to the
        caller. A coroutine function may wait; without `memtx_use_mvcc_engine` that rolls back the transaction
        (TransactionYieldError). The newest trigger runs first. `remove()` of the result removes the trigger.

        Raises:
            TypeError: `function` cannot be called.
        """
        return self._requests.add_trigger("on_replace", function)

    def before_replace(self, function: PythonFunction) -> SpaceTrigger:
        """Have `function(old, new)` called before each change of a tuple; usable as a decorator.

        The returned value is stored in place of `new`: `new` itself, another row or dict, `old` (nothing changes), or
        None (the tuple is deleted, or not inserted). For transactions, waiting, removal and errors see `on_replace`.
        """
        return self._requests.add_trigger("before_replace", function)

    def changes(
        self, *, start: Mapping[int, int] | None = None, limit: int = 10_000, max_bytes: int = MAX_BYTES
    ) -> ChangeStream[R]:
        """Watch the space: `async for change in space.changes()` yields committed changes as `Change`s, in commit
        order.

        Without `start` the stream has the changes from now on. With `start`, a vclock such as the `position` of an
        earlier stream, it first has the changes after that vclock, read from the log. At most `limit` changes, and
        about `max_bytes` of their tuples, wait for a slow reader; one more ends the stream with ChangesLost after the
        waiting ones were read.

        Raises:
            TypeError: `limit` or `max_bytes` is not an integer, or `start` is not a vclock.
            ClientError: ILLEGAL_PARAMS, one of them is out of range; UnsupportedError, a `start` without a log.
        """
        return self._requests.watch(limit, max_bytes, start)


class IndexHandle(Generic[R]):
    """An index of a space: `node.space.goods.index["by_name"]`. Its methods raise the errors that `SpaceHandle`
    lists.
    """

    def __init__(self, requests: Requests, name: str) -> None:
        self._requests = requests
        self.name = name

    def __repr__(self) -> str:
        return self._requests.describe_index(self.name)

    @property
    def id(self) -> int:
        """The number of the index in its space; 0 is the primary index.

        Raises:
            NoSuchIndexError: the index was dropped.
        """
        return self._requests.iid(self.name)

    async def get(self, key: Any) -> R | None:
        """Look up a tuple by a full key; see `SpaceHandle.get`."""
        return cast("R | None", self._requests.get(self.name, key))

    async def select(
        self,
        key: Any = (),
        *,
        iterator: IteratorName | IteratorType | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> list[R]:
        """List the tuples that match a full or partial key; see `SpaceHandle.select`."""
        return await self._requests.select(self.name, key, iterator, offset, limit)

    async def page(
        self,
        key: Any = (),
        *,
        iterator: IteratorName | IteratorType | None = None,
        limit: int | None = PAGE_SIZE,
        after: str | Row | None = None,
    ) -> RowPage[R]:
        """Read a page; see `SpaceHandle.page`."""
        return await self._requests.page_by_turns(self.name, key, iterator, limit, after)

    def pairs(self, key: Any = (), *, iterator: IteratorName | IteratorType | None = None) -> AsyncIterator[R]:
        """Iterate over tuples; see `SpaceHandle.pairs`."""
        return self._requests.pairs(self.name, key, iterator)

    def __aiter__(self) -> AsyncIterator[R]:
        return self.pairs()

    async def update(self, key: Any, operations: Operations) -> R | None:
        """Change fields of a tuple; see `SpaceHandle.update`."""
        outcome = self._requests.update(self.name, key, operations)
        if isinstance(outcome, Pending):
            return cast("R | None", await self._requests.row_of(outcome))
        return None if outcome is None else cast("R", self._requests.decode(outcome))

    async def delete(self, key: Any) -> R | None:
        """Remove a tuple; see `SpaceHandle.delete`."""
        outcome = self._requests.delete(self.name, key)
        if isinstance(outcome, Pending):
            return cast("R | None", await self._requests.row_of(outcome))
        return None if outcome is None else cast("R", self._requests.decode(outcome))

    async def count(self, key: Any = (), *, iterator: IteratorName | IteratorType | None = None) -> int:
        """Count the tuples that `select` with these arguments would return."""
        return self._requests.count(self.name, key, iterator)

    async def min(self, key: Any = ()) -> R | None:
        """Find the first tuple whose key begins with `key`; None if there is none."""
        return cast("R | None", self._requests.least(self.name, key))

    async def max(self, key: Any = ()) -> R | None:
        """Find the last tuple whose key begins with `key`; None if there is none."""
        return cast("R | None", self._requests.greatest(self.name, key))

    async def random(self, seed: int) -> R | None:
        """Return a tuple chosen by the number `seed`, or None if the space is empty.

        While the data does not change, equal seeds choose equal tuples.
        """
        return cast("R | None", self._requests.random(self.name, seed))

    async def len(self) -> int:
        """Count the tuples in the index."""
        return self._requests.size(self.name)

    async def alter(self, **options: Any) -> None:
        """Change `parts`, `unique`, `type` or other options; see `SpaceHandle.create_index` for their values."""
        if "parts" in options:
            options["parts"] = part_list(options["parts"])
        await self._requests.run_index(self.name, "alter(...)", options)

    async def rename(self, name: str) -> None:
        """Rename the index; this handle follows."""
        await self._requests.run_index(self.name, "rename(...)", checked_text("name", name))
        self.name = name

    async def drop(self) -> None:
        """Drop the index.

        Raises:
            SchemaError: DROP_PRIMARY_KEY, the index is the primary one and others exist.
        """
        await self._requests.run_index(self.name, "drop()")


class Indexes(Mapping[str, IndexHandle[R]]):
    """The indexes of a space by name, in the order of their numbers: `space.index["pk"]` or `space.index.pk`.

    Raises:
        NoSuchIndexError: brackets name an unknown index; it is a KeyError, too.
        AttributeError: a dot names an unknown index.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def __getitem__(self, name: str) -> IndexHandle[R]:
        self._requests.iid(checked_text("the name of an index", name))
        return IndexHandle(self._requests, name)

    def __getattr__(self, name: str) -> IndexHandle[R]:
        if not name.startswith("__") and "_requests" in self.__dict__ and name in self:
            return self[name]
        raise AttributeError(f"no index {name!r} in {self!r}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for name in self if name.isidentifier())]

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the index with a name, or `default` if there is none."""
        return default if name not in self else self.__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        return iter([index.name for index in self._requests.space.indexes.values()])

    def __len__(self) -> int:
        return len(self._requests.space.indexes)

    def __repr__(self) -> str:
        return f"<indexes of {self._requests.name!r}: {', '.join(self) or 'none'}>"


class Spaces(Mapping[str, SpaceHandle]):
    """The user's spaces by name, in the order of their numbers: `node.space["goods"]` or `node.space.goods`.

    System spaces such as `node.space["_schema"]` are accessible but not listed. A space whose name is a method of
    mappings (`get`, `keys`, `items`, `values`) is accessible with brackets only.

    Raises:
        NoSuchSpaceError: brackets name an unknown space; it is a KeyError, too.
        AttributeError: a dot names an unknown space.
    """

    def __init__(self, embedding: Embedding, contexts: ContextSource | None = None) -> None:
        self._embedding = embedding
        self._contexts = contexts

    def _listed(self) -> list[Space]:
        spaces = self._embedding.core.schema.spaces.values()
        return sorted((space for space in spaces if not space.is_system), key=lambda space: space.id)

    def __getitem__(self, name: str) -> SpaceHandle:
        self._embedding.core.schema.space_by_name(checked_text("the name of a space", name))
        return SpaceHandle(self._embedding, name, self._contexts)

    def __getattr__(self, name: str) -> SpaceHandle:
        # Names that begin with two underscores belong to Python: copies, pickles and consoles look for them.
        if not name.startswith("__") and "_embedding" in self.__dict__ and name in self:
            return self[name]
        raise AttributeError(client_error(ErrorCode.NO_SUCH_SPACE, name).message, name=name, obj=self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for name in self if name.isidentifier())]

    def __contains__(self, name: object) -> bool:
        return any(space.name == name for space in self._embedding.core.schema.spaces.values())

    def get(self, name: str, default: Any = None) -> Any:
        """Return the space with a name, or `default` if there is none."""
        return default if name not in self else self.__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        return iter([space.name for space in self._listed()])

    def __len__(self) -> int:
        return len(self._listed())

    def __repr__(self) -> str:
        if not self._embedding.is_running:
            return "<spaces of a node that does not run>"
        return f"<spaces: {', '.join(self) or 'none'}>"
