"""Spaces and indexes, their triggers and streams of changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

from box.embed import Change, ChangeStream, IndexHandle, NamedRow, SpaceHandle
from box.embed.callables import PythonFunction, SpaceTrigger
from box.embed.change_stream import MAX_BYTES
from box.embed.declarations import NodeTrigger
from box.index import IteratorType
from box.sync.facade import Facade, blocking


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

    get = blocking(IndexHandle.get)
    select = blocking(IndexHandle.select)
    update = blocking(IndexHandle.update)
    delete = blocking(IndexHandle.delete)
    count = blocking(IndexHandle.count)
    min = blocking(IndexHandle.min)
    max = blocking(IndexHandle.max)
    random = blocking(IndexHandle.random)
    len = blocking(IndexHandle.len)
    rename = blocking(IndexHandle.rename)
    drop = blocking(IndexHandle.drop)

    def alter(self, **options: Any) -> None:
        """See `box.embed.IndexHandle.alter`."""
        self._run(lambda: self.asynchronous.alter(**options))


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

    insert = blocking(SpaceHandle.insert)
    replace = blocking(SpaceHandle.replace)
    update = blocking(SpaceHandle.update)
    upsert = blocking(SpaceHandle.upsert)
    delete = blocking(SpaceHandle.delete)
    get = blocking(SpaceHandle.get)
    select = blocking(SpaceHandle.select)
    count = blocking(SpaceHandle.count)
    min = blocking(SpaceHandle.min)
    max = blocking(SpaceHandle.max)
    random = blocking(SpaceHandle.random)
    len = blocking(SpaceHandle.len)
    truncate = blocking(SpaceHandle.truncate)
    set_format = blocking(SpaceHandle.set_format)
    rename = blocking(SpaceHandle.rename)
    drop = blocking(SpaceHandle.drop)


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
