"""Faults at a chosen disk operation instead of a moment in time.

```
outage    the power fails at an operation of the disk, or a few operations later
relapse   the process ends at such an operation; it is started again, and soon after the start the power fails
```

Most moments lie between two writes to a file that has been open for long. Operations that are rare in time (a new file,
a sync in progress, a start) decide about durability. The fault's amount chooses the operation.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Final

from box.testing.simulation.disk import OPERATIONS
from box.testing.simulation.faults import Fault
from box.testing.simulation.simulated_node import SimulatedNode
from box.testing.simulation.simulation import Simulation

_MORE: Final = 6
"""The end comes up to so many operations after the chosen one."""
_AFTER_START: Final = 12
"""The power fails up to so many operations after a start, which does more of them."""
_PATIENCE: Final = 2.0
"""The seconds to wait for the chosen operation."""
_NOBODY: Final = Context()
"""A context without a process, for callbacks that must run after the process has ended."""


class CrashPoints:
    """Runs the faults `outage` and `relapse`."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    async def outage(self, fault: Fault, node: SimulatedNode) -> None:
        """Run the fault `outage` of the module's table."""
        place = fault.amount * len(OPERATIONS)
        if await self._end_at(node, OPERATIONS[int(place)], int(place % 1 * _MORE), lambda: lose_power(node)):
            await self._start_after(fault.seconds, node)

    async def relapse(self, fault: Fault, node: SimulatedNode) -> None:
        """Run the fault `relapse` of the module's table."""
        place = fault.amount * len(OPERATIONS)
        if not await self._end_at(node, OPERATIONS[int(place)], int(place % 1 * _MORE), node.kill):
            return
        await self._start_after(fault.seconds, node)
        # Further digits of the amount, so that this choice does not depend on the first one.
        more = int(fault.amount * 1e4 % 1 * _AFTER_START)
        if not await self._end_at(node, None, more, lambda: lose_power(node)) and node.is_up:
            lose_power(node)
        await self._start_after(fault.seconds, node)

    async def _start_after(self, seconds: float, node: SimulatedNode) -> None:
        await self._simulation.sleep(seconds)
        if not node.is_up:
            await node.start()

    async def _end_at(self, node: SimulatedNode, operation: str | None, more: int, end: Callable[[], object]) -> bool:
        """End the process `more` operations after the first one of a kind, or of any kind if `operation` is None.

        Return False if no such operation comes in time.
        """
        if not node.is_up:
            return False
        loop, disk, process = self._simulation.loop, node.disk, node.process
        left, over = more, loop.create_future()
        is_near = operation is None

        def look(done: str) -> None:
            nonlocal left, is_near
            is_near = is_near or done == operation
            if not is_near:
                return
            if left:
                left -= 1
                return
            # The rest of this callback no longer reaches the disk; the process ends after the callback.
            disk.on_operation = None
            disk.detach(done)
            loop.call_soon(finish, context=_NOBODY)

        def finish() -> None:
            if node.process is process:
                self._simulation.note(node.name, "point", f"{operation or 'start'} + {more}")
                end()
            if not over.done():
                over.set_result(None)

        disk.on_operation = look
        try:
            await self._simulation.within(_PATIENCE, over)
        except TimeoutError:
            return False
        finally:
            disk.on_operation = None
        return True


def lose_power(node: SimulatedNode) -> None:
    """Make the power fail.

    With `wal_mode` write only the process ends, because that mode promises nothing for power failures.
    """
    if node.options.get("wal_mode") == "fsync":
        node.lose_power()
    else:
        node.kill()
