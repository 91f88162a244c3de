"""Functions for clients that do not read: pushed messages and large results take limited memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from box.data.codec import pack
from box.errors import BoxError, ErrorCode
from box.iproto.stop import Stop
from box.wire.constants import RequestType
from box.wire.row import Row
from test.support import until

from .fakes import FakeNode
from .serving import RawClient, client, data_of, request, run, serving
from .test_server_fairness import deaf, unsent

CALL = {0x22: "fn", 0x21: []}


class Function:
    """A fake of Lua functions: `run` gets the context and a callback for the outcome."""

    def __init__(self, node: FakeNode, run: Callable[[Any, Callable[[Any], None]], None]) -> None:
        self._run = run
        self.wave = None
        node.functions = self  # type: ignore[assignment]

    def call(self, ctx: Any, name: str, args: bytes, ended: Callable[[Any], None], is_16: bool = False) -> None:
        self._run(ctx, ended)


def test_a_push_waits_for_the_reader() -> None:
    """10,000 messages of 10 KB to a client that does not read take less than a megabyte, and all arrive
    when it reads.
    """
    pushed = 0

    def run_function(ctx: Any, ended: Callable[[Any], None], is_16: bool = False) -> None:
        async def push_all() -> None:
            nonlocal pushed
            for _ in range(10_000):
                ctx.session.push(pack("x" * 10_000), ctx.sync)
                pushed += 1
                if (behind := ctx.session.until_read()) is not None:
                    await behind
            ended(b"\x90")

        asyncio.ensure_future(push_all())  # noqa: RUF006 - it ends with the test

    async def scenario() -> None:
        async with serving() as (node, server, address), deaf(address) as raw:
            Function(node, run_function)
            raw.send(request(RequestType.CALL, 5, CALL))
            await until(lambda: pushed > 0)
            (connection,) = server.connections
            before = -1
            while before != pushed or not connection._stopped & Stop.OUTPUT:
                before = pushed
                await asyncio.sleep(0.02)
            assert 0 < pushed < 5000
            assert unsent(server) < 1_000_000
            raw.writer.transport.resume_reading()
            for _ in range(10_000):
                assert (await raw.read_row()).type == RequestType.CHUNK
            assert data_of(await raw.read_row()) == []

    run(scenario())


def test_a_pusher_learns_that_its_client_has_gone() -> None:
    """A function that waits for room to push gets an error when its client leaves."""
    outcome: list[str] = []

    def run_function(ctx: Any, ended: Callable[[Any], None], is_16: bool = False) -> None:
        async def push_all() -> None:
            try:
                while True:
                    ctx.session.push(pack("x" * 100_000), ctx.sync)
                    if (behind := ctx.session.until_read()) is not None:
                        await behind
            except BoxError as error:
                outcome.append(error.message)
            ended(b"\x90")

        asyncio.ensure_future(push_all())  # noqa: RUF006 - it ends with the test

    async def scenario() -> None:
        async with serving() as (node, server, address):
            Function(node, run_function)
            async with deaf(address) as raw:
                raw.send(request(RequestType.CALL, 5, CALL))
                await until(lambda: any(one._stopped & Stop.OUTPUT for one in server.connections))
            await until(lambda: outcome)
            assert outcome == ["Session is closed"]
            await until(lambda: not server.in_flight)

    run(scenario())


def test_a_push_that_cannot_wait_gets_an_error() -> None:
    """A push inside a transaction, which must not wait, is refused when 16 MB are unread, and the function goes on."""
    refused: list[BoxError] = []

    def run_function(ctx: Any, ended: Callable[[Any], None], is_16: bool = False) -> None:
        for _ in range(1000):
            try:
                ctx.session.push(pack("x" * 100_000), ctx.sync)
            except BoxError as error:
                refused.append(error)
        ended(b"\x90")

    async def scenario() -> None:
        async with serving() as (node, server, address), deaf(address) as raw:
            Function(node, run_function)
            raw.send(request(RequestType.CALL, 5, CALL))
            await until(lambda: refused)
            assert 700 < len(refused) < 850  # the sockets take some, too
            assert (refused[0].code, refused[0].message) == (
                ErrorCode.MEMORY_ISSUE,
                "Failed to allocate 100005 bytes in obuf for push",
            )
            assert unsent(server) < 17_000_000
            raw.writer.transport.resume_reading()
            for _ in range(1000 - len(refused)):
                assert (await raw.read_row()).type == RequestType.CHUNK
            assert data_of(await raw.read_row()) == []

    run(scenario())


@pytest.mark.parametrize("size", [1000, 300_000, 30_000_000])
def test_large_results_arrive_whole(size: int) -> None:
    """A large result between two small ones arrives complete, with a long array header."""

    def run_function(ctx: Any, ended: Callable[[Any], None], is_16: bool = False) -> None:
        ended(pack(["x" * size, *range(20)]) if ctx.sync == 6 else pack([ctx.sync]))

    async def scenario() -> None:
        async with serving() as (node, _, address), deaf(address) as raw, client(address) as other:
            Function(node, run_function)
            raw.send(b"".join(request(RequestType.CALL, sync, CALL) for sync in (5, 6, 7)))
            await other.request(Row(RequestType.PING))
            raw.writer.transport.resume_reading()
            first, second, third = [await raw.read_row() for _ in range(3)]
            assert (data_of(first), data_of(third)) == ([5], [7])
            assert data_of(second) == ["x" * size, *range(20)]
            assert second.body[:3] == b"\x81\x30\xdd"

    run(scenario())


def test_calls_of_a_client_that_does_not_read_wait_after_the_first() -> None:
    """Of 500 calls with a result of a megabyte, for a client that does not read, one runs; its result is freed when the
    client leaves.
    """
    runs = 0

    def run_function(ctx: Any, ended: Callable[[Any], None], is_16: bool = False) -> None:
        nonlocal runs
        runs += 1
        ended(pack(["x" * 1_000_000]))

    async def scenario() -> None:
        async with serving() as (node, server, address):
            Function(node, run_function)
            async with deaf(address) as raw:
                raw.send(request(RequestType.CALL, 5, CALL) * 500)
                await until(lambda: any(one._stopped & Stop.OUTPUT for one in server.connections))
                async with client(address) as other:
                    for _ in range(20):
                        await other.request(Row(RequestType.PING))
                assert 1 <= runs <= 8
                assert unsent(server) < 1_000_000
            await until(lambda: not server.connections)
            quiet = await RawClient.connect(address)
            assert data_of(await quiet.ask(request(RequestType.CALL, 5, CALL))) == ["x" * 1_000_000]
            await quiet.close()

    run(scenario())
