"""A member of a replica set that is a process of an executable, ours or Tarantool, and is spoken to over its socket."""

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
"""Seconds in which a process serves, on a busy machine."""
_ORDERLY: Final = 30.0
"""Seconds for an orderly end."""
_PAUSE: Final = 0.05
"""Seconds between two tries to connect."""
_ANSWER: Final = 2.0
"""Seconds for an answer to a question about the member itself."""
_PR_SET_PDEATHSIG: Final = 1
_KNOWN_CRASH: Final = "in box_promote+"
"""What the output of Tarantool 2.8.1 says when its queue was emptied while it waited for a quorum."""


def _die_with_the_campaign() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


async def _evaluate(client: PeerConnection, expression: str, arguments: Sequence[Any], timeout: float) -> Any:
    body = pack({int(Key.EXPR): expression, int(Key.TUPLE): list(arguments)})
    answer = await client.request(Row(RequestType.EVAL, body=body), timeout=timeout)
    return unpack(answer.body)[Key.DATA]


@dataclass(frozen=True, slots=True)
class MemberStanding:
    """What a member tells of itself (`standing` of member.lua)."""

    status: str = ""
    id: int = 0
    is_read_only: bool = True
    term: int = 0
    role: str = ""
    leader: int = 0
    vclock: dict[int, int] = field(default_factory=dict)
    waiting: int = 0
    """Transactions in the limbo."""
    stopped: tuple[str, ...] = ()
    """Upstreams that follow no more, or have lost their connection."""
    contradiction: str = ""

    @property
    def leads(self) -> bool:
        """Whether it takes changes as the leader."""
        return self.role == "leader" and not self.is_read_only


class Member:
    """One member: life after life on one directory. `options` of `box.cfg` are kept from start to start."""

    def __init__(self, directory: Path, name: str, command: Sequence[str], **options: Any) -> None:
        self.name = name
        self.command = tuple(command)
        self.directory = directory / name
        self.directory.mkdir()
        self.uri = f"unix/:{directory}/{name}.sock"
        self.options: dict[str, Any] = {"listen": self.uri, "log": "member.log", **options}
        self.standing = MemberStanding()
        """That of the last look; the default one if it has not answered."""
        self.is_halted = False
        self.violations: list[str] = []
        self.crashes: list[str] = []
        """Ends that are known of Tarantool 2.8.1 (docs/guides/elections.md)."""
        self._process: asyncio.subprocess.Process | None = None
        self._client: PeerConnection | None = None

    @property
    def is_ours(self) -> bool:
        """Whether the executable is this product."""
        return self.command == OURS

    @property
    def is_up(self) -> bool:
        """Whether there is a process."""
        return self._process is not None

    async def start(self, **once: Any) -> None:
        """A new process, until it serves. `once` are options of this start alone. TimeoutError, with what it said."""
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
        return bool(self.standing.status)

    def said(self) -> str:
        """The end of its output and log."""
        texts = [path.read_text(errors="replace")[-1000:] for path in self._files() if path.exists()]
        return " ".join(texts)

    def _files(self) -> list[Path]:
        return [self.directory / "member.out", self.directory / "member.log"]

    async def kill(self) -> None:
        """SIGKILL, whatever it does."""
        await self._end(signal.SIGKILL, 10.0)

    async def stop(self) -> None:
        """SIGTERM. TimeoutError."""
        await self._end(signal.SIGTERM, _ORDERLY)

    async def _end(self, number: signal.Signals, seconds: float) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        self.standing = MemberStanding()
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
        """SIGSTOP."""
        if self._process is not None and not self.is_halted:
            self.is_halted = True
            self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        if self._process is not None and self.is_halted:
            self.is_halted = False
            self._process.send_signal(signal.SIGCONT)

    def notice_end(self) -> None:
        """A process that has ended by itself is a violation, but for a known crash of Tarantool; it counts no more."""
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
        """A connection of its own. BoxError, OSError."""
        loop = asyncio.get_running_loop()
        return await connect(loop, SocketNetwork(loop), self.uri, timeout=_ANSWER)

    def disconnect(self) -> None:
        """End the connection for questions."""
        if self._client is not None:
            self._client.close()
            self._client = None

    async def eval(self, expression: str, *arguments: Any, timeout: float = 30.0) -> Any:
        """The results of a piece of Lua. BoxError, OSError."""
        if self._client is None or self._client.error is not None:
            self._client = await self.connect()
        return await _evaluate(self._client, expression, arguments, timeout)

    async def eval_alone(self, expression: str, *arguments: Any, timeout: float = 30.0) -> Any:
        """The results of Lua that may take long, over a connection of its own. BoxError, OSError."""
        client = await self.connect()
        try:
            return await _evaluate(client, expression, arguments, timeout)
        finally:
            client.close()

    async def look(self) -> None:
        """Learn how it stands."""
        try:
            (told,) = await self.eval("return standing()", timeout=_ANSWER)
        except (BoxError, OSError):
            self.standing = MemberStanding()
            return
        vclock = dict(told.pop("vclock"))
        self.standing = MemberStanding(vclock=vclock, stopped=tuple(told.pop("stopped")), **told)

    async def keys(self, space: str) -> set[int]:
        """The keys of all rows of a space. BoxError, OSError."""
        (found,) = await self.eval("return keys(...)", space)
        return set(found)

    def alarms(self) -> list[str]:
        """What no member of ours should have said."""
        lines = LogLines()
        for path in self._files() if self.is_ours else ():
            for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
                lines.take(Level.WARN, line)
                if line.startswith("Traceback"):
                    lines.alarms.append(line)
        return [f"{self.name}: {line}" for line in lines.alarms]
