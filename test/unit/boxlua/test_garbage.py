"""Ordinary work leaves no reference cycles, which would keep memory until a full collection."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CoroutineType, FrameType, FunctionType, GeneratorType

import pytest

from box.wire.constants import GREETING_SIZE
from test.support import until

from .box_support import Box, Run

OURS = ("box", "lua")
TELLING = (BaseException, asyncio.Future, CoroutineType, FrameType, GeneratorType)
"""Types that are often part of a cycle and help to find it."""
MAKE = "s = box.schema.space.create('s') s:create_index('pk') s:replace{1, 'x'}"
CHUNKS = {
    "spaces": "local t = box.schema.space.create('t') t:create_index('pk') t:replace{1} t:drop()",
    "indexes": """
        local packed = s:create_index('packed', {parts = {{2, 'string'}, {1, 'unsigned'}}})
        local nullable = s:create_index('nullable', {unique = false, parts = {{3, 'scalar', is_nullable = true}}})
        packed:drop() nullable:drop()
    """,
    "formats": "s:format({{'id', 'unsigned'}, {'name', 'string'}}) s:format({})",
    "truncate": "s:truncate() s:replace{1, 'x'}",
    "roles": "box.schema.role.create('r') box.schema.role.grant('r', 'read', 'universe') box.schema.role.drop('r')",
    "errors": "require('fiber').create(function() assert(not pcall(s.insert, s, {1, 'x'})) end)",
    "rollbacks": "box.begin() s:replace{1, 'y'} box.rollback()",
    "aborted": "box.begin() s:replace{1, 'y'} require('fiber').yield() assert(not pcall(box.commit))",
    "waits": "assert(not pcall(require('net.box').new('unix/:/nowhere', {wait_connected = true}).ping, nil))",
}


def _is_ours(thing: object) -> bool:
    module = thing.__module__ if isinstance(thing, FunctionType) else type(thing).__module__
    return str(module).partition(".")[0] in OURS


def _name(thing: object) -> str:
    return thing.__qualname__ if isinstance(thing, FunctionType) else type(thing).__qualname__


@contextmanager
def garbage() -> Iterator[list[str]]:
    """Return the types of our objects, and names of our functions, that only the garbage collector has freed."""
    found: list[str] = []
    while gc.collect():  # garbage of earlier tests, and objects that only it has kept alive
        pass
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        found += (_name(thing) for thing in gc.garbage if _is_ours(thing))
        if found:  # the details of a failure
            print(Counter(map(_name, gc.garbage)))
            print(*(repr(thing)[:300] for thing in gc.garbage if isinstance(thing, TELLING)), sep="\n")
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("chunk", CHUNKS.values(), ids=CHUNKS.keys())
def test_work_leaves_no_cycles(run: Run, chunk: str) -> None:
    async def body(box: Box) -> None:
        await box(MAKE)
        await box(chunk)
        with garbage() as found:
            for _ in range(3):
                await box(chunk)
        assert not set(found) - {"User", "Credentials"}  # a role refers to its credentials, and these to the role

    run(body)


def test_connections_to_others_leave_no_cycles(run: Run, tmp_path: Path) -> None:
    visit = "local c = require('net.box').connect(box.cfg.listen) assert(c:ping()) c:close()"

    async def body(box: Box) -> None:
        await box("box.cfg{listen = ...}", f"unix/:{tmp_path}/s")
        server = box.instance.node.iproto
        await box(visit)
        await until(lambda: not server.connections)
        with garbage() as found:
            for _ in range(3):
                await box(visit)
            await until(lambda: not server.connections)
        assert found == []

    run(body)


def test_clients_that_go_leave_no_cycles(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "s"

    async def body(box: Box) -> None:
        async def visit() -> None:
            reader, writer = await asyncio.open_unix_connection(str(path))
            await reader.readexactly(GREETING_SIZE)
            writer.close()
            await writer.wait_closed()
            await until(lambda: not server.connections)

        await box("box.cfg{listen = ...}", f"unix/:{path}")
        server = box.instance.node.iproto
        await visit()
        with garbage() as found:
            for _ in range(3):
                await visit()
        assert found == []

    run(body)
