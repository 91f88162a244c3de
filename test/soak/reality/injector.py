"""The injector of real nodes: lets drawn faults happen to processes, roads and disks, and ends them.

```
fault                    simulated                                real
kill                     the process ends                         SIGKILL
crash                    the same after some callbacks            SIGPROF after as much of the processor's time
halt                     the process stands still                 SIGSTOP and SIGCONT
restart                  an orderly end and a start               SIGTERM and a start
isolate, split, cut,     ways between hosts are cut               proxies let nothing through
only
reset                    all connections of a node break          its proxies break them
snapshot                 a checkpoint                             the same
write                    the disk fails                           ERRINJ_WAL_IO
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from box.errors import BoxError
from box.testing.simulation.faults import Fault
from box.testing.simulation.simulated_node import NodeDied
from test.soak.reality.node import RealNode
from test.soak.reality.roads import Roads

KINDS: Final = (
    *("kill", "crash", "halt", "restart"),
    *("isolate", "split", "cut", "only", "reset"),
    *("snapshot", "write"),
)
_WORK: Final = 0.1
"""Seconds of the processor after which a crash comes, at most: some two thousand callbacks."""
_PATIENCE: Final = 30.0
_REVIVAL: Final = 60.0
"""Seconds in which a healthy node starts, on a busy machine."""


class RealInjector:
    """Lets faults happen."""

    def __init__(self, nodes: Sequence[RealNode], roads: Roads) -> None:
        self.violations: list[str] = []
        """Faults that did not happen as they should."""
        self._nodes = {node.name: node for node in nodes}
        self._roads = roads
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, faults: Sequence[Fault]) -> None:
        """Let all faults begin at their times; those that take long go on."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        for fault in sorted(faults):
            await asyncio.sleep(max(0.0, begin + fault.at - loop.time()))
            task = asyncio.ensure_future(self._happen(fault))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def cancel(self) -> None:
        """Nothing happens any more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def finish(self) -> None:
        """End every fault: all nodes run again, all roads and disks work."""
        await self.cancel()
        self._roads.heal()
        for node in self._nodes.values():
            node.go_on()
            with suppress(NodeDied):
                await node.crash_after(0.0)
            await node.fail_writes(-node.failing)
        for node in self._nodes.values():
            await self._revive(node)

    async def _revive(self, node: RealNode) -> None:
        """Whoever is in the middle of a start gets some time for it, and whoever is in the middle of an end as well."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _REVIVAL
        while not node.is_running or node.is_ending:
            if loop.time() > deadline:
                raise TimeoutError(f"{node.name} does not come back")
            try:
                await (asyncio.sleep(0.05) if node.is_up else node.start())
            except (BoxError, NodeDied):
                continue

    async def _happen(self, fault: Fault) -> None:
        try:
            await getattr(self, f"_{fault.kind}")(fault, self._nodes[fault.node])
        except (NodeDied, BoxError, TimeoutError):
            return  # another fault was first
        except Exception as error:
            self.violations.append(f"{fault}: {error!r}")

    async def _limited(self, work: Awaitable[Any]) -> None:
        async with asyncio.timeout(_PATIENCE):
            await work

    async def _between(self, fault: Fault, begin: Callable[[], object], end: Callable[[], object]) -> None:
        begin()
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            end()

    # -- processes

    async def _start(self, node: RealNode) -> None:
        if not node.is_up:
            await node.start()

    async def _kill(self, fault: Fault, node: RealNode) -> None:
        if node.is_up:
            await node.kill()
            await asyncio.sleep(fault.seconds)
            await self._start(node)

    async def _crash(self, fault: Fault, node: RealNode) -> None:
        """A process that has nothing to do does not come to its end."""
        if node.is_up:
            await self._limited(node.crash_after(0.001 + fault.amount * _WORK))
        await asyncio.sleep(fault.seconds)
        await self._start(node)

    async def _halt(self, fault: Fault, node: RealNode) -> None:
        await self._between(fault, node.halt, node.go_on)

    async def _restart(self, fault: Fault, node: RealNode) -> None:
        if node.is_running and not node.is_halted:
            await node.stop()
            await asyncio.sleep(fault.seconds)
            await self._start(node)

    # -- roads

    async def _isolate(self, fault: Fault, node: RealNode) -> None:
        roads = self._roads
        await self._between(fault, lambda: roads.isolate(node.name), lambda: roads.rejoin(node.name))

    async def _split(self, fault: Fault, node: RealNode) -> None:
        """The node and some of the others, by the bits of the amount, on one side."""
        names = list(self._nodes)
        bits = int(fault.amount * 2 ** len(names))
        here = [name for number, name in enumerate(names) if name == node.name or bits >> number & 1]
        ways = [way for one in here for other in names if other not in here for way in ((one, other), (other, one))]
        await self._cut_all(fault, ways)

    async def _cut(self, fault: Fault, node: RealNode) -> None:
        await self._cut_all(fault, [(fault.node, fault.other)])

    async def _only(self, fault: Fault, node: RealNode) -> None:
        await self._cut_all(fault, [(node.name, name) for name in self._nodes if name not in (node.name, fault.other)])

    async def _cut_all(self, fault: Fault, ways: Sequence[tuple[str, str]]) -> None:
        def begin() -> None:
            for way in ways:
                self._roads.cut(*way)

        def end() -> None:
            for way in ways:
                self._roads.mend(*way)

        await self._between(fault, begin, end)

    async def _reset(self, fault: Fault, node: RealNode) -> None:
        self._roads.reset_connections(node.name)

    # -- files and disks

    async def _snapshot(self, fault: Fault, node: RealNode) -> None:
        if node.is_running:
            await self._limited(node.ask("snapshot"))

    async def _write(self, fault: Fault, node: RealNode) -> None:
        await node.fail_writes(1)
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            await node.fail_writes(-1)
