"""A replica set in one thread, in simulated time, in which one seed determines everything that happens.

    with Simulation(seed=7) as simulation:
        simulation.run(scenario(simulation))

`scenario` is a coroutine function that starts nodes (`add_node`), uses them and injects faults. Equal seeds give equal
traces (`trace.digest`).
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
"""The range of seconds until a call in another thread begins, and again until its result arrives."""
_GARBAGE: Final = (50_000, 20, 100)
"""The thresholds of the garbage collector during a simulation: high, because nodes make few reference cycles."""
USUAL_OPTIONS: Final = {
    "replication_timeout": 0.25,
    "replication_connect_timeout": 5,
    "replication_sync_timeout": 5,
}
"""The default options of `box.cfg` for nodes of a cluster: short timeouts keep runs short."""
_GUEST: Final = [1, 0, "universe", 0, 0xFFFFFFFF]
"""A row of `_priv`: the user `guest` (0) gets all privileges on the universe."""
_PRIV: Final = 312
"""The number of the space `_priv`."""


def let_guests_in(changes: Changes) -> None:
    """A transaction body that lets every node replicate from here without a password."""
    changes.replace(_PRIV, _GUEST)


class Simulation:
    """A replica set in simulated time. `seed` determines everything that happens in it."""

    def __init__(self, seed: int | str = 0, *, keeps_messages: bool = False) -> None:
        self.seed = seed
        self.trace = Trace(keeps_messages=keeps_messages)
        self.nodes: dict[str, SimulatedNode] = {}
        self.errors: list[str] = []
        """Uncaught exceptions, as texts with the processes in which they were raised."""
        self._garbage = gc.get_threshold()
        calls = self.random("calls")
        self.loop = SimulatedLoop(lambda: calls.uniform(*_CALL))
        self.loop.set_exception_handler(self._exception)
        self.network = SimulatedNetwork(self.loop, self.random("network"), self.trace)

    def random(self, purpose: str) -> Random:
        """Return the random source for a purpose.

        Each purpose has its own source, so that draws for one do not change another.
        """
        return self.random_of(self.seed, purpose)

    @staticmethod
    def random_of(seed: int | str, purpose: str) -> Random:
        """Return the random source that a simulation with this seed uses for a purpose."""
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
        """Add a node without starting it. Its name is `node1`, `node2` and so on unless one is given.

        `options` are those of `box.cfg`. With `lua` the node has a Lua runtime.
        """
        name = name or f"node{len(self.nodes) + 1}"
        self.network.names.add(name)
        node = self.nodes[name] = SimulatedNode(self, name, has_lua=lua, **options)
        return node

    async def start_cluster(self, size: int = 3, *, lua: bool = False, **options: Any) -> list[SimulatedNode]:
        """Start `size` nodes that all replicate from each other, and return them. The first one founds the replica set.

        `options` are those of `box.cfg`, for all nodes. With `lua` they have Lua runtimes, which take longer to start.
        """
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
        """Run a scenario to its end and return its result.

        Raises:
            Deadlock: the scenario still waits, but nothing is left that could happen.
        """
        result: _T = self.loop.run_until_complete(scenario)
        return result

    async def sleep(self, seconds: float) -> None:
        """Wait for this many simulated seconds."""
        await asyncio.sleep(seconds)

    async def until(self, condition: Callable[[], bool], timeout: float, what: str = "a condition") -> None:
        """Wait for a condition, which is checked ten times a second.

        Raises:
            TimeoutError: it is not true within `timeout` simulated seconds.
        """
        end = self.loop.time() + timeout
        while not condition():
            if self.loop.time() > end:
                raise TimeoutError(f"{what} did not come about in {timeout:g} simulated seconds")
            await asyncio.sleep(0.1)

    async def within(self, seconds: float, work: Awaitable[_T]) -> _T:
        """Wait for an awaitable and return its result.

        Raises:
            TimeoutError: it takes longer than `seconds` simulated seconds.
        """
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
