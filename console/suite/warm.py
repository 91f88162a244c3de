"""Nodes forked from a process that has imported everything: the runner's side.

```
runner ---- request ---> warm process ---- fork ---> node
       <--- reply ------               (its parent)
```

Requests and replies are JSON over a socket that keeps their boundaries, one at a time:

    {"run": [arguments], "cwd":, "env":}   with the descriptors of standard output and error     {"pid":}
    {"wait": pid}                          of a process that has ended                           {"status":}

Nodes do not notice it. `console.suite.warm_process` is the other side. Only this package's own executable is started in
this way. The command forks the warm process before it imports this module (`console.suite.early_fork`).
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from console.suite.defaults import LARGEST, OWN_EXECUTABLE
from console.suite.early_fork import EarlyFork

_PROGRAM: Final = """\
import sys
sys.path[:] = {path!r}
from console.suite.early_fork import become_warm
become_warm({end}, {runner})"""


class WarmProcess:
    """A forked node with the members of `asyncio.subprocess.Process` that the runner uses."""

    def __init__(self, pid: int, starter: WarmStarter) -> None:
        self.pid = pid
        self._starter = starter
        self._descriptor = os.pidfd_open(pid)
        self._code: int | None = None

    @property
    def returncode(self) -> int | None:
        """The exit code, minus the signal, or None while it runs."""
        if self._code is None and self._has_ended():
            self._code = self._starter.status(self.pid)
            os.close(self._descriptor)
        return self._code

    def _has_ended(self) -> bool:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(0))

    async def wait(self) -> int:
        """Wait for the end and return the exit code."""
        import asyncio

        code = self.returncode
        if code is not None:
            return code
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        loop.add_reader(self._descriptor, lambda: None if ended.done() else ended.set_result(None))
        try:
            await ended
        finally:
            loop.remove_reader(self._descriptor)
        code = self.returncode
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal; does nothing to a process that has ended."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.send_signal(signal.SIGKILL)


class WarmStarter:
    """The warm process of a run. It ends with the runner, and its nodes end with it."""

    def __init__(self, early: EarlyFork | None = None) -> None:
        """Use the early fork if there is one, otherwise start the warm process as a program."""
        self._process = early or _WarmProgram()
        self._socket = self._process.connection
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * LARGEST)

    def spawn(
        self, arguments: list[str], *, cwd: Path, env: Mapping[str, str], stdout: IO[bytes], stderr: IO[bytes]
    ) -> WarmProcess | None:
        """Fork a new node; returns None if the request is too long or the warm process is gone."""
        request = json.dumps({"run": arguments, "cwd": str(cwd), "env": dict(env)}).encode()
        reply = self._ask(request, [stdout.fileno(), stderr.fileno()]) if len(request) < LARGEST else None
        return None if reply is None else WarmProcess(reply["pid"], self)

    def status(self, pid: int) -> int:
        """Return the exit code of a node that has ended; minus SIGKILL if it ended with the warm process."""
        reply = self._ask(json.dumps({"wait": pid}).encode(), [])
        return -signal.SIGKILL if reply is None else os.waitstatus_to_exitcode(reply["status"])

    def _ask(self, request: bytes, descriptors: list[int]) -> dict[str, int] | None:
        try:
            socket.send_fds(self._socket, [request], descriptors)
            reply = self._socket.recv(LARGEST)
        except OSError:
            return None
        loaded: dict[str, int] | None = json.loads(reply) if reply else None
        return loaded

    def close(self) -> None:
        """End the warm process and the remaining nodes."""
        self._process.end()


class _WarmProgram:
    """The warm process as a separate program, for runners that must not be forked because they may have threads."""

    def __init__(self) -> None:
        self.connection, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            program = _PROGRAM.format(path=sys.path, end=other.fileno(), runner=os.getpid())
            self._process = subprocess.Popen(
                [sys.executable, "-c", program],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(other.fileno(),),
                start_new_session=True,
            )

    def end(self) -> None:
        self.connection.close()
        self._process.kill()
        self._process.wait()


def make_warm(executable: tuple[str, ...], early: EarlyFork | None = None) -> WarmStarter | None:
    """Make a process that forks nodes; None except for this package's own executable on Linux."""
    if executable != OWN_EXECUTABLE or not hasattr(os, "pidfd_open"):
        return None
    return WarmStarter(early)
