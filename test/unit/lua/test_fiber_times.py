"""Processor times of fibers: to which fiber time counts, and that nothing is measured unless asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .support import Lua

Run = Callable[..., Any]

WORK = """
    fiber, clock = require('fiber'), require('clock')
    function work(seconds)
        local ends = clock.thread() + seconds
        while clock.thread() < ends do end
    end
    function entry(f) return fiber.top().cpu[('%d/%s'):format(f:id(), f:name())] end
"""


def test_nested_fibers_have_their_own_time(run: Run) -> None:
    """A fiber that starts another one is not charged for that fiber's time."""

    async def test(lua: Lua) -> list[Any]:
        await lua.eval(WORK)
        await lua.eval("fiber.top_enable()")
        return await lua.eval("""
            local inner
            local outer = fiber.create(function()
                fiber.name('outer')
                work(0.01)
                inner = fiber.create(function() fiber.name('inner') work(0.03) fiber.sleep(100) end)
                work(0.01)
                fiber.sleep(100)
            end)
            fiber.sleep(0.01)
            return entry(outer).time, entry(inner).time
        """)

    outer, inner = run(test)
    assert 0.02 <= outer < 0.025
    assert 0.03 <= inner < 0.035


def test_time_between_calls_is_the_loops(run: Run) -> None:
    """Time that Python takes besides counts for fiber 1/sched, and all shares add up to 100 %."""

    async def test(lua: Lua) -> dict[str, Any]:
        await lua.eval(WORK)
        await lua.eval("fiber.top_enable()")
        await lua.eval("fiber.sleep(0.01)")
        for _ in range(40):
            sum(range(200_000))
            await lua.eval("work(0.001)")
        top: dict[str, Any] = await lua.value("return fiber.top()")
        return top

    top = run(test)
    assert top["cpu_misses"] == 0
    assert top["cpu"]["1/sched"]["average"] > 30
    assert top["cpu"]["1/sched"]["time"] > 0.05


def test_a_share_falls_while_others_work(run: Run) -> None:
    """A share is an average with a weight of a sixteenth for each turn; turns without the fiber lower it."""

    async def test(lua: Lua) -> list[Any]:
        await lua.eval(WORK)
        await lua.eval("fiber.top_enable()")
        return await lua.eval("""
            local first = fiber.create(function()
                for _ = 1, 60 do work(0.002) fiber.yield() end
                fiber.sleep(100)
            end)
            while entry(first).time < 0.11 do fiber.sleep(0.001) end
            local before = entry(first)
            local other = fiber.create(function() while true do work(0.002) fiber.sleep(0) end end)
            while entry(other).time < 0.06 do fiber.sleep(0.001) end
            other:cancel()
            local after = entry(first)
            return before.average, after.average, after.instant, after.time - before.time
        """)

    before, after, instant, more = run(test)
    assert before > 60
    assert after < before / 2
    assert instant == 0
    assert more < 0.02


def test_errors_and_ends_are_measured_too(run: Run) -> None:
    """Fibers that fail or are cancelled, also inside others, stop to be charged."""

    async def test(lua: Lua) -> list[Any]:
        await lua.eval(WORK)
        return await lua.eval("""
            fiber.top_enable()
            for _ = 1, 20 do
                local f = fiber.new(function() work(0.001) error('wrong') end)
                f:set_joinable(true)
                assert(not f:join())
            end
            local waits = fiber.create(function() fiber.sleep(100) end)
            fiber.sleep(0.001)
            waits:cancel()
            fiber.sleep(0.001)
            work(0.005)
            fiber.sleep(0.001)
            local own = entry(fiber.self()).time
            fiber.top_disable()
            local count = 0
            for _ in pairs(fiber.info()) do count = count + 1 end
            local kept = fiber.info()[fiber.id()].time
            work(0.002)
            fiber.sleep(0.001)
            return own, count, kept >= own and fiber.info()[fiber.id()].time == kept
        """)

    own, count, is_kept = run(test)
    assert 0.005 <= own < 0.015
    assert (count, is_kept) == (1, True)


def test_no_sleep_is_shorter_than_asked_for(evaluate: Callable[..., list[Any]]) -> None:
    """A sleep never ends early; before, a loop that counts in milliseconds ended it up to a millisecond too soon."""
    assert evaluate("""
        local fiber, shortest = require('fiber'), math.huge
        for i = 1, 100 do
            local begun = fiber.clock()
            fiber.sleep(0.0031)
            shortest = math.min(shortest, fiber.clock() - begun)
        end
        return shortest >= 0.0031
    """) == [True]


def test_the_clocks_stand_still_in_a_turn(evaluate: Callable[..., list[Any]]) -> None:
    """fiber.clock() and fiber.time() stand still within a turn, as in Tarantool."""
    assert evaluate("""
        local fiber, clock = require('fiber'), require('clock')
        local function read() return fiber.clock(), fiber.time(), fiber.clock64(), fiber.time64() end
        local function busy()
            local ends = clock.monotonic() + 0.002
            while clock.monotonic() < ends do end
        end
        local before = {read()}
        busy()
        local after = {read()}
        local in_trigger
        fiber.create(function() in_trigger = fiber.clock() end)
        local results = {before[1] == after[1], before[2] == after[2], before[3] == after[3], before[4] == after[4],
            in_trigger == before[1]}
        fiber.sleep(0)
        local later = {read()}
        results[6] = later[1] - before[1] >= 0.002 and later[2] > before[2] and later[3] > before[3]
        return results, math.abs(later[1] - clock.monotonic()) < 0.1, math.abs(later[2] - clock.realtime()) < 0.1
    """) == [[True] * 6, True, True]


def test_time_passes_for_who_yields_until_a_deadline(evaluate: Callable[..., list[Any]]) -> None:
    assert evaluate("""
        local fiber = require('fiber')
        local most = 0
        for try = 1, 100 do -- a process that the machine stops for 3 ms comes to one yield only
            local deadline, yields = fiber.clock() + 0.003, 0
            while fiber.clock() < deadline do
                fiber.yield()
                yields = yields + 1
            end
            most = math.max(most, yields)
            if most > 1 then break end
        end
        return most > 1
    """) == [True]
