"""The invariants of the simulation: a violation is noticed between two callbacks, and named."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

import pytest

from box.instance.mode import ReadOnlyReason
from box.replication.raft import Raft, Role
from box.testing import SimulatedNode, Simulation
from box.testing.simulation.administrator import Administrator
from box.testing.simulation.invariants import Invariants
from box.testing.simulation.log_contents import LogContents
from box.txn.limbo import Limbo
from box.wire.messages import RaftRequest

from .test_findings import make_space, put

Break = Callable[[list[SimulatedNode]], None]


def lead(*nodes: SimulatedNode) -> None:
    for node in nodes:
        raft = node.instance.elections.raft
        raft.role, raft.term = Role.LEADER, 7


def vote(node: SimulatedNode, term: int, candidate: int) -> None:
    node.instance.elections.raft._recorded = RaftRequest(term, candidate)


def lose_rows(nodes: list[SimulatedNode]) -> None:
    nodes[1].instance.state.vclock.reset(1, 1)


def invent_rows(nodes: list[SimulatedNode]) -> None:
    nodes[1].instance.state.vclock.reset(1, 1000)


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ([lose_rows], "the vclock went back"),
        ([invent_rows], "has row 1000 of node1"),
        ([lambda nodes: lead(*nodes[:2])], "leads in term 7, and so does node1"),
        ([lambda nodes: lead(nodes[0])], "leads in term 7 by the votes of []"),
        ([lambda nodes: vote(nodes[0], 5, 1), lambda nodes: vote(nodes[0], 5, 2)], "voted for 1 and then for 2"),
        ([lambda nodes: vote(nodes[0], 5, 1), lambda nodes: vote(nodes[0], 4, 0)], "the term went back from 5 to 4"),
    ],
    ids=["vclock", "origin", "two-leaders", "no-votes", "two-votes", "term"],
)
def test_a_broken_invariant_is_noticed(steps: list[Break], text: str) -> None:
    async def scenario(simulation: Simulation) -> list[str]:
        nodes = await simulation.start_cluster(3)
        await make_space(nodes[0])
        await simulation.sleep(1)
        invariants = Invariants(simulation, quorum=2)
        for step in [lambda nodes: None, *steps]:
            step(nodes)
            for node in nodes:
                node.process.mark()
            invariants.look()
        return list(invariants.violations)

    with Simulation(1) as simulation:
        found = simulation.run(scenario(simulation))
    assert any(text in violation for violation in found), found


def test_a_healthy_cluster_breaks_none() -> None:
    async def scenario(simulation: Simulation) -> list[str]:
        nodes = await simulation.start_cluster(3, replication_synchro_quorum=2)
        await make_space(nodes[0], is_sync=True)
        invariants, logs = Invariants(simulation, quorum=2), LogContents(has_elections=False)
        simulation.loop.on_turn = invariants.look
        for key in range(20):
            await put(nodes[0], key)
        for node in nodes:
            logs.look_at(node)
        return [*invariants.violations, *logs.violations]

    with Simulation(1) as simulation:
        assert simulation.run(scenario(simulation)) == []


@pytest.mark.parametrize("keeps_first", [False, True])
def test_a_vote_whose_file_has_gone_is_not_missed_and_one_without_a_row_is(
    monkeypatch: pytest.MonkeyPatch, keeps_first: bool
) -> None:
    """A vote is noticed as missing if the log lacks its row, but not if the file is gone because a snapshot has it."""

    async def scenario(simulation: Simulation) -> list[str]:
        (node,) = await simulation.start_cluster(1, checkpoint_count=1, wal_cleanup_delay=0)
        logs = LogContents(has_elections=True)
        log_files = lambda: [name for name in node.disk.names(".") if name.endswith(".xlog")]  # noqa: E731
        kept = log_files() if keeps_first else []
        remove = node.disk.remove

        def refuse(path: str) -> None:
            if path.removeprefix("./") in kept:
                raise OSError(errno.EIO, "Input/output error")
            remove(path)

        monkeypatch.setattr(node.disk, "remove", refuse)

        async def lead_again() -> None:
            await node.configure(election_mode="off")
            await node.configure(election_mode="manual")
            await node.run(node.instance.elections.promote())

        await lead_again()
        logs.look_at(node)
        await node.run(node.instance.checkpoints.make())  # the next row begins a file
        read = node.instance.elections.raft.recorded_term
        await lead_again()
        assert node.instance.elections.raft.recorded_term > read
        await node.run(node.instance.checkpoints.make())
        await simulation.until(lambda: log_files() == kept, 10, "a log without files")
        logs.look_at(node)
        assert not logs.violations
        await lead_again()
        logs.look_at(node)
        assert not logs.violations
        vote(node, node.instance.elections.raft.recorded_term, 7)
        logs.look_at(node)
        return list(logs.violations)

    with Simulation(1) as simulation:
        (text,) = simulation.run(scenario(simulation))
        assert "tells of" in text


def test_a_confirmation_without_a_quorum_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A confirmation without a quorum is noticed at once, though the transaction arrives later and is not lost."""

    async def scenario(simulation: Simulation) -> list[str]:
        nodes = await simulation.start_cluster(3, replication_synchro_quorum=2)
        await make_space(nodes[0], is_sync=True)
        invariants = Invariants(simulation, quorum=2)
        simulation.loop.on_turn = invariants.look
        monkeypatch.setattr(Limbo, "_quorum_ack", lambda limbo: max(limbo._acks.values(), default=0))
        await put(nodes[0], 1)
        await simulation.sleep(1)
        return list(invariants.violations)

    with Simulation(1) as simulation:
        assert any("is confirmed, and only ['node1'] have it" in text for text in simulation.run(scenario(simulation)))


def test_an_applier_that_has_stopped_without_a_reason_is_noticed_and_helped() -> None:
    """An applier that stops without a fault, at a conflicting row, is a violation, and is restarted."""

    async def scenario(simulation: Simulation) -> list[str]:
        one, two = await simulation.start_cluster(2)
        await make_space(one)
        await simulation.until(lambda: two.is_running and 512 in two.instance.schema.spaces, 10)
        simulation.network.isolate("node1")
        await put(one, 1)
        await put(two, 1)
        simulation.network.heal()
        await simulation.sleep(20)
        administrator = Administrator(simulation)
        await administrator.look_after()
        return list(administrator.violations)

    with Simulation(1) as simulation:
        found = simulation.run(scenario(simulation))
    assert any("Duplicate key exists" in text for text in found), found


def test_a_leader_whose_latest_promotion_has_failed_is_replaced() -> None:
    """A leader whose latest promotion has failed is replaced, though it owns the limbo by an earlier one."""

    async def scenario(simulation: Simulation) -> tuple[int, int]:
        one, two = await simulation.start_cluster(2, replication_synchro_quorum=2)
        for node in (one, two):
            await node.configure(election_mode="manual")
        administrator = Administrator(simulation)

        async def owner_after_rounds() -> int:
            for _ in range(10):
                await administrator.look_after()
                await simulation.sleep(0.5)
            return two.instance.limbo.owner_id

        await administrator.promote(one)
        before = await owner_after_rounds()
        one.instance.mode.set(ReadOnlyReason.ELECTION, True)
        return before, await owner_after_rounds()

    with Simulation(1) as simulation:
        assert simulation.run(scenario(simulation)) == (1, 2)


def test_raft_tells_the_recorded_state_only() -> None:
    """`local_state`, which the invariants read, changes only once the log has the state."""
    raft = Raft(Random(1), dict)
    before = raft.local_state()
    raft.is_enabled = True
    raft.new_term()
    assert raft.local_state() is before
