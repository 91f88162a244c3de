"""Faults at a point of what a disk does: chance chooses among operations, not among moments.

```
outage    the power goes at an operation of the disk, or some operations after it
relapse   the process ends there; it is started again, and soon after the start the power goes
```

Most moments lie between two writes of a file that is long open; what is rare in time (a new file, a sync that is under
way, a start) is where durability is decided. Which operation it is follows from the fault's amount.
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
"""Operations after the chosen one at which the end may come."""
_AFTER_START: Final = 12
"""The same after a start."""
_PATIENCE: Final = 2.0
"""Seconds to wait for the operation."""
_NOBODY: Final = Context()


class CrashPoints:
    """See the module's text."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    async def outage(self, fault: Fault, node: SimulatedNode) -> None:
        """See the module's table."""
        place = fault.amount * len(OPERATIONS)
        if await self._end_at(node, OPERATIONS[int(place)], int(place % 1 * _MORE), lambda: lose_power(node)):
            await self._start_after(fault.seconds, node)

    async def relapse(self, fault: Fault, node: SimulatedNode) -> None:
        """See the module's table."""
        place = fault.amount * len(OPERATIONS)
        if not await self._end_at(node, OPERATIONS[int(place)], int(place % 1 * _MORE), node.kill):
            return
        await self._start_after(fault.seconds, node)
        more = int(fault.amount * 1e4 % 1 * _AFTER_START)
        if not await self._end_at(node, None, more, lambda: lose_power(node)) and node.is_up:
            lose_power(node)
        await self._start_after(fault.seconds, node)

    async def _start_after(self, seconds: float, node: SimulatedNode) -> None:
        await self._simulation.sleep(seconds)
        if not node.is_up:
            await node.start()

    async def _end_at(self, node: SimulatedNode, operation: str | None, more: int, end: Callable[[], object]) -> bool:
        """End the process so many operations after the first one of a kind, None for any. False if there is none in
        time, or the process has ended meanwhile."""
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
            # What comes after it in this callback reaches no disk any more; the process ends behind the callback.
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
    """The power goes; with `wal_mode` write only the process ends, as nothing is promised for more."""
    if node.options.get("wal_mode") == "fsync":
        node.lose_power()
    else:
        node.kill()
