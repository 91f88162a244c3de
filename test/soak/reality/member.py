"""A member of a replica set in a process of Lunabox or Tarantool, which tests reach over its socket."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from box.data.codec import pack, unpack
from box.errors import BoxError
from box.log import Level
from box.net.dial import connect
from box.net.peer_connection import PeerConnection
from box.net.sockets import SocketNetwork
from box.testing.simulation.log_lines import LogLines
from box.wire.constants import Key, RequestType
from box.wire.row import Row

ROOT: Final = Path(__file__).parents[3]
PROGRAM: Final = Path(__file__).with_name("member.lua")
OURS: Final = (sys.executable, "-m", "console")
_START: Final = 60.0
"""Seconds from the start of a process until it must serve, on a busy machine."""
_ORDERLY: Final = 30.0
"""Seconds within which a process must end after SIGTERM."""
_PAUSE: Final = 0.05
"""Seconds between two attempts to connect."""
_ANSWER: Final = 2.0
"""Seconds for an answer to a query of the member's state."""
_PR_SET_PDEATHSIG: Final = 1  # from <linux/prctl.h>
_KNOWN_CRASH: Final = "in box_promote+"
"""Part of the backtrace of a known crash of Tarantool 2.8.1: its limbo became empty while it waited for a quorum."""


def _die_with_the_campaign() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


async def _evaluate(client: PeerConnection, expression: str, arguments: Sequence[Any], timeout: float) -> Any:
    body = pack({int(Key.EXPR): expression, int(Key.TUPLE): list(arguments)})
    answer = await client.request(Row(RequestType.EVAL, body=body), timeout=timeout)
    return unpack(answer.body)[Key.DATA]


@dataclass(frozen=True, slots=True)
class MemberState:
    """What a member reports of itself (the function `state` of member.lua). The defaults stand for no answer."""

    status: str = ""
    id: int = 0
    is_read_only: bool = True
    term: int = 0
    role: str = ""
    leader: int = 0
    vclock: dict[int, int] = field(default_factory=dict)
    waiting: int = 0
    """The number of transactions in the limbo."""
    stopped: tuple[str, ...] = ()
    """A text for each upstream whose status is "stopped" or "disconnected"."""
    contradiction: str = ""

    @property
    def leads(self) -> bool:
        """True if the member is the leader and writable."""
        return self.role == "leader" and not self.is_read_only


class Member:
    """The handle of one member: one process after another on the same directory, with the same options of `box.cfg`."""

    def __init__(self, directory: Path, name: str, command: Sequence[str], **options: Any) -> None:
        self.name = name
        self.command = tuple(command)
        self.directory = directory / name
        self.directory.mkdir()
        self.uri = f"unix/:{directory}/{name}.sock"
        self.options: dict[str, Any] = {"listen": self.uri, "log": "member.log", **options}
        self.state = MemberState()
        """The state at the last `look`; all defaults, but for the id, if the member did not answer."""
        self.is_halted = False
        self.violations: list[str] = []
        self.crashes: list[str] = []
        """Crashes of Tarantool 2.8.1 that docs/guides/elections.md describes."""
        self._process: asyncio.subprocess.Process | None = None
        self._client: PeerConnection | None = None

    @property
    def is_ours(self) -> bool:
        """True if the member runs Lunabox."""
        return self.command == OURS

    @property
    def is_up(self) -> bool:
        """True if the member has a process that is not known to have ended."""
        return self._process is not None

    async def start(self, **once: Any) -> None:
        """Start a process and wait until it serves; `once` are options of this start alone.

        Raises:
            RuntimeError: the member runs already.
            TimeoutError: it does not serve within `_START` seconds; the text has its output.
        """
        if self._process is not None:
            raise RuntimeError(f"{self.name} runs already")
        (self.directory / "options.json").write_text(json.dumps(self.options | once))
        with (self.directory / "member.out").open("ab") as output:
            self._process = process = await asyncio.create_subprocess_exec(
                *self.command,
                str(PROGRAM),
                cwd=self.directory,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=_die_with_the_campaign,
            )
        self.is_halted = False
        deadline = asyncio.get_running_loop().time() + _START
        while process is self._process and not await self._serves():
            self.notice_end()
            if asyncio.get_running_loop().time() > deadline and not self.is_halted:
                raise TimeoutError(f"{self.name} does not start: {self.said()}")
            await asyncio.sleep(_PAUSE)

    async def _serves(self) -> bool:
        await self.look()
        return bool(self.state.status)

    def said(self) -> str:
        """Return the last characters of the process's output and log."""
        texts = [path.read_text(errors="replace")[-1000:] for path in self._files() if path.exists()]
        return " ".join(texts)

    def _files(self) -> list[Path]:
        return [self.directory / "member.out", self.directory / "member.log"]

    async def kill(self) -> None:
        """Send SIGKILL and wait for the end of the process."""
        await self._end(signal.SIGKILL, 10.0)

    async def stop(self) -> None:
        """Send SIGTERM and wait for the end of the process.

        Raises:
            TimeoutError: it does not end within `_ORDERLY` seconds, and is killed.
        """
        await self._end(signal.SIGTERM, _ORDERLY)

    async def _end(self, number: signal.Signals, seconds: float) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        self.state = MemberState(id=self.state.id)
        with suppress(ProcessLookupError):
            if number is signal.SIGTERM and self.is_halted:
                process.send_signal(signal.SIGCONT)
            process.send_signal(number)
        self.is_halted = False
        try:
            async with asyncio.timeout(seconds):
                await process.wait()
        except TimeoutError:
            process.kill()
            raise
        finally:
            self.disconnect()

    def halt(self) -> None:
        """Pause the process by SIGSTOP."""
        if self._process is not None and not self.is_halted:
            self.is_halted = True
            self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Resume a paused process by SIGCONT."""
        if self._process is not None and self.is_halted:
            self.is_halted = False
            self._process.send_signal(signal.SIGCONT)

    def notice_end(self) -> None:
        """Note a process that has ended by itself: as a known crash of Tarantool, else as a violation."""
        if self._process is not None and self._process.returncode is not None:
            said = self.said()
            if not self.is_ours and _KNOWN_CRASH in said:
                self.crashes.append(f"{self.name} (Tarantool) has crashed in its promotion")
            else:
                self.violations.append(f"{self.name} has ended by itself: {self._process.returncode} {said}")
            self._process = None
            self.disconnect()

    # -- questions

    async def connect(self) -> PeerConnection:
        """Open a new connection to the member.

        Raises:
            BoxError, OSError: the member does not accept it.
        """
        loop = asyncio.get_running_loop()
        return await connect(loop, SocketNetwork(loop), self.uri, timeout=_ANSWER)

    def disconnect(self) -> None:
        """Close the connection that `eval` keeps."""
        if self._client is not None:
            self._client.close()
            self._client = None

    async def eval(self, expression: str, *arguments: Any, timeout: float = 30.0) -> Any:
        """Evaluate Lua over the kept connection and return the list of its results.

        Raises:
            BoxError, OSError: the member fails or does not answer.
        """
        if self._client is None or self._client.error is not None:
            self._client = await self.connect()
        return await _evaluate(self._client, expression, arguments, timeout)

    async def eval_alone(self, expression: str, *arguments: Any, timeout: float = 30.0) -> Any:
        """Evaluate Lua that may take long, over a new connection, and return the list of its results.

        Raises:
            BoxError, OSError: the member fails or does not answer.
        """
        client = await self.connect()
        try:
            return await _evaluate(client, expression, arguments, timeout)
        finally:
            client.close()

    async def look(self) -> None:
        """Query the member and set `state`."""
        try:
            (report,) = await self.eval("return state()", timeout=_ANSWER)
        except (BoxError, OSError):
            self.state = MemberState(id=self.state.id)
            return
        vclock = dict(report.pop("vclock"))
        self.state = MemberState(vclock=vclock, stopped=tuple(report.pop("stopped")), **report)

    async def keys(self, space: str) -> set[int]:
        """Return the keys of all rows of a space.

        Raises:
            BoxError, OSError: the member fails or does not answer.
        """
        (found,) = await self.eval("return keys(...)", space)
        return set(found)

    def alarms(self) -> list[str]:
        """Return unexpected errors and tracebacks in the output of a member that runs Lunabox; none for Tarantool."""
        lines = LogLines()
        for path in self._files() if self.is_ours else ():
            for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
                lines.take(Level.WARN, line)
                if line.startswith("Traceback"):
                    lines.alarms.append(line)
        return [f"{self.name}: {line}" for line in lines.alarms]
