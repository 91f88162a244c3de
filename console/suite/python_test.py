"""Runs `.test.py` scripts: Python with `server`, `admin` and `iproto` in scope; what they print is the result.

The script runs in a thread, the nodes on the loop. The objects in its scope are blocking wrappers of both.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
import time
import traceback
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import yaml

from console.suite.filters import Filters
from console.suite.instance import POLL, InstanceProcess, StartOptions
from console.suite.wire import Address, ConsoleClient

_Result = TypeVar("_Result")

_NO_CLIENT = "the script needs the package `tarantool`: pip install '.[suite]' in a clone of Lunabox"


class _Loop:
    """Runs coroutines on the loop for the script's thread."""

    def __init__(self, timeout: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout = timeout

    def run(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(self._timeout)


class Admin:
    """The console of a server: `admin(command)` sends a command, prints it with its reply, and returns the reply."""

    def __init__(self, server: InstanceProcess, loop: _Loop) -> None:
        self._server = server
        self._loop = loop
        self._client: ConsoleClient | None = None

    @property
    def uri(self) -> str:
        return self._server.admin_uri

    def __call__(self, command: str, silent: bool = False, simple: bool = False) -> str:
        reply = self._loop.run(self._execute(command))
        if not silent:
            print(command)
            print(reply, end="")
        return reply

    def execute(self, command: str, silent: bool = True) -> str:
        """Send a command without printing, unless `silent` is False."""
        return self(command, silent=silent)

    execute_no_reconnect = execute

    async def _execute(self, command: str) -> str:
        if self._client is None or not self._client.is_open:
            self._client = await self._server.connect()
        return await self._client.execute(command)

    def disconnect(self) -> None:
        if self._client is not None:
            self._client.close()


class Iproto:
    """The node's binary address, and a connection to it with the package `tarantool` from PyPI."""

    def __init__(self, server: InstanceProcess) -> None:
        self._server = server
        self._connection: Any = None

    @property
    def uri(self) -> str:
        return self._server.listen_uri

    @property
    def address(self) -> Address:
        return self._server.listen

    @property
    def py_con(self) -> Any:
        if self._connection is None:
            import tarantool

            address = self.address
            host, port = (None, str(address)) if isinstance(address, Path) else address
            self._connection = tarantool.Connection(host, port)
        return self._connection

    def disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class ServerFace:
    """The object `server` in a script's scope."""

    def __init__(self, server: InstanceProcess, loop: _Loop) -> None:
        self._server = server
        self._loop = loop
        self.admin = Admin(server, loop)
        self.iproto = Iproto(server)
        self.vardir = str(server.directory)
        self.name = server.instance

    def start(self, wait: bool = True, **_ignored: Any) -> None:
        self._loop.run(self._server.start(StartOptions(wait=wait)))

    def stop(self, **_ignored: Any) -> None:
        self.disconnect()
        self._loop.run(self._server.stop())

    def restart(self, **_ignored: Any) -> None:
        self.stop()
        self.start()

    def disconnect(self) -> None:
        self.admin.disconnect()
        self.iproto.disconnect()

    def cleanup(self, **_ignored: Any) -> None:
        self._server.cleanup()

    def get_param(self, name: str | None = None) -> Any:
        """Return `box.info`, or a member of it."""
        return yaml.safe_load(self.admin.execute(f"box.info.{name}" if name else "box.info"))[0]

    def get_lsn(self, instance_id: int) -> int:
        """Return the lsn up to which the server has the rows of an instance, or -1."""
        vclock = self.get_param("vclock")
        if isinstance(vclock, list):
            vclock = dict(enumerate(vclock, 1))
        return int(vclock.get(instance_id, -1))

    def wait_lsn(self, instance_id: int, lsn: int) -> None:
        """Wait until the server has a row of an instance."""
        while self.get_lsn(instance_id) < lsn:
            time.sleep(POLL)


class _Output(io.StringIO):
    """Output of the script, with the methods `push_filter`, `pop_filter` and `clear_all_filters` for scripts."""

    def __init__(self) -> None:
        super().__init__()
        self._filters = Filters()
        self._line = ""

    def push_filter(self, pattern: str | re.Pattern[str], replacement: str) -> None:
        self._filters.push(pattern if isinstance(pattern, str) else pattern.pattern, replacement)

    def pop_filter(self) -> None:
        self._filters.pop()

    def clear_all_filters(self) -> None:
        self._filters.clear()

    def write(self, text: str) -> int:
        # Filters work on whole lines, but `print` writes pieces of them.
        lines, newline, self._line = (self._line + text).rpartition("\n")
        super().write(self._filters.apply(lines + newline))
        return len(text)

    def finish(self) -> str:
        """Return everything printed."""
        super().write(self._filters.apply(self._line))
        return self.getvalue()


async def run_python_test(path: Path, server: InstanceProcess, timeout: float) -> tuple[str, str | None]:
    """Run the script on a server that is started. Returns its output, and the problem or None."""
    loop = _Loop(timeout)
    face = ServerFace(server, loop)
    output = _Output()

    def execute() -> str | None:
        scope = {
            "__name__": "__main__",
            "__file__": str(path),
            "server": face,
            "admin": face.admin,
            "iproto": face.iproto,
        }
        try:
            with contextlib.redirect_stdout(output):
                exec(compile(path.read_text(), str(path), "exec"), scope)
        except ModuleNotFoundError as error:
            return _NO_CLIENT if error.name == "tarantool" else traceback.format_exc()
        except Exception:
            return traceback.format_exc()
        return None

    try:
        problem = await asyncio.wait_for(asyncio.to_thread(execute), timeout)
    finally:
        face.disconnect()
    return output.finish(), problem
