"""A node that is a process: one life after the other on one directory, with everything that a test can do to it."""

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
from test.soak.reality.channel import Answer, Channel, Request, Standing
from test.soak.reality.processes import NodeProcess

SPACES: Final = (SYNC, ASYNC, LEDGER, LOCAL)
_ORDERLY: Final = 30.0
"""Seconds for an orderly end."""
_AT_ONCE: Final = 10.0
"""Seconds until the operating system has ended a process that was killed."""


class RealNode:
    """One node. `options` of `box.cfg` are kept from start to start.

    `standing` and `rows` are what it has told last. Whoever waits for an answer when the process ends gets NodeDied.
    """

    is_remote: Final = True

    def __init__(self, directory: Path, name: str, **options: Any) -> None:
        self.name = name
        self.uri = f"unix/:{directory}/{name}.sock"
        self.directory = directory / name
        self.options = {"listen": self.uri, "log": f"{directory}/{name}.log"} | options
        self.standing = Standing()
        self.lives = 0
        self.failing = 0
        """Faults that keep its disk from writing."""
        self.failures = 0
        """Of all times: what stopped afterwards may have stopped because of them."""
        self.is_halted = False
        self.is_ending = False
        """It was told to end in order, and is there."""
        self.violations: dict[str, None] = {}
        self._reached: dict[int, int] = {}
        """The vclock that it has told of, over all lives."""
        self._rows: dict[int, list[Any]] = {}
        self.process: NodeProcess | None = None
        """That of this life."""
        self._last_process: NodeProcess | None = None
        """The same, or that of the life before."""
        self._is_beginning = False
        self._channel: Channel | None = None
        self._reader: asyncio.Task[None] | None = None
        self._calls: dict[int, tuple[str, asyncio.Future[Any]]] = {}
        self._numbers = count(1)

    # -- as clients see it

    @property
    def is_up(self) -> bool:
        """Whether there is a process, or will be at once."""
        return self.process is not None or self._is_beginning

    @property
    def is_running(self) -> bool:
        """Whether the instance is configured and can be asked."""
        return self.is_up and self.standing.is_configured

    @property
    def unanswered(self) -> list[str]:
        """The methods of the servant that have been called and have not returned."""
        return [name for name, _ in self._calls.values()]

    @property
    def instance_id(self) -> int:
        """The id in the replica set."""
        return self.standing.instance_id

    @property
    def leader_id(self) -> int:
        """The node that this one takes for the leader, 0 if it knows of none."""
        return self.standing.leader_id

    async def transaction(self, body: Body) -> Any:
        """Call `body` over there as one transaction."""
        return await self.ask("transaction", body)

    def rows(self, space: int) -> list[Any]:
        """All tuples of a space at the last look."""
        return self._rows.get(space, [])

    def has(self, space: int, key: Any) -> bool:
        """Whether a space had a tuple with a key at the last look."""
        return any(row[0] == key for row in self.rows(space))

    async def look(self) -> None:
        """Learn all rows as they are at one moment."""
        self._rows = dict(zip(SPACES, await self.ask("rows", *SPACES), strict=True))

    # -- life

    async def start(self, **options: Any) -> None:
        """A new process that configures its instance. Raises what `box.cfg` does; NodeDied if the process ends."""
        if self.is_up:
            raise RuntimeError(f"{self.name} runs already")
        self.options |= options
        self.standing, self.is_halted = Standing(), False
        process = await self._begin()
        try:
            await self.ask("start", self.options, self._injections())
        except BoxError:
            if self.process is process:
                await self.kill()
            raise

    async def _begin(self) -> NodeProcess:
        """A new process, once the one before has let go of the directory."""
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
        self.standing = answer.standing
        for origin, lsn in answer.standing.vclock.items():
            if lsn < self._reached.get(origin, 0):
                text = f"the vclock went back from {self._reached} to {answer.standing.vclock}"
                self.violations[f"{self.name}: {text}"] = None
            self._reached[origin] = lsn
        _, call = self._calls.get(answer.number, ("", None))
        if call is None or call.done():
            return  # news, or nobody waits any more
        if answer.error is None:
            call.set_result(answer.result)
        else:
            call.set_exception(answer.error)

    def _forget(self) -> None:
        """The process counts no more, and nobody learns anything of the calls under way."""
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
        """Have a method of the servant called: its result. Raises what it does; NodeDied if the process ends first."""
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
        """End in order. TimeoutError."""
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
        """SIGKILL, whatever it does."""
        process = self.process
        if process is None:
            return
        process.may_end = True
        process.signal(signal.SIGKILL)
        self._forget()
        async with asyncio.timeout(_AT_ONCE):
            await process.gone()

    async def crash_after(self, seconds: float) -> None:
        """End after so many seconds more of the processor's time; 0: not any more."""
        if self.process is not None:
            self.process.may_end = True
        await self.ask("crash_after", seconds)

    def halt(self) -> None:
        """SIGSTOP."""
        if self.process is not None and not self.is_halted:
            self.is_halted = True
            self.process.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        if self.process is not None and self.is_halted:
            self.is_halted = False
            self.process.signal(signal.SIGCONT)

    # -- as an administrator does

    async def configure(self, **options: Any) -> None:
        """`box.cfg{...}` of a running node."""
        self.options |= options
        await self.ask("configure", options)

    async def fail_writes(self, change: int) -> None:
        """One more fault, or one less, that keeps the disk from writing, over all lives."""
        self.failing += change
        self.failures += max(change, 0)
        if self.is_up:
            with suppress(NodeDied):
                for name, value in self._injections().items():
                    await self.ask("inject", name, value)

    def _injections(self) -> Mapping[str, Any]:
        return {"WAL_IO": self.failing > 0}

    # -- afterwards

    def last_words(self) -> Sequence[str]:
        """What neither the node nor Python should have said."""
        lines = LogLines()
        log = Path(self.options["log"])
        for line in log.read_text(errors="replace").splitlines() if log.exists() else ():
            lines.take(Level.WARN, line)
        said = self.directory.with_suffix(".stderr")
        text = said.read_text(errors="replace").strip() if said.exists() else ""
        return [f"{self.name}: {line}" for line in (*lines.alarms, *([text] if text else []))]
