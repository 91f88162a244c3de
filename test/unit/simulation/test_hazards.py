"""Faults of elections with short synchronous timeouts, and the checks of such runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count

import pytest

from box.errors import BoxError
from box.testing import SimulatedNode, Simulation
from box.testing.simulation.administrator import Administrator
from box.testing.simulation.checks import become_equal, have_equal_vclocks
from box.testing.simulation.faults import HAZARDS, KINDS, Fault, kinds_of
from box.testing.simulation.hazard_faults import HazardFaults
from box.testing.simulation.injector import Injector
from box.testing.simulation.leader_moments import last_waiting, leads
from box.testing.simulation.run import Scenario, play
from box.testing.simulation.simulated_node import NodeDied

from .test_findings import SPACE, candidates, make_space, put

Story = Callable[[Simulation, HazardFaults, SimulatedNode], Awaitable[None]]


async def keep_writing(leader: SimulatedNode) -> None:
    """Write as soon as the previous write is answered, whatever the answer."""
    for key in count(100):
        try:
            await put(leader, key)
        except (BoxError, NodeDied):
            await asyncio.sleep(0.1)


def tell(story: Story) -> None:
    """Play a run of three candidates with a client that writes at the leader."""

    async def scenario(simulation: Simulation) -> None:
        nodes = await candidates(simulation)
        leader = next(filter(leads, nodes))
        await simulation.until(lambda: not leader.instance.mode.is_read_only, 10, "the promotion")
        client = asyncio.ensure_future(keep_writing(leader))
        await story(simulation, HazardFaults(simulation, Administrator(simulation)), leader)
        client.cancel()

    with Simulation(1) as simulation:
        simulation.run(scenario(simulation))


def fault(kind: str, leader: SimulatedNode, amount: float, seconds: float = 0.5) -> Fault:
    return Fault(0.0, kind, leader.name, leader.name, seconds, amount)


def others_lead(simulation: Simulation, leader: SimulatedNode) -> bool:
    return any(leads(node) for node in simulation.nodes.values() if node is not leader)


def test_a_leader_without_acknowledgements_is_deposed_while_others_have_its_rows() -> None:
    async def story(simulation: Simulation, faults: HazardFaults, leader: SimulatedNode) -> None:
        lapse = asyncio.ensure_future(faults.lapse(fault("lapse", leader, 0.9), leader))
        await simulation.until(lambda: others_lead(simulation, leader), 10, "another leader")
        entry = last_waiting(leader)
        assert entry is not None
        names = [name for name in simulation.nodes if name != leader.name]
        assert all(simulation.network.is_cut(name, leader.name) for name in names)
        assert any(simulation.nodes[name].instance.state.vclock[leader.instance_id] >= entry.lsn for name in names)
        await lapse
        assert not any(simulation.network.is_cut(name, leader.name) for name in names)

    tell(story)


def test_a_leader_hears_the_others_again_shortly_before_the_time_of_its_row_is_over() -> None:
    async def story(simulation: Simulation, faults: HazardFaults, leader: SimulatedNode) -> None:
        limbo = leader.instance.limbo
        await leader.configure(replication_synchro_timeout=1.0)
        await faults.lapse(fault("lapse", leader, 0.25), leader)
        deadline = limbo.deadline
        assert deadline is not None
        assert 0.0 < deadline - simulation.loop.time() < 0.15

    tell(story)


@pytest.mark.parametrize("amount", [0.2, 0.8])
def test_a_leader_stands_still_while_something_waits_and_goes_on(amount: float) -> None:
    """The fault halts a leader while a transaction waits; with the smaller amount it goes on before another one leads."""

    async def story(simulation: Simulation, faults: HazardFaults, leader: SimulatedNode) -> None:
        freeze = asyncio.ensure_future(faults.freeze(fault("freeze", leader, amount, 0.2), leader))
        await simulation.until(lambda: leader.process.is_halted, 10, "the stop")
        assert last_waiting(leader) is not None
        await freeze
        assert not leader.process.is_halted
        assert others_lead(simulation, leader) is (amount < 0.5)

    tell(story)


def test_a_candidate_stands_still_in_its_election() -> None:
    async def story(simulation: Simulation, faults: HazardFaults, leader: SimulatedNode) -> None:
        await faults.stall(fault("stall", leader, 0.0), leader)
        halted = [event.process for event in simulation.trace.events if event.kind == "halt"]
        assert len(halted) == 1
        assert halted != [leader.name]
        assert not simulation.nodes[halted[0]].process.is_halted

    tell(story)


def test_an_administrator_lets_another_candidate_be_elected() -> None:
    """The fault makes a node begin a term at once without standing in it, so that another one is elected."""

    async def story(simulation: Simulation, faults: HazardFaults, leader: SimulatedNode) -> None:
        heir = next(node for node in simulation.nodes.values() if node is not leader)
        raft = heir.instance.elections.raft
        term = raft.term
        await faults.insist(fault("insist", heir, 0.9), leader)
        assert any(event.kind == "promote" and event.process == heir.name for event in simulation.trace.events)
        assert raft.term > term
        assert heir.instance.elections.mode == "candidate"
        assert heir.options["election_mode"] == "candidate"

    tell(story)


def test_an_administrator_promotes_whoever_leads() -> None:
    async def story(simulation: Simulation, faults: HazardFaults, leader: SimulatedNode) -> None:
        term = leader.instance.elections.raft.term
        await faults.insist(fault("insist", leader, 0.1), leader)
        assert any(event.kind == "promote" and event.process == leader.name for event in simulation.trace.events)
        assert leads(leader)
        assert leader.instance.elections.raft.term == term

    tell(story)


def test_the_end_of_all_faults_restores_the_mode_of_elections() -> None:
    async def story(simulation: Simulation, faults: HazardFaults, leader: SimulatedNode) -> None:
        await leader.run(leader.instance.configure({"election_mode": "manual"}))
        await Injector(simulation).finish()
        assert leader.instance.elections.mode == "candidate"

    tell(story)


def test_rows_that_somebody_lacks_after_the_time_are_told_of() -> None:
    async def scenario(simulation: Simulation) -> None:
        one, two = nodes = await simulation.start_cluster(2)
        await make_space(one)
        assert await become_equal(simulation) == []
        simulation.network.isolate(two.name)
        await put(one, 1)
        assert not have_equal_vclocks(nodes)
        begin = simulation.loop.time()
        (text,) = await become_equal(simulation)
        assert text.startswith("vclocks differ 0.5 s after rest: node1 {1: ")
        assert 0.5 <= simulation.loop.time() - begin < 0.7
        simulation.network.heal()
        await simulation.until(lambda: two.has(SPACE, 1), 10, "the row")
        assert await become_equal(simulation) == []

    with Simulation(1) as simulation:
        simulation.run(scenario(simulation))


def test_all_faults_are_those_of_runs_with_long_timeouts() -> None:
    assert kinds_of(["all"]) == KINDS
    assert not set(KINDS) & set(HAZARDS)
    assert kinds_of(["hazards", "kill"]) == ("kill", *HAZARDS)


def test_short_timeouts_belong_to_the_scenario() -> None:
    """Short timeouts are drawn from the seed, leave other options as they were, and are kept in the file."""
    plain, short = (Scenario(3, hazards=hazards, elections="candidate").with_faults() for hazards in (False, True))
    assert "replication_synchro_timeout" not in plain.options
    timeout = short.options["replication_synchro_timeout"]
    assert timeout <= 3
    assert short.options == plain.options | {"replication_synchro_timeout": timeout}
    assert short.node_options["replication_synchro_timeout"] == timeout
    assert plain.node_options["replication_synchro_timeout"] > 1000
    assert Scenario.from_json(short.to_json()) == short


def test_a_run_without_faults_passes_with_short_timeouts() -> None:
    outcome = play(Scenario(2, workload="set", seconds=4, faults=(), elections="candidate", hazards=True), deadline=60)
    assert not outcome.violations
    assert "elections candidate, hazards: ok" in outcome.summary
