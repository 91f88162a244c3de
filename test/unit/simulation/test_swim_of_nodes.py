"""Members of a SWIM cluster in a simulation: their packets go over the simulated network, in simulated time."""

from __future__ import annotations

from typing import Any

from box.testing import SimulatedNode, Simulation

SOURCE = """
local number = ...
local swim, uuid = require('swim'), require('uuid')
s = assert(swim.new({
    uuid = ('00000000-0000-1000-8000-%012d'):format(number), uri = ('10.0.0.%d:3000'):format(number),
    heartbeat_rate = 1, ack_timeout = 0.5, generation = 1,
}))
s:set_payload({name = box.info.uuid})
s:probe_member('10.0.0.1:3000')
"""
STATUS = """
local states = {}
for _, member in s:pairs() do
    states[#states + 1] = member:status() .. (member:payload() and '' or '?')
end
table.sort(states)
return states
"""


async def lua(node: SimulatedNode, source: str, *args: Any) -> Any:
    return await node.run(node.application.eval(source, *args))


async def until(simulation: Simulation, node: SimulatedNode, expected: list[str]) -> None:
    for _ in range(200):
        if await lua(node, STATUS) == expected:
            return
        await simulation.sleep(1)
    raise AssertionError(await lua(node, STATUS))


def test_members_of_a_simulation() -> None:
    """Simulated nodes find each other, and see the death of one and its return."""

    async def scenario(simulation: Simulation) -> Any:
        nodes = await simulation.start_cluster(3, lua=True)
        for number, node in enumerate(nodes, 1):
            await lua(node, SOURCE, number)
        for node in nodes:
            await until(simulation, node, ["alive"] * 3)
        nodes[2].kill()
        await until(simulation, nodes[0], ["alive"] * 2)
        return await lua(nodes[0], "return select(2, s:broadcast()).message")

    with Simulation(3) as simulation:
        assert simulation.run(scenario(simulation)) == "broadcast has failed - no available interfaces"
        assert simulation.errors == []
