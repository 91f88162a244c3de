"""The core gets time, threads, sockets and files from outside, so that a simulation can replace them.

Only the modules of `REAL` use the operating system's. Other uses are listed in `EXCEPTIONS` with their reasons; the
list may only shrink.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

from test.unit.house.source import Module, modules

CORE = ("box.data", "box.errors", "box.eager", "box.index", "box.instance", "box.iproto", "box.journal", "box.net")
CORE += ("box.replication", "box.schema", "box.session", "box.txn", "box.waiters", "box.wire")

REAL = {
    "box.journal.storage": "files and the time of rows",
    "box.journal.pending_mark": "locks of files, for that module",
    "box.journal.threads": "threads, and the clock that is fine enough to measure them",
    "box.net.sockets": "listening sockets, connections, names",
}
"""Modules that use the operating system's clocks, threads, sockets and files, by what they use."""

REAL_OF_LUA = {
    "lua.machine.clocks": "the clocks of the system",
    "lua.machine.files": "the files of the system, and threads for them",
    "lua.machine.identity": "the process's number, random bytes",
    "lua.machine.sockets": "the sockets of the system",
}
"""Python halves of Lua modules that use the operating system, by what they use."""

EXCEPTIONS_OF_LUA = {
    "lua.bindings.cfg": "options in the environment",
    "lua.bindings.digest": "a long computation in a thread",
    "lua.bindings.fiber": "the end of the process; whether its clock is that of the system",
    "lua.bindings.fio": "the accounts of the system",
    "lua.bindings.popen": "refused where there is no outside",
    "lua.runtime": "its own sources, the defaults of its clocks and its directory",
    "lua.standard_output": "standard output",
}
"""Other Python halves of Lua modules that use the operating system, by the reason."""

EXCEPTIONS = {
    "box.instance.view_in_thread": "a lock and a future between two threads that came from outside",
    "box.instance.node": "the default of `clock`",
    "box.instance.pidfile": "a file of the process, only if box.cfg.pid_file says so",
    "box.instance.privileges": "the user of the process, only if box.cfg.username says so",
}

FORBIDDEN = frozenset(
    "concurrent fcntl multiprocessing os pathlib queue secrets select selectors signal socket subprocess tempfile "
    "threading time".split()
)
HARMLESS = frozenset(
    {"os.strerror", "os.PathLike", "os.fspath", "pathlib.Path", "pathlib.PurePath", "pathlib.PurePosixPath"}
)
"""Functions that only make texts and names; paths are harmless unless they are opened."""
HARMLESS_OF_LUA = HARMLESS | {"os.fsdecode", "os.fsencode", "os.sep", "os.path", "socket.gaierror"}
HARMLESS_OF_LUA |= {"socket.AddressFamily", "socket.SocketKind"}
LOOP_CALLS = frozenset(
    "create_connection create_unix_connection create_server create_unix_server getaddrinfo open_connection "
    "start_server to_thread open read_text write_text write_bytes mkdir unlink".split()
)
OWN_OPEN = frozenset(
    "self storage _storage disk _disk directory _directory sessions _sessions log _log journal _journal _writer "
    "_opening".split()
)
"""Names of objects with their own method `open`; the objects come from outside."""
MACHINE = frozenset({"files", "_files", "sockets", "_sockets"})
"""Attribute names of a machine, which Lua modules get."""


def _names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and full name of every use of another module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.lineno, f"{node.value.id}.{node.attr}"


def _calls(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id == "open":
            yield node.lineno, "open"
        elif isinstance(node.func, ast.Attribute) and node.func.attr in LOOP_CALLS:
            owner = ast.unparse(node.func.value).rpartition(".")[2]
            if owner not in MACHINE and not (node.func.attr == "open" and owner in OWN_OPEN):
                yield node.lineno, ast.unparse(node.func)


def _imported_modules(tree: ast.AST) -> set[str]:
    return {
        alias.name.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    } | {node.module.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}


def _offences(module: Module, harmless: Set[str] = HARMLESS) -> list[str]:
    taken = FORBIDDEN & _imported_modules(module.tree)
    found = [(line, name) for line, name in _names(module.tree) if name.partition(".")[0] in taken]
    found = [(line, name) for line, name in found if name not in harmless]
    return [f"{module.path}:{line}: {name}" for line, name in sorted({*found, *_calls(module.tree)})]


def _offences_of_lua(module: Module) -> list[str]:
    """Yield forbidden uses in modules for Lua; constants are allowed, because Lua offers them."""
    return [text for text in _offences(module, HARMLESS_OF_LUA) if not text.rpartition(".")[2].isupper()]


def _core() -> Iterator[Module]:
    for module in modules().values():
        if any(module.name == part or module.name.startswith(f"{part}.") for part in CORE):
            yield module


def test_the_core_takes_time_threads_sockets_and_files_from_outside() -> None:
    allowed = REAL.keys() | EXCEPTIONS.keys()
    offences = [text for module in _core() if module.name not in allowed for text in _offences(module)]
    assert not offences, "\n".join(offences)


def _modules_of_lua() -> list[Module]:
    return [module for module in modules().values() if module.name.partition(".")[0] == "lua"]


def test_lua_takes_them_from_its_machine() -> None:
    allowed = REAL_OF_LUA.keys() | EXCEPTIONS_OF_LUA.keys()
    offences = [text for one in _modules_of_lua() if one.name not in allowed for text in _offences_of_lua(one)]
    assert not offences, "\n".join(offences)
    needless = [one.name for one in _modules_of_lua() if one.name in EXCEPTIONS_OF_LUA and not _offences_of_lua(one)]
    assert not needless
    assert not (REAL_OF_LUA.keys() | EXCEPTIONS_OF_LUA.keys()) - modules().keys()
    assert len(EXCEPTIONS_OF_LUA) <= 7


def test_the_lists_only_shrink() -> None:
    """A module that does not need its exception leaves the list."""
    needless = [module.name for module in _core() if module.name in EXCEPTIONS and not _offences(module)]
    unknown = (REAL.keys() | EXCEPTIONS.keys()) - modules().keys()
    assert not needless
    assert not unknown
    assert len(EXCEPTIONS) <= 4
