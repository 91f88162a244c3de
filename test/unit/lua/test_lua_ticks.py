"""How many rounds of yielding fibers share a turn of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

from .support import Lua

Run = Callable[..., Any]
YIELDS = 320
ROUNDS = 32


async def turns_of(lua: Lua) -> int:
    """Return the turns of the loop during so many yields of one fiber."""
    turns = 0
    loop = asyncio.get_running_loop()

    def next_turn() -> None:
        nonlocal turns, handle
        turns += 1
        handle = loop.call_soon(next_turn)

    handle = loop.call_soon(next_turn)
    await lua.eval(f"for _ = 1, {YIELDS} do require('fiber').yield() end")
    handle.cancel()
    return turns


def test_short_rounds_share_a_turn_of_the_loop(run: Run) -> None:
    """Short rounds share turns of the loop; on a clock that stands still all rounds are short."""
    turns = run(turns_of, monotonic=lambda: 0.0)
    assert YIELDS // ROUNDS <= turns <= YIELDS // ROUNDS + 5


def test_a_long_round_has_a_turn_of_its_own(run: Run) -> None:
    """A round of 0.12 ms has a turn of its own, so that the loop's other work does not wait for a second one."""
    clock = count()
    assert run(turns_of, monotonic=lambda: next(clock) * 0.00012) >= YIELDS


def test_many_fibers_that_yield_all_go_on_each_round(run: Run) -> None:
    """Each of many yielding fibers runs once a round."""

    async def test(lua: Lua) -> None:
        seen = await lua.value(
            """
            local fiber, seen, running = require('fiber'), {}, 5
            for number = 1, 5 do
                fiber.create(function()
                    for _ = 1, 40 do fiber.yield() table.insert(seen, number) end
                    running = running - 1
                end)
            end
            while running > 0 do fiber.sleep(0.001) end
            return seen
            """
        )
        rounds = [seen[place : place + 5] for place in range(0, len(seen), 5)]
        assert len(rounds) == 40
        assert all(sorted(each) == [1, 2, 3, 4, 5] for each in rounds)

    run(test)
