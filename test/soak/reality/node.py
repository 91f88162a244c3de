"""The test's handle of a node in a process of its own: starts, kills, halts and queries it, on one directory."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

from box.errors import BoxError
from box.log import Level
from box.testing.simulation.log_lines import LogLines
from box.testing.simulation.simulated_node import NodeDied
from box.testing.simulation.workload import ASYNC, LEDGER, LOCAL, SYNC, Body
from test.soak.reality.channel import Answer, Channel, NodeState, Request
from test.soak.reality.processes import NodeProcess

SPACES: Final = (SYNC, ASYNC, LEDGER, LOCAL)
_ORDERLY: Final = 30.0
"""Seconds within which a process must end after SIGTERM."""
_AT_ONCE: Final = 10.0
"""Seconds within which the operating system ends a process that was killed."""


class RealNode:
    """One node: one process after another on the same directory, with the same `options` of `box.cfg`.

    `state` is the node's last report of itself. Calls under way raise NodeDied when the process ends.
    """

    is_remote: Final = True

    def __init__(self, directory: Path, name: str, **options: Any) -> None:
        self.name = name
        self.uri = f"unix/:{directory}/{name}.sock"
        self.directory = directory / name
        self.options = {"listen": self.uri, "log": f"{directory}/{name}.log"} | options
        self.state = NodeState()
        self.lives = 0
        self.failing = 0
        """The number of faults in effect that make writes to the disk fail."""
        self.failures = 0
        """The number of disk faults so far: an applier that stops after one may have stopped because of it."""
        self.is_halted = False
        self.is_ending = False
        """True if SIGTERM was sent and the process has not ended yet."""
        self.violations: dict[str, None] = {}
        self._reached: dict[int, int] = {}
        """The vclock of the node's last report, kept over restarts: it must never go back."""
        self._rows: dict[int, list[Any]] = {}
        self.process: NodeProcess | None = None
        """The process that runs, None while there is none."""
        self._last_process: NodeProcess | None = None
        """The process that was started last, also after its end: a new one waits until its directory lock is free."""
        self._is_beginning = False
        self._channel: Channel | None = None
        self._reader: asyncio.Task[None] | None = None
        self._calls: dict[int, tuple[str, asyncio.Future[Any]]] = {}
        self._numbers = count(1)

    # -- as clients see it

    @property
    def is_up(self) -> bool:
        """True if there is a process, or one is being started."""
        return self.process is not None or self._is_beginning

    @property
    def is_running(self) -> bool:
        """True if the process runs and its instance is configured."""
        return self.is_up and self.state.is_configured

    @property
    def unanswered(self) -> list[str]:
        """The names of node server methods that were called and have not returned."""
        return [name for name, _ in self._calls.values()]

    @property
    def instance_id(self) -> int:
        """The node's id in the replica set, 0 before it is known."""
        return self.state.instance_id

    @property
    def leader_id(self) -> int:
        """The id of the node that this one takes for the leader, 0 if it knows of none."""
        return self.state.leader_id

    async def transaction(self, body: Body) -> Any:
        """Run `body` on the node as one transaction, and return its result."""
        return await self.ask("transaction", body)

    def rows(self, space: int) -> list[Any]:
        """Return all tuples that the space had at the last `look`."""
        return self._rows.get(space, [])

    def has(self, space: int, key: Any) -> bool:
        """Return whether the space had a tuple with this key at the last `look`."""
        return any(row[0] == key for row in self.rows(space))

    async def look(self) -> None:
        """Fetch the rows of all spaces as they are at one moment; `rows` and `has` read them."""
        self._rows = dict(zip(SPACES, await self.ask("rows", *SPACES), strict=True))

    # -- life

    async def start(self, **options: Any) -> None:
        """Start a process and configure its instance; `options` are kept for later starts.

        Raises:
            RuntimeError: the node runs already.
            BoxError: `box.cfg` fails; the process is killed.
            NodeDied: the process ends meanwhile.
        """
        if self.is_up:
            raise RuntimeError(f"{self.name} runs already")
        self.options |= options
        self.state, self.is_halted = NodeState(), False
        process = await self._begin()
        try:
            await self.ask("start", self.options, self._injections())
        except BoxError:
            if self.process is process:
                await self.kill()
            raise

    async def _begin(self) -> NodeProcess:
        """Start a process, once the previous one has ended and its lock on the directory is free."""
        self._is_beginning = True
        try:
            if self._last_process is not None:
                await self._last_process.gone()
            self.process = self._last_process = process = NodeProcess(self.directory)
        finally:
            self._is_beginning = False
        try:
            self._channel = channel = await Channel.open(process.control)
        except BaseException:
            await self.kill()
            raise
        self.lives += 1
        self._reader = asyncio.ensure_future(self._read(process, channel))
        return process

    async def _read(self, process: NodeProcess, channel: Channel) -> None:
        async for answer in channel.messages():
            if self.process is process:
                self._take(answer)
        status = await process.gone()
        if not process.may_end:
            self.violations[f"{self.name} has ended by itself: {status}"] = None
        if self.process is process:
            self._forget()

    def _take(self, answer: Answer) -> None:
        self.state = answer.state
        for origin, lsn in answer.state.vclock.items():
            if lsn < self._reached.get(origin, 0):
                text = f"the vclock went back from {self._reached} to {answer.state.vclock}"
                self.violations[f"{self.name}: {text}"] = None
            self._reached[origin] = lsn
        _, call = self._calls.get(answer.number, ("", None))
        if call is None or call.done():
            return  # an unasked report, or a call that was cancelled
        if answer.error is None:
            call.set_result(answer.result)
        else:
            call.set_exception(answer.error)

    def _forget(self) -> None:
        """Drop the process and fail all calls under way with NodeDied."""
        self.process = None
        self.is_ending = False
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        calls, self._calls = self._calls, {}
        for _, call in calls.values():
            if not call.done():
                call.set_exception(NodeDied(self.name))

    async def ask(self, name: str, *arguments: Any) -> Any:
        """Call a method of the node server and return its result.

        Raises:
            NodeDied: the process does not run, or ends before it answers.
            BoxError, Refused, RuntimeError: what the method raises; RuntimeError has the traceback of other errors.
        """
        if self.process is None or self._channel is None:
            raise NodeDied(self.name)
        number = next(self._numbers)
        call = asyncio.get_running_loop().create_future()
        self._calls[number] = name, call
        self._channel.send(Request(number, name, arguments))
        try:
            return await call
        finally:
            self._calls.pop(number, None)

    async def stop(self) -> None:
        """Send SIGTERM and wait for the end of the process.

        Raises:
            TimeoutError: it does not end within `_ORDERLY` seconds.
        """
        process, reader = self.process, self._reader
        if process is None or reader is None:
            return
        self.is_ending = process.may_end = True
        self.go_on()
        process.signal(signal.SIGTERM)
        async with asyncio.timeout(_ORDERLY):
            await asyncio.shield(reader)
            await process.gone()

    async def kill(self) -> None:
        """Send SIGKILL and wait for the end of the process."""
        process = self.process
        if process is None:
            return
        process.may_end = True
        process.signal(signal.SIGKILL)
        self._forget()
        async with asyncio.timeout(_AT_ONCE):
            await process.gone()

    async def crash_after(self, seconds: float) -> None:
        """Make the process crash after `seconds` more of processor time; 0 cancels that."""
        if self.process is not None:
            self.process.may_end = True
        await self.ask("crash_after", seconds)

    def halt(self) -> None:
        """Pause the process by SIGSTOP."""
        if self.process is not None and not self.is_halted:
            self.is_halted = True
            self.process.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Resume a paused process by SIGCONT."""
        if self.process is not None and self.is_halted:
            self.is_halted = False
            self.process.signal(signal.SIGCONT)

    # -- as an administrator does

    async def configure(self, **options: Any) -> None:
        """Change options of the running node by `box.cfg`, and keep them for later starts."""
        self.options |= options
        await self.ask("configure", options)

    async def fail_writes(self, change: int) -> None:
        """Add `change` (1 or -1) to the number of disk faults; writes fail while it is above 0, also after restarts."""
        self.failing += change
        self.failures += max(change, 0)
        if self.is_up:
            with suppress(NodeDied):
                for name, value in self._injections().items():
                    await self.ask("inject", name, value)

    def _injections(self) -> Mapping[str, Any]:
        return {"WAL_IO": self.failing > 0}

    # -- afterwards

    def unexpected_output(self) -> Sequence[str]:
        """Return unexpected lines of the node's log, and what its process has written to stderr."""
        lines = LogLines()
        log = Path(self.options["log"])
        for line in log.read_text(errors="replace").splitlines() if log.exists() else ():
            lines.take(Level.WARN, line)
        said = self.directory.with_suffix(".stderr")
        text = said.read_text(errors="replace").strip() if said.exists() else ""
        return [f"{self.name}: {line}" for line in (*lines.alarms, *([text] if text else []))]
