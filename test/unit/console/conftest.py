"""Fixtures of the console's tests; `converse` sends commands to a node's console and returns the replies."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from box.embed import LuaInstance
from console.suite.wire import ConsoleClient


@asynccontextmanager
async def listening(directory: Path) -> AsyncIterator[tuple[LuaInstance, Path]]:
    """Run an in-memory instance whose console listens on a path."""
    instance = LuaInstance(None)
    path = directory / "c"
    try:
        await instance.runtime.eval(f"require('console').listen('{path}')".encode())
        yield instance, path
    finally:
        await instance.stop()


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory with a short path, because paths of sockets may have 107 bytes."""
    directory = Path(tempfile.mkdtemp(prefix="lb-"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def converse(short_path: Path) -> Callable[[list[str]], list[str]]:
    """A function that sends commands over one connection to a new, unconfigured node and returns the replies."""

    async def run(commands: list[str]) -> list[str]:
        async with listening(short_path) as (_, path):
            client = await ConsoleClient.connect(path)
            replies = [await client.execute(command) for command in commands]
            client.close()
            await client.wait_closed()
            return replies

    return lambda commands: asyncio.run(run(commands))


@pytest.fixture(scope="session")
def tarantool() -> str:
    """The path of Tarantool's executable; skips the test if there is none."""
    executable = shutil.which("tarantool")
    if executable is None:
        pytest.skip("the `tarantool` executable is not installed")
    return executable
