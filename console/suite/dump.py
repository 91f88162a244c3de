"""Describes a test's nodes when its time is over, for the report: their fibers and the ends of their logs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from console.suite.instance import InstanceProcess, State

_PATIENCE = 2.0  # seconds for a node's answer
_LINES = 40

# One line for each fiber: id, name, number of switches, and the places where it waits.
_FIBERS = """
(function()
    local lines = {}
    for id, fiber in pairs(require('fiber').info()) do
        local places = {}
        for _, frame in ipairs(type(fiber.backtrace) == 'table' and fiber.backtrace or {}) do
            places[#places + 1] = tostring(frame.L or frame.C)
        end
        table.insert(lines, ('%d %s csw=%s %s'):format(id, fiber.name, fiber.csw, table.concat(places, ' < ')))
    end
    table.sort(lines)
    return table.concat(lines, '\\n')
end)()
"""


async def dump(servers: Iterable[InstanceProcess]) -> str:
    """Return the text for the report. Never raises; takes at most two seconds for each node.

    The test's own script may still run and make or drop nodes meanwhile.
    """
    return "".join([await _dump_one(server) for server in list(servers)])


async def _dump_one(server: InstanceProcess) -> str:
    parts = [f"--- {server.name}: {server.state.value}\n"]
    if server.state is State.RUNNING:
        parts.append(f"fibers:\n{await _fibers(server)}\n")
    parts.append(f"log:\n{server.tail(_LINES)}\n")
    return "".join(parts)


async def _fibers(server: InstanceProcess) -> str:
    try:
        async with asyncio.timeout(_PATIENCE):
            reply = await server.evaluate(_FIBERS)
    except TimeoutError:
        return "  it does not answer: something runs without a pause"
    return "\n".join(f"  {line.strip()}" for line in reply.splitlines() if line not in ("---", "...", "- |"))
