"""Runs `.test.py` scripts: Python with `server`, `admin` and `iproto` in scope; what they print is the result.

The script runs in a thread, in the directory that contains its suite, and the nodes on the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from console.suite.dump import dump
from console.suite.filters import Filters
from console.suite.instance import InstanceProcess, ServerError, StartOptions, Surroundings
from console.suite.python_connections import disconnect_all
from console.suite.python_lib import library
from console.suite.python_server import PythonRun, TarantoolServer

_NO_CLIENT = "the script needs the package `tarantool`: pip install '.[suite]' in a clone of Lunabox"


class _Output(io.StringIO):
    """Output of the script, with the methods `push_filter`, `pop_filter` and `clear_all_filters` for scripts.

    Filters see the lines of what is written at a time: `print(text)` writes the text and then its line end.
    """

    def __init__(self) -> None:
        super().__init__()
        self._filters = Filters()

    def push_filter(self, pattern: str | re.Pattern[str], replacement: str) -> None:
        self._filters.push(pattern if isinstance(pattern, str) else pattern.pattern, replacement)

    def pop_filter(self) -> None:
        self._filters.pop()

    def clear_all_filters(self) -> None:
        self._filters.clear()

    def write(self, text: str) -> int:
        super().write(self._filters.apply(text))
        return len(text)

    def write_bytes(self, data: bytes) -> None:
        self.write(data.decode(errors="surrogateescape"))


@dataclass(frozen=True, slots=True)
class PythonOutcome:
    """The output of a script, the problem with its end if any, the servers that crashed, and the ends of the logs."""

    output: str
    problem: str | None
    crashes: list[str]
    logs: str


async def run_python_test(
    path: Path, script: Path, around: Surroundings, timeout: float, name: str, params: dict[str, Any]
) -> PythonOutcome:
    """Start the default server with its `script`, run the test `path`, and stop all servers."""
    run = PythonRun(around, timeout, asyncio.get_running_loop())
    server_class = type("TarantoolServer", (TarantoolServer,), {"python_run": run})
    server: TarantoolServer = server_class(run.ini())
    node = InstanceProcess("default", script, around)
    server.adopt(node)
    output = _Output()
    problem: str | None = None
    try:
        await node.start(StartOptions())
        server.status = "started"
        server.note_process()
        problem = await asyncio.wait_for(asyncio.to_thread(_execute, path, server, output, name, params), timeout)
    except TimeoutError:
        nodes = [made.node for made in run.servers if made.is_installed]
        problem = f"not finished within {timeout:g} s\n{await dump(nodes)}"
    except ServerError as error:
        problem = str(error)
    finally:
        crashes = [crash for made in run.servers if (crash := made.crash())]
        for made in run.servers:
            await made.finish()
        disconnect_all()
    logs = "".join(f"--- log of {made.name}\n{made.node.tail()}\n" for made in run.servers if made.is_installed)
    return PythonOutcome(output.getvalue(), problem, crashes, logs)


def _execute(path: Path, server: TarantoolServer, output: _Output, name: str, params: dict[str, Any]) -> str | None:
    """Run the script in this thread. Returns its problem, None without one."""
    test = SimpleNamespace(name=str(path), suite_ini=server.ini, conf_name=name, run_params=params)
    scope = {
        **{key: value for key, value in vars(server).items() if not key.startswith("_")},
        "__name__": "__main__",
        "__file__": str(path),
        "server": server,
        "self": test,
        "test_run_current_test": test,
    }
    try:
        code = compile(path.read_text(), str(path), "exec")
        with contextlib.redirect_stdout(output), library(type(server)), _directory(server.testdir):
            exec(code, scope)
    except ModuleNotFoundError as error:
        return _NO_CLIENT if error.name == "tarantool" else traceback.format_exc()
    except SystemExit as error:
        return f"the script has left with exit code {error.code}" if error.code else None
    except Exception:
        return traceback.format_exc()
    return None


@contextlib.contextmanager
def _directory(path: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)
