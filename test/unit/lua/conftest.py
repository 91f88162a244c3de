"""Fixtures: a Lua runtime of each flavour."""

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
    """`run(test)`: run `async def test(lua)` on a loop of its own and close the runtime."""

    def call(test: Callable[[Lua], Awaitable[Any]], **options: Any) -> Any:
        async def main() -> Any:
            async with open_lua(flavour, **options) as lua:
                return await test(lua)

        return uvloop.run(main())

    return call


@pytest.fixture
def evaluate(run: Callable[..., Any]) -> Callable[..., list[Any]]:
    """`evaluate(source, *args)`: the results of a source text in a fresh runtime."""

    def call(source: str, *args: Any) -> list[Any]:
        async def test(lua: Lua) -> list[Any]:
            return await lua.eval(source, *args)

        return list(run(test))

    return call
