"""Consoles on pseudo-terminals that start quickly: forks of a process that has imported the packages of others.

```
this process ---- arguments, directory, environment, the terminal ---> warm process ---- fork ---> console
             <--- process id -----------------------------------------              (its parent)
             ---- process id of a console that has ended ------------>
             <--- wait status ----------------------------------------
```

Most of the time of a start goes to imports, and more than half of that to other packages, such as prompt_toolkit and
BTrees. A fork inherits these. It imports the modules of this project itself, as every start does, so that their order,
and what is imported late, are those of a real session.

A fork does not repeat the start of the interpreter, which reads the locale and variables such as `PYTHONUTF8`. For
terminals that set these `Emulator` starts a program.
"""

from __future__ import annotations

import fcntl
import functools
import importlib
import json
import os
import pty
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import termios
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pexpect import fdpexpect

ROOT: Final = Path(__file__).parents[3]
_OWN: Final = frozenset({"box", "console", "lua", "test"})
"""The packages of this project, which a fork imports itself."""
_LARGEST: Final = 1 << 18
"""The most bytes of a request."""
_SESSION: Final = (
    "console.commands.connect",
    "console.commands.top",
    "console.interactive.completer",
    "console.prompt",
    "pygments.lexers.scripting",
    "pygments.lexers.sql",
)
"""Modules whose imports, beside those of a node, are what a session imports."""

# -- the warm process ----------------------------------------------------------------------------------------------


def serve(descriptor: int) -> None:
    """Fork consoles until the other end of the connection is closed."""
    for name in _other_modules():
        with suppress(Exception):  # a module that is made by another one cannot be imported alone
            importlib.import_module(name)
    with socket.socket(fileno=descriptor) as connection:
        while True:
            data, descriptors, _, _ = socket.recv_fds(connection, _LARGEST, 1)
            if not data:
                return
            request = json.loads(data)
            if "wait" in request:
                reply = os.waitpid(request["wait"], 0)[1]
            else:
                reply = _fork(connection, request, descriptors[0])
            for number in descriptors:
                os.close(number)
            connection.send(b"%d" % reply)


def _other_modules() -> list[str]:
    """Return the names of the modules of other packages that a session imports, as a child finds them out."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            from console.suite.warm_process import import_node

            import_node()
            for name in _SESSION:
                importlib.import_module(name)
            names = [name for name in sys.modules if name.partition(".")[0] not in _OWN | {"__main__"}]
            os.write(writer, json.dumps(names).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as found:
        text = found.read()
    os.waitpid(pid, 0)
    names: list[str] = json.loads(text)
    return names


def _fork(connection: socket.socket, request: Mapping[str, Any], terminal: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        connection.close()
        _become_console(request, terminal)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _become_console(request: Mapping[str, Any], terminal: int) -> None:
    """Run `python -m console` with its own terminal, directory and environment."""
    os.setsid()
    for number in range(3):
        os.dup2(terminal, number)
    os.close(terminal)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # keys such as Ctrl-C become signals
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    random.seed()
    sys.argv = ["-m", *request["arguments"]]
    runpy.run_module("console", run_name="__main__", alter_sys=True)


# -- this process --------------------------------------------------------------------------------------------------


class _WarmProcess:
    """The warm process of this process; it ends when the connection is closed, at the latest with this process."""

    def __init__(self) -> None:
        self._connection, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _LARGEST)
        # The standard streams of the interpreter are those of a terminal, and so are those of its forks.
        self._terminals = pty.openpty()
        program = f"from test.unit.console.warm_terminals import serve; serve({other.fileno()})"
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-c", program],
                stdin=self._terminals[1],
                stdout=self._terminals[1],
                stderr=subprocess.DEVNULL,
                cwd=ROOT,
                env={**os.environ, "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT)},
                pass_fds=(other.fileno(),),
                start_new_session=True,
            )

    def fork(self, arguments: Sequence[str], directory: Path, environment: Mapping[str, str], terminal: int) -> int:
        """Fork a console. Returns its process id."""
        request = {"arguments": list(arguments), "cwd": str(directory), "env": dict(environment)}
        return self._ask(request, [terminal])

    def status(self, pid: int) -> int:
        """Return the wait status of a console that has ended."""
        return self._ask({"wait": pid}, [])

    def _ask(self, request: Mapping[str, Any], descriptors: list[int]) -> int:
        socket.send_fds(self._connection, [json.dumps(request).encode()], descriptors)
        return int(self._connection.recv(_LARGEST))


@functools.cache
def _warm_process(_pid: int) -> _WarmProcess:
    return _WarmProcess()


class WarmTerminal(fdpexpect.fdspawn):  # type: ignore[misc]
    """A forked console, with the members of `pexpect.spawn` that tests use."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        dimensions: tuple[int, int],
        timeout: float,
    ) -> None:
        self._warm = _warm_process(os.getpid())
        controller, terminal = pty.openpty()
        try:
            termios.tcsetwinsize(terminal, dimensions)
            self.pid = self._warm.fork(arguments, cwd, env, terminal)
        finally:
            os.close(terminal)
        self._ending = os.pidfd_open(self.pid)
        super().__init__(controller, timeout=timeout)
        self.exitstatus: int | None = None
        self.signalstatus: int | None = None

    def sendintr(self) -> None:
        """Press Ctrl-C."""
        self.send(b"\x03")

    def isalive(self) -> bool:
        """Return False once the console has ended."""
        if self._ending < 0:
            return False
        if not select.select([self._ending], [], [], 0)[0]:
            return True
        os.close(self._ending)
        self._ending = -1
        code = os.waitstatus_to_exitcode(self._warm.status(self.pid))
        self.exitstatus, self.signalstatus = (code, None) if code >= 0 else (None, -code)
        return False

    def kill(self, number: int) -> None:
        """Send a signal."""
        if self.isalive():
            signal.pidfd_send_signal(self._ending, number)

    def wait(self) -> None:
        """Wait for the end."""
        while self.isalive():
            select.select([self._ending], [], [])

    def close(self, force: bool = True) -> None:
        """Close the terminal, and end the console."""
        self.kill(signal.SIGKILL)
        self.wait()
        super().close()
