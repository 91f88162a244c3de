"""When an instance ends, clients that watch `box.shutdown` may finish within a limit, as in 2.11."""

from __future__ import annotations

import asyncio
import time

import pytest

from box import Node
from test.support import until

LISTEN = "127.0.0.1:0"
SLOW = """
box.schema.user.grant('guest', 'super')
may_end = require('fiber').channel(1)
function slow() may_end:get() return 'done' end
return box.info.listen
"""


async def start_call(client: Node, address: str) -> None:
    await client.eval(
        """
        local net_box, fiber = require('net.box'), require('fiber')
        log, conn = {}, net_box.connect(...)
        conn:on_shutdown(function(c)
            log[#log + 1] = {c == conn, c.state, c:eval('return 7')}
            -- While what was sent waits for its reply:
            fiber.new(function()
                local ok, problem = pcall(c.call, c, 'slow', {}, {is_async = true})
                log[#log + 1] = {c.state, c:is_connected(), ok, tostring(problem)}
                control:eval('may_end:put(1)')
            end)
        end)
        conn:on_disconnect(function(c) log[#log + 1] = 'left' end)
        control = net_box.connect(...)
        future = conn:call('slow', {}, {is_async = true})
        conn:ping()
        """,
        address,
    )


def test_a_client_that_watches_finishes_and_leaves() -> None:
    """A client that watches runs its triggers, gets replies to its requests and closes; others are disconnected."""

    async def scenario() -> None:
        async with Node() as client:
            async with Node(listen=LISTEN) as server:
                address = await server.eval(SLOW)
                await start_call(client, address)
                begun = time.monotonic()
            assert time.monotonic() - begun < 2.9
            refusal = 'Connection is not established, state is "graceful_shutdown"'
            assert await client.eval(
                """
                conn:wait_state('error', 5)
                return log, conn.state, conn.error, future:wait_result(5), conn:is_connected()
                """
            ) == [
                [[True, "active", 7], ["graceful_shutdown", True, False, refusal], "left"],
                "error",
                "Peer closed",
                ["done"],
                False,
            ]

    asyncio.run(scenario())


def test_a_client_that_stays_is_waited_for_within_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with Node() as client:
            async with Node(listen=LISTEN) as server:
                address = await server.eval(SLOW)
                await server.eval("box.ctl.set_on_shutdown_timeout(0.2)")
                await start_call(client, address)
                await client.eval("control = {eval = function() end}")
                begun = time.monotonic()
            assert time.monotonic() - begun >= 0.2
            assert await client.eval("local ok, e = future:wait_result(5) return tostring(e)") == "Peer closed"

    asyncio.run(scenario())
    assert "clients that watch box.shutdown did not leave in time" in caplog.text


def test_other_clients_are_not_waited_for() -> None:
    """The end does not wait for clients without watchers, as all of 2.8, and for those that are gone."""

    async def scenario() -> None:
        async with Node() as client:
            async with Node(listen=LISTEN) as server:
                address = await server.eval(SLOW)
                await client.eval(
                    """
                    local net_box = require('net.box')
                    plain, gone = net_box.connect(...), net_box.connect(...)
                    gone:watch('key', function() end)
                    """,
                    address,
                )
                await until(lambda: server._embedding.core.iproto.watchers_of(b"box.shutdown"))
                await client.eval("gone:close()")
                begun = time.monotonic()
            assert time.monotonic() - begun < 2.9

    asyncio.run(scenario())
