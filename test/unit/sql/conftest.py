"""An in-memory node without Lua that runs SQL."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from box.errors import BoxError
from box.instance.node import Instance
from box.sql.result import Rows


class Session:
    """A session of a node: `sql` returns rows as lists, or the number of changed rows."""

    def __init__(self, node: Instance) -> None:
        self.node = node
        self.ctx = node.new_context()
        self._loop = node.loop

    def execute(self, text: str, *params: Any) -> Any:
        """Return the result of a statement."""
        return self._loop.run_until_complete(self.node.sql.execute(self.ctx, text, params))

    def sql(self, text: str, *params: Any) -> Any:
        """Return the rows of a query, or the number of changed rows."""
        result = self.execute(text, *params)
        return result.rows if isinstance(result, Rows) else result.row_count

    def value(self, text: str, *params: Any) -> Any:
        """Return the only value of a query."""
        ((value,),) = self.sql(text, *params)
        return value

    def types(self, text: str, *params: Any) -> list[str]:
        """Return the types of a query's columns."""
        return [field.type for field in self.execute(text, *params).fields]

    def names(self, text: str) -> list[str]:
        """Return the names of a query's columns."""
        return [field.name for field in self.execute(text).fields]

    def error(self, text: str, *params: Any) -> tuple[str, str]:
        """Return the name of the code, and the message, of the error that a statement raises."""
        with pytest.raises(BoxError) as caught:
            self.execute(text, *params)
        return _shown(caught.value)

    def rows_of(self, space: str, key: list[Any] | None = None) -> list[Any]:
        """Return the rows of a system space whose keys begin with `key`."""
        from box.data.codec import unpack

        found = self.node.dml.reads.select(self.ctx, self.node.schema.space_by_name(space), 0, 0, 0, 2**32, key or [])
        return [unpack(raw) for raw in found]

    def write(self, space: str, request: Any) -> None:
        """Change a space without SQL."""
        from box.txn.pending import completed

        outcome = self.node.dml.write(self.ctx, self.node.schema.space_by_name(space), request)
        self._loop.run_until_complete(completed(outcome))

    def write_error(self, space: str, request: Any) -> tuple[str, str]:
        """Return the error of a change without SQL."""
        with pytest.raises(BoxError) as caught:
            self.write(space, request)
        return _shown(caught.value)

    def another(self) -> Session:
        """Open another session of the node."""
        return Session(self.node)

    def wait(self, work: Any) -> Any:
        """Return the result of a coroutine."""
        return self._loop.run_until_complete(work)


def _shown(error: BoxError) -> tuple[str, str]:
    return error.code.name, error.message


Start = Callable[..., Session]


@pytest.fixture
def start() -> Any:
    """A function `start(directory=None, **options)` that starts a node, which is closed at the end."""
    loop = asyncio.new_event_loop()
    nodes: list[Instance] = []

    def begin(directory: Path | None = None, **options: Any) -> Session:
        async def configure() -> Instance:
            node = Instance(directory)
            node.log.level = 1
            await node.configure({"log_level": 1, **({} if directory else {"wal_mode": "none"}), **options})
            return node

        nodes.append(loop.run_until_complete(configure()))
        return Session(nodes[-1])

    yield begin
    for node in nodes:
        loop.run_until_complete(node.close())
    loop.close()


@pytest.fixture
def db(start: Start) -> Session:
    """A session of a node in memory."""
    return start()
