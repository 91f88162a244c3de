"""The injector of real nodes: lets the faults of a scenario happen to processes, links and disks, and ends them.

```
fault                        simulated                                real
kill                         the process ends                         SIGKILL
crash                        the process ends after some callbacks    SIGPROF after about that much processor time
halt                         the process stops                        SIGSTOP, later SIGCONT
restart                      an orderly end and a start               SIGTERM and a start
isolate, split, cut, only    links between hosts are cut              proxies hold back what is sent
reset                        all connections of a node break          its proxies close them
snapshot                     a checkpoint                             a checkpoint
write                        writes to the disk fail                  ERRINJ_WAL_IO
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
from test.soak.reality.links import Links
from test.soak.reality.node import RealNode

KINDS: Final = (
    *("kill", "crash", "halt", "restart"),
    *("isolate", "split", "cut", "only", "reset"),
    *("snapshot", "write"),
)
_WORK: Final = 0.1
"""The most seconds of processor time before a crash: about two thousand callbacks, as in the simulation."""
_PATIENCE: Final = 30.0
"""Seconds for one request of the injector to a node."""
_REVIVAL: Final = 60.0
"""Seconds within which a healthy node must start, on a busy machine."""


class RealInjector:
    """Begins and ends the faults of a scenario on real nodes."""

    def __init__(self, nodes: Sequence[RealNode], links: Links) -> None:
        self.violations: list[str] = []
        """Texts of faults that raised an error other than the death of their node."""
        self._nodes = {node.name: node for node in nodes}
        self._links = links
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, faults: Sequence[Fault]) -> None:
        """Begin each fault at its time, and return once the last has begun; faults may still be in effect then."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        for fault in sorted(faults):
            await asyncio.sleep(max(0.0, begin + fault.at - loop.time()))
            task = asyncio.ensure_future(self._happen(fault))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def cancel(self) -> None:
        """Cancel the faults that are in effect or still wait."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def finish(self) -> None:
        """End every fault: mend all links and disks, and wait until all nodes run.

        Raises:
            TimeoutError: a node does not start in `_REVIVAL` seconds.
        """
        await self.cancel()
        self._links.heal()
        for node in self._nodes.values():
            node.go_on()
            with suppress(NodeDied):
                await node.crash_after(0.0)
            await node.fail_writes(-node.failing)
        for node in self._nodes.values():
            await self._revive(node)

    async def _revive(self, node: RealNode) -> None:
        """Wait until a node that is starting or stopping has done so, and start it if it is down.

        Raises:
            TimeoutError: it does not run within `_REVIVAL` seconds.
        """
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
            return  # another fault hit the node meanwhile
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
        """Order a crash after some processor time, and start the node if it has come; an idle process survives."""
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

    # -- links

    async def _isolate(self, fault: Fault, node: RealNode) -> None:
        links = self._links
        await self._between(fault, lambda: links.isolate(node.name), lambda: links.rejoin(node.name))

    async def _split(self, fault: Fault, node: RealNode) -> None:
        """Cut the cluster in two; the bits of the fault's amount choose the nodes on this node's side."""
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
                self._links.cut(*way)

        def end() -> None:
            for way in ways:
                self._links.mend(*way)

        await self._between(fault, begin, end)

    async def _reset(self, fault: Fault, node: RealNode) -> None:
        self._links.reset_connections(node.name)

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
