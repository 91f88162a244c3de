"""Conditions for faults that strike the leader, and waiting for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from box.replication.raft import Role
from box.testing.simulation.simulated_node import SimulatedNode
from box.txn.transaction import LimboEntry

_LOOK: Final = 0.01
"""Seconds between two checks of a condition."""


async def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait up to `seconds` for a condition, and return False if it did not come true."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not condition():
        if loop.time() > end:
            return False
        await asyncio.sleep(_LOOK)
    return True


def leads(node: SimulatedNode) -> bool:
    """Return True if a node considers itself the leader."""
    return node.is_running and node.instance.elections.raft.role is Role.LEADER


def last_waiting(node: SimulatedNode) -> LimboEntry | None:
    """Return the newest synchronous transaction that waits at a node and is in its log, or None."""
    if not node.is_running:
        return None
    return next((entry for entry in reversed(node.instance.limbo.entries) if entry.wait_ack and entry.written), None)
