"""Simulated clusters: one seed gives one run; processes stop, die and come back."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from box.errors import BoxError
from box.testing import SimulatedNode, Simulation
from box.testing.simulation.disk import WRITE_FAILS
from box.testing.simulation.injector import Injector
from box.testing.simulation.simulated_node import NodeDied

SPACE = 512


async def make_space(node: SimulatedNode, **options: Any) -> None:
    def create(changes: Any) -> None:
        changes.insert(280, [SPACE, 1, "test", "memtx", 0, options, []])
        changes.insert(288, [SPACE, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]])

    await node.transaction(create)


async def put(node: SimulatedNode, *keys: int) -> None:
    for key in keys:
        await node.transaction(lambda changes, key=key: changes.insert(SPACE, [key]))  # type: ignore[misc]


def keys(node: SimulatedNode) -> list[int]:
    return [row[0] for row in node.rows(SPACE)]


async def stormy(simulation: Simulation, *, lua: bool = False) -> list[list[int]]:
    """Make a scenario with faults of all kinds."""
    nodes = await simulation.start_cluster(3, lua=lua)
    one, two, three = nodes
    await make_space(one, is_sync=True)
    await put(one, *range(20))
    two.kill()
    simulation.network.isolate("node3")
    simulation.loop.call_later(1, simulation.network.heal)
    await put(one, 20)
    await two.start()
    three.halt()
    await put(one, *range(21, 30))
    three.go_on()
    simulation.network.reset_connections("node1")
    two.clock.jump(-1000)
    await put(one, *range(30, 35))
    await simulation.until(lambda: all(keys(node) == list(range(35)) for node in nodes), 60, "equal rows")
    return [keys(node) for node in nodes]


async def stormy_with_lua(simulation: Simulation) -> list[list[int]]:
    """Make a scenario with faults of all kinds, on nodes with a Lua runtime."""
    return await stormy(simulation, lua=True)


async def busy_in_lua(simulation: Simulation) -> list[Any]:
    """Run fibers, timers, net.box calls, clocks and random numbers on three nodes, one of which dies."""
    nodes = await simulation.start_cluster(3, lua=True)
    one, two, three = nodes
    await one.run(one.application.eval(_APPLICATION + "create()"))
    await simulation.until(lambda: all(node.has(280, SPACE) for node in nodes), 30, "the space everywhere")
    for number, node in enumerate(nodes):
        await node.run(node.application.eval(_APPLICATION + "start(...)", number, one.uri))
    await simulation.sleep(1)
    three.kill()
    two.clock.jump(100)
    await simulation.sleep(1)
    await three.start()
    await simulation.until(lambda: keys(one) == keys(two) == keys(three), 60, "equal rows")
    rows = [[*place, sorted(facts.items(), key=str)] for *place, facts in one.rows(SPACE)]
    simulation.note("-", "rows", repr(rows))
    return one.rows(SPACE)


_APPLICATION = f"""
local fiber, clock, uuid, netbox = require('fiber'), require('clock'), require('uuid'), require('net.box')

local function create()
    box.schema.user.grant('guest', 'super', nil, nil, {{if_not_exists = true}})
    box.schema.space.create('log', {{id = {SPACE}}}):create_index('pk', {{parts = {{{{1, 'string'}}}}}})
end

local function start(number, uri)
    local queue = fiber.channel(2)
    fiber.create(function()
        local owner = netbox.connect(uri)
        while true do
            local facts = queue:get()
            pcall(owner.call, owner, 'box.space.log:insert', {{facts}}, {{timeout = 1}})
        end
    end)
    for kind = 1, 3 do
        fiber.create(function()
            local options = {{a = kind, b = 'text', c = {{1, 2}}, d = math.random(), e = clock.time(), f = os.time()}}
            while true do
                options.c[kind] = math.random(100)
                options.g = clock.monotonic()
                queue:put({{uuid.str(), number, kind, options}})
                fiber.sleep(math.random() / 20)
            end
        end)
    end
end
"""

STORM = """
import sys
from box.testing import Simulation
from test.unit.simulation import test_simulation as tests
with Simulation(sys.argv[1], keeps_messages=True) as simulation:
    rows = simulation.run(getattr(tests, sys.argv[2])(simulation))
    print(simulation.trace.digest, len(rows) > 2, len(simulation.trace.messages) > 200, simulation.errors)
"""


def digest(seed: int, hash_seed: str, scenario: Callable[..., Any] = stormy, flavour: str = "") -> str:
    """Return the digest of a scenario's trace, played in a child process."""
    result = subprocess.run(
        [sys.executable, "-c", STORM, str(seed), scenario.__name__],
        env=os.environ | {"PYTHONHASHSEED": hash_seed, "LUNABOX_LUAJIT": flavour},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return result.stdout.strip()


def test_equal_seeds_give_equal_traces_in_every_process() -> None:
    """Equal seeds give equal traces in every process, whatever the addresses of objects and the order of sets."""
    first = digest(1, "0")
    assert first.endswith(" True True []")
    assert digest(1, "12345") == first
    assert digest(2, "0") != first


def test_lua_changes_nothing_about_that() -> None:
    first = digest(3, "0", stormy_with_lua)
    assert first.endswith(" True True []")
    assert digest(3, "77", stormy_with_lua) == first


@pytest.mark.parametrize("seed", range(2))
def test_neither_does_the_compiler_of_lua(seed: int) -> None:
    """Equal seeds give equal traces with both LuaJIT flavours, but for the order of maps, which follows `pairs()`."""
    first = digest(seed, "0", busy_in_lua, "luajit20")
    assert first.endswith(" True True []")
    assert digest(seed, "77", busy_in_lua, "luajit21") == first


def test_lua_fibers_run_in_simulated_time() -> None:
    async def scenario(simulation: Simulation) -> Any:
        (node,) = await simulation.start_cluster(1, lua=True)
        start = simulation.loop.time()
        result = await node.run(
            node.application.eval("local f = require('fiber'); local t = f.time(); f.sleep(3600); return f.time() - t")
        )
        assert simulation.loop.time() - start == pytest.approx(3600, abs=0.1)
        return result

    with Simulation(1) as simulation:
        assert simulation.run(scenario(simulation)) == pytest.approx(3600, abs=0.1)


def test_the_log_of_a_node_with_lua_is_kept_and_ends_with_its_process(caplog: pytest.LogCaptureFixture) -> None:
    """The log of a dead process keeps its lines; what closed coroutines log afterwards is dropped."""

    async def scenario(simulation: Simulation) -> None:
        first, second = await simulation.start_cluster(2, lua=True)
        await simulation.sleep(1)
        said = len(caplog.records)
        second.kill()
        assert caplog.records[said:] == []
        assert "subscribed" in second.log.lines
        assert (first.log.alarms, second.log.alarms) == ([], [])

    caplog.set_level(logging.INFO, "box")
    with Simulation(1) as simulation:
        simulation.run(scenario(simulation))


def test_a_call_in_a_process_that_dies_has_no_outcome() -> None:
    async def scenario(simulation: Simulation) -> None:
        nodes = await simulation.start_cluster(2, replication_synchro_quorum=2)
        await make_space(nodes[0], is_sync=True)
        nodes[1].kill()
        simulation.loop.call_later(0.5, nodes[0].kill)
        with pytest.raises(NodeDied):
            await put(nodes[0], 1)
        with pytest.raises(NodeDied):
            await put(nodes[0], 2)

    with Simulation(1) as simulation:
        simulation.run(scenario(simulation))
        assert simulation.errors == []


@pytest.mark.parametrize("seed", range(4))
def test_a_power_failure_takes_nothing_that_was_synced(seed: int) -> None:
    async def scenario(simulation: Simulation) -> None:
        (node,) = await simulation.start_cluster(1, wal_mode="fsync", wal_max_size=2000)
        node.disk.latency = (0.0001, 0.005)
        await make_space(node)
        acknowledged: list[int] = []

        async def write() -> None:
            for key in range(1000):
                await put(node, key)
                acknowledged.append(key)

        simulation.loop.call_later(simulation.random("when").uniform(0.01, 2), node.lose_power)
        with pytest.raises(NodeDied):
            await write()
        assert acknowledged
        await node.start()
        assert set(acknowledged) <= set(keys(node))
        assert len(keys(node)) <= len(acknowledged) + 1

    with Simulation(seed) as simulation:
        simulation.run(scenario(simulation))
        assert simulation.errors == []


def test_a_start_that_syncs_what_it_has_read_waits_for_the_disk() -> None:
    """A start that syncs what it has read waits for the disk before it writes."""

    async def scenario(simulation: Simulation) -> None:
        (node,) = await simulation.start_cluster(1, wal_mode="fsync")
        await make_space(node)
        node.kill()
        node.disk.sync_delay = 3.0
        before = simulation.loop.time()
        await node.start()
        assert simulation.loop.time() - before >= 3.0

    with Simulation(1) as simulation:
        simulation.run(scenario(simulation))


def test_a_disk_that_fails_is_an_error_of_the_write_only() -> None:
    async def scenario(simulation: Simulation) -> None:
        (node,) = await simulation.start_cluster(1)
        await make_space(node)
        await put(node, 1)
        node.disk.faults.add(WRITE_FAILS)
        with pytest.raises(BoxError, match="Failed to write to disk"):
            await put(node, 2)
        node.disk.faults.clear()
        await put(node, 3)
        node.kill()
        await node.start()
        assert keys(node) == [1, 3]

    with Simulation(1) as simulation:
        simulation.run(scenario(simulation))


def test_one_direction_can_be_cut() -> None:
    """A link can be cut in one direction: what is sent in the other one arrives."""

    async def scenario(simulation: Simulation) -> None:
        one, two = await simulation.start_cluster(2)
        await make_space(one)
        await simulation.until(lambda: SPACE in two.instance.schema.spaces, 5)
        simulation.network.cut("node1", "node2")
        await put(one, 1)
        await put(two, 2)
        await simulation.sleep(0.2)
        assert keys(two) == [2]
        simulation.network.heal()
        await simulation.until(lambda: keys(one) == keys(two) == [1, 2], 30)

    with Simulation(1) as simulation:
        simulation.run(scenario(simulation))


def test_a_fault_that_ends_in_the_middle_of_a_stop() -> None:
    """A fault that ends in the middle of a stop restarts the node; before, it was left closed and
    counted as running.
    """

    async def story(simulation: Simulation) -> None:
        one, two = await simulation.start_cluster(2)
        await make_space(one)
        fault = simulation.loop.create_task(two.stop())
        await simulation.sleep(0)
        fault.cancel()
        await asyncio.wait([fault])
        assert two.is_up
        await Injector(simulation).finish()
        await put(one, 1)
        await simulation.until(lambda: two.is_running and two.has(SPACE, 1), 20, "the row")

    with Simulation(1) as simulation:
        simulation.run(story(simulation))
        assert simulation.errors == []
