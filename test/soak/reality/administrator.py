"""The administrator of real nodes, the counterpart of `box/testing/simulation/administrator.py`.

```
seen                                                    done
a node has been down for `_DOWN` seconds                start it
an applier has stopped because a row could not be       configure the node's sources anew
written, after a disk fault
an applier has stopped for any other reason             report a violation, and configure the sources anew
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from box.errors import BoxError, ErrorCode
from box.testing.simulation.simulated_node import NodeDied
from test.soak.reality.node import RealNode

_ROUND: Final = 0.5
"""Seconds between two rounds."""
_DOWN: Final = 5.0
"""Seconds that a node may be down: longer than a fault keeps it there."""
_PATIENCE: Final = 30.0


class RealAdministrator:
    """Restarts nodes and reconfigures stopped appliers. `violations` are the texts of errors that no fault explains."""

    def __init__(self, nodes: Sequence[RealNode]) -> None:
        self.violations: dict[str, None] = {}
        self._nodes = nodes
        self._down_since: dict[str, float] = {}

    async def run(self) -> None:
        """Make rounds until cancelled."""
        while True:
            await asyncio.sleep(_ROUND)
            for node in self._nodes:
                await self.help(node, only_after=_DOWN)

    async def help(self, node: RealNode, *, only_after: float = 0.0) -> None:
        """Start or reconfigure one node if it needs that and has been down for `only_after` seconds.

        Errors of the node are ignored: the next round tries again.
        """
        now = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(_PATIENCE):
                if not node.is_up:
                    if now - self._down_since.setdefault(node.name, now) >= only_after:
                        await node.start()
                    return
                self._down_since.pop(node.name, None)
                if node.is_running and not node.is_halted and self._reports_stopped(node):
                    await self.configure_anew(node)
        except (BoxError, NodeDied, TimeoutError):
            return  # the next round tries again

    def _reports_stopped(self, node: RealNode) -> bool:
        for address, code, message in node.state.stopped:
            if not (code == ErrorCode.WAL_IO and node.failures):
                self.violations[f"{node.name}: stopped to follow {address}: {code} {message}"] = None
        return bool(node.state.stopped)

    async def configure_anew(self, node: RealNode) -> None:
        """Disconnect a node from all its sources and make it follow them again.

        Raises:
            BoxError: `box.cfg` fails on the node.
            NodeDied: the process ends before it answers.
        """
        sources = node.options["replication"]
        try:
            await node.configure(replication=[])
        finally:
            node.options["replication"] = sources
        await node.configure(replication=sources)
