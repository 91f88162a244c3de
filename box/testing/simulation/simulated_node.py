"""A simulated node: its instances, one after the other, on one disk, and everything that can happen to its process.

```
start, stop        as an administrator does
kill               SIGKILL: the operating system keeps what was written
crash_after        a kill after a number of callbacks: at any `await`
lose_power         a kill that may also lose what was not synced
halt, go_on        SIGSTOP and SIGCONT
clock              jumps and drifts
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context as ContextVariables
from enum import Enum, auto
from inspect import isawaitable
from random import Random
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from box.data.codec import pack, unpack
from box.errors import BoxError, ErrorCode
from box.instance.node import Instance
from box.log.sinks import Sink, open_sink
from box.session import Context
from box.testing.simulation.disk import SimulatedDisk
from box.testing.simulation.log_lines import LogLines
from box.testing.simulation.loop import EPOCH, Process, SimulatedLoop
from box.testing.simulation.simulated_network import SimulatedNetwork
from box.testing.simulation.simulated_threads import SimulatedThreads
from box.txn.pending import Pending
from box.wire.change import Request

if TYPE_CHECKING:
    from box.embed import Node
    from box.testing.simulation.application_node import ApplicationNode

_T = TypeVar("_T")

PORT = 3301
"""The port on which each node listens, on a host of its own."""
_NOBODY = ContextVariables()
"""A context without a process."""


class NodeDied(Exception):
    """The process ended before the call did, so that the outcome of the call is unknown."""


def _refuse(option: str) -> NoReturn:
    """Refuse an option that would affect the real machine.

    Raises:
        BoxError: UNSUPPORTED, always.
    """
    raise BoxError(ErrorCode.UNSUPPORTED, f"the option '{option}' is not supported in a simulation")


def _open_no_sink(target: str | None, resolve: Callable[[str], str]) -> Sink:
    """Refuse log files and pipes; the lines of the log stay with the node."""
    if target:
        _refuse("log")
    return open_sink(None, resolve)


class World(Protocol):
    """The surroundings of a node: a `Simulation`."""

    loop: SimulatedLoop
    network: SimulatedNetwork

    def random(self, purpose: str) -> Random:
        """Return the random source for a purpose."""

    def note(self, process: str, kind: str, text: str = "") -> None:
        """Add an event to the trace."""


class WallClock:
    """The Unix time in seconds that one node believes in. `drift` is the share by which the clock runs fast."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.drift = 0.0
        self._offset = EPOCH
        self._loop = loop

    def now(self) -> float:
        """Return the node's time: seconds since 1970."""
        return self._offset + self._loop.time() * (1.0 + self.drift)

    def jump(self, seconds: float) -> None:
        """Set the clock forward, or back if `seconds` is negative."""
        self._offset += seconds

    def set_right(self) -> None:
        """Set the clock to the true time, without drift."""
        self._offset, self.drift = EPOCH, 0.0

    def set_drift(self, drift: float) -> None:
        """Run faster or slower from now on: with 0.1 the clock is fast by a tenth, with -0.1 it is slow by a tenth."""
        self._offset += self._loop.time() * (self.drift - drift)
        self.drift = drift


class StopStage(Enum):
    """The stages of an orderly stop, while the process exists."""

    BEGUN = auto()
    DONE = auto()
    """Only the end of the process is left."""


class SimulatedNode:
    """One node of a `Simulation`, made by `add_node` or `start_cluster`.

    It outlives its processes: its disk, its clock and the options of `box.cfg` are kept from start to start.
    """

    def __init__(self, simulation: World, name: str, *, has_lua: bool, **options: Any) -> None:
        self.name = name
        self.uri = f"{name}:{PORT}"
        self.clock = WallClock(simulation.loop)
        self.log = LogLines()
        self.options: dict[str, Any] = {"listen": self.uri} | options
        self.has_lua = has_lua
        self.process = Process(simulation.loop, name)
        self.process.die()
        self._simulation = simulation
        self._loop = simulation.loop
        self._starts = 0
        self._instance: Instance | None = None
        self._application: ApplicationNode | None = None
        self.stops: StopStage | None = None
        self.disk = SimulatedDisk(self.clock.now, self._loop.time, simulation.random(f"disk of {name}"))

    def __repr__(self) -> str:
        return f"<node {self.name}>"

    # -- life

    @property
    def is_up(self) -> bool:
        """True if there is a process."""
        return not self.process.is_dead

    @property
    def is_running(self) -> bool:
        """True if the instance is configured."""
        return self.running is not None

    @property
    def running(self) -> Instance | None:
        """The instance of the process if it is configured, else None."""
        instance = self._instance
        if instance is None or self.process.is_dead or not instance.state.is_configured:
            return None
        return instance

    @property
    def instance(self) -> Instance:
        """The instance of the process.

        Raises:
            NodeDied: there is no process.
        """
        if self._instance is None or not self.is_up:
            raise NodeDied(self.name)
        return self._instance

    @property
    def is_remote(self) -> bool:
        """Always False: every call runs in this operating-system process."""
        return False

    @property
    def instance_id(self) -> int:
        """The node's id in the replica set.

        Raises:
            NodeDied: there is no process.
        """
        return self.instance.state.instance_id

    @property
    def leader_id(self) -> int:
        """The id of the node that this one considers the leader, or 0.

        Raises:
            NodeDied: there is no process.
        """
        return self.instance.elections.raft.leader_id

    @property
    def application(self) -> Node:
        """The node as programs see it, a `box.Node` with `space`, `eval` and `call`, if the node has Lua.

        Raises:
            NodeDied: there is no process, or it has no Lua.
        """
        if self._application is None or not self.is_up:
            raise NodeDied(self.name)
        return self._application

    async def start(self, **options: Any) -> None:
        """Start a process, which configures its instance.

        Raises:
            BoxError: `box.cfg` fails.
            NodeDied: the process ends meanwhile.
            RuntimeError: the node is up already.
        """
        if self.is_up:
            raise RuntimeError(f"{self.name} runs already")
        self.options |= options
        self._starts += 1
        self.disk = self.disk.successor()
        self.process = process = Process(self._loop, self.name)
        self._simulation.note(self.name, "start")
        try:
            await self.run(self._configure())
        except NodeDied:
            raise
        except BaseException as error:
            if self.process is process and not process.is_dead:
                self._simulation.note(self.name, "failed", str(error))
                await self.run(self._close())
                self._end(process)
            raise

    async def _configure(self) -> None:
        simulation, loop = self._simulation, self._loop
        random = simulation.random(f"{self.name} {self._starts}")
        host = simulation.network.host(self.name, self.process)
        self._instance = instance = Instance(
            loop=loop,
            clock=self.clock.now,
            random=random,
            disk=self.disk,
            network=host,
            threads=SimulatedThreads(loop, self.disk, Random(random.random())),
        )
        instance.log.forward = self.log.take
        instance.log.open_sink = _open_no_sink
        instance.process.check_option = _refuse
        instance.on_panic.append(self._panic)
        if not self.has_lua:
            await instance.configure(self.options)
            return
        # Imported here, because Lua takes time to load and few simulated nodes use it.
        from box.testing.simulation.application_node import make_application
        from box.testing.simulation.simulated_machine import simulated_machine

        own_random = simulation.random(f"{self.name} {self._starts} Lua")
        machine = simulated_machine(self.disk, host, loop, self.clock.now, self._starts, own_random)
        self._application = application = make_application(instance, machine, self.log, self.options, self.kill)
        await application.start()

    async def stop(self) -> None:
        """Stop the node in an orderly way, if it is up."""
        if not self.is_up:
            return
        process = self.process
        self._simulation.note(self.name, "stop")
        self.stops = StopStage.BEGUN
        await self.run(self._close())
        self._end(process)

    async def _close(self) -> None:
        application, self._application = self._application, None
        if application is not None:
            await application.stop()
        if self._instance is not None:
            await self._instance.close()
        self.stops = StopStage.DONE

    def _end(self, process: Process) -> None:
        """End the process.

        The disk and the network go first, so that `finally` blocks of its coroutines reach neither.
        """
        instance, self._instance = self._instance, None
        application, self._application = self._application, None
        self.stops = None
        self.disk = self.disk.successor()
        self._simulation.network.process_died(self.name)
        self.log.is_deaf = True  # coroutines that are closed now may write to the log
        process.die()
        if application is not None:
            application.abandon()
        if instance is not None:
            for _ in instance.tuples.abandon():
                """Release all tuples at once: the steps exist for nodes that have other work to do."""
        self.log.is_deaf = False

    def kill(self) -> None:
        """End the process at once, at whichever `await` it is."""
        if self.is_up:
            self._simulation.note(self.name, "kill")
            self._end(self.process)

    def _panic(self) -> None:
        """End the process after the callback that has found a fatal error."""
        process = self.process
        self._simulation.note(self.name, "panic")

        def end() -> None:
            if self.process is process:
                self.kill()

        self._loop.call_soon(end, context=_NOBODY)

    def crash_after(self, callbacks: int) -> None:
        """End the process when it has run this many callbacks of its loop. Does nothing if the node is down."""
        if self.is_up:
            self.process.after_callbacks(callbacks, self._crash)

    def _crash(self) -> None:
        self._simulation.note(self.name, "crash")
        self._end(self.process)

    def lose_power(self) -> None:
        """End the process at once, and lose a random part of the data that was not synced to the disk."""
        self._simulation.note(self.name, "power")
        if self.is_up:
            self._end(self.process)
        self.disk.lose_power()

    def halt(self) -> None:
        """Stop the process until `go_on`. Other nodes get no messages from it meanwhile. Does nothing if it is down."""
        if self.is_up and not self.process.is_halted:
            self._simulation.note(self.name, "halt")
            self.process.halt()

    def go_on(self) -> None:
        """Let the process continue after `halt`. Does nothing if it is not halted."""
        if self.process.is_halted:
            self._simulation.note(self.name, "go on")
            self.process.go_on()

    # -- work

    async def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in the process and return its result.

        Raises:
            NodeDied: the process ends first.
        """
        process = self.process
        if process.is_dead:
            coroutine.close()
            raise NodeDied(self.name)
        task = process.run(self._loop.create_task, coroutine)
        over: asyncio.Future[None] = self._loop.create_future()

        def settle(_: object) -> None:
            if task.done() and not task.cancelled():
                task.exception()  # marks it as retrieved, because the caller may have been cancelled
            if not over.done():
                over.set_result(None)

        task.add_done_callback(settle)
        process.ended.add_done_callback(settle)
        try:
            await over
        finally:
            process.ended.remove_done_callback(settle)
        if not task.done():
            raise NodeDied(self.name)
        return task.result()  # type: ignore[no-any-return]

    async def transaction(self, body: Callable[[Changes], Any]) -> Any:
        """Call `body` as one transaction, wait for its commit and return the result of `body`.

        With `memtx_use_mvcc_engine` the body may be a coroutine function, which waits in the middle.

        Raises:
            BoxError: a change or the commit fails.
            NodeDied: the process ends meanwhile.
        """
        return await self.run(transact(self.instance, body))

    async def configure(self, **options: Any) -> None:
        """Change options of a running node, as `box.cfg{...}` does."""
        self.options |= options
        await self.run(self.instance.configure(options))

    def rows(self, space: int) -> list[Any]:
        """Return all tuples of the space with this number, decoded, read without a transaction."""
        instance = self.instance
        return Changes(instance, instance.new_context()).select(space)

    def has(self, space: int, key: Any) -> bool:
        """Return True if the space with this number has a tuple with this key."""
        instance = self.instance
        return space in instance.schema.spaces and Changes(instance, instance.new_context()).get(space, key) is not None


async def transact(instance: Instance, body: Callable[[Changes], Any]) -> Any:
    """Call `body` as one transaction on any instance, wait for its commit and return the result of `body`."""
    ctx = instance.new_context()
    instance.txns.begin(ctx)
    try:
        result = body(Changes(instance, ctx))
        if isawaitable(result):
            result = await result
    except BaseException:
        instance.txns.rollback(ctx)
        raise
    outcome = instance.txns.commit(ctx)
    if isinstance(outcome, Pending):
        await outcome.wait()
    return result


class Changes:
    """The reads and writes of one transaction. Spaces are given by number."""

    def __init__(self, instance: Instance, ctx: Context) -> None:
        self._instance = instance
        self._ctx = ctx

    def _write(self, space: int, request: Request) -> Any:
        instance = self._instance
        raw = instance.dml.write(self._ctx, instance.schema.space(space), request)
        assert not isinstance(raw, Pending), "inside a transaction nothing has to wait"
        return None if raw is None else unpack(raw)

    def insert(self, space: int, row: list[Any]) -> Any:
        return self._write(space, Request.insert(pack(row)))

    def replace(self, space: int, row: list[Any]) -> Any:
        return self._write(space, Request.replace(pack(row)))

    def update(self, space: int, key: Any, operations: list[list[Any]]) -> Any:
        return self._write(space, Request.update([key], operations, 0))

    def delete(self, space: int, key: Any) -> Any:
        return self._write(space, Request.delete([key], 0))

    def get(self, space: int, key: Any) -> Any:
        """Return the tuple with a key, or None."""
        instance = self._instance
        raw = instance.dml.reads.get(self._ctx, instance.schema.space(space), 0, [key])
        return None if raw is None else unpack(raw)

    def select(self, space: int) -> list[Any]:
        """Return all tuples of a space."""
        instance = self._instance
        if space not in instance.schema.spaces:
            return []
        found = instance.dml.reads.select(self._ctx, instance.schema.space(space), 0, 2, 0, 0xFFFFFFFF, [])
        return [unpack(raw) for raw in found]
