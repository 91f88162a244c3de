"""Nodes that are forked from a process which has everything imported and has started an instance before.

What is compiled from text then (patterns of addresses, formats of system spaces, methods of records) is at hand: with
the imports that is four fifths of a start.

```
runner ---- request ---> warm process ---- fork ---> node
       <--- reply ------               (its parent)
```

Requests and replies are JSON over a socket that keeps their boundaries, one at a time:

    {"run": [arguments], "cwd":, "env":}   with the descriptors of standard output and error     {"pid":}
    {"wait": pid}                          of a process that has ended                           {"status":}

A node sees nothing of it: directory, environment, descriptors, session, signals and `arg` are those of a process of its
own. Only for this package's own executable.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
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
from typing import IO, Any, Final

from console.suite.process import bind_to_parent

_LARGEST: Final = 1 << 17
_NODE: Final = str(Path(__file__).parent.parent / "__main__.py")


class WarmProcess:
    """A forked node; it has the members of `asyncio.subprocess.Process` that the runner uses."""

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
        """The exit code, once it has ended."""
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
        """Nothing happens to a process that has ended."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


class WarmStarter:
    """The warm process of a run. It ends with the runner, and its nodes with it."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._socket, other):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _LARGEST)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "console.suite.warm", str(other.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(other.fileno(),),
                start_new_session=True,
                preexec_fn=bind_to_parent(os.getpid()),
            )

    def spawn(
        self, arguments: list[str], *, cwd: Path, env: Mapping[str, str], stdout: IO[bytes], stderr: IO[bytes]
    ) -> WarmProcess | None:
        """A new node; None where the request is too long or the warm process is gone."""
        request = json.dumps({"run": arguments, "cwd": str(cwd), "env": dict(env)}).encode()
        reply = self._ask(request, [stdout.fileno(), stderr.fileno()]) if len(request) < _LARGEST else None
        return None if reply is None else WarmProcess(reply["pid"], self)

    def status(self, pid: int) -> int:
        """The exit code of a node that has ended; minus SIGKILL for one that has gone with the warm process."""
        reply = self._ask(json.dumps({"wait": pid}).encode(), [])
        return -signal.SIGKILL if reply is None else os.waitstatus_to_exitcode(reply["status"])

    def _ask(self, request: bytes, descriptors: list[int]) -> dict[str, int] | None:
        try:
            socket.send_fds(self._socket, [request], descriptors)
            reply = self._socket.recv(_LARGEST)
        except OSError:
            return None
        loaded: dict[str, int] | None = json.loads(reply) if reply else None
        return loaded

    def close(self) -> None:
        """End the warm process, and nodes that are left."""
        self._socket.close()
        self._process.kill()
        self._process.wait()


# ---- the warm process ------------------------------------------------------------------------------------------------


def serve(descriptor: int) -> None:
    """Fork nodes until the runner is gone."""
    _import_all()
    _rehearse()
    with socket.socket(fileno=descriptor) as connection:
        while True:
            data, descriptors, _, _ = socket.recv_fds(connection, _LARGEST, 2)
            if not data:
                return
            request = json.loads(data)
            if "wait" in request:
                reply = {"status": os.waitpid(request["wait"], 0)[1]}
            else:
                reply = {"pid": _fork(connection, request, descriptors)}
            for number in descriptors:
                os.close(number)
            connection.send(json.dumps(reply).encode())


def _import_all() -> None:
    """All that a node imports until it is ready."""
    from console import quick_start
    from console.stored_imports import StoredImports

    with StoredImports("warm"):
        quick_start.prepare()
        for name in ("console.cli", "console.bindings", "box.embed.lua_instance", "encodings.idna", "tempfile"):
            importlib.import_module(name)
        from lua.runtime import default_flavour

        importlib.import_module(f"lupa.{default_flavour()}")


def _rehearse() -> None:
    """Start an instance in a directory of its own and end it. Nothing of it is left but what Python has compiled."""
    import tempfile

    import uvloop

    from box.embed import LuaInstance
    from console.bindings import Consoles

    async def run(folder: str) -> None:
        instance = LuaInstance(folder)
        Consoles(instance)
        socket = os.path.join(folder, "s")
        await instance.configure({"listen": socket, "log": os.devnull})
        await instance.stop()

    with tempfile.TemporaryDirectory(prefix="lb-") as folder:
        uvloop.run(run(folder))
    gc.collect()
    gc.freeze()


def _fork(connection: socket.socket, request: dict[str, Any], descriptors: list[int]) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid != 0:
        return pid
    code = 1
    try:
        code = _become_node(parent, connection, request, descriptors)
    finally:
        os._exit(code)


def _become_node(parent: int, connection: socket.socket, request: dict[str, Any], descriptors: list[int]) -> int:
    connection.detach()
    os.setsid()
    bind_to_parent(parent)()
    for number, descriptor in enumerate(descriptors, 1):
        os.dup2(descriptor, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = [_NODE, *request["run"]]
    from console import cli

    return cli.main()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
