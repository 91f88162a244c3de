"""A replica set in one thread, in simulated time: everything that happens follows from one seed.

    with Simulation(seed=7) as simulation:
        simulation.run(scenario(simulation))

`scenario` is a coroutine; it starts nodes (`add_node`), uses them and does to them what it likes. Equal seeds give
equal traces (`trace.digest`).
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from box.testing.simulation.loop import SimulatedLoop, current_process
from box.testing.simulation.simulated_network import SimulatedNetwork
from box.testing.simulation.simulated_node import Changes, SimulatedNode
from box.testing.simulation.trace import Trace

_T = TypeVar("_T")

_CALL: Final = (0.00005, 0.002)
"""Seconds that a call in another thread takes to begin, and to be known here."""
_GARBAGE: Final = (50_000, 20, 100)
"""Objects that are made before the collector looks for garbage: little of what a node makes is in cycles."""
USUAL_OPTIONS: Final = {
    "replication_timeout": 0.25,
    "replication_connect_timeout": 5,
    "replication_sync_timeout": 5,
}
"""Options of `box.cfg` of the nodes of a cluster, where there are no others."""
_GUEST: Final = [1, 0, "universe", 0, 0xFFFFFFFF]
_PRIV: Final = 312


def let_guests_in(changes: Changes) -> None:
    """A body: everybody may replicate from here."""
    changes.replace(_PRIV, _GUEST)


class Simulation:
    """See the module's text."""

    def __init__(self, seed: int | str = 0, *, keeps_messages: bool = False) -> None:
        self.seed = seed
        self.trace = Trace(keeps_messages=keeps_messages)
        self.nodes: dict[str, SimulatedNode] = {}
        self.errors: list[str] = []
        """Exceptions that nobody caught, with the process in which they were."""
        self._garbage = gc.get_threshold()
        calls = self.random("calls")
        self.loop = SimulatedLoop(lambda: calls.uniform(*_CALL))
        self.loop.set_exception_handler(self._exception)
        self.network = SimulatedNetwork(self.loop, self.random("network"), self.trace)

    def random(self, purpose: str) -> Random:
        """A random source of its own for each purpose, so that one more draw here changes nothing there."""
        return self.random_of(self.seed, purpose)

    @staticmethod
    def random_of(seed: int | str, purpose: str) -> Random:
        """The random source that a simulation of this seed has for a purpose."""
        return Random(f"{seed} {purpose}")

    def note(self, process: str, kind: str, text: str = "") -> None:
        """Add an event to the trace."""
        self.trace.add(self.loop.time(), process, kind, text)

    def _exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        process = current_process()
        error = context.get("exception")
        where = f"{process.name}: " if process is not None else ""
        self.errors.append(f"{where}{context.get('message')}: {error!r}")

    # -- nodes

    def add_node(self, name: str | None = None, *, lua: bool = False, **options: Any) -> SimulatedNode:
        """A node that has not been started. `options` are those of `box.cfg`; with `lua` it has a Lua runtime."""
        name = name or f"node{len(self.nodes) + 1}"
        self.network.names.add(name)
        node = self.nodes[name] = SimulatedNode(self, name, has_lua=lua, **options)
        return node

    async def start_cluster(self, size: int = 3, *, lua: bool = False, **options: Any) -> list[SimulatedNode]:
        """Nodes that all replicate from all others. The first founds the replica set."""
        nodes = [self.add_node(lua=lua, **USUAL_OPTIONS | options) for _ in range(size)]
        founder, everybody = nodes[0], [node.uri for node in nodes]
        await founder.start()
        await founder.transaction(let_guests_in)
        for node in nodes[1:]:
            await node.start(replication=everybody, replication_connect_quorum=1)
        await founder.configure(replication=everybody)
        for node in nodes:
            node.options["replication_connect_quorum"] = 0
        await self.until(lambda: all(node.instance.status == "running" for node in nodes), 30, "a running cluster")
        return nodes

    # -- time

    def run(self, scenario: Coroutine[Any, Any, _T]) -> _T:
        """Run a scenario to its end. Deadlock if nothing is left to do before that."""
        result: _T = self.loop.run_until_complete(scenario)
        return result

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    async def until(self, condition: Callable[[], bool], timeout: float, what: str = "a condition") -> None:
        """Wait for a condition, looked at ten times a second. TimeoutError."""
        end = self.loop.time() + timeout
        while not condition():
            if self.loop.time() > end:
                raise TimeoutError(f"{what} did not come about in {timeout:g} simulated seconds")
            await asyncio.sleep(0.1)

    async def within(self, seconds: float, work: Awaitable[_T]) -> _T:
        """Wait for something at most so long. TimeoutError."""
        async with asyncio.timeout(seconds):
            return await work

    # -- the end

    def close(self) -> None:
        """End all processes."""
        for node in self.nodes.values():
            node.kill()
        self.loop.bury_all()
        self.loop.close()
        gc.collect()

    def __enter__(self) -> Self:
        self._garbage = gc.get_threshold()
        gc.set_threshold(*_GARBAGE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        gc.set_threshold(*self._garbage)
