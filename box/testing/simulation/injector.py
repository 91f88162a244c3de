"""The injector: makes the faults of a list happen to a cluster, and ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from box.errors import BoxError
from box.testing.simulation.absences import Absences
from box.testing.simulation.administrator import Administrator
from box.testing.simulation.crash_points import CrashPoints, lose_power
from box.testing.simulation.disk import LATENCY, READ_FAILS, SHORT_WRITES, SYNC_FAILS, TRUNCATE_FAILS, WRITE_FAILS
from box.testing.simulation.faults import Fault, draw_faults, kinds_of
from box.testing.simulation.hazard_faults import HazardFaults
from box.testing.simulation.leader_faults import LeaderFaults
from box.testing.simulation.rivals import Rivals
from box.testing.simulation.simulated_node import NodeDied, SimulatedNode, StopStage
from box.testing.simulation.simulation import Simulation

_CALLBACKS: Final = 2000
"""The largest number of callbacks after which a crash comes."""


async def storm(simulation: Simulation, seconds: float, faults: Iterable[str] = ("all",)) -> None:
    """Make faults happen at random for `seconds` simulated seconds, then end them all.

    `faults` are kinds or groups of faults from the table in `faults.py`.

    Raises:
        ValueError: a name is unknown.
    """
    faults_to_come = draw_faults(simulation.random("storm"), list(simulation.nodes), kinds_of(faults), seconds)
    injector = Injector(simulation)
    end = simulation.loop.time() + seconds
    await injector.run(faults_to_come)
    await simulation.sleep(max(0.0, end - simulation.loop.time()))
    await injector.finish()


class Injector:
    """Makes faults happen in a simulation. Each kind of fault is a method of its name with an underscore."""

    def __init__(self, simulation: Simulation) -> None:
        self.violations: list[str] = []
        """Faults that a node ought to have noticed, and has not."""
        self.administrator = Administrator(simulation)
        self._simulation = simulation
        self._leaders = LeaderFaults(simulation)
        self._rivalry = Rivals(simulation)
        self._hazards = HazardFaults(simulation, self.administrator)
        self._absences = Absences(simulation, self.administrator)
        self._points = CrashPoints(simulation)
        self._tasks: dict[asyncio.Task[None], None] = {}

    async def run(self, faults: Sequence[Fault]) -> None:
        """Begin each fault at its time. Faults that are not over when the last has begun continue."""
        simulation = self._simulation
        start = simulation.loop.time()
        for fault in sorted(faults):
            await simulation.sleep(max(0.0, start + fault.at - simulation.loop.time()))
            task = simulation.loop.create_task(self._happen(fault))
            self._tasks[task] = None
            task.add_done_callback(lambda task: self._tasks.pop(task, None))

    async def finish(self) -> None:
        """End all faults: start all nodes, and mend the network, disks and clocks."""
        simulation = self._simulation
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        simulation.network.heal()
        simulation.network.corruption = 0.0
        for node in simulation.nodes.values():
            node.go_on()
            node.disk.heal()
            node.clock.set_right()  # nodes whose clocks differ by more than replication_sync_lag never get in sync
        # The administrator may be starting nodes; the end of the run would cancel that. 40 s exceed its own limit.
        await self._until(lambda: not self.administrator.is_helping, 40)
        for node in simulation.nodes.values():
            if not node.is_running or node.stops is not None:
                await self._revive(node)
        # Meanwhile the administrator may have begun to start other nodes that were down for long.
        await self._until(lambda: not self.administrator.is_helping, 40)
        for node in simulation.nodes.values():
            await self.administrator.restore_mode(node)

    async def _revive(self, node: SimulatedNode) -> None:
        """Restart a node that does not run, after up to 20 seconds in which it may finish a start or a stop.

        A stop that has not finished then is left for the checks to find.
        """

        def is_settled() -> bool:
            return not node.is_up or (node.is_running and node.stops is not StopStage.BEGUN)

        await self._until(is_settled, 20)
        if not node.is_running or node.stops is StopStage.DONE:
            node.kill()
            await node.start()

    async def _until(self, is_so: Callable[[], bool], seconds: float) -> None:
        """Wait for a condition, at most for `seconds` simulated seconds."""
        deadline = self._simulation.loop.time() + seconds
        while not is_so() and self._simulation.loop.time() < deadline:
            await self._simulation.sleep(0.1)

    async def _happen(self, fault: Fault) -> None:
        node = self._simulation.nodes[fault.node]
        self._simulation.note(fault.node, f"+{fault.kind}", f"{fault.seconds:.3f} s")
        try:
            await getattr(self, f"_{fault.kind}")(fault, node)
        except (NodeDied, BoxError, TimeoutError) as error:
            self._simulation.note(fault.node, "error", f"of {fault.kind}: {error}")

    async def _between(self, fault: Fault, begin: Callable[[], object], end: Callable[[], object]) -> None:
        begin()
        try:
            await self._simulation.sleep(fault.seconds)
        finally:
            end()

    # -- processes

    async def _kill(self, fault: Fault, node: SimulatedNode) -> None:
        await self._end_and_start(fault, node, node.kill)

    async def _power(self, fault: Fault, node: SimulatedNode) -> None:
        await self._end_and_start(fault, node, lambda: lose_power(node))

    async def _crash(self, fault: Fault, node: SimulatedNode) -> None:
        """End the process after a number of callbacks; an idle process may not run so many, and survives."""
        node.crash_after(1 + int(fault.amount * _CALLBACKS))
        await self._simulation.sleep(fault.seconds)
        await self._start(node)

    async def _end_and_start(self, fault: Fault, node: SimulatedNode, end: Callable[[], object]) -> None:
        if not node.is_up:
            return
        end()
        await self._simulation.sleep(fault.seconds)
        await self._start(node)

    async def _start(self, node: SimulatedNode) -> None:
        if not node.is_up:
            await node.start()

    async def _restart(self, fault: Fault, node: SimulatedNode) -> None:
        if node.is_running and not node.process.is_halted:
            await self._limited(node.stop())
            await self._simulation.sleep(fault.seconds)
            await self._start(node)

    async def _limited(self, work: Awaitable[Any]) -> None:
        await self._simulation.within(30, work)

    async def _away(self, fault: Fault, node: SimulatedNode) -> None:
        await self._absences.away(fault, node)

    async def _lag(self, fault: Fault, node: SimulatedNode) -> None:
        await self._absences.lag(fault, node)

    async def _outage(self, fault: Fault, node: SimulatedNode) -> None:
        await self._points.outage(fault, node)

    async def _relapse(self, fault: Fault, node: SimulatedNode) -> None:
        await self._points.relapse(fault, node)

    async def _halt(self, fault: Fault, node: SimulatedNode) -> None:
        await self._between(fault, node.halt, node.go_on)

    # -- the network

    async def _isolate(self, fault: Fault, node: SimulatedNode) -> None:
        network = self._simulation.network
        await self._between(fault, lambda: network.isolate(node.name), lambda: network.rejoin(node.name))

    async def _split(self, fault: Fault, node: SimulatedNode) -> None:
        """Separate a node, with some of the others that the bits of the amount choose, from the rest."""
        names = list(self._simulation.nodes)
        bits = int(fault.amount * 2 ** len(names))
        here = [name for number, name in enumerate(names) if name == node.name or bits >> number & 1]
        ways = [way for one in here for other in names if other not in here for way in ((one, other), (other, one))]
        await self._cut_all(fault, ways)

    async def _cut(self, fault: Fault, node: SimulatedNode) -> None:
        await self._cut_all(fault, [(fault.node, fault.other)])

    async def _only(self, fault: Fault, node: SimulatedNode) -> None:
        ways = [(node.name, name) for name in self._simulation.nodes if name not in (node.name, fault.other)]
        await self._cut_all(fault, ways)

    async def _cut_all(self, fault: Fault, ways: Sequence[tuple[str, str]]) -> None:
        network = self._simulation.network

        def begin() -> None:
            for way in ways:
                network.cut(*way)

        def end() -> None:
            for way in ways:
                network.mend(*way)

        await self._between(fault, begin, end)

    async def _reset(self, fault: Fault, node: SimulatedNode) -> None:
        self._simulation.network.reset_connections(node.name)

    async def _slow(self, fault: Fault, node: SimulatedNode) -> None:
        slow = self._simulation.network.slow
        way = (fault.node, fault.other)
        await self._between(fault, lambda: slow.update({way: fault.amount}), lambda: slow.pop(way, None))

    async def _corrupt(self, fault: Fault, node: SimulatedNode) -> None:
        network = self._simulation.network

        def set_share(share: float) -> None:
            network.corruption = share

        # Up to a tenth of the writes; they arrive late, because the sender has to repeat them.
        await self._between(fault, lambda: set_share(fault.amount / 10), lambda: set_share(0.0))

    # -- disks

    async def _with_disk_fault(self, fault: Fault, node: SimulatedNode, name: str) -> None:
        faults = node.disk.faults
        await self._between(fault, lambda: faults.add(name), lambda: faults.discard(name))

    async def _write(self, fault: Fault, node: SimulatedNode) -> None:
        await self._with_disk_fault(fault, node, WRITE_FAILS)

    async def _sync(self, fault: Fault, node: SimulatedNode) -> None:
        await self._with_disk_fault(fault, node, SYNC_FAILS)

    async def _short(self, fault: Fault, node: SimulatedNode) -> None:
        await self._with_disk_fault(fault, node, SHORT_WRITES)

    async def _full(self, fault: Fault, node: SimulatedNode) -> None:
        def end() -> None:
            node.disk.capacity = None

        def begin() -> None:
            # Room for a few more rows at most: the disk becomes full in the middle of something.
            node.disk.capacity = node.disk.used + int(fault.amount * 2000)

        await self._between(fault, begin, end)

    async def _read(self, fault: Fault, node: SimulatedNode) -> None:
        await self._with_disk_fault(fault, node, READ_FAILS)

    async def _stuck(self, fault: Fault, node: SimulatedNode) -> None:
        """Make syncs and truncations fail, and start the node afterwards.

        A process that cannot undo a failed write ends by itself.
        """

        def begin() -> None:
            node.disk.faults |= {SYNC_FAILS, TRUNCATE_FAILS}

        def end() -> None:
            node.disk.faults -= {SYNC_FAILS, TRUNCATE_FAILS}

        await self._between(fault, begin, end)
        await self._start(node)

    async def _latency(self, fault: Fault, node: SimulatedNode) -> None:
        def set_latency(latency: tuple[float, float]) -> None:
            node.disk.latency = latency

        slow = (fault.amount / 50, fault.amount / 5)  # up to 20 and up to 200 ms
        await self._between(fault, lambda: set_latency(slow), lambda: set_latency(LATENCY))

    async def _flush(self, fault: Fault, node: SimulatedNode) -> None:
        def set_delay(seconds: float) -> None:
            node.disk.sync_delay = seconds

        await self._between(fault, lambda: set_delay(fault.amount / 2), lambda: set_delay(0.0))

    async def _rot(self, fault: Fault, node: SimulatedNode) -> None:
        if not node.is_up or node.process.is_halted:
            return
        node.kill()
        put_right = None
        with suppress(BoxError):  # another fault may keep the disk from being read
            put_right = node.disk.rot(fault.amount)
        if put_right is None:
            await self._start(node)
            return
        snapshot = node.disk.newest_snapshot
        try:
            await self._limited(node.start())
            if node.disk.newest_snapshot == snapshot:  # a node that has joined anew does not read the log
                self.violations.append(f"{node.name}: started with a wrong byte in its log, at {fault}")
        except BoxError as error:
            self._simulation.note(node.name, "rotten", str(error))
        finally:
            node.kill()
            put_right()
        await self._start(node)

    # -- clocks and files

    async def _jump(self, fault: Fault, node: SimulatedNode) -> None:
        node.clock.jump((fault.amount - 0.5) * 10000)  # more than an hour forwards or backwards

    async def _drift(self, fault: Fault, node: SimulatedNode) -> None:
        clock = node.clock
        # From half as fast to half as fast again.
        await self._between(fault, lambda: clock.set_drift(fault.amount - 0.5), lambda: clock.set_drift(0.0))

    async def _snapshot(self, fault: Fault, node: SimulatedNode) -> None:
        if node.is_running:
            await self._limited(node.run(node.instance.checkpoints.make()))

    # -- the leader

    async def _depose(self, fault: Fault, node: SimulatedNode) -> None:
        leader = self._leaders.leader() or node
        ways = (self._kill, self._isolate, self._only)
        await ways[int(fault.amount * len(ways))](fault._replace(node=leader.name), leader)

    async def _heir(self, fault: Fault, node: SimulatedNode) -> None:
        await self._leaders.heir(fault, self._leaders.leader() or node)

    async def _doubt(self, fault: Fault, node: SimulatedNode) -> None:
        await self._leaders.doubt(fault, self._leaders.leader() or node)

    async def _stumble(self, fault: Fault, node: SimulatedNode) -> None:
        await self._leaders.stumble(fault, self._leaders.leader() or node)

    async def _rivals(self, fault: Fault, node: SimulatedNode) -> None:
        await self._rivalry.rivals(fault, self._leaders.leader() or node)

    # -- elections with short timeouts

    async def _lapse(self, fault: Fault, node: SimulatedNode) -> None:
        await self._hazards.lapse(fault, self._leaders.leader() or node)

    async def _freeze(self, fault: Fault, node: SimulatedNode) -> None:
        await self._hazards.freeze(fault, self._leaders.leader() or node)

    async def _stall(self, fault: Fault, node: SimulatedNode) -> None:
        await self._hazards.stall(fault, self._leaders.leader() or node)

    async def _insist(self, fault: Fault, node: SimulatedNode) -> None:
        await self._hazards.insist(fault, self._leaders.leader() or node)

    # -- people

    async def _sources(self, fault: Fault, node: SimulatedNode) -> None:
        if node.is_running and not node.process.is_halted:
            await self._limited(self.administrator.configure_anew(node))

    async def _promote(self, fault: Fault, node: SimulatedNode) -> None:
        if node.is_running and node.instance.elections.mode == "manual":
            await self.administrator.promote(node)
