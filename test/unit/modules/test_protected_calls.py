"""xpcall: its handler may wait, and sees the frames that have failed."""

from __future__ import annotations

import re

from .conftest import Lua

FAIL = "local fiber = require('fiber') local function inner() error('oops') end local function outer() inner() end "


def test_a_handler_may_wait(lua: Lua) -> None:
    assert lua(
        FAIL
        + """return xpcall(outer, function(problem)
            fiber.sleep(0.001)
            local f = fiber.new(function() fiber.yield() return 'joined' end)
            f:set_joinable(true)
            return problem .. ' ' .. select(2, f:join())
        end)"""
    ) == [False, "test.lua:1: oops joined"]


def test_a_handler_may_wait_inside_a_coroutine_and_inside_another_handler(lua: Lua) -> None:
    assert lua(
        FAIL
        + """local function handler(problem)
            fiber.yield()
            local _, text = xpcall(inner, function(second) fiber.yield() return second .. '!' end)
            return text
        end
        return coroutine.wrap(function() return xpcall(outer, handler) end)()"""
    ) == [False, "test.lua:1: oops!"]


def test_a_handler_sees_the_frames_that_have_failed(lua: Lua) -> None:
    text, line, name = lua(
        FAIL
        + """local trace, line, name
        xpcall(outer, function(problem)
            local info = debug.getinfo(3, 'nl')
            line, name = info.currentline, info.name
            trace = debug.traceback(problem, 2)
        end)
        return trace, line, name"""
    )
    lines = text.split("\n")
    assert lines[:4] == [
        "test.lua:1: oops",
        "stack traceback:",
        "\t[C]: in function 'error'",
        "\ttest.lua:1: in function 'inner'",
    ]
    assert "[C]: in function 'xpcall'" in text
    assert "protected_call" not in text
    assert (line, name) == (1, "inner")


def test_a_standard_handler_and_results(lua: Lua) -> None:
    ok, trace, *rest = lua(
        FAIL
        + """local ok, trace = xpcall(outer, debug.traceback)
        return ok, trace, xpcall(function(...) return ... end, print, 1, nil, 3)"""
    )
    assert not ok
    assert "in function 'inner'" in trace
    assert rest == [True, 1, None, 3]


def test_a_trace_without_arguments(lua: Lua) -> None:
    """debug.traceback(nil) returns nil, and without an argument the trace."""
    none, nothing, mine = lua(
        """local function outer() local trace = debug.traceback() return trace end
        local trace = outer()
        local own = debug.traceback('text', 1)
        return debug.traceback(nil), trace, own"""
    )
    assert none is None
    assert nothing.split("\n")[:2] == ["stack traceback:", "\ttest.lua:1: in function 'outer'"]
    assert mine.startswith("text\nstack traceback:\n\ttest.lua:3: in ")


def test_traces_end_with_what_users_have_written(lua: Lua) -> None:
    """Traces end with the user's frames, as in Tarantool, where a fiber and a request begin in C."""
    fiber_trace, inner = lua(
        """local trace
        local f = require('fiber').new(function() trace = debug.traceback() end)
        f:set_joinable(true)
        f:join()
        local co = coroutine.create(function() coroutine.yield() end)
        coroutine.resume(co)
        return trace, debug.traceback(co)"""
    )
    assert fiber_trace == "stack traceback:\n\ttest.lua:2: in function <test.lua:2>"
    assert "test.lua:5" in inner


def test_traces_of_requests_end_with_one_c_function(lua: Lua) -> None:
    """Below the function of a request there is one function in C, as in Tarantool."""
    called, evaluated = lua(
        """box.cfg{listen = 'unix/:./traces.sock'}
        box.schema.user.grant('guest', 'super')
        function traced() return debug.traceback('call') end
        local c = require('net.box').connect('unix/:./traces.sock')
        return c:call('traced'), c:eval('local text = debug.traceback() return text')"""
    )
    assert re.fullmatch(r"call\nstack traceback:\n\t\[C\]: at 0x[0-9a-f]+", called)
    assert re.fullmatch(r"stack traceback:\n\teval:1: in main chunk\n\t\[C\]: at 0x[0-9a-f]+", evaluated)


def test_a_handler_that_fails_is_an_error_in_error_handling(lua: Lua) -> None:
    assert (
        lua(
            FAIL
            + """local _, first = xpcall(outer, function() error('again') end)
        local _, second = xpcall(outer, function() fiber.yield() error('again') end)
        return first, second"""
        )
        == ["error in error handling"] * 2
    )


def test_a_function_without_a_result_has_none(lua: Lua) -> None:
    """xpcall of a function without results returns true alone, without a nil."""
    assert lua(
        """local fiber = require('fiber')
        local function nothing() end
        local function waits() fiber.sleep(0.001) end
        local count = function(...) return select('#', ...) end
        return count(xpcall(nothing, nothing)), count(xpcall(waits, nothing)),
            count(xpcall(function() return nil, nil end, nothing)),
            count(coroutine.resume(coroutine.create(nothing))), count(coroutine.resume(coroutine.create(waits))),
            count(coroutine.wrap(nothing)()), count(coroutine.wrap(waits)())"""
    ) == [1, 1, 3, 1, 1, 0, 0]


def test_a_handler_may_return_any_value(lua: Lua) -> None:
    """A tuple is a value that cannot be compared with tables."""
    assert lua(
        """local function fail() error('x') end
        local _, tuple = xpcall(fail, function() return box.tuple.new{1, 2} end)
        local _, number = xpcall(fail, function() return 5ULL end)
        local strange = setmetatable({}, {__eq = function() error('compared') end})
        local _, same = xpcall(fail, function() return strange end)
        return tuple[2], tostring(number), rawequal(same, strange)"""
    ) == [2, "5ULL", True]


def test_a_deep_stack(lua: Lua) -> None:
    """A traceback has the lines before level 12, dots, and the last ten. Frames of the node itself do not count; the
    last one stands for Tarantool's C function."""
    head, dots, tail = "f" * 11, "...", "f" * 8 + "mf"
    assert lua(
        """
        local function show(text)
            return (text:gsub('^[^\\n]*', ''):gsub('\\n\\t([^\\n]*)', function(line)
                return line == '...' and line or line:find('main chunk') and 'm' or line:find('error') and 'e' or 'f'
            end))
        end
        local function f(n, level)
            if n == 0 then return debug.traceback('', level):sub(2) end
            return (f(n - 1, level))
        end
        local function fail(n) if n == 0 then error('x') end return (fail(n - 1)) end
        local co = coroutine.create(function() f(0) end)
        local _, by_handler = xpcall(fail, function() return debug.traceback('', 2):sub(2) end, 40)
        local function wait(n) if n == 0 then coroutine.yield() end return (wait(n - 1)) end
        local waiting = coroutine.create(wait)
        coroutine.resume(waiting, 40)
        return show(f(19)), show(f(20)), show(f(60)), show(f(60, 5)), show(f(60, 14)), show(by_handler),
            show(debug.traceback(waiting)), show(debug.traceback(co)), debug.traceback(nil),
            debug.traceback(waiting, nil, 1)
        """
    ) == [
        "f" * 20 + "mf",
        head + dots + tail,
        head + dots + tail,
        head[4:] + dots + tail,
        dots + tail,
        "e" + head[2:] + dots + tail,
        head + "f" + dots + "f" * 10,
        "",
        None,
        None,
    ]
