"""`server` of `.test.py` scripts, and the class `lib.tarantool_server.TarantoolServer` for more of them.

The scripts run in a thread and the nodes on the loop; these objects are blocking wrappers of both.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import yaml

from console.suite.instance import POLL, InstanceProcess, ServerError, StartOptions, Surroundings
from console.suite.place import prepare_place, program_of
from console.suite.python_connections import AdminConnection, BoxConnection, Port
from console.suite.wire import Address

_Result = TypeVar("_Result")


class TarantoolStartError(OSError):
    """Raised if a server did not start; `name` is the server's."""

    def __init__(self, name: str | None = None, text: str = "") -> None:
        super().__init__(text)
        self.name = name


class TarantoolLog:
    """A log file from a position on."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.log_begin = 0

    def positioning(self) -> Self:
        """Ignore what the file has now."""
        if os.path.exists(self.path):
            self.log_begin = os.path.getsize(self.path)
        return self

    def seek_once(self, msg: str) -> int:
        """Return the position of a text in the first line that has it, -1 if none has it."""
        found = [line.find(msg) for line in self._lines() if msg in line]
        return found[0] if found else -1

    def seek_wait(self, msg: str, proc: Any = None, name: str | None = None) -> None:
        """Wait for a line that matches a regular expression. Raises TarantoolStartError if the process ends before."""
        while not any(re.search(msg, line) for line in self._lines()):
            if proc is not None and proc.poll() is not None:
                raise TarantoolStartError(name)
            time.sleep(POLL)

    def _lines(self) -> list[str]:
        try:
            with open(self.path, "rb") as file:
                file.seek(self.log_begin)
                return file.read().decode(errors="surrogateescape").splitlines()
        except FileNotFoundError:
            return []


@dataclass(slots=True)
class PythonRun:
    """A run of a script: its surroundings, the loop of its nodes, and all servers that it made."""

    around: Surroundings
    timeout: float
    loop: asyncio.AbstractEventLoop
    servers: list[TarantoolServer] = field(default_factory=list)

    def run(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine on the loop, for the script's thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(self.timeout)

    def ask(self, question: Callable[[], _Result]) -> _Result:
        """Call a function on the loop."""

        async def answer() -> _Result:
            return question()

        return self.run(answer())

    def ini(self) -> dict[str, Any]:
        """Return the options of the suite in the form that scripts give to TarantoolServer."""
        suite = self.around.suite
        return {
            "core": suite.core,
            "description": suite.description,
            "script": str(suite.script),
            "suite": suite.name,
            "lua_libs": [str(library) for library in suite.lua_libs],
            "vardir": str(self.around.directory),
            "use_unix_sockets": suite.unix_sockets,
            "use_unix_sockets_iproto": suite.unix_sockets_iproto,
        }


class ServerProcess:
    """The process of a server, with the methods of `subprocess.Popen` that scripts use."""

    def __init__(self, run: PythonRun, node: InstanceProcess) -> None:
        self._run = run
        self._node = node
        self._process = node.process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._run.ask(lambda: self._process.returncode)

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait for the end. Raises TimeoutError."""

        async def wait() -> int:
            async with asyncio.timeout(timeout):
                return int(await self._process.wait())

        return self._run.run(wait())

    def send_signal(self, number: int) -> None:
        self._run.ask(lambda: self._process.send_signal(number))

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class TarantoolServer:
    """A server. `script` names it, `vardir` is the directory of its files, `rpl_master` the server of its MASTER."""

    python_run: ClassVar[PythonRun]
    admin: AdminConnection
    iproto: BoxConnection

    def __init__(self, _ini: dict[str, Any] | None = None, test_suite: object = None) -> None:
        run = self.python_run
        self.ini = {**run.ini(), "script": None, "lua_libs": [], **(_ini or {})}
        self.name = "default"
        self._script: str | None = None
        self.script = self.ini["script"]
        self.vardir = self.ini["vardir"]
        self.core = self.ini["core"]
        self.lua_libs = list(self.ini["lua_libs"])
        self.use_unix_sockets = bool(self.ini["use_unix_sockets"])
        self.use_unix_sockets_iproto = bool(self.ini["use_unix_sockets_iproto"])
        self.rpl_master: TarantoolServer | None = None
        self.conf: dict[str, Any] = {}
        self.status: str | None = None
        self.process: ServerProcess | None = None
        self.crash_expected = False
        self.crash_enabled = False
        self.tests_type = "python"
        self.testdir = str(run.around.suite.root)
        self.sourcedir = self.builddir = str(run.around.suite.root.parent)
        self.binary = str(program_of(run.around.directory))
        self.debug = True
        self._node: InstanceProcess | None = None
        run.servers.append(self)

    # -- what it is made of -----------------------------------------------------------------------

    @property
    def script(self) -> str | None:
        return self._script

    @script.setter
    def script(self, value: str | None) -> None:
        self._script = None if value is None else os.path.abspath(value)
        if self._script is not None:
            self.name = os.path.basename(self._script).split(".")[0]

    @property
    def vardir(self) -> str:
        return self._vardir

    @vardir.setter
    def vardir(self, value: str | None) -> None:
        if value is not None:
            self._vardir = os.path.abspath(value)

    @property
    def logfile(self) -> str:
        return os.path.join(self.vardir, f"{self.name}.log")

    @property
    def pidfile(self) -> str:
        return os.path.join(self.vardir, f"{self.name}.pid")

    @property
    def node(self) -> InstanceProcess:
        """The node behind the server. Raises ServerError before `install`."""
        if self._node is None:
            raise ServerError(f"server {self.name} is not installed")
        return self._node

    @property
    def is_installed(self) -> bool:
        return self._node is not None

    # -- its life ---------------------------------------------------------------------------------

    def install(self, silent: bool = True) -> None:
        """Prepare the directory, and take addresses. The server begins without data."""
        run, directory = self.python_run, Path(self.vardir)
        if self.script is None:
            raise ServerError(f"server {self.name} has no script")
        directory.mkdir(parents=True, exist_ok=True)
        libraries = [Path(self.testdir, library) for library in self.lua_libs]
        prepare_place(directory, run.around.executable, libraries)
        if self._node is None or self._node.workdir != directory / self.name:
            suite = replace(
                run.around.suite,
                unix_sockets=self.use_unix_sockets,
                unix_sockets_iproto=self.use_unix_sockets_iproto,
            )
            around = replace(run.around, directory=directory, suite=suite)
            self.adopt(InstanceProcess(self.name, Path(self.script), around, instance=self.name))
        self.cleanup()

    def adopt(self, node: InstanceProcess) -> None:
        """Take a node, and make the connections to it."""
        self._node = node
        self.logfile_pos = TarantoolLog(self.logfile)
        self.admin = AdminConnection("localhost", _port(node.admin))
        self.iproto = BoxConnection("localhost", _port(node.listen))

    def deploy(self, silent: bool = True, **options: Any) -> None:
        """Install and start the server."""
        self.install(silent)
        self.start(silent=silent, **options)

    def start(
        self,
        silent: bool = True,
        wait: bool = True,
        wait_load: bool = True,
        rais: bool = True,
        args: Sequence[str] = (),
        **_: Any,
    ) -> None:
        """Start the server. Raises TarantoolStartError if it does not become ready."""
        if self.status == "started":
            return
        node = self.node
        node.master = self.rpl_master.node if self.rpl_master else None
        self.logfile_pos = TarantoolLog(self.logfile).positioning()
        options = StartOptions(list(args), wait=wait, wait_load=wait_load, crash_expected=self.crash_expected)
        try:
            self.python_run.run(node.start(options))
        except ServerError as error:
            raise TarantoolStartError(self.name, str(error)) from error
        finally:
            self.note_process()
        self.admin.disconnect()
        self.status = "started"

    def note_process(self) -> None:
        """Make `process` that of the node."""
        self.process = ServerProcess(self.python_run, self.node) if self.node.is_started else None

    def stop(self, silent: bool = True, signal: int = signal.SIGTERM) -> None:
        """Stop the server with a signal, and with SIGKILL after five seconds."""
        if self.status != "started":
            if not silent:
                raise ServerError("Server is not started")
            return
        self._expect_crash()
        self.admin.disconnect()
        self.python_run.run(self.node.stop(str(int(signal))))
        self.status = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def cleanup(self, *_: Any, **__: Any) -> None:
        """Remove the server's data."""
        self.node.cleanup()

    def wait_stop(self) -> None:
        """Wait until the process ends by itself."""
        if self.process is not None:
            self.process.wait()

    def wait_until_started(self, wait_load: bool = True) -> None:
        """Wait until the server has finished its start."""
        while str(yaml.safe_load(self.admin.execute("box.info.status"))[0]) not in ("running", "hot_standby", "orphan"):
            time.sleep(POLL)

    def wait_until_stopped(self, pid: int) -> None:
        """Wait until there is no process with this id."""
        with suppress(ProcessLookupError):
            while True:
                os.kill(pid, 0)
                time.sleep(POLL)

    def read_pidfile(self) -> int:
        """Return the process id in the server's file, -1 without one."""
        try:
            return int(Path(self.pidfile).read_text())
        except (OSError, ValueError):
            return -1

    def kill_old_server(self, silent: bool = True) -> bool:
        """Kill the process of the server's file, if there is one."""
        pid = self.read_pidfile()
        try:
            if pid > 0:
                os.kill(pid, signal.SIGTERM)
        except OSError:
            return False
        return pid > 0

    def crash(self) -> str | None:
        """Return the reason why the server crashed, None if it did not or was expected to."""
        self._expect_crash()
        return self._node.check_crash() if self._node is not None else None

    async def finish(self) -> None:
        """Stop the node, at the end of the script."""
        if self._node is not None:
            self._expect_crash()
            await self._node.stop()

    def _expect_crash(self) -> None:
        if self.crash_expected and self._node is not None:
            self._node.expect_crash()

    # -- what it says -----------------------------------------------------------------------------

    def version(self) -> str:
        """Return what the executable prints for `--version`."""
        return self.test_option_get("--version", silent=True).rstrip()

    def test_option_get(self, option_list_str: str, silent: bool = False) -> str:
        """Run the executable with options and return its output. Prints the command line unless `silent`."""
        words = shlex.split(option_list_str)
        if not silent:
            print(" ".join([os.path.basename(self.binary), *words]))
        command = [self.binary, *words]
        done = subprocess.run(
            command,
            cwd=self.vardir,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            text=True,
        )
        return done.stdout

    def test_option(self, option_list_str: str) -> None:
        """Run the executable with options; prints the command line and the output."""
        print(self.test_option_get(option_list_str))

    def get_param(self, param: str | None = None) -> Any:
        """Return a member of `box.info`, or a list of it as a whole."""
        if param is None:
            return yaml.safe_load(self.admin("box.info", silent=True))
        return yaml.safe_load(self.admin(f"box.info.{param}", silent=True))[0]

    def get_lsn(self, node_id: int) -> int:
        """Return the lsn up to which the server has the rows of an instance, or -1."""
        vclock = self.get_param("vclock")
        if isinstance(vclock, list):
            vclock = dict(enumerate(vclock, 1))
        return int(vclock.get(node_id, -1))

    def wait_lsn(self, node_id: int, lsn: int) -> None:
        """Wait until the server has a row of an instance."""
        while self.get_lsn(node_id) < lsn:
            time.sleep(POLL)

    def get_log(self) -> TarantoolLog:
        """Return the log from now on."""
        return TarantoolLog(self.logfile).positioning()

    def print_log(self, lines: int | None = None) -> None:
        """Print the end of the log, not into the result."""
        print(self.node.tail(lines or 1000), file=sys.stderr)


def _port(address: Address) -> Port:
    return str(address) if isinstance(address, Path) else address[1]
