"""Fibers: order, waits, cancellation, join, conditions, channels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from test.support import until

from .support import Lua

Run = Callable[..., Any]
Evaluate = Callable[..., list[Any]]

PRELUDE = "local fiber = require('fiber') local log = {} local function say(x) log[#log + 1] = x end "


def test_create_runs_at_once_and_new_on_the_next_round(evaluate: Evaluate) -> None:
    assert evaluate(
        PRELUDE
        + """
        fiber.create(function() say('created') fiber.yield() say('created, later') end)
        fiber.new(function() say('new') end)
        say('main')
        fiber.yield()
        say('main, later')
        return log"""
    ) == [["created", "main", "new", "created, later", "main, later"]]


def test_woken_fibers_run_before_yielded_ones(evaluate: Evaluate) -> None:
    """A yield lets all ready fibers run first, as a sleep of 0 does in Tarantool."""
    assert evaluate(
        PRELUDE
        + """
        local cond = fiber.cond()
        fiber.create(function() cond:wait() say('woken') end)
        fiber.create(function() fiber.yield() say('yielded') end)
        cond:signal()
        fiber.yield()
        return log"""
    ) == [["woken", "yielded"]]


def test_ids_start_at_101_and_objects_are_unique(evaluate: Evaluate) -> None:
    assert evaluate(
        """local fiber = require('fiber')
        local self = fiber.self()
        return fiber.id() > 100, fiber.create(function() end):id() - fiber.id(), self == fiber.find(fiber.id()),
            tostring(self) == 'fiber: ' .. fiber.id(), type(self), getmetatable(self)"""
    ) == [True, 1, True, True, "userdata", "fiber"]


def test_ten_thousand_fibers_wait_at_once(evaluate: Evaluate) -> None:
    """Ten thousand fibers wait on a condition, in a sleep and on a channel, and all return."""
    assert evaluate(
        """
        local fiber = require('fiber')
        local cond, channel, done = fiber.cond(), fiber.channel(), 0
        for i = 1, 10000 do
            fiber.create(function()
                cond:wait()
                fiber.sleep(0.001)
                channel:get()
                done = done + 1
            end)
        end
        local waiting = 0
        for _ in pairs(fiber.info()) do waiting = waiting + 1 end
        cond:broadcast()
        for i = 1, 10000 do channel:put(i) end
        fiber.yield()
        return waiting, done"""
    ) == [10001, 10000]


def test_waiting_inside_a_coroutine_of_the_user(evaluate: Evaluate) -> None:
    """Waits inside the user's coroutines, nested and in generators, work, and the user's own yields arrive."""
    assert evaluate(
        """
        local fiber = require('fiber')
        local function numbers()
            return coroutine.wrap(function()
                for i = 1, 3 do
                    fiber.sleep(0)
                    local inner = coroutine.wrap(function(x) fiber.yield() coroutine.yield(x * 10) end)
                    coroutine.yield(inner(i))
                end
            end)
        end
        local seen = {}
        for n in numbers() do seen[#seen + 1] = n end
        local co = coroutine.create(function(a) fiber.sleep(0.001) error('inside ' .. a, 0) end)
        return seen, select(2, coroutine.resume(co, 'x')), coroutine.status(co)"""
    ) == [[10, 20, 30], "inside x", "dead"]
    assert evaluate(
        """
        local fiber = require('fiber')
        local co = coroutine.create(function(a)
            local b = coroutine.yield(a + 1)
            fiber.sleep(0)
            return b, coroutine.status(coroutine.running())
        end)
        local _, first = coroutine.resume(co, 1)
        return first, coroutine.status(co), select(2, coroutine.resume(co, 'b')), coroutine.status(co),
            select(2, coroutine.resume(co))"""
    ) == [2, "suspended", "b", "dead", "cannot resume dead coroutine"]


def test_a_waiting_coroutine_cannot_be_resumed_by_others(evaluate: Evaluate) -> None:
    assert evaluate(
        """
        local fiber = require('fiber')
        local co = coroutine.create(function() fiber.sleep(0.001) return 'end' end)
        local result
        local f = fiber.create(function() result = {coroutine.resume(co)} end)
        f:set_joinable(true)
        local status, ok, problem = coroutine.status(co), coroutine.resume(co)
        f:join()
        return status, ok, problem, result"""
    ) == ["normal", False, "cannot resume non-suspended coroutine", [True, "end"]]


def test_a_fiber_itself_cannot_yield_as_a_coroutine(evaluate: Evaluate) -> None:
    assert evaluate("return pcall(coroutine.yield, 1)") == [False, "attempt to yield across C-call boundary"]


def test_waiting_inside_pcall_metamethods_and_iterators(evaluate: Evaluate) -> None:
    assert evaluate(
        """
        local fiber = require('fiber')
        local slow = setmetatable({}, {
            __index = function(_, key) fiber.sleep(0) return key .. '!' end,
            __add = function(a, b) fiber.yield() return 42 end,
            __call = function(_, x) fiber.yield() return x end,
        })
        local function each() return function(_, i) fiber.yield() if i < 2 then return i + 1 end end, nil, 0 end
        local n = 0
        for i in each() do n = n + i end
        local ok, problem = pcall(function() fiber.sleep(0) error('late', 0) end)
        local _, handled = xpcall(function() fiber.sleep(0) error('x', 0) end, function(e) return e .. ' handled' end)
        return slow.key, slow + 1, slow(7), n, ok, problem, handled"""
    ) == ["key!", 42, 7, 3, False, "late", "x handled"]


@pytest.mark.parametrize("call", ["require('slow_module')", "dofile('{path}')", "loadfile('{path}')()"])
def test_a_module_body_may_wait(evaluate: Evaluate, tmp_path: Path, call: str) -> None:
    path = tmp_path / "slow_module.lua"
    path.write_text("require('fiber').sleep(0.001) return {answer = 42}")
    call = call.format(path=path)
    assert evaluate(f"package.setsearchroot({str(tmp_path)!r}) return {call}.answer") == [42]


def test_require_texts(evaluate: Evaluate, tmp_path: Path) -> None:
    """Circular, failing and missing modules raise Tarantool's texts from require."""
    (tmp_path / "loops.lua").write_text("require('loops')")
    (tmp_path / "fails.lua").write_text("error('fails')")
    (tmp_path / "gives.lua").write_text("gives = (gives or 0) + 1")
    root = f"package.setsearchroot({str(tmp_path)!r}) "
    ok, text = evaluate(root + "return pcall(require, 'loops')")
    assert not ok
    assert text.endswith("loops.lua:1: loop or previous error loading module 'loops'")
    assert evaluate(root + "pcall(require, 'fails') return pcall(require, 'fails')") == [
        False,
        "loop or previous error loading module 'fails'",
    ]
    assert evaluate(root + "return require('gives'), require('gives'), gives, package.loaded.gives") == [
        True,
        True,
        1,
        True,
    ]
    ok, text = evaluate(root + "return pcall(require, 'no.such')")
    assert not ok
    assert text.startswith(
        f"module 'no.such' not found:\n\tno field package.preload['no.such']\n\tno file '{tmp_path}/no/such.lua'"
    )
    assert evaluate("return pcall(require, {})") == [False, "bad argument #1 to '?' (string expected, got table)"]


# ---- cancellation, join ----


@pytest.mark.parametrize(
    "wait",
    [
        "fiber.sleep(100)",
        "fiber.yield()",
        "fiber.channel():get()",
        "fiber.channel():put(1)",
        "fiber.testcancel()",
        "fiber.cond():wait(100)",
    ],
)
def test_cancellation_points(evaluate: Evaluate, wait: str) -> None:
    """A cancelled wait raises an error, also a wait for a condition, which returned true before 2.7.1."""
    before = "false" if "testcancel" in wait else "true"
    assert evaluate(
        f"""
        local fiber = require('fiber')
        local f = fiber.new(function()
            local ok, problem = pcall(function() {wait} end)
            return ok, problem and problem.message, problem and problem.type
        end)
        f:set_joinable(true)
        if {before} then fiber.yield() end
        f:cancel()
        return f:join()"""
    ) == [True, False, "fiber is cancelled", "FiberIsCancelled"]


def test_join(evaluate: Evaluate) -> None:
    """join returns the results or the error of the fiber, once; error values that are no objects become objects."""
    assert evaluate(
        """
        local fiber = require('fiber')
        local function joined(f)
            local t = fiber.new(f)
            t:set_joinable(true)
            local waits = t:status()
            local results = {t:join()}
            results[2] = tostring(results[2])
            return {waits, t:status(), unpack(results, 1, 3)}, {pcall(t.join, t)}
        end
        return {joined(function() return 'a', 'b' end)}, {joined(function() error('boo', 0) end)},
            {joined(function() fiber.sleep(0.001) fiber.self():cancel() end)}"""
    ) == [
        [["suspended", "dead", True, "a", "b"], [False, "the fiber is dead"]],
        [["suspended", "dead", False, "boo"], [False, "the fiber is dead"]],
        [["suspended", "dead", False, "fiber is cancelled"], [False, "the fiber is dead"]],
    ]


def test_a_fiber_that_cancels_itself_stops_there(evaluate: Evaluate) -> None:
    assert evaluate(
        PRELUDE
        + """
        local f = fiber.create(function() say(1) fiber.self():cancel() say(2) end)
        return log, f:status()"""
    ) == [[1], "dead"]


def test_wakeup_shortens_a_sleep(evaluate: Evaluate) -> None:
    assert evaluate(
        """
        local fiber = require('fiber')
        local f = fiber.create(function() fiber.sleep(1000) return 'woken' end)
        f:set_joinable(true)
        f:wakeup() f:wakeup()
        return f:join()"""
    ) == [True, "woken"]


def test_a_timer_leaves_nothing_behind(run: Run) -> None:
    async def test(lua: Lua) -> None:
        await lua.eval("""
            local fiber = require('fiber')
            local f = fiber.create(function() fiber.sleep(1000) end)
            f:wakeup()
            local cond = fiber.cond()
            f = fiber.create(function() cond:wait(1000) end)
            cond:signal()""")
        await until(lambda: not lua.runtime.waits._timers, "the end of the timers")

    run(test)


# ---- conditions and channels ----


@pytest.mark.parametrize(
    ("daemons", "sleeps", "expected"),
    [
        (1, False, "1,7,6,5,4,3,2"),
        (1, True, "1,5,7,6,2,4,3"),
        (14, True, "1,2,7,6,5,3,4"),
        (12, True, "1,2,7,3,5,4,6"),
    ],
)
def test_fibers_that_yielded_run_in_the_order_of_a_heap(
    evaluate: Evaluate, daemons: int, sleeps: bool, expected: str
) -> None:
    """The order depends on the number of timers that run, those of daemons included: one before box.cfg{}."""
    (order,) = evaluate(
        """
        local daemons, sleeps = ...
        require('internal.scheduler').daemon_timers = daemons
        local fiber, order = require('fiber'), {}
        for i = 1, 7 do
            fiber.create(function() fiber.yield() table.insert(order, i) end)
        end
        while #order < 7 do
            fiber.sleep(sleeps and 0.001 or 0)
        end
        return table.concat(order, ',')
        """,
        daemons,
        sleeps,
    )
    assert order == expected


def test_cond_wakes_in_order(evaluate: Evaluate) -> None:
    assert evaluate(
        PRELUDE
        + """
        local cond = fiber.cond()
        for i = 1, 4 do fiber.create(function() say({i, cond:wait(i == 2 and 0.001 or 100)}) end) end
        while #log < 1 do fiber.yield() end
        cond:signal() fiber.yield()
        cond:broadcast() fiber.yield()
        return log"""
    ) == [[[2, False], [1, True], [3, True], [4, True]]]


def test_unbuffered_channel_hands_over(evaluate: Evaluate) -> None:
    assert evaluate(
        PRELUDE
        + """
        local channel = fiber.channel()
        fiber.create(function() for i = 1, 3 do say({'put', i, channel:put(i)}) end channel:close() end)
        for _ = 1, 4 do say({'got', channel:get()}) end
        return log, channel:is_closed(), channel:put(1), tostring(channel)"""
    )[1:] == [True, False, "channel: closed"]


def test_buffered_channel(evaluate: Evaluate) -> None:
    """Writers beyond a channel's size wait and come in order; counts and flags follow."""
    assert evaluate(
        """
        local fiber = require('fiber')
        local channel = fiber.channel(2)
        local function state()
            return {channel:size(), channel:count(), channel:is_full(), channel:is_empty(), channel:has_readers(),
                channel:has_writers()}
        end
        local empty = state()
        for i = 1, 4 do fiber.create(function() channel:put(i) end) end
        local full, got = state(), {}
        for i = 1, 4 do got[i] = channel:get() end
        fiber.create(function() channel:get() end)
        return empty, full, got, state(), channel:get(0), channel:get(0.001)"""
    ) == [
        [2, 0, False, True, False, False],
        [2, 2, True, False, False, True],
        [1, 2, 3, 4],
        [2, 0, False, True, True, False],
        None,
        None,
    ]


def test_closing_a_channel_wakes_everybody(evaluate: Evaluate) -> None:
    assert evaluate(
        PRELUDE
        + """
        local reads, writes = fiber.channel(), fiber.channel()
        fiber.create(function() say({'get', reads:get() == nil}) end)
        fiber.create(function() say({'put', writes:put(1)}) end)
        reads:close() writes:close()
        fiber.yield()
        return log"""
    ) == [[["get", True], ["put", False]]]


def test_wakeup_does_not_end_a_channel_wait(evaluate: Evaluate) -> None:
    assert evaluate(
        PRELUDE
        + """
        local channel = fiber.channel()
        local f = fiber.create(function() say(channel:get()) end)
        f:wakeup() fiber.yield()
        say(f:status())
        channel:put('value') fiber.yield()
        return log"""
    ) == [["suspended", "value"]]


def test_delayed_tasks(evaluate: Evaluate) -> None:
    assert evaluate(
        PRELUDE
        + """
        fiber._internal.schedule_task(function(x) fiber.sleep(0) say(x) end, 1)
        fiber._internal.schedule_task(say, 2)
        say('main')
        while #log < 3 do fiber.yield() end
        return log"""
    ) == [["main", 1, 2]]


def test_an_endless_exchange_does_not_starve_the_loop(run: Run) -> None:
    """Two fibers that wake each other for ever leave turns to timers and calls of Python."""

    async def test(lua: Lua) -> None:
        await lua.eval("""
            local fiber = require('fiber')
            local a, b = fiber.channel(), fiber.channel()
            fiber.create(function() while true do a:put(1) b:get() end end)
            fiber.create(function() while true do a:get() b:put(1) end end)""")
        assert await lua.value("require('fiber').sleep(0.001) return 'alive'") == "alive"

    run(test)
