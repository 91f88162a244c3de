"""An in-memory node for tests of Lua modules, for each LuaJIT flavour."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from box.data.codec import pack, unpack
from box.embed import LuaInstance

FLAVOURS = [flavour for flavour in ("luajit20", "luajit21") if find_spec(f"lupa.{flavour}")]

Lua = Callable[..., Any]


@pytest.fixture(params=FLAVOURS)
def flavour(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def printed() -> list[str]:
    """What the fixture `lua` has printed."""
    return []


@pytest.fixture
def lua(flavour: str, printed: list[str], tmp_path: Path) -> Lua:
    """A function `lua(source, *args, configure={...}, directory=False)` that returns the values of Lua source as a
    list.

    `configure` None leaves the node unconfigured; `directory` True gives it files in `tmp_path`.
    """

    def run(source: str, *args: Any, configure: dict[str, Any] | None = None, directory: bool = False) -> Any:
        async def main() -> Any:
            instance = LuaInstance(
                tmp_path if directory else None, flavour=flavour, write=lambda data: printed.append(data.decode())
            )
            instance.node.log.level = 1
            try:
                if configure is not None:
                    await instance.configure({"log_level": 1, **configure})
                context = instance.node.new_context()
                return unpack(await instance.runtime.eval(source.encode(), pack(list(args)), context, "@test.lua"))
            finally:
                await instance.stop()

        return asyncio.run(asyncio.wait_for(main(), 20))

    return run


class SharedRuntimes:
    """Unconfigured nodes, one for each LuaJIT flavour, for all cases of a module."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._instances: dict[str, LuaInstance] = {}

    def run(self, flavour: str, source: str, args: tuple[Any, ...]) -> Any:
        """Return the values of Lua source."""
        return self._loop.run_until_complete(asyncio.wait_for(self._eval(flavour, source, args), 20))

    async def _eval(self, flavour: str, source: str, args: tuple[Any, ...]) -> Any:
        if flavour not in self._instances:
            self._instances[flavour] = LuaInstance(None, flavour=flavour)
            self._instances[flavour].node.log.level = 1
        instance = self._instances[flavour]
        context = instance.node.new_context()
        return unpack(await instance.runtime.eval(source.encode(), pack(list(args)), context, "@test.lua"))

    def close(self) -> None:
        for instance in self._instances.values():
            self._loop.run_until_complete(instance.stop())
        self._loop.close()


@pytest.fixture(scope="module")
def shared_runtimes() -> Iterator[SharedRuntimes]:
    """The nodes of `shared_lua`."""
    runtimes = SharedRuntimes()
    yield runtimes
    runtimes.close()


@pytest.fixture
def shared_lua(flavour: str, shared_runtimes: SharedRuntimes) -> Lua:
    """A function `shared_lua(source, *args)` like `lua`, on a node that the cases of a module share.

    It is for many small cases that change nothing in the node.
    """
    return lambda source, *args: shared_runtimes.run(flavour, source, args)
