"""Spaces and indexes, their triggers and streams of changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from box.embed import Change, ChangeStream, IndexHandle, NamedRow, SpaceHandle
from box.embed.callables import PythonFunction, SpaceTrigger
from box.embed.change_stream import MAX_BYTES
from box.embed.declarations import NodeTrigger
from box.embed.handles import NO_LIMIT, Row
from box.embed.schema_requests import Format
from box.index import IteratorType
from box.sync.facade import Facade


class BlockingIndex(Facade[IndexHandle]):
    """See `box.embed.IndexHandle`."""

    @property
    def name(self) -> str:
        """The name of the index."""
        return self.asynchronous.name

    @property
    def id(self) -> int:
        """The number of the index in its space."""
        return self._now(lambda: self.asynchronous.id)

    def pairs(self, key: Any = (), *, iterator: str | IteratorType | None = None) -> Iterator[NamedRow]:
        """See `box.embed.SpaceHandle.pairs`."""
        return self._pairs(key, {"iterator": iterator})

    def __iter__(self) -> Iterator[NamedRow]:
        return self.pairs()

    def get(self, key: Any) -> NamedRow | None:
        """See `box.embed.IndexHandle.get`."""
        return self._run(lambda: self.asynchronous.get(key))

    def select(
        self, key: Any = (), *, iterator: str | IteratorType | None = None, offset: int = 0, limit: int = NO_LIMIT
    ) -> list[NamedRow]:
        """See `box.embed.IndexHandle.select`."""
        return self._run(lambda: self.asynchronous.select(key, iterator=iterator, offset=offset, limit=limit))

    def update(self, key: Any, operations: Sequence[Sequence[Any]]) -> NamedRow | None:
        """See `box.embed.IndexHandle.update`."""
        return self._run(lambda: self.asynchronous.update(key, operations))

    def delete(self, key: Any) -> NamedRow | None:
        """See `box.embed.IndexHandle.delete`."""
        return self._run(lambda: self.asynchronous.delete(key))

    def count(self, key: Any = (), *, iterator: str | IteratorType | None = None) -> int:
        """See `box.embed.IndexHandle.count`."""
        return self._run(lambda: self.asynchronous.count(key, iterator=iterator))

    def min(self, key: Any = ()) -> NamedRow | None:
        """See `box.embed.IndexHandle.min`."""
        return self._run(lambda: self.asynchronous.min(key))

    def max(self, key: Any = ()) -> NamedRow | None:
        """See `box.embed.IndexHandle.max`."""
        return self._run(lambda: self.asynchronous.max(key))

    def random(self, seed: int) -> NamedRow | None:
        """See `box.embed.IndexHandle.random`."""
        return self._run(lambda: self.asynchronous.random(seed))

    def len(self) -> int:
        """See `box.embed.IndexHandle.len`."""
        return self._run(lambda: self.asynchronous.len())

    def alter(self, **options: Any) -> None:
        """See `box.embed.IndexHandle.alter`."""
        self._run(lambda: self.asynchronous.alter(**options))

    def rename(self, name: str) -> None:
        """See `box.embed.IndexHandle.rename`."""
        self._run(lambda: self.asynchronous.rename(name))

    def drop(self) -> None:
        """See `box.embed.IndexHandle.drop`."""
        self._run(lambda: self.asynchronous.drop())


class BlockingSpace(Facade[SpaceHandle]):
    """See `box.embed.SpaceHandle`."""

    @property
    def name(self) -> str:
        """The name of the space."""
        return self.asynchronous.name

    @property
    def id(self) -> int:
        """The number of the space."""
        return self._now(lambda: self.asynchronous.id)

    @property
    def index(self) -> Mapping[str, BlockingIndex]:
        """The indexes by name, as they are now."""
        found = self._now(lambda: dict(self.asynchronous.index))
        return {name: BlockingIndex(self._thread, index) for name, index in found.items()}

    @property
    def format(self) -> list[dict[str, Any]]:
        """The fields of the space."""
        return self._now(lambda: self.asynchronous.format)

    def create_index(self, name: str, **options: Any) -> BlockingIndex:
        """See `box.embed.SpaceHandle.create_index`."""
        return BlockingIndex(self._thread, self._run(lambda: self.asynchronous.create_index(name, **options)))

    def pairs(
        self, key: Any = (), *, index: str | int = 0, iterator: str | IteratorType | None = None
    ) -> Iterator[NamedRow]:
        """See `box.embed.SpaceHandle.pairs`."""
        return self._pairs(key, {"index": index, "iterator": iterator})

    def __iter__(self) -> Iterator[NamedRow]:
        return self.pairs()

    def on_replace(self, function: PythonFunction) -> BlockingTrigger:
        """See `box.embed.SpaceHandle.on_replace`. It runs in the thread of the node."""
        return BlockingTrigger(self._thread, self._now(lambda: self.asynchronous.on_replace(function)))

    def before_replace(self, function: PythonFunction) -> BlockingTrigger:
        """See `box.embed.SpaceHandle.before_replace`. It runs in the thread of the node."""
        return BlockingTrigger(self._thread, self._now(lambda: self.asynchronous.before_replace(function)))

    def changes(self, limit: int = 10_000, *, max_bytes: int = MAX_BYTES) -> BlockingChanges:
        """`for change in space.changes()` waits for each; see `box.embed.SpaceHandle.changes`."""
        return BlockingChanges(self._thread, self._now(lambda: self.asynchronous.changes(limit, max_bytes=max_bytes)))

    def insert(self, row: Row) -> NamedRow | None:
        """See `box.embed.SpaceHandle.insert`."""
        return self._run(lambda: self.asynchronous.insert(row))

    def replace(self, row: Row) -> NamedRow | None:
        """See `box.embed.SpaceHandle.replace`."""
        return self._run(lambda: self.asynchronous.replace(row))

    def update(self, key: Any, operations: Sequence[Sequence[Any]], index: str | int = 0) -> NamedRow | None:
        """See `box.embed.SpaceHandle.update`."""
        return self._run(lambda: self.asynchronous.update(key, operations, index))

    def upsert(self, row: Row, operations: Sequence[Sequence[Any]]) -> None:
        """See `box.embed.SpaceHandle.upsert`."""
        self._run(lambda: self.asynchronous.upsert(row, operations))

    def delete(self, key: Any, index: str | int = 0) -> NamedRow | None:
        """See `box.embed.SpaceHandle.delete`."""
        return self._run(lambda: self.asynchronous.delete(key, index))

    def get(self, key: Any, index: str | int = 0) -> NamedRow | None:
        """See `box.embed.SpaceHandle.get`."""
        return self._run(lambda: self.asynchronous.get(key, index))

    def select(
        self,
        key: Any = (),
        *,
        index: str | int = 0,
        iterator: str | IteratorType | None = None,
        offset: int = 0,
        limit: int = NO_LIMIT,
    ) -> list[NamedRow]:
        """See `box.embed.SpaceHandle.select`."""
        return self._run(
            lambda: self.asynchronous.select(key, index=index, iterator=iterator, offset=offset, limit=limit)
        )

    def count(self, key: Any = (), *, index: str | int = 0, iterator: str | IteratorType | None = None) -> int:
        """See `box.embed.SpaceHandle.count`."""
        return self._run(lambda: self.asynchronous.count(key, index=index, iterator=iterator))

    def min(self, key: Any = (), *, index: str | int = 0) -> NamedRow | None:
        """See `box.embed.SpaceHandle.min`."""
        return self._run(lambda: self.asynchronous.min(key, index=index))

    def max(self, key: Any = (), *, index: str | int = 0) -> NamedRow | None:
        """See `box.embed.SpaceHandle.max`."""
        return self._run(lambda: self.asynchronous.max(key, index=index))

    def random(self, seed: int, *, index: str | int = 0) -> NamedRow | None:
        """See `box.embed.SpaceHandle.random`."""
        return self._run(lambda: self.asynchronous.random(seed, index=index))

    def len(self) -> int:
        """See `box.embed.SpaceHandle.len`."""
        return self._run(lambda: self.asynchronous.len())

    def truncate(self) -> None:
        """See `box.embed.SpaceHandle.truncate`."""
        self._run(lambda: self.asynchronous.truncate())

    def set_format(self, fields: Format) -> None:
        """See `box.embed.SpaceHandle.set_format`."""
        self._run(lambda: self.asynchronous.set_format(fields))

    def rename(self, name: str) -> None:
        """See `box.embed.SpaceHandle.rename`."""
        self._run(lambda: self.asynchronous.rename(name))

    def drop(self) -> None:
        """See `box.embed.SpaceHandle.drop`."""
        self._run(lambda: self.asynchronous.drop())


class BlockingTrigger(Facade[SpaceTrigger | NodeTrigger]):
    """A trigger that was set."""

    def remove(self) -> None:
        """Take the trigger away; again does nothing."""
        self._now(self.asynchronous.remove)


class BlockingChanges(Facade[ChangeStream]):
    """An iterator over the changes of a space; see `box.embed.ChangeStream`."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change:
        async def fetch() -> Change | None:
            return await anext(self.asynchronous, None)

        change = self._run(fetch)
        if change is None:
            raise StopIteration
        return change

    def close(self) -> None:
        """Stop watching; a thread that waits for a change goes on."""
        self._now(self.asynchronous.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
