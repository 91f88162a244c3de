"""A node in memory with its Lua runtime, for each flavour of LuaJIT."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from box.embed import LuaInstance

from .box_support import Box, Run

FLAVOURS = [flavour for flavour in ("luajit20", "luajit21") if find_spec(f"lupa.{flavour}")]
Body = Callable[[Box], Awaitable[None]]


@pytest.fixture(params=FLAVOURS)
def flavour(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def run(flavour: str) -> Run:
    """Return a function `run(body, directory=None, **options)`, which calls the body with a configured instance, or
    with an unconfigured one if `configure=False`.
    """

    def start(body: Body, directory: Path | None = None, *, configure: bool = True, **options: Any) -> None:
        async def main() -> None:
            instance = LuaInstance(directory, flavour=flavour)
            instance.node.log.level = 1
            try:
                box = Box(instance)
                if configure:
                    await instance.configure({"log_level": 1, "wal_mode": "none", **options})
                await body(box)
            finally:
                await instance.stop()

        asyncio.run(main())

    return start
