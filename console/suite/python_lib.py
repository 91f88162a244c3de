"""The modules that `.test.py` scripts import from `lib`, as Tarantool's runner has them."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from console.suite import python_connections, python_server


def find_port() -> int:
    """Return a free TCP port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def signum(value: int | str) -> int:
    """Return the number of a signal; a name may lack its SIG."""
    return int(value) if isinstance(value, int) else int(signal.Signals["SIG" + value.removeprefix("SIG")])


def signame(value: int | str) -> str:
    """Return the name of a signal."""
    return value if isinstance(value, str) else signal.Signals(value).name


def prefix_each_line(prefix: str, data: str) -> str:
    """Return the lines of a text, each behind the prefix; line ends at the end of the text become one."""
    return "".join(f"{prefix}{line}\n" for line in data.rstrip("\n").split("\n"))


def str_to_bytes(text: str) -> bytes:
    return text.encode()


def bytes_to_str(data: bytes) -> str:
    return data.decode()


def safe_makedirs(directory: str) -> None:
    os.makedirs(directory, exist_ok=True)


def color_stdout(*texts: str, **_: Any) -> None:
    """Print to the runner's terminal, not into the result."""
    sys.stderr.write("".join(texts))


_UTILS = (find_port, signum, signame, prefix_each_line, str_to_bytes, bytes_to_str, safe_makedirs)


def _modules(server_class: type) -> dict[str, dict[str, Any]]:
    admin = python_connections.AdminConnection
    return {
        "lib.tarantool_server": {
            "TarantoolServer": server_class,
            "TarantoolStartError": python_server.TarantoolStartError,
            "TarantoolLog": python_server.TarantoolLog,
        },
        "lib.server": {"Server": server_class},
        "lib.admin_connection": {"AdminConnection": admin, "AdminAsyncConnection": admin},
        "lib.box_connection": {"BoxConnection": python_connections.BoxConnection},
        "lib.tarantool_connection": {
            "TarantoolConnection": python_connections.TarantoolConnection,
            "TarantoolAsyncConnection": python_connections.TarantoolConnection,
        },
        "lib.utils": {
            **{function.__name__: function for function in _UTILS},
            "PY3": True,
            "PY2": False,
            "integer_types": int,
            "string_types": str,
        },
        "lib.colorer": {"color_stdout": color_stdout, "color_log": color_stdout, "qa_notice": color_stdout},
    }


def _name_constants() -> None:
    """Give the client's constants the names that they had when scripts were written for it."""
    try:
        from tarantool import const
    except ImportError:  # scripts that need the client say so
        return
    if not hasattr(const, "IPROTO_CODE"):
        const.IPROTO_CODE = const.IPROTO_REQUEST_TYPE


@contextmanager
def library(server_class: type) -> Iterator[None]:
    """Let scripts import `lib` and its modules; a package of that name is as before afterwards."""
    _name_constants()
    before = {name: module for name, module in sys.modules.items() if name == "lib" or name.startswith("lib.")}
    for name in before:
        del sys.modules[name]
    package = ModuleType("lib")
    package.__path__ = []
    made = {"lib": package}
    for name, members in _modules(server_class).items():
        made[name] = module = ModuleType(name)
        vars(module).update(members)
        setattr(package, name.removeprefix("lib."), module)
    sys.modules.update(made)
    try:
        yield
    finally:
        for name in made:
            sys.modules.pop(name, None)
        sys.modules.update(before)
