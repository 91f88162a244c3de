"""The process that nodes of suites are forked from: everything is imported, but there is no instance, loop or Lua yet.

A fork inherits the results of the imports. It gets everything else of a process anew: directory, environment, standard
streams, session, time zone, command line, random numbers; other descriptors are closed. Before the fifth node the
process starts and ends an instance once (`_rehearse`), so that patterns and formats which Python compiles at run time
are compiled, too. That costs about as much as ten starts save.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import random
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from console.process_title import show_command
from console.suite.bound_child import bind_to_parent
from console.suite.defaults import LARGEST

_NODE: Final = str(Path(__file__).parent.parent / "__main__.py")
_REHEARSED_AFTER: Final = 4
"""The number of started nodes after which further modules are imported."""
_MODULES: Final = (
    "console.cli",
    "console.program",
    "box.apart",
    "box.instance.option_checks",
    "box.instance.parts",
    "lua.bindings.data",
    "lua.bindings.functions",
    "lua.bindings.schema",
    "lua.bindings.sequences",
    "lua.text_console.server",
)
"""The modules whose import loads everything that a node needs until it is ready, except the halves of Lua modules."""
_LATER: Final = ("encodings.idna", "lua.bindings.yaml_parser", "tempfile")
"""The modules that nodes import when they need them; without them the first nodes start sooner."""


def serve(descriptor: int, runner: int) -> None:
    """Fork nodes until the runner, the process with the given id, is gone."""
    bind_to_parent(runner)()
    forked = 0
    with socket.socket(fileno=descriptor) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * LARGEST)
        while True:
            data, descriptors, _, _ = socket.recv_fds(connection, LARGEST, 2)
            if not data:
                return
            request = json.loads(data)
            if "wait" in request:
                reply = {"status": os.waitpid(request["wait"], 0)[1]}
            else:
                reply = {"pid": _fork(connection, request, descriptors)}
                forked += 1
            for number in descriptors:
                os.close(number)
            connection.send(json.dumps(reply).encode())
            if "run" in request:
                _make_ready(forked)


def import_node() -> None:
    """Import everything that a node imports until it is ready."""
    for name in _MODULES:
        importlib.import_module(name)
    from lua.bindings.modules import import_halves
    from lua.runtime import default_flavour

    import_halves()

    importlib.import_module(f"lupa.{default_flavour()}")
    gc.freeze()


def _make_ready(forked: int) -> None:
    """Prepare for the next node, after `forked` ones."""
    if forked == 1:
        for name in _LATER:
            importlib.import_module(name)
        gc.freeze()
    elif forked == _REHEARSED_AFTER:
        _rehearse()


def _rehearse() -> None:
    """Start an instance in memory and end it, which leaves only what Python has compiled."""
    import uvloop

    from box.embed import LuaInstance
    from console.bindings import TerminalConsole

    async def run() -> None:
        instance = LuaInstance()
        TerminalConsole(instance)
        await instance.configure({"log": os.devnull})
        await instance.stop()

    uvloop.run(run())
    gc.collect()
    gc.freeze()


def _fork(connection: socket.socket, request: dict[str, Any], descriptors: list[int]) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid != 0:
        return pid
    code = 1
    try:
        code = _ended(lambda: _become_node(parent, connection, request, descriptors))
    finally:
        os._exit(code)


def _become_node(parent: int, connection: socket.socket, request: dict[str, Any], descriptors: list[int]) -> int:
    connection.close()
    os.setsid()
    bind_to_parent(parent)()
    for number, descriptor in enumerate(descriptors, 1):
        os.dup2(descriptor, number)
        os.close(descriptor)
    # Only the event loop's library has other descriptors, which it replaces after a fork and then continues to use.
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    random.seed()
    sys.argv = [_NODE, *request["run"]]
    show_command("lunabox", request["run"])
    from console import cli

    return cli.run(sys.argv[1:])


def _ended(program: Callable[[], int]) -> int:
    """Run a program. Returns the exit code that the interpreter would give, and prints the message it would print."""
    try:
        return program()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr, flush=True)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    return 1
