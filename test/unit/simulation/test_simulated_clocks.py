"""Clocks and random numbers in Lua of simulated nodes follow from the simulation alone."""

from __future__ import annotations

from typing import Any

import pytest

from box.testing import Simulation
from box.testing.simulation.loop import EPOCH

_READ = """
local clock, fiber = require('clock'), require('fiber')
local function all()
    return {clock.time(), clock.realtime(), clock.monotonic(), clock.proc(), clock.thread(), os.time(), os.clock(),
        fiber.time(), os.date('!%Y-%m-%d'), clock.time64(), clock.monotonic64()}
end
local before = all()
fiber.sleep(86400)
local after, gone = all(), {}
for number, value in ipairs(after) do
    gone[number] = type(value) == 'string' and value or tonumber(value - before[number])
end
return before, gone
"""


def test_clocks_tell_simulated_time() -> None:
    async def scenario(simulation: Simulation) -> Any:
        (node,) = await simulation.start_cluster(1, lua=True)
        return await node.run(node.application.eval(_READ))

    with Simulation(1) as simulation:
        before, gone = simulation.run(scenario(simulation))
    assert before[:2] == pytest.approx([EPOCH, EPOCH], abs=60)
    assert before[8] == "2020-09-13"
    assert gone.pop(8) == "2020-09-14"
    seconds = [value / 1e9 if number >= 8 else value for number, value in enumerate(gone)]
    assert seconds == pytest.approx([86400] * 10, abs=1.1)


def test_a_clock_that_is_wrong_shows_on_the_wall_only() -> None:
    async def scenario(simulation: Simulation) -> Any:
        (node,) = await simulation.start_cluster(1, lua=True)
        before = await node.run(node.application.eval("local c = require('clock'); return {c.time(), c.monotonic()}"))
        node.clock.jump(-5000)
        after = await node.run(node.application.eval("local c = require('clock'); return {c.time(), c.monotonic()}"))
        return [late - early for early, late in zip(before, after, strict=True)]

    with Simulation(1) as simulation:
        assert simulation.run(scenario(simulation)) == pytest.approx([-5000, 0], abs=0.5)


def test_a_given_moment_is_no_question_of_clocks() -> None:
    async def scenario(simulation: Simulation) -> Any:
        (node,) = await simulation.start_cluster(1, lua=True)
        text = """
            local moment = {year = 2021, month = 4, day = 1, hour = 12}
            return os.date('%Y-%m-%d %H', os.time(moment)), os.date('!*t', 0).year
        """
        return await node.run(node.application.eval(text))

    with Simulation(1) as simulation:
        assert simulation.run(scenario(simulation)) == ["2021-04-01 12", 1970]


@pytest.mark.parametrize("seed", [1, 2])
def test_chance_and_the_numbers_of_processes_follow_from_the_seed(seed: int) -> None:
    text = """
        return {require('digest').urandom(8):hex(), require('uuid').str(), box.info.pid, require('tarantool').pid(),
            require('math').random(1000)}
    """

    async def scenario(simulation: Simulation) -> Any:
        (node,) = await simulation.start_cluster(1, lua=True)
        first = await node.run(node.application.eval(text))
        await node.stop()
        await node.start()
        return first, await node.run(node.application.eval(text))

    def play(seed: int) -> Any:
        with Simulation(seed) as simulation:
            return simulation.run(scenario(simulation))

    first, second = play(seed)
    assert first[0] != second[0]
    assert (first[2], second[2]) == (101, 102)
    assert first[2] == first[3]
    assert play(seed) == (first, second)
    assert play(seed + 2)[0][:2] != first[:2]
