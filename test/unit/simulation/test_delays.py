"""Error injections that delay the log or snapshots of a simulated node delay nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from box.testing import SimulatedNode, Simulation
from test.unit.simulation.test_simulation import keys, make_space, put


def inject(node: SimulatedNode, name: str, value: object) -> None:
    """Set an error injection from outside of the simulated process."""
    assert node.process.run(node.instance.errinj.set, f"ERRINJ_{name}", value) == "ok"


@pytest.mark.parametrize(("name", "before", "during"), [("WAL_DELAY", True, 0), ("WAL_DELAY_COUNTDOWN", 2, 2)])
def test_writes_wait_and_everything_else_goes_on(name: str, before: object, during: int) -> None:
    async def scenario(simulation: Simulation) -> None:
        one, two = await simulation.start_cluster(2)
        await make_space(one)
        inject(one, name, before)
        writing = asyncio.create_task(put(one, 1, 2, 3, 4))
        checkpoint = asyncio.create_task(one.run(one.instance.checkpoints.make()))
        await simulation.sleep(5)
        assert keys(two) == [1, 2, 3, 4][:during]
        assert not writing.done()
        await put(two, 10)
        assert not checkpoint.done()
        inject(one, "WAL_DELAY", False)
        await simulation.within(5, asyncio.gather(writing, checkpoint))
        await simulation.until(lambda: keys(one) == keys(two) == [1, 2, 3, 4, 10], 5, "equal rows")

    with Simulation(1) as simulation:
        simulation.run(scenario(simulation))
        assert simulation.errors == []


def test_followers_get_rows_that_their_origin_does_not_know_of_yet() -> None:
    async def scenario(simulation: Simulation) -> None:
        one, two = await simulation.start_cluster(2)
        await make_space(one)
        inject(one, "RELAY_FASTER_THAN_TX", True)
        writing = asyncio.create_task(put(one, 1))
        await simulation.until(lambda: keys(two) == [1], 5, "the row at the other one")
        assert not writing.done()
        inject(one, "RELAY_FASTER_THAN_TX", False)
        await simulation.within(5, writing)

    with Simulation(1) as simulation:
        simulation.run(scenario(simulation))


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("name", ["WAL_DELAY", "SNAP_WRITE_DELAY"])
def test_a_process_ends_though_something_is_delayed(name: str, end: str) -> None:
    async def scenario(simulation: Simulation) -> Any:
        (node,) = await simulation.start_cluster(1)
        await make_space(node)
        await put(node, 1)
        inject(node, name, True)
        tasks = [
            asyncio.create_task(put(node, 2)),
            asyncio.create_task(node.run(node.instance.checkpoints.make())),
        ]
        await simulation.sleep(1)
        assert not tasks[1].done()
        if end == "kill":
            node.kill()
        else:
            await simulation.within(5, node.stop())
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not any(name.endswith(".inprogress") for name in node.disk.names(".")) or end == "kill"
        await node.start()
        return keys(node)

    with Simulation(1) as simulation:
        is_written = name == "SNAP_WRITE_DELAY" or end == "stop"
        assert simulation.run(scenario(simulation)) == ([1, 2] if is_written else [1])
        assert simulation.errors == []
