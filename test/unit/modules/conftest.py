"""An in-memory node for tests of Lua modules, for each LuaJIT flavour."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
