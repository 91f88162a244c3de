"""Fixtures with a Lua runtime of each LuaJIT flavour."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from .support import Lua, open_lua

FLAVOURS = ("luajit20", "luajit21")


@pytest.fixture(params=FLAVOURS)
def flavour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def run(flavour: str) -> Callable[..., Any]:
    """A function `run(test)` that runs `async def test(lua)` on a new loop and closes the runtime."""

    def call(test: Callable[[Lua], Awaitable[Any]], **options: Any) -> Any:
        async def main() -> Any:
            async with open_lua(flavour, **options) as lua:
                return await test(lua)

        return uvloop.run(main())

    return call


@pytest.fixture
def evaluate(run: Callable[..., Any]) -> Callable[..., list[Any]]:
    """A function `evaluate(source, *args)` that returns the results of Lua source in a new runtime."""

    def call(source: str, *args: Any) -> list[Any]:
        async def test(lua: Lua) -> list[Any]:
            return await lua.eval(source, *args)

        return list(run(test))

    return call
