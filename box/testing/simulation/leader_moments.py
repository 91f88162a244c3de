"""Moments at which something befalls whoever leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from box.replication.raft import Role
from box.testing.simulation.simulated_node import SimulatedNode
from box.txn.transaction import LimboEntry

_LOOK: Final = 0.01
"""Seconds between two looks for the moment."""


async def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait for a condition for so long; whether it came about."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not condition():
        if loop.time() > end:
            return False
        await asyncio.sleep(_LOOK)
    return True


def leads(node: SimulatedNode) -> bool:
    """Whether a node is a leader by its own account."""
    return node.is_running and node.instance.elections.raft.role is Role.LEADER


def last_waiting(node: SimulatedNode) -> LimboEntry | None:
    """The newest synchronous transaction that waits at a node and is in its log, if any."""
    if not node.is_running:
        return None
    return next((entry for entry in reversed(node.instance.limbo.entries) if entry.wait_ack and entry.written), None)
