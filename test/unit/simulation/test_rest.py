"""Rest, at which nodes are compared: nothing may be under way that the end of a run would break."""

from __future__ import annotations

from box.testing import Simulation
from box.testing.simulation.administrator import Administrator
from box.testing.simulation.checks import come_to_rest, is_at_rest

from .test_findings import make_space


def test_a_node_that_is_being_started_is_waited_for() -> None:
    """It has all rows long before its `box.cfg` returns; cancelled there, the process would end."""

    async def scenario(simulation: Simulation) -> tuple[bool, list[str], bool]:
        one, two = await simulation.start_cluster(2, replication_timeout=30, replication_connect_timeout=60)
        await make_space(one)
        administrator = Administrator(simulation)
        await simulation.sleep(1)
        two.options["replication_connect_quorum"] = 2
        two.kill()
        await administrator.look_after()
        await simulation.sleep(10)
        simulation.network.slow.update({("node1", "node2"): 1.0, ("node2", "node1"): 1.0})
        round_ = simulation.loop.create_task(administrator.look_after())
        await simulation.until(lambda: is_at_rest([one, two]), 60)
        was_helping = administrator.is_helping
        violations = list(await come_to_rest(simulation, administrator))
        round_.cancel()
        await simulation.sleep(1)
        return was_helping, violations, two.is_running

    with Simulation(1) as simulation:
        assert simulation.run(scenario(simulation)) == (True, [], True)
