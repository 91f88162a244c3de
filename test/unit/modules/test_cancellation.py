"""Cancelling a fiber ends each wait, or what waits goes to its end, as in Tarantool."""

from __future__ import annotations

import pytest

from .conftest import Lua

ENDED = {
    "sleep": "fiber.sleep(100)",
    "condition": "fiber.cond():wait()",
    "condition with a deadline": "fiber.cond():wait(100)",
    "channel:get": "fiber.channel():get()",
    "channel:put": "fiber.channel():put(1, 100)",
    "socket": "socket.tcp_connect('unix/', path):read(1000)",
    "readiness": "local client = socket.tcp_connect('unix/', path) client:read(128) client:readable(100)",
    "call": "connection:call('slow')",
    "eval with a deadline": "connection:eval('slow()', {}, {timeout = 100})",
    "future": "connection:call('slow', {}, {is_async = true}):wait_result(100)",
    "messages of a future": "for _ in connection:call('slow', {}, {is_async = true}):pairs(100) do end",
    "state of a connection": "connection:wait_state('closed', 100)",
    "connection": "net_box.connect('unix/:./n', {wait_connected = false, reconnect_after = 1}):wait_connected(9)",
    "wait_ro": "box.ctl.wait_ro(100)",
}
PREPARE = """
    fiber, socket, net_box, fio = require('fiber'), require('socket'), require('net.box'), require('fio')
    path = fio.pathjoin(fio.tempdir(), 's')
    function slow() fiber.sleep(100) end
    box.cfg{listen = 'unix/:' .. path}
    box.schema.user.grant('guest', 'super')
    connection = net_box.connect('unix/:' .. path)
"""


@pytest.mark.parametrize("source", ENDED.values(), ids=ENDED.keys())
def test_a_cancellation_ends_a_wait(lua: Lua, source: str) -> None:
    assert lua(
        PREPARE
        + f"""
        local waiter = fiber.new(function() {source} end)
        waiter:set_joinable(true)
        fiber.sleep(0.02)
        assert(waiter:status() == 'suspended')
        waiter:cancel()
        local ok, problem = waiter:join()
        connection:close()
        return ok, tostring(problem)""",
        configure={"wal_mode": "none"},
    ) == [False, "fiber is cancelled"]


def test_a_signal_that_comes_with_the_cancellation_does_not_hide_it(lua: Lua) -> None:
    assert lua(
        """
        local fiber = require('fiber')
        local condition = fiber.cond()
        local waiter = fiber.new(function() return condition:wait() end)
        waiter:set_joinable(true)
        fiber.yield()
        condition:signal()
        waiter:cancel()
        local ok, problem = waiter:join()
        return ok, tostring(problem)"""
    ) == [False, "fiber is cancelled"]


@pytest.mark.parametrize("call", ["getaddrinfo('localhost', 'http')", "tcp_connect('localhost', 1)"])
def test_a_cancelled_look_up_of_a_name_is_a_failure(lua: Lua, call: str) -> None:
    """It returns the reason; the next wait raises."""
    assert lua(
        f"""local fiber, socket = require('fiber'), require('socket')
        local outcome
        local waiter = fiber.create(function()
            outcome = {{pcall(function() local a, b = socket.{call} return tostring(a), b end)}}
            outcome[4] = not pcall(fiber.sleep, 0)
        end)
        waiter:cancel()
        while outcome == nil or outcome[4] == nil do fiber.sleep(0.001) end
        return outcome"""
    ) == [[True, "nil", "fiber is cancelled", True]]


TO_THEIR_END = {
    "listdir": "type(fio.listdir('.'))",
    "file": "#file:read(1000000)",
    "pbkdf2": "#require('digest').pbkdf2('a', 'b', 10, 16)",
    "snapshot": "box.snapshot()",
    "write": "box.space.s:replace{1}[1]",
    "join": "(function() local f = fiber.new(slow) f:set_joinable(true) return select(2, f:join()) end)()",
}


@pytest.mark.parametrize("source", TO_THEIR_END.values(), ids=TO_THEIR_END.keys())
def test_what_other_threads_do_goes_to_its_end_in_a_cancelled_fiber(lua: Lua, source: str) -> None:
    result = lua(
        f"""
        fiber, fio = require('fiber'), require('fio')
        box.schema.space.create('s'):create_index('pk')
        file = fio.open('large', {{'O_CREAT', 'O_RDWR'}}, 420)
        file:write(('x'):rep(1000000))
        file:seek(0)
        function slow() fiber.sleep(0.01) return 5 end
        local waiter = fiber.new(function() pcall(fiber.sleep, 100) return {source} end)
        waiter:set_joinable(true)
        fiber.yield()
        waiter:cancel()
        local ok, value = waiter:join()
        file:close()
        fio.unlink('large')
        return ok, ok and value or tostring(value)""",
        configure={"wal_mode": "write"},
        directory=True,
    )
    assert result[0] is True, result


RECURSION = {
    "fiber.create": "local function f() n = n + 1 fiber.create(f) end f()",
    "coroutine.wrap": "local function f() n = n + 1 return coroutine.wrap(f)() end pcall(f)",
    "fibers in coroutines": "local function f() n = n + 1 coroutine.wrap(function() fiber.create(f) end)() end f()",
    "finalizers": "local function f() ffi.gc(ffi.new('char[1]'), function() n = n + 1 f() collectgarbage() end) end f()"
    " collectgarbage() collectgarbage()",
    "fibers of finalizers": "local function f() ffi.gc(ffi.new('char[1]'), function() n = n + 1 f()"
    " fiber.create(collectgarbage) end) end f() collectgarbage() collectgarbage()",
}


@pytest.mark.parametrize("source", RECURSION.values(), ids=RECURSION.keys())
def test_what_begins_itself_again_ends_with_an_error(lua: Lua, source: str) -> None:
    """A function that calls itself by a wait of Python raises before the C stack ends, which would end the process."""
    assert lua(
        f"""
        local fiber, ffi = require('fiber'), require('ffi')
        local n = 0
        {source}
        fiber.sleep(0.01)
        local ok, sum = pcall(function() return coroutine.wrap(function() return 1 end)() + 1 end)
        return n > 10, ok, sum"""
    ) == [True, True, 2]
