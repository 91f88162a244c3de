"""A Lua runtime for tests: runs Lua source and returns Python values."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgpack

from lua.runtime import Runtime


class Lua:
    """A runtime that keeps log lines, printed bytes and exit codes."""

    def __init__(self, flavour: str, **options: Any) -> None:
        self.logged: list[tuple[str, str]] = []
        self.printed = b""
        self.exits: list[int] = []
        self.runtime = Runtime(
            flavour=flavour,
            log=lambda level, text, where="": self.logged.append((level, text)),
            write=self._write,
            on_exit=self.exits.append,
            **options,
        )

    def _write(self, text: bytes) -> None:
        self.printed += text

    async def eval(self, source: str, *args: Any, **options: Any) -> list[Any]:
        """Return the results of Lua source as a list."""
        packed = await self.runtime.eval(source.encode(), msgpack.packb(list(args)), **options)
        return list(msgpack.unpackb(packed, strict_map_key=False))

    async def value(self, source: str, *args: Any) -> Any:
        """Return the only result of Lua source."""
        (result,) = await self.eval(source, *args)
        return result


@asynccontextmanager
async def open_lua(flavour: str, **options: Any) -> AsyncIterator[Lua]:
    lua = Lua(flavour, **options)
    try:
        yield lua
    finally:
        await lua.runtime.close()
