"""A running instance in tests: runs Lua and returns the results."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from box.data import codec
from box.embed import LuaInstance
from box.errors import BoxError
from box.session import Context

DEADLINE = 20.0
Run = Callable[..., None]
"""The type of the fixture `run`."""


class Box:
    """A running instance. Chunks of Lua run one after another in one session, so that globals stay."""

    def __init__(self, instance: LuaInstance) -> None:
        self.instance = instance
        self.ctx: Context = instance.node.new_context()

    async def raw(self, chunk: str, *args: Any) -> list[Any]:
        """Run a chunk and return all its results; an error is raised as a BoxError."""
        work = self.instance.runtime.eval(chunk.encode(), codec.pack(list(args)), self.ctx, "=test")
        values: list[Any] = codec.unpack(await asyncio.wait_for(work, DEADLINE))
        return values

    async def __call__(self, chunk: str, *args: Any) -> Any:
        """Run a chunk and return its result: None, one value, or a list of several."""
        values = await self.raw(chunk, *args)
        return values[0] if len(values) == 1 else values or None

    async def fails(self, chunk: str, *args: Any) -> str:
        """Run a chunk that fails, and return the error's message."""
        with pytest.raises(BoxError) as caught:
            await self.raw(chunk, *args)
        return caught.value.message
