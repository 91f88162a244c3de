"""Lua of a simulated process that ends is freed, and runs nothing any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from box.testing import SimulatedNode, Simulation
from box.testing.simulation.simulated_node import NodeDied

FINALIZER = """
local ffi, fiber = require('ffi'), require('fiber')
kept = ffi.gc(ffi.new('char[1]'), function()
    fiber.new(function() end)
    require('fio').open('last word', {'O_CREAT', 'O_WRONLY'}, tonumber('644', 8))
    box.space._schema:replace{'last word'}
end)
"""


@pytest.mark.parametrize("end", [SimulatedNode.kill, SimulatedNode.lose_power, None])
def test_no_finalizer_runs_at_the_end_of_a_process(end: Callable[[SimulatedNode], Any] | None) -> None:
    """No finalizer runs when a simulated process ends, as with `os.exit()`: before, they ran later without what they
    need.
    """

    async def scenario(simulation: Simulation) -> Any:
        (node,) = await simulation.start_cluster(1, lua=True, wal_mode="fsync")
        await node.run(node.application.eval(FINALIZER))
        if end is not None:
            end(node)
        else:
            with pytest.raises(NodeDied):
                await node.run(node.application.eval("os.exit()"))
        await node.start()
        return await node.run(
            node.application.eval(
                "return kept, require('fio').path.exists('last word'), #box.space._schema:select('last word')"
            )
        )

    for seed in range(3):
        with Simulation(seed) as simulation:
            assert simulation.run(scenario(simulation)) == [None, False, 0]
            assert simulation.errors == []
