"""Defects that runs of the simulation have found, each as the shortest sequence of events that shows it."""

from __future__ import annotations

import asyncio
from typing import Any

from box.errors import BoxError, ErrorCode
from box.replication.raft import Role
from box.replication.state import ApplierState
from box.testing import SimulatedNode, Simulation
from box.testing.simulation.simulated_node import NodeDied

SPACE = 512


async def make_space(node: SimulatedNode, **options: Any) -> None:
    def create(changes: Any) -> None:
        changes.insert(280, [SPACE, 1, "test", "memtx", 0, options, []])
        changes.insert(288, [SPACE, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]])

    await node.transaction(create)


async def put(node: SimulatedNode, key: int) -> None:
    await node.transaction(lambda changes: changes.insert(SPACE, [key]))


def leads(node: SimulatedNode) -> bool:
    return node.is_running and node.instance.elections.raft.role is Role.LEADER


async def candidates(simulation: Simulation) -> list[SimulatedNode]:
    nodes = await simulation.start_cluster(
        3, replication_synchro_quorum=2, replication_synchro_timeout=1e6, election_timeout=1
    )
    await make_space(nodes[0], is_sync=True)
    await simulation.until(lambda: all(SPACE in node.instance.schema.spaces for node in nodes), 10, "the space")
    for node in nodes:
        await node.configure(election_mode="candidate")
    await simulation.until(lambda: any(map(leads, nodes)), 60, "a leader")
    return nodes


def test_the_first_rows_of_a_new_leader_do_not_meet_those_of_the_former() -> None:
    """Synchronous transactions of a new leader follow its PROMOTE.

    Before, instances where transactions of the former leader waited refused them, and replication stopped.
    """

    async def insist(node: SimulatedNode) -> None:
        """Write at the first moment when the node is writable."""
        while True:
            try:
                await put(node, 2)
                return
            except BoxError as error:
                if error.code != ErrorCode.READONLY:
                    raise
                await asyncio.sleep(0.0001)

    async def scenario(simulation: Simulation) -> None:
        nodes = await candidates(simulation)
        former = next(filter(leads, nodes))
        others = [node for node in nodes if node is not former]
        simulation.network.isolate(former.name)
        stuck = simulation.loop.create_task(put(former, 1))
        for other in others:
            other.instance.elections.raft.on_change.append(
                lambda other=other: leads(other) and writes.append(simulation.loop.create_task(insist(other)))
            )
        writes: list[Any] = []
        await simulation.until(lambda: bool(writes), 60, "another leader")
        await writes[0]
        simulation.network.heal()
        await simulation.until(lambda: all(node.has(SPACE, 2) for node in nodes), 60, "the row of the new leader")
        assert not any(node.has(SPACE, 1) for node in nodes)
        appliers = [a for node in nodes for a in node.instance.replication.replicaset.appliers]
        assert not any(applier.state is ApplierState.STOPPED for applier in appliers)
        try:
            await stuck
        except (BoxError, NodeDied):
            return
        raise AssertionError("the former leader's transaction was confirmed")

    with Simulation(1) as simulation:
        simulation.run(scenario(simulation))
        assert simulation.errors == []
