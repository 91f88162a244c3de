"""Finalizers of the user may run wherever Lua allocates, and disturb nothing."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from test.support import until

from .support import Lua, open_lua

Run = Callable[..., Any]

REFUSED = re.compile(r"fiber \d+ is switched while running GC finalizer \(i\.e\. __gc metamethod\)")

GARBAGE = """
    local ffi, fiber = require('ffi'), require('fiber')
    local function garbage(finalizer, count)
        for _ = 1, count or 1 do ffi.gc(ffi.new('char[100]'), finalizer) end
    end
"""

CRASHING = """
import asyncio, sys
from lua.runtime import Runtime

async def main(size):
    logged = []
    runtime = Runtime(flavour=sys.argv[1], log=lambda level, text, where="": logged.append(text))
    runtime.bind("test_bytes", lambda: b"x" * 1000)
    handle = runtime.compile(b'''
        local ffi, python = require('ffi'), require('internal.python')
        return function()
            for _ = 1, 20 do ffi.gc(ffi.new('char[100]'), function() error('boo', 0) end) end
            for _ = 1, 20 do python.test_bytes() end
        end
    ''', "=test")
    for _ in range(300):
        await runtime.call_raw(handle, b"y" * size)
    await runtime.close()
    assert logged == ["ERROR in finalizer: boo"] * 6000, len(logged)

for turn in range(25):  # the collector is in another phase each time when the state is closed
    asyncio.run(main(5000 + 7 * turn))
"""


def test_an_error_on_the_way_between_python_and_lua_ends_nothing(flavour: str) -> None:
    """An error in a finalizer that runs between Python and Lua ends nothing: LuaJIT 2.0 would throw it through Python's
    frames. No finalizer is lost when the state closes.
    """
    done = subprocess.run([sys.executable, "-c", CRASHING, flavour], capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "make",
    [
        "ffi.gc(ffi.new('int[1]'), fail)",
        "ffi.metatype('struct { int a; }', {__gc = fail})()",
        "debug.getmetatable(newproxy(true)).__gc = fail",
        "newproxy(proxy)",
    ],
)
def test_an_error_is_logged_and_does_not_escape(run: Run, make: str) -> None:
    async def test(lua: Lua) -> None:
        await lua.eval(f"""
            local ffi = require('ffi')
            local function fail() error('boo', 0) end
            local proxy = newproxy(true)
            debug.getmetatable(proxy).__gc = fail
            local function drop() {make} end
            for _ = 1, 5 do drop() end
            proxy = nil
            collectgarbage() collectgarbage()
        """)
        assert ("error", "ERROR in finalizer: boo") in lua.logged

    run(test)


def test_an_error_that_is_no_text_is_logged_too(run: Run) -> None:
    """An error value that is no text is logged, too, also one whose `__tostring` fails."""

    async def test(lua: Lua) -> None:
        await lua.eval(
            GARBAGE
            + """
            garbage(function() error() end)
            collectgarbage()
            garbage(function() error(setmetatable({}, {__tostring = error})) end)
            collectgarbage()
        """
        )
        assert lua.logged == [("error", "ERROR in finalizer: nil")]

    run(test)


def test_arguments_of_gc_are_those_of_the_library(evaluate: Callable[..., list[Any]]) -> None:
    """ffi.gc accepts and refuses the arguments that LuaJIT's own does."""
    assert evaluate("""
        local ffi = require('ffi')
        ffi.cdef('void *malloc(size_t); void free(void *);')
        local calls = 0
        local function count() calls = calls + 1 end
        ffi.gc(ffi.gc(ffi.new('int[1]'), count), nil)
        ffi.gc(ffi.gc(ffi.new('int[1]'), count), count)
        local memory = ffi.gc(ffi.C.malloc(10), ffi.C.free)
        memory = nil
        collectgarbage()
        local _, no_cdata = pcall(ffi.gc, 1, count)
        local _, no_finalizer = pcall(ffi.gc, ffi.new('int[1]'))
        return calls, no_cdata:match('#1'), no_finalizer:match('#2')
    """) == [1, "#1", "#2"]


@pytest.mark.parametrize(
    "wait",
    [
        "fiber.yield()",
        "fiber.sleep(1)",
        "fiber.cond():wait(1)",
        "fiber.channel():get(1)",
        "joinable:join()",
        "coroutine.wrap(fiber.sleep)(1)",
        "require('fio').stat('/')",
    ],
)
def test_a_finalizer_must_not_wait(run: Run, wait: str) -> None:
    """A finalizer that waits gets an error, and the fiber it has interrupted waits as before."""

    async def test(lua: Lua) -> None:
        lua.runtime.bind("test_wait", lua.runtime.new_token)
        refused, shortest = await lua.eval(
            GARBAGE
            + f"""
            local joinable = fiber.new(function() end)
            joinable:set_joinable(true)
            if joinable == nil then return end
            local stat = require('internal.wait')
            package.loaded.fio = {{stat = function() stat(require('internal.python').test_wait()) end}}
            local refused
            garbage(function() refused = select(2, pcall(function() {wait} end)) end)
            collectgarbage()
            local start = fiber.clock()
            fiber.sleep(0.02)
            return refused, fiber.clock() - start
        """
        )
        # coroutine.wrap puts the position of its call before an error of the coroutine.
        assert REFUSED.fullmatch(refused.removeprefix("eval:13: "))
        assert shortest > 0.019

    run(test)


def test_a_wait_that_was_refused_is_cancelled(run: Run) -> None:
    async def test(lua: Lua) -> None:
        cancelled: list[bool] = []
        runtime = lua.runtime
        runtime.bind("test_wait", lambda: runtime.new_token(lambda: cancelled.append(True)))
        await lua.eval(
            GARBAGE
            + """
            garbage(function() require('internal.wait')(require('internal.python').test_wait()) end)
            collectgarbage()
        """
        )
        assert cancelled == [True]
        ((level, text),) = lua.logged
        assert level == "error"
        assert REFUSED.fullmatch(text.removeprefix("ERROR in finalizer: "))

    run(test)


def test_fibers_of_a_finalizer_may_wait(run: Run) -> None:
    async def test(lua: Lua) -> None:
        assert (
            await lua.value(
                GARBAGE
                + """
            local slept = fiber.channel(1)
            garbage(function() fiber.create(function() fiber.sleep(0.001) slept:put('slept') end) end)
            collectgarbage()
            return slept:get(5)
        """
            )
            == "slept"
        )

    run(test)


def test_a_finalizer_belongs_to_the_fiber_that_it_interrupts(run: Run) -> None:
    """A finalizer runs in the fiber it interrupts; outside of fibers it has one of its own, which must not wait."""

    async def test(lua: Lua) -> None:
        inside, outside = await lua.eval(
            GARBAGE
            + """
            local seen = {}
            function see() seen = {fiber.self():name(), fiber.id(), select(2, pcall(fiber.yield))} end
            garbage(see)
            collectgarbage()
            local inside = seen[1] == fiber.self():name() and seen[2] == fiber.id() and seen[3]
            function last_seen() return seen end
            garbage(see)
            return inside, seen
        """
        )
        assert REFUSED.fullmatch(inside)
        lua.runtime._state.execute(b"collectgarbage()")
        async with asyncio.timeout(5):
            while (seen := await lua.value("return last_seen()")) == outside:
                await asyncio.sleep(0)
        assert seen[0] == "finalizer"
        assert REFUSED.fullmatch(seen[2])

    run(test)


def test_a_fiber_of_a_finalizer_never_gets_a_context_that_is_lent(flavour: str) -> None:
    """A fiber made by a finalizer during the preparation of a call does not get that call's context."""

    async def test() -> None:
        async with open_lua(flavour) as lua:
            runtime = lua.runtime
            seen: list[Any] = []
            runtime.bind("test_see", lambda: seen.append(runtime.ctx))
            handle = runtime.compile(
                GARBAGE.encode()
                + b"""
                local see = require('internal.python').test_see
                return function()
                    see()
                    garbage(function() fiber.create(function() end) end, 20)
                end
                """,
                "=test",
            )
            contexts = [object() for _ in range(1000)]
            for ctx in contexts:
                await runtime.call_raw(handle, b"y" * 5000, ctx=ctx)
            assert seen == contexts

    asyncio.run(test())


def test_fibers_of_finalizers_that_yield_are_not_lost(run: Run) -> None:
    """Fibers made by finalizers run, also those made while the scheduler is interrupted."""

    async def test(lua: Lua) -> None:
        await lua.eval(
            GARBAGE
            + """
            begun, ended = 0, 0
            garbage(function()
                begun = begun + 1
                fiber.create(function() fiber.yield() ended = ended + 1 end)
            end, 3000)
            collectgarbage('restart')
            local rest    -- what drives the collector: a yield alone allocates nothing
            for _ = 1, 20000 do
                fiber.yield()
                rest = {fiber.new(function() end)}
                if begun >= 3000 then break end
            end
            for _ = 1, 20000 do
                if ended == begun then break end
                fiber.yield()
            end
        """
        )
        assert await lua.eval("return begun == ended, begun > 1000") == [True, True]

    run(test)


def test_finalizers_run_when_the_state_is_freed(flavour: str) -> None:
    async def test() -> None:
        async with open_lua(flavour) as lua:
            await lua.eval("kept = require('ffi').gc(require('ffi').new('int[1]'), function() error('boo', 0) end)")
        await until(lambda: lua.logged == [("error", "ERROR in finalizer: boo")])

    asyncio.run(test())
