"""The Lua API: Tarantool's names from facts/lua_names.txt, with signatures, help and status.

A function's line is in console/interactive/signatures.txt, which the console shows, or in facts/lua_functions.txt.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from console.interactive.signatures import known
from reference_tables.markdown import code, lines_of, sentence, table

LISTED: Final = ("bit.", "coroutine.", "debug.", "ffi.", "fun.op.", "io.", "jit.", "math.")
"""Namespaces of LuaJIT's libraries and of operators, whose functions are listed without a description."""
GLOBALS: Final = "_G."
_LINE = re.compile(r"(?P<name>[\w.:]+)(?P<parameters>\(.*\)) -- (?P<help>.*)")


@dataclass(frozen=True, slots=True)
class Status:
    """How a function differs from Tarantool's: `kind` is `differs`, `missing` or `own`; `probe` is an expression that
    fails.
    """

    kind: str
    text: str
    probe: str = ""


@cache
def names() -> dict[str, tuple[str, ...]]:
    """Return Tarantool's functions by namespace, without it."""
    found = {}
    for line in lines_of("lua_names.txt"):
        namespace, *members = line.split()
        found[namespace] = tuple(members)
    return found


@cache
def statuses() -> dict[str, Status]:
    """Return the status of each function that is not as in Tarantool, by full name."""
    found = {}
    for line in lines_of("lua_status.txt"):
        name, kind, *rest = line.split(" | ")
        found[name] = Status(kind, rest[-1], rest[0] if kind == "missing" else "")
    return found


@cache
def signatures() -> dict[str, tuple[str, str]]:
    """Return parameters and help by full name.

    Raises:
        ValueError: a line is malformed, or a function has two.
    """
    found = {name: (signature.parameters, signature.help) for name, signature in known().items()}
    for line in lines_of("lua_functions.txt"):
        match = _LINE.fullmatch(line)
        if match is None or match["name"] in found:
            raise ValueError(f"lua_functions.txt: {line}")
        found[match["name"]] = match["parameters"], match["help"]
    return found


def full_name(namespace: str, name: str) -> str:
    """Return the full name of a function: `box.begin`, `space:get`, `print`."""
    return name if namespace == GLOBALS else namespace + name


def table_of(*namespaces: str) -> str:
    """Return a table of the functions of some namespaces, Lunabox's own included."""
    return table(("function", "what it does", "here"), (row for space in namespaces for row in _rows(space)))


def _rows(namespace: str) -> Iterator[tuple[str, str, str]]:
    for name in sorted((*names()[namespace], *_own(namespace))):
        full = full_name(namespace, name)
        parameters, help = _signature(full)
        yield code(f"{full}{parameters}"), sentence(help), _here(full)


def _own(namespace: str) -> list[str]:
    return [
        name.removeprefix(namespace)
        for name, status in statuses().items()
        if status.kind == "own" and name.startswith(namespace) and name.removeprefix(namespace).isidentifier()
    ]


def _signature(full: str) -> tuple[str, str]:
    """Return the signature of a function, or of the family it belongs to, such as `crypto.digest.NAME`."""
    found = signatures()
    return found[full] if full in found else next(found[name] for name in found if name.startswith(f"{full}."))


def _here(full: str) -> str:
    status = statuses().get(full)
    if status is None:
        return "yes"
    if status.kind == "missing":
        return f"**missing**: {status.text}"
    return f"**{'Lunabox only' if status.kind == 'own' else 'differs'}**: {status.text}"


def libraries(*namespaces: str) -> str:
    """Return a list of libraries with the names of their functions."""
    rows = ((code(space[:-1]), ", ".join(code(name) for name in names()[space])) for space in namespaces)
    return table(("library", "functions"), rows)


def summary() -> str:
    """Return a sentence with the numbers of all, of differing and of missing functions."""
    total = sum(map(len, names().values()))
    kinds = Counter(status.kind for status in statuses().values())
    same = total - kinds["differs"] - kinds["missing"]
    return (
        f"Tarantool 2.8.1 has {total} public functions. {same} are here and do the same, {kinds['differs']} differ"
        f" in some respect, and {kinds['missing']} are missing. {kinds['own']} are Lunabox's own."
    )
