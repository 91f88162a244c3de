"""A simulated node: one instance after the other, on one disk, with everything that can happen to a process.

```
start, stop        as an administrator does
kill               SIGKILL: the operating system keeps what was written
crash_after        the same after so many callbacks more: at any `await`
lose_power         besides, what was not synced may be gone
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
"""All nodes listen on this port, each of its own host."""
_NOBODY = ContextVariables()


class NodeDied(Exception):
    """The process ended before the call did: nobody knows what became of it."""


def _refuse(option: str) -> NoReturn:
    """UNSUPPORTED for what would reach the real machine."""
    raise BoxError(ErrorCode.UNSUPPORTED, f"the option '{option}' is not supported in a simulation")


def _open_no_sink(target: str | None, resolve: Callable[[str], str]) -> Sink:
    """Lines stay with the node."""
    if target:
        _refuse("log")
    return open_sink(None, resolve)


class World(Protocol):
    """The surroundings of a node: a `Simulation`."""

    loop: SimulatedLoop
    network: SimulatedNetwork

    def random(self, purpose: str) -> Random:
        """A random source of its own."""

    def note(self, process: str, kind: str, text: str = "") -> None:
        """Add an event to the trace."""


class WallClock:
    """Seconds since the epoch, as one node believes them. `drift` is the share by which it goes too fast."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.drift = 0.0
        self._offset = EPOCH
        self._loop = loop

    def now(self) -> float:
        """The time."""
        return self._offset + self._loop.time() * (1.0 + self.drift)

    def jump(self, seconds: float) -> None:
        """Somebody sets the clock."""
        self._offset += seconds

    def set_right(self) -> None:
        """The time that everybody has."""
        self._offset, self.drift = EPOCH, 0.0

    def set_drift(self, drift: float) -> None:
        """Go faster or slower from now on."""
        self._offset += self._loop.time() * (self.drift - drift)
        self.drift = drift


class StopStage(Enum):
    """The stages of an end in order, while the process is there."""

    BEGUN = auto()
    DONE = auto()
    """Nothing is left but to end the process."""


class SimulatedNode:
    """One node of a `Simulation`. `options` of `box.cfg` are kept from start to start."""

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
        """Whether there is a process."""
        return not self.process.is_dead

    @property
    def is_running(self) -> bool:
        """Whether the instance is configured and can be asked."""
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
        """The instance of the process. NodeDied if there is none."""
        if self._instance is None or not self.is_up:
            raise NodeDied(self.name)
        return self._instance

    @property
    def is_remote(self) -> bool:
        """Never: everything is called in this process."""
        return False

    @property
    def instance_id(self) -> int:
        """The id in the replica set. NodeDied if there is no process."""
        return self.instance.state.instance_id

    @property
    def leader_id(self) -> int:
        """The node that this one takes for the leader, 0 if it knows of none. NodeDied if there is no process."""
        return self.instance.elections.raft.leader_id

    @property
    def application(self) -> Node:
        """The node as programs see it (`box.Node`): `space`, `eval`, `call`. For nodes with Lua."""
        if self._application is None or not self.is_up:
            raise NodeDied(self.name)
        return self._application

    async def start(self, **options: Any) -> None:
        """A new process that configures its instance. Raises what `box.cfg` does; NodeDied if the process ends."""
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
        # Few simulated nodes have Lua.
        from box.testing.simulation.application_node import make_application
        from box.testing.simulation.simulated_machine import simulated_machine

        own_random = simulation.random(f"{self.name} {self._starts} Lua")
        machine = simulated_machine(self.disk, host, loop, self.clock.now, self._starts, own_random)
        self._application = application = make_application(instance, machine, self.log, self.options, self.kill)
        await application.start()

    async def stop(self) -> None:
        """End in order."""
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
        """The disk and the network first: what coroutines do when they are closed reaches neither."""
        instance, self._instance = self._instance, None
        application, self._application = self._application, None
        self.stops = None
        self.disk = self.disk.successor()
        self._simulation.network.process_died(self.name)
        self.log.is_deaf = True  # last words of coroutines that are closed
        process.die()
        if application is not None:
            application.abandon()
        if instance is not None:
            for _ in instance.tuples.abandon():
                """Time stands still for the dead."""
        self.log.is_deaf = False

    def kill(self) -> None:
        """End at once, at whatever `await` the process is."""
        if self.is_up:
            self._simulation.note(self.name, "kill")
            self._end(self.process)

    def _panic(self) -> None:
        """The process ends as soon as the callback is over that has found that it must."""
        process = self.process
        self._simulation.note(self.name, "panic")

        def end() -> None:
            if self.process is process:
                self.kill()

        self._loop.call_soon(end, context=_NOBODY)

    def crash_after(self, callbacks: int) -> None:
        """End at once when the process has run so many callbacks more."""
        if self.is_up:
            self.process.after_callbacks(callbacks, self._crash)

    def _crash(self) -> None:
        self._simulation.note(self.name, "crash")
        self._end(self.process)

    def lose_power(self) -> None:
        """End at once, and lose what was not synced."""
        self._simulation.note(self.name, "power")
        if self.is_up:
            self._end(self.process)
        self.disk.lose_power()

    def halt(self) -> None:
        """StopStage for a while: other nodes see silence."""
        if self.is_up and not self.process.is_halted:
            self._simulation.note(self.name, "halt")
            self.process.halt()

    def go_on(self) -> None:
        """Run again after `halt`."""
        if self.process.is_halted:
            self._simulation.note(self.name, "go on")
            self.process.go_on()

    # -- work

    async def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in the process and wait for its end. NodeDied if the process ends first."""
        process = self.process
        if process.is_dead:
            coroutine.close()
            raise NodeDied(self.name)
        task = process.run(self._loop.create_task, coroutine)
        over: asyncio.Future[None] = self._loop.create_future()

        def settle(_: object) -> None:
            if task.done() and not task.cancelled():
                task.exception()  # whoever has asked may have gone
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
        """Call `body` with what it may do, as one transaction, and wait for its commit. Raises what the commit does.

        With `memtx_use_mvcc_engine` it may be a coroutine function, which waits in the middle."""
        return await self.run(transact(self.instance, body))

    async def configure(self, **options: Any) -> None:
        """`box.cfg{...}` of a running node."""
        self.options |= options
        await self.run(self.instance.configure(options))

    def rows(self, space: int) -> list[Any]:
        """All tuples of a space, read without a transaction."""
        instance = self.instance
        return Changes(instance, instance.new_context()).select(space)

    def has(self, space: int, key: Any) -> bool:
        """Whether a space has a tuple with a key at this moment."""
        instance = self.instance
        return space in instance.schema.spaces and Changes(instance, instance.new_context()).get(space, key) is not None


async def transact(instance: Instance, body: Callable[[Changes], Any]) -> Any:
    """The same as `SimulatedNode.transaction` with any instance, in its own loop."""
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
    """Reads and writes of one transaction, by the number of the space."""

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
        """The tuple with a key, or None."""
        instance = self._instance
        raw = instance.dml.reads.get(self._ctx, instance.schema.space(space), 0, [key])
        return None if raw is None else unpack(raw)

    def select(self, space: int) -> list[Any]:
        """All tuples."""
        instance = self._instance
        if space not in instance.schema.spaces:
            return []
        found = instance.dml.reads.select(self._ctx, instance.schema.space(space), 0, 2, 0, 0xFFFFFFFF, [])
        return [unpack(raw) for raw in found]
