"""Blocking handles of spaces and indexes, their triggers and streams of changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

from box.embed import Change, ChangeStream, IndexHandle, SpaceHandle
from box.embed.callables import PythonFunction, SpaceTrigger
from box.embed.change_stream import MAX_BYTES
from box.embed.row_page import PAGE_SIZE, RowPage
from box.sync.direct_requests import DirectRequests
from box.sync.facade import Facade
from box.wire.change import INSERT, REPLACE

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from box.embed import NamedRow
    from box.embed.arguments import IteratorName, Operations, Row
    from box.index import IteratorType
    from box.sync.thread_contexts import ThreadContexts

    R = TypeVar("R", default=NamedRow)
    S = TypeVar("S")
else:
    from typing import TypeVar

    R = TypeVar("R")


class BlockingIndex(DirectRequests[R], Facade[IndexHandle[R]]):
    """One index of a space; see `box.IndexHandle`."""

    def __init__(self, contexts: ThreadContexts, asynchronous: IndexHandle[R]) -> None:
        super().__init__(contexts, asynchronous)
        self._requests = asynchronous._requests.with_contexts(contexts)

    @property
    def _name(self) -> str:
        return self.asynchronous.name

    @property
    def name(self) -> str:
        """The name of the index."""
        return self.asynchronous.name

    @property
    def id(self) -> int:
        """The number of the index in its space."""
        return self._now(lambda: self.asynchronous.id)

    def pairs(self, key: Any = (), *, iterator: IteratorName | IteratorType | None = None) -> Iterator[R]:
        """Iterate over the tuples of `select` without a list of them all; see `box.IndexHandle.pairs`."""
        return self._pairs(self._name, key, iterator)

    def __iter__(self) -> Iterator[R]:
        return self.pairs()

    def get(self, key: Any) -> R | None:
        """Look up a tuple by a full key; see `box.IndexHandle.get`."""
        return self._find(self._name, key)

    def select(
        self,
        key: Any = (),
        *,
        iterator: IteratorName | IteratorType | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> list[R]:
        """List the tuples that match a full or partial key; see `box.IndexHandle.select`."""
        return self._select(self._name, key, iterator, offset, limit)

    def page(
        self,
        key: Any = (),
        *,
        iterator: IteratorName | IteratorType | None = None,
        limit: int | None = PAGE_SIZE,
        after: str | Row | None = None,
    ) -> RowPage[R]:
        """Read a page; see `box.IndexHandle.page`."""
        return self._page(self._name, key, iterator, limit, after)

    def update(self, key: Any, operations: Operations) -> R | None:
        """Change fields of a tuple; see `box.IndexHandle.update`."""
        return self._change(self._requests.update, self._name, key, operations)

    def delete(self, key: Any) -> R | None:
        """Remove a tuple; see `box.IndexHandle.delete`."""
        return self._change(self._requests.delete, self._name, key)

    def count(self, key: Any = (), *, iterator: IteratorName | IteratorType | None = None) -> int:
        """Count the tuples that `select` with these arguments would return; see `box.IndexHandle.count`."""
        return self._read(self._requests.count, self._name, key, iterator)

    def min(self, key: Any = ()) -> R | None:
        """Find the first tuple whose key begins with `key`; None if there is none. See `box.IndexHandle.min`."""
        return cast("R | None", self._read(self._requests.least, self._name, key))

    def max(self, key: Any = ()) -> R | None:
        """Find the last tuple whose key begins with `key`; None if there is none. See `box.IndexHandle.max`."""
        return cast("R | None", self._read(self._requests.greatest, self._name, key))

    def random(self, seed: int) -> R | None:
        """Return a tuple chosen by the number `seed`, or None if the space is empty; see `box.IndexHandle.random`."""
        return cast("R | None", self._read(self._requests.random, self._name, seed))

    def len(self) -> int:
        """Count the tuples in the index; see `box.IndexHandle.len`."""
        return self._read(self._requests.size, self._name)

    def alter(self, **options: Any) -> None:
        """Change `parts`, `unique`, `type` or other options; see `box.IndexHandle.alter`."""
        self._run(lambda: self.asynchronous.alter(**options))

    def rename(self, name: str) -> None:
        """Rename the index; this handle follows. See `box.IndexHandle.rename`."""
        self._run(lambda: self.asynchronous.rename(name))

    def drop(self) -> None:
        """Drop the index; see `box.IndexHandle.drop`."""
        self._run(lambda: self.asynchronous.drop())


class BlockingIndexes(Mapping[str, BlockingIndex[R]]):
    """The indexes of a space by name; see `box.SpaceHandle.index`."""

    def __init__(self, contexts: ThreadContexts, space: BlockingSpace[R]) -> None:
        self._contexts = contexts
        self._space = space

    def __getitem__(self, name: str) -> BlockingIndex[R]:
        return BlockingIndex(self._contexts, self._space._now(lambda: self._space.asynchronous.index[name]))

    def __getattr__(self, name: str) -> BlockingIndex[R]:
        if not name.startswith("__") and "_space" in self.__dict__ and name in self:
            return self[name]
        raise AttributeError(f"no index {name!r} in {self._space!r}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for name in self if name.isidentifier())]

    def __contains__(self, name: object) -> bool:
        return self._space._now(lambda: name in self._space.asynchronous.index)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the index with a name, or `default` if there is none."""
        return default if name not in self else self.__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._space._now(lambda: list(self._space.asynchronous.index)))

    def __len__(self) -> int:
        return self._space._now(lambda: len(self._space.asynchronous.index))

    def __repr__(self) -> str:
        return repr(self._space.asynchronous.index)


class BlockingSpace(DirectRequests[R], Facade[SpaceHandle[R]]):
    """One space; see `box.SpaceHandle`."""

    def __init__(self, contexts: ThreadContexts, asynchronous: SpaceHandle[R]) -> None:
        super().__init__(contexts, asynchronous)
        self._requests = asynchronous._requests.with_contexts(contexts)

    @property
    def name(self) -> str:
        """The name of the space."""
        return self.asynchronous.name

    @property
    def id(self) -> int:
        """The number of the space."""
        return self._now(lambda: self.asynchronous.id)

    @property
    def index(self) -> BlockingIndexes[R]:
        """The indexes by name: `space.index["name"]` or `space.index.name`."""
        return BlockingIndexes(self._contexts, self)

    @property
    def format(self) -> list[dict[str, Any]]:
        """The fields of the space."""
        return self._now(lambda: self.asynchronous.format)

    def rows_as(self, row: type[S]) -> BlockingSpace[S]:
        """Return a handle of the space whose rows are objects of a class: a NamedTuple or a dataclass; see
        `box.SpaceHandle.rows_as`.
        """
        return BlockingSpace(self._contexts, self._now(lambda: self.asynchronous.rows_as(row)))

    def create_index(
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
    ) -> BlockingIndex[R]:
        """Create an index; the first index of a space is the primary one. See `box.SpaceHandle.create_index`."""
        made = self._run(
            lambda: self.asynchronous.create_index(
                name,
                type=type,
                parts=parts,
                unique=unique,
                id=id,
                sequence=sequence,
                if_not_exists=if_not_exists,
                **options,
            )
        )
        return BlockingIndex(self._contexts, made)

    def pairs(
        self, key: Any = (), *, index: str | int = 0, iterator: IteratorName | IteratorType | None = None
    ) -> Iterator[R]:
        """Iterate over the tuples of `select` without a list of them all; see `box.SpaceHandle.pairs`."""
        return self._pairs(index, key, iterator)

    def __iter__(self) -> Iterator[R]:
        return self.pairs()

    def on_replace(self, function: PythonFunction) -> BlockingTrigger:
        """Have `function(old, new)` called after each change of a tuple and before its commit; usable as a decorator.
        See `box.SpaceHandle.on_replace`. It runs in the thread of the node.
        """
        return BlockingTrigger(self._contexts, self._there(lambda: self.asynchronous.on_replace(function)))

    def before_replace(self, function: PythonFunction) -> BlockingTrigger:
        """Have `function(old, new)` called before each change of a tuple; usable as a decorator. See
        `box.SpaceHandle.before_replace`. It runs in the thread of the node.
        """
        return BlockingTrigger(self._contexts, self._there(lambda: self.asynchronous.before_replace(function)))

    def changes(
        self, *, start: Mapping[int, int] | None = None, limit: int = 10_000, max_bytes: int = MAX_BYTES
    ) -> BlockingChanges[R]:
        """Watch the space: `for change in space.changes()` waits for each; see `box.SpaceHandle.changes`."""
        made = self._there(lambda: self.asynchronous.changes(start=start, limit=limit, max_bytes=max_bytes))
        return BlockingChanges(self._contexts, made)

    def insert(self, row: R | Row) -> R | None:
        """Add a tuple; see `box.SpaceHandle.insert`."""
        return self._change(self._requests.store, INSERT, row)

    def replace(self, row: R | Row) -> R | None:
        """Add a tuple, or replace the tuple with the same primary key; see `box.SpaceHandle.replace`."""
        return self._change(self._requests.store, REPLACE, row)

    def insert_many(self, rows: Iterable[R | Row], *, batch: int | None = None) -> int:
        """Add many tuples, all in one transaction or `batch` in each; see `box.SpaceHandle.insert_many`."""
        return self._store_many(INSERT, rows, batch)

    def replace_many(self, rows: Iterable[R | Row], *, batch: int | None = None) -> int:
        """Add or replace many tuples, all in one transaction or `batch` in each; see `box.SpaceHandle.replace_many`."""
        return self._store_many(REPLACE, rows, batch)

    def update(self, key: Any, operations: Operations, *, index: str | int = 0) -> R | None:
        """Change fields of a tuple; see `box.SpaceHandle.update`."""
        return self._change(self._requests.update, index, key, operations)

    def upsert(self, row: R | Row, operations: Operations) -> None:
        """Insert a tuple, or apply operations (see `update`) to the tuple with the same primary key; see
        `box.SpaceHandle.upsert`.
        """
        self._change(self._requests.upsert, row, operations)

    def delete(self, key: Any, *, index: str | int = 0) -> R | None:
        """Remove a tuple; see `box.SpaceHandle.delete`."""
        return self._change(self._requests.delete, index, key)

    def truncate(self) -> None:
        """Remove all tuples; see `box.SpaceHandle.truncate`."""
        self._run(lambda: self.asynchronous.truncate())

    def get(self, key: Any, *, index: str | int = 0) -> R | None:
        """Look up a tuple by a full key of a unique index; see `box.SpaceHandle.get`."""
        return self._find(index, key)

    def select(
        self,
        key: Any = (),
        *,
        index: str | int = 0,
        iterator: IteratorName | IteratorType | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> list[R]:
        """List the tuples that match a full or partial key: at most `limit` of them, after the first `offset`; see
        `box.SpaceHandle.select`.
        """
        return self._select(index, key, iterator, offset, limit)

    def page(
        self,
        key: Any = (),
        *,
        index: str | int = 0,
        iterator: IteratorName | IteratorType | None = None,
        limit: int | None = PAGE_SIZE,
        after: str | Row | None = None,
    ) -> RowPage[R]:
        """Read a page: at most `limit` of the rows of `select` that come after `after`; see `box.SpaceHandle.page`."""
        return self._page(index, key, iterator, limit, after)

    def count(self, key: Any = (), *, index: str | int = 0, iterator: IteratorName | IteratorType | None = None) -> int:
        """Count the tuples that `select` with these arguments would return; see `box.SpaceHandle.count`."""
        return self._read(self._requests.count, index, key, iterator)

    def min(self, key: Any = (), *, index: str | int = 0) -> R | None:
        """Find the first tuple in the order of an index whose key begins with `key`; None if there is none. See
        `box.SpaceHandle.min`.
        """
        return cast("R | None", self._read(self._requests.least, index, key))

    def max(self, key: Any = (), *, index: str | int = 0) -> R | None:
        """Find the last tuple in the order of an index whose key begins with `key`; None if there is none. See
        `box.SpaceHandle.max`.
        """
        return cast("R | None", self._read(self._requests.greatest, index, key))

    def random(self, seed: int, *, index: str | int = 0) -> R | None:
        """Return a tuple chosen by the number `seed`, or None if the space is empty; see `box.SpaceHandle.random`."""
        return cast("R | None", self._read(self._requests.random, index, seed))

    def len(self) -> int:
        """Count all tuples of the space; see `box.SpaceHandle.len`."""
        return self._read(self._requests.size)

    def set_format(self, fields: Sequence[str | Sequence[Any] | Mapping[str, Any]]) -> None:
        """Set the format of the space; all its tuples must fit. See `box.SpaceHandle.set_format`."""
        self._run(lambda: self.asynchronous.set_format(fields))

    def rename(self, name: str) -> None:
        """Rename the space; this handle follows. See `box.SpaceHandle.rename`."""
        self._run(lambda: self.asynchronous.rename(name))
        self._requests.rename(name)

    def drop(self) -> None:
        """Drop the space with its tuples and indexes; see `box.SpaceHandle.drop`."""
        self._run(lambda: self.asynchronous.drop())


class BlockingTrigger(Facade[SpaceTrigger]):
    """A trigger of a space that was set through a blocking handle."""

    def remove(self) -> None:
        """Remove the trigger; a second call does nothing."""
        self._there(self.asynchronous.remove)


class BlockingChanges(Facade[ChangeStream[R]]):
    """An iterator over the changes of a space; see `box.ChangeStream`."""

    @property
    def position(self) -> dict[int, int]:
        """The vclock of the changes read so far, by replica id; pass it as `start` to continue with a later stream."""
        return self.asynchronous.position

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change[R]:
        async def fetch() -> Change[R] | None:
            return await anext(self.asynchronous, None)

        change = self._run(fetch)
        if change is None:
            raise StopIteration
        return change

    def close(self) -> None:
        """Stop watching; a thread that waits for a change returns."""
        self._there(self.asynchronous.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
