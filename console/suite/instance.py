"""A node as a process: start, readiness, stop, and the files it leaves."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import IO

import lua
from console.suite.defaults import ENVIRONMENT, SYNC_TIMEOUT
from console.suite.place import PROGRAMS
from console.suite.process import spawn
from console.suite.suite_ini import Suite
from console.suite.warm import WarmProcess, WarmStarter
from console.suite.wire import Address, ConsoleClient, WireError

READY = re.compile(rb"entering the event loop|will retry binding|hot standby mode")
READY_STATUSES = {"running", "hot_standby", "orphan"}
CLEAN_SIGNALS = {signal.SIGTERM, signal.SIGKILL}  # any other signal, and any exit code, is a crash
STOP_TIMEOUT = 5.0  # seconds from the signal to SIGKILL
DATA = ("*.snap", "*.xlog", "*.vylog", "*.inprogress", "[0-9]*/")
POLL = 0.005  # seconds between two checks of a log or a status
RECONNECT = 0.1  # seconds between the first two attempts to reach a node, doubled after each further one
_SINGLE = re.compile(r"---\n- (\w+)\n\.\.\.\n")
STARTER = Path(lua.__file__).parent / "modules" / "suite" / "instance.lua"


class ServerError(Exception):
    """Raised if a node could not be started, or is not in the state that a command needs."""


class State(Enum):
    STOPPED = "stopped"
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The settings that all nodes of one test share."""

    suite: Suite
    executable: tuple[str, ...]
    directory: Path
    inspector: tuple[str, int]
    start_timeout: float = 60.0
    sync_timeout: int = SYNC_TIMEOUT
    warm: WarmStarter | None = None


@dataclass(slots=True)
class StartOptions:
    """The options of a start: `wait` waits for the process, `wait_load` for box.cfg too."""

    arguments: list[str] = field(default_factory=list)
    wait: bool = True
    wait_load: bool = True
    crash_expected: bool = False


class InstanceProcess:
    """The process of one instance.

    It runs in the directory that the instances of a test share. Its files there are `instance`/ (data), `instance`.log,
    `instance`.c and `instance`.i. `name` is the test's name for it; `data` is a directory whose files the instance
    starts with.
    """

    def __init__(
        self,
        name: str,
        script: Path,
        around: Surroundings,
        *,
        master: InstanceProcess | None = None,
        instance: str | None = None,
        data: Path | None = None,
    ) -> None:
        self.name = name
        self.instance = instance or script.name.split(".")[0]
        self.script = script
        self.master = master
        self._around = around
        self.directory = around.directory
        self.workdir = around.directory / self.instance
        self.log = around.directory / f"{self.instance}.log"
        self._process: asyncio.subprocess.Process | WarmProcess | None = None
        self._crash_expected = False
        self._log_start = 0
        self.crash: str | None = None
        self.admin, self.listen = self._addresses()
        if data is not None:
            shutil.rmtree(self.workdir, ignore_errors=True)
            shutil.copytree(data, self.workdir)

    def __repr__(self) -> str:
        return f"<InstanceProcess {self.name} {self.state.value}>"

    @property
    def state(self) -> State:
        running = self._process is not None and self._process.returncode is None
        return State.RUNNING if running else State.STOPPED

    @property
    def process(self) -> asyncio.subprocess.Process | WarmProcess:
        """The process of the newest start. Raises ServerError if the node is stopped."""
        if self._process is None:
            raise ServerError(f"server {self.name} is not started")
        return self._process

    @property
    def is_started(self) -> bool:
        """True if the node was started and not stopped since, even if it has ended by itself."""
        return self._process is not None

    @property
    def admin_uri(self) -> str:
        return _uri(self.admin)

    @property
    def listen_uri(self) -> str:
        return _uri(self.listen)

    async def start(self, options: StartOptions) -> None:
        """Start the node. Raises ServerError if it does not become ready."""
        if self.state is State.RUNNING:
            raise ServerError(f"server {self.name} is already running")
        self.deploy()
        self._crash_expected = options.crash_expected
        self.crash = None
        with self.log.open("ab") as log:
            log.write(f"Starting instance {self.instance}...\n".encode())
            log.flush()
            self._log_start = log.tell()
            self._process = await self._spawn([str(STARTER), str(self.script), *options.arguments], log, log)
        if options.wait:
            await self._wait_ready(options)

    async def _spawn(
        self, arguments: list[str], stdout: IO[bytes], stderr: IO[bytes]
    ) -> asyncio.subprocess.Process | WarmProcess:
        around, environment = self._around, self._environment()
        if around.warm is not None:
            process = around.warm.spawn(arguments, cwd=self.directory, env=environment, stdout=stdout, stderr=stderr)
            if process is not None:
                return process
        command = (*around.executable, *arguments)
        return await spawn(command, cwd=self.directory, env=environment, stdout=stdout, stderr=stderr)

    async def run_to_end(self, timeout: float) -> tuple[int | None, str, str]:
        """Run the script as a program. Returns exit code (None after the time limit), standard output and standard
        error.
        """
        output, errors = self.directory / f"{self.instance}.out", self.directory / f"{self.instance}.err"
        with output.open("wb") as stdout, errors.open("wb") as stderr:
            process = await self._spawn([str(self.script)], stdout, stderr)
        code: int | None = None
        try:
            async with asyncio.timeout(timeout):
                code = await process.wait()
        except TimeoutError:
            pass
        finally:  # also after an interrupt no process is left behind
            if process.returncode is None:
                process.kill()
                await process.wait()
        return code, output.read_text(errors="replace"), errors.read_text(errors="replace")

    async def stop(self, signal_name: str = "TERM") -> None:
        """Send the signal, and SIGKILL after STOP_TIMEOUT. A stopped node stays stopped."""
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            process.send_signal(_signal_of(signal_name))
            try:
                await asyncio.wait_for(process.wait(), STOP_TIMEOUT)
            except TimeoutError:
                process.kill()
                await process.wait()
        self._note_exit()
        self._process = None

    async def wait_exit(self, timeout: float) -> None:
        """Wait until the process ends by itself, at most `timeout` seconds."""
        if self._process is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), timeout)

    def deploy(self) -> None:
        """Make the node's data directory."""
        self.workdir.mkdir(parents=True, exist_ok=True)

    def cleanup(self) -> None:
        """Remove the node's data; other files in its directory stay. A node that runs goes on without them."""
        for path in [path for pattern in DATA for path in self.workdir.glob(pattern)]:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        if self.state is State.STOPPED:
            for address in (self.admin, self.listen):
                if isinstance(address, Path):
                    address.unlink(missing_ok=True)

    async def connect(self) -> ConsoleClient:
        """Open a new connection to the node's console. Raises OSError or WireError."""
        return await ConsoleClient.connect(self.admin)

    async def reach(self) -> ConsoleClient:
        """Open a connection to the node's console, waiting for a node that was just started.

        The patience is that of the original runner: scripts that do not wait for a node rely on what it does meanwhile.
        """
        pause = RECONNECT
        deadline = asyncio.get_running_loop().time() + self._around.start_timeout
        while True:
            try:
                return await self.connect()
            except (OSError, WireError):
                if self.state is not State.RUNNING or asyncio.get_running_loop().time() > deadline:
                    raise
            await asyncio.sleep(pause)
            pause *= 2

    async def evaluate(self, expression: str, *, patient: bool = False) -> str:
        """Run a command on a new connection and return its reply.

        The reply is empty if the node is not there, or, with `patient`, does not come up.
        """
        try:
            client = await (self.reach() if patient else self.connect())
        except (OSError, WireError):
            return ""
        try:
            return await client.execute(expression)
        finally:
            client.close()
            await client.wait_closed()

    def expect_crash(self) -> None:
        """Count any end of the process as a clean one."""
        self._crash_expected = True
        self.crash = None

    def check_crash(self) -> str | None:
        """Return the reason why a node that should run does not, or None. The text is made once, at the exit."""
        self._note_exit()
        return self.crash

    def tail(self, lines: int = 15) -> str:
        """Return the last lines of the log."""
        try:
            # Some lines fit well into these bytes; a log of hours need not be split.
            text = self.log.read_bytes()[-16384:].decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    # -- starting ----------------------------------------------------------------------------

    async def _wait_ready(self, options: StartOptions) -> None:
        try:
            async with asyncio.timeout(self._around.start_timeout):
                if options.wait_load:
                    await self._wait_log()
                    await self._wait_status()
                else:
                    await self._wait_console()
        except TimeoutError:
            is_silent = options.wait_load and READY.search(self._new_log())
            why = ": it has no console on $ADMIN" if is_silent else ""
            raise ServerError(f"server {self.name} is not ready in time{why}\n{self.tail()}") from None

    async def _wait_log(self) -> None:
        while not READY.search(self._new_log()):
            self._require_alive()
            await asyncio.sleep(POLL)

    async def _wait_status(self) -> None:
        while True:
            if _single_value(await self.evaluate("box.info.status")) in READY_STATUSES:
                return
            self._require_alive()
            await asyncio.sleep(POLL)

    async def _wait_console(self) -> None:
        while _single_value(await self.evaluate("2 + 2")) != "4":
            self._require_alive()
            await asyncio.sleep(POLL)

    def _require_alive(self) -> None:
        if self.state is not State.RUNNING:
            self._note_exit()
            # The text of a crash, which the runner shows as well, has the log.
            log = "" if self.crash else f"\n{self.tail()}"
            raise ServerError(f"server {self.name} did not start: {self._exit_text()}{log}")

    def _new_log(self) -> bytes:
        with self.log.open("rb") as file:
            file.seek(self._log_start)
            return file.read()

    # -- the process's surroundings ------------------------------------------------------------

    def _addresses(self) -> tuple[Address, Address]:
        suite, directory = self._around.suite, self._around.directory
        admin: Address = directory / f"{self.instance}.c" if suite.unix_sockets else ("127.0.0.1", _free_port())
        listen: Address = directory / f"{self.instance}.i" if suite.unix_sockets_iproto else ("127.0.0.1", _free_port())
        return admin, listen

    def _environment(self) -> dict[str, str]:
        around = self._around
        suite = around.suite
        # The directory that contains the suites may be the project that they test.
        paths = [around.directory, suite.path, suite.path / "lua", suite.root, suite.root.parent]
        lua_path = ";".join([*(f"{path}/?.lua;{path}/?/init.lua" for path in paths), os.environ.get("LUA_PATH", "")])
        master = {"MASTER": self.master.listen_uri} if self.master else {}
        return {
            **ENVIRONMENT,
            **{name: value for name, value in os.environ.items() if name != "MASTER"},
            **master,
            "PATH": f"{around.directory}/{PROGRAMS}:{os.environ.get('PATH', os.defpath)}",
            "LISTEN": self.listen_uri,
            "ADMIN": self.admin_uri,
            "PWD": str(self.directory),
            "TEST_WORKDIR": str(self.directory),
            "TEST_INSTANCE": self.instance,
            "TEST_RUN_DIR": str(around.directory),
            "TEST_SERVER_NAME": self.name,
            "INSPECTOR_HOST": around.inspector[0],
            "INSPECTOR_PORT": str(around.inspector[1]),
            "REPLICATION_SYNC_TIMEOUT": str(around.sync_timeout),
            "MEMTX_ALLOCATOR": os.environ.get("MEMTX_ALLOCATOR", "small"),
            "SOURCEDIR": str(suite.root.parent),
            "TARANTOOL_SRC_DIR": str(suite.root.parent),
            "BUILDDIR": str(suite.root.parent),
            "LUA_PATH": f"{lua_path};;",
            "LUA_CPATH": f"{around.directory}/?.so;{suite.root.parent}/?.so;{os.environ.get('LUA_CPATH', '')};;",
        }

    # -- the end of the process ------------------------------------------------------------------

    def _note_exit(self) -> None:
        process = self._process
        if process is None or process.returncode is None or self.crash is not None or self._crash_expected:
            return
        if process.returncode != 0 and -process.returncode not in CLEAN_SIGNALS:
            self.crash = f"server {self.name} crashed: {self._exit_text()}\n{self.tail()}"

    def _exit_text(self) -> str:
        code = self._process.returncode if self._process else None
        if code is not None and code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}"


def _signal_of(name: str) -> signal.Signals:
    try:
        return signal.Signals(int(name)) if name.isdigit() else signal.Signals[f"SIG{name.removeprefix('SIG')}"]
    except (KeyError, ValueError):
        raise ServerError(f"unknown signal: {name}") from None


def _uri(address: Address) -> str:
    return str(address) if isinstance(address, Path) else f"localhost:{address[1]}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _single_value(reply: str) -> str | None:
    """Return the text of the one plain value in a reply, or None for any other reply."""
    found = _SINGLE.fullmatch(reply)
    return found[1] if found else None
