"""How many functions of one client run concurrently: as many as the memory for their results allows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from box.data.codec import pack
from box.iproto.calling import FIRST, RESULTS_SIZE, CallWindow
from box.iproto.output import LargeBody
from box.iproto.server import IprotoServer
from box.iproto.stop import Stop
from box.wire.constants import RequestType
from test.support import until

from .serving import RawClient, data_of, request, run, serving
from .test_server_fairness import deaf
from .test_slow_readers import CALL, Function

MEGABYTE = 1_000_000


def kept(server: IprotoServer) -> int:
    """Return the bytes of results that the server keeps."""
    return sum(
        len(large._body)
        for connection in server.connections
        for large in connection._output.larges
        if isinstance(large, LargeBody)
    )


def fill(window: CallWindow) -> int:
    """Begin calls until there is no room, and return how many run."""
    while not window.is_full:
        window.begin()
    return window.running


def test_small_results_open_the_window() -> None:
    """Each small result makes room for one more call besides its own."""
    window = CallWindow()
    assert fill(window) == FIRST
    for _ in range(1000):
        window.end(100)
        fill(window)
    assert window.running == FIRST + 1000


def test_large_results_close_it() -> None:
    """After large results few calls run together, and small results allow more again."""
    window = CallWindow()
    fill(window)
    window.end(4 * MEGABYTE)
    assert window.is_full
    for _ in range(FIRST - 1):
        window.end(4 * MEGABYTE)
    assert fill(window) == RESULTS_SIZE // (4 * MEGABYTE) == 4
    for _ in range(200):
        window.end(100)
        window.begin()
    assert fill(window) > 100


def test_one_call_runs_however_large_its_result() -> None:
    window = CallWindow()
    window.begin()
    window.end(10 * RESULTS_SIZE)
    assert not window.is_full
    assert fill(window) == 1


def test_calls_that_do_not_end_let_others_begin() -> None:
    """Calls that do not end let others begin: soon if their results' size is unknown, later if it is large."""
    window = CallWindow()
    for expected in (32, 64, 128, 256, 512, 1024):
        fill(window)
        window.widen()
        assert fill(window) == expected
    window = CallWindow()
    quick = window.patience
    for _ in range(fill(window)):
        window.end(8 * MEGABYTE)
    assert window.patience > quick
    for expected in (2, 4, 8, 16, 32, 64, 128):  # who waits behind them is not held up for long
        assert fill(window) == expected
        window.widen()


def test_results_that_are_not_read_do_not_add_up() -> None:
    """Of 200 calls with a megabyte each, for a client that does not read, most do not begin."""
    begun, results = 0, pack(["x" * MEGABYTE])

    def run_function(ctx: Any, ended: Callable[[Any], None]) -> None:
        nonlocal begun
        begun += 1
        asyncio.get_running_loop().call_later(0.015, ended, results)

    async def scenario() -> None:
        async with serving() as (node, server, address), deaf(address) as raw:
            Function(node, run_function)
            raw.send(request(RequestType.CALL, 5, CALL) * 200)
            before = -1
            while before != begun or server.in_flight or not kept(server):
                before = begun
                await asyncio.sleep(0.05)
            assert FIRST <= begun <= 2 * FIRST
            assert kept(server) < 2 * FIRST * MEGABYTE
            raw.writer.transport.resume_reading()
            for _ in range(200):
                assert len(data_of(await raw.read_row())[0]) == MEGABYTE
                assert kept(server) < 2 * FIRST * MEGABYTE

    run(scenario())


@pytest.mark.parametrize("size", [10, 8 * MEGABYTE])
def test_functions_that_wait_for_a_later_request(size: int) -> None:
    """Functions that wait for a later request of their client do not keep it from being served, also with large
    results.
    """
    waiting: list[Callable[[Any], None]] = []

    def run_function(ctx: Any, ended: Callable[[Any], None]) -> None:
        if ctx.sync == 1:
            ended(pack(["x" * size]))
        elif ctx.sync == 2:
            waiting.append(ended)
        else:
            for waiter in waiting:
                waiter(pack(["done"]))
            ended(pack([len(waiting)]))

    async def scenario() -> None:
        count = 10 if size > MEGABYTE else 500
        async with serving() as (node, server, address):
            Function(node, run_function)
            raw = await RawClient.connect(address)
            assert data_of(await raw.ask(request(RequestType.CALL, 1, CALL))) == ["x" * size]
            raw.send(request(RequestType.CALL, 2, CALL) * count + request(RequestType.CALL, 3, CALL))
            for _ in range(count):
                assert data_of(await raw.read_row()) == ["done"]
            assert data_of(await raw.read_row()) == [count]
            (connection,) = server.connections
            await until(lambda: not connection._stopped & Stop.CALLS)
            await raw.close()

    run(scenario())


def test_a_client_whose_calls_wait_for_room_may_leave() -> None:
    """A client that leaves while calls wait for room leaves nothing; its running functions go to their end."""
    waiting: list[Callable[[Any], None]] = []

    async def scenario() -> None:
        async with serving() as (node, server, address):
            Function(node, lambda ctx, ended: waiting.append(ended))
            async with deaf(address) as raw:
                raw.send(request(RequestType.CALL, 5, CALL) * 100)
                await until(lambda: any(one._stopped & Stop.CALLS for one in server.connections))
            await until(lambda: not server.connections)
            for ended in waiting:
                ended(pack([1]))
            assert not server.in_flight

    run(scenario())


def test_after_a_large_result_many_may_wait_soon() -> None:
    """After a large result a thousand calls that wait for a later request delay it by half a second."""
    window = CallWindow()
    window.begin()
    window.end(10 * RESULTS_SIZE)
    waited = 0.0
    while fill(window) < 1000:
        waited += window.patience
        window.widen()
    assert waited <= 0.5
