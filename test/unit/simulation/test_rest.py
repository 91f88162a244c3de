"""Rest, the state in which nodes are compared: nothing may be under way that the end of a run would break."""

from __future__ import annotations

import asyncio

from box.testing import SimulatedNode, Simulation
from box.testing.simulation.administrator import Administrator
from box.testing.simulation.checks import Unrest, come_to_rest, is_at_rest
from box.testing.simulation.faults import Fault
from box.testing.simulation.injector import Injector

from .test_findings import make_space, put


async def _start_slowly(
    simulation: Simulation, administrator: Administrator, node: SimulatedNode
) -> asyncio.Task[None]:
    """Let the administrator start a node that is down, with slow links to its sources."""
    await simulation.sleep(1)
    node.options["replication_connect_quorum"] = 2
    node.kill()
    await administrator.look_after()
    await simulation.sleep(10)
    simulation.network.slow.update({("node1", "node2"): 1.0, ("node2", "node1"): 1.0})
    return simulation.loop.create_task(administrator.look_after())


def test_a_node_that_is_being_started_is_waited_for() -> None:
    """Rest waits for the `box.cfg` of a starting node, which has all rows before; cancelling it would
    end the process.
    """

    async def scenario(simulation: Simulation) -> tuple[bool, Unrest | None, bool]:
        one, two = await simulation.start_cluster(2, replication_timeout=30, replication_connect_timeout=60)
        await make_space(one)
        administrator = Administrator(simulation)
        round_ = await _start_slowly(simulation, administrator, two)
        await simulation.until(lambda: is_at_rest([one, two]), 60)
        was_helping = administrator.is_helping
        unrest = await come_to_rest(simulation, administrator)
        round_.cancel()
        await simulation.sleep(1)
        return was_helping, unrest, two.is_running

    with Simulation(1) as simulation:
        assert simulation.run(scenario(simulation)) == (True, None, True)


def test_the_end_of_all_faults_waits_for_a_node_that_is_being_started() -> None:
    """The end of all faults waits for a starting node, because workloads that need no rest are compared
    right after it.
    """

    async def scenario(simulation: Simulation) -> tuple[bool, bool]:
        one, two = await simulation.start_cluster(2, replication_timeout=30, replication_connect_timeout=60)
        await make_space(one)
        injector = Injector(simulation)
        administrator = injector.administrator
        round_ = await _start_slowly(simulation, administrator, two)
        await simulation.until(lambda: two.is_running, 60)
        was_helping = administrator.is_helping
        await injector.finish()
        round_.cancel()
        await simulation.sleep(1)
        return was_helping, two.is_running

    with Simulation(1) as simulation:
        assert simulation.run(scenario(simulation)) == (True, True)


def test_the_end_of_all_faults_waits_for_a_node_that_is_started_meanwhile() -> None:
    """The end of all faults waits for a node that the administrator starts while the end of faults
    starts another one.
    """

    async def scenario(simulation: Simulation) -> tuple[bool, bool]:
        one, two, three = await simulation.start_cluster(3, replication_timeout=30, replication_connect_timeout=60)
        await make_space(one)
        injector = Injector(simulation)
        administrator = injector.administrator
        for node in (two, three):
            node.options["replication_connect_quorum"] = 2
            node.kill()
        await administrator.look_after()
        await simulation.sleep(10)
        names = list(simulation.nodes)
        finish = simulation.loop.create_task(injector.finish())
        while not two.is_up:
            await asyncio.sleep(0)
        simulation.network.slow.update({(a, b): 1.0 for a in names for b in names if a != b})
        await simulation.sleep(1)
        round_ = simulation.loop.create_task(administrator.look_after())
        await simulation.until(lambda: three.is_running, 60)
        is_helping = administrator.is_helping
        await finish
        round_.cancel()
        await simulation.sleep(1)
        return is_helping, three.is_running

    with Simulation(1) as simulation:
        assert simulation.run(scenario(simulation)) == (True, True)


async def _apart(simulation: Simulation) -> list[SimulatedNode]:
    """Keep two nodes apart, one of which writes rows and makes a snapshot."""
    nodes = one, _ = await simulation.start_cluster(2, wal_max_size=2000, checkpoint_count=1, replication_timeout=1)
    await make_space(one)
    await simulation.until(lambda: is_at_rest(nodes), 10)
    simulation.network.cut("node1", "node2")
    simulation.network.cut("node2", "node1")
    simulation.network.reset_connections("node1")  # or they may have the rows when the cut ends
    for key in range(40):
        await put(one, key)
    await one.run(one.instance.checkpoints.make())
    await put(one, 40)  # opens a file, for which no room is made
    return nodes


def test_no_rest_is_no_violation_where_a_full_disk_has_cost_the_rows() -> None:
    """A cluster that a full disk keeps from rest is no violation: it may have removed rows that another node needs."""

    async def scenario(simulation: Simulation) -> Unrest | None:
        one, _ = await _apart(simulation)
        one.disk.capacity = one.disk.used
        await put(one, 41)
        one.disk.capacity = None
        simulation.network.heal()
        return await come_to_rest(simulation, Administrator(simulation))

    with Simulation(1) as simulation:
        assert simulation.run(scenario(simulation)) == Unrest([], ["node2 from node1"])


def test_no_rest_is_a_violation_where_all_rows_are_there() -> None:
    async def scenario(simulation: Simulation) -> Unrest | None:
        await _apart(simulation)
        return await come_to_rest(simulation, Administrator(simulation))

    with Simulation(1) as simulation:
        unrest = simulation.run(scenario(simulation))
    assert unrest is not None
    assert unrest.cut_off == []
    assert [text.partition(": ")[2].split()[0] for text in unrest.violations] == ["node1", "node2"]


def test_a_wrong_byte_in_a_log_that_nobody_reads() -> None:
    """A damaged log that a node does not read, because it joins anew, is not counted as skipped."""

    async def scenario(simulation: Simulation) -> tuple[bool, dict[str, None] | list[str]]:
        one, two = await simulation.start_cluster(2, checkpoint_count=1, wal_cleanup_delay=0, replication_timeout=1)
        await make_space(one)
        await simulation.until(lambda: is_at_rest([one, two]), 10)
        two.kill()
        one.kill()
        await one.start(replication_connect_quorum=0)
        for key in range(3):
            await put(one, key)
            await one.run(one.instance.checkpoints.make())
        await simulation.until(lambda: one.instance.checkpoints.collector.vclock[1] > 3, 10)
        simulation.network.isolate("node2")
        await two.start(replication_connect_quorum=0)
        simulation.network.heal()
        two.options["replication_connect_quorum"] = 2
        injector = Injector(simulation)
        await injector.run([Fault(0.0, "rot", "node2", "node1", 1.0, 0.5)])
        await simulation.sleep(10)
        await injector.finish()
        return any("initiating rebootstrap" in line for line in two.log.lines), injector.violations

    with Simulation(1) as simulation:
        is_joined, violations = simulation.run(scenario(simulation))
    assert is_joined
    assert not violations
