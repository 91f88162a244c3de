"""Runs programs of these classes on two nodes and compares the replies, statement by statement."""

from __future__ import annotations

import re

from test.interop.console_programs import ConsoleNode, normalised
from test.interop.library_programs import (
    digests,
    files,
    fun_iterators,
    hash_order,
    keys,
    lua_libraries,
    lua_syntax,
    serializers,
    sockets,
    swim_members,
    texts,
)
from test.interop.library_programs.library_source import LibrarySource, Program

CLASSES: dict[str, tuple[list[str], Program]] = {
    "digests": (digests.MODULES, digests.digests),
    "files": (files.MODULES, files.files),
    "fun": (fun_iterators.MODULES, fun_iterators.fun_iterators),
    "hash": (hash_order.MODULES, hash_order.hash_order),
    "keys": (keys.MODULES, keys.keys),
    "libraries": (lua_libraries.MODULES, lua_libraries.lua_libraries),
    "serializers": (serializers.MODULES, serializers.serializers),
    "sockets": (sockets.MODULES, sockets.sockets),
    "swim": (swim_members.MODULES, swim_members.swim_members),
    "syntax": (lua_syntax.MODULES, lua_syntax.lua_syntax),
    "texts": (texts.MODULES, texts.texts),
}
"""By the name of a class: statements that prepare its programs, and who makes the others."""

_UNLIKE = [
    (r"/tmp/lb\w+", "/tmp/lb"),  # where a node lives
    (r"(127\.0\.0\.1:|localhost:|port: |fd:? |fh: )\d+", r"\1N"),  # what the system numbers
    (r"\b(lunabox|tarantool) (node\.lua|<running>)", r"node \2"),
    (r"interpretor_name: \S+", "interpretor_name: X"),
]


def _compared(reply: str) -> str:
    """Return a reply without what two nodes cannot have in common."""
    for pattern, text in _UNLIKE:
        reply = re.sub(pattern, text, reply)
    return normalised(reply)


def library_program(kind: str, seed: int) -> list[str]:
    """Return the statements of a program, those that prepare it first."""
    modules, make = CLASSES[kind]
    return modules + make(LibrarySource(seed))


def library_differences(kind: str, seeds: range, ours: ConsoleNode, theirs: ConsoleNode) -> tuple[list[str], int]:
    """Compare programs.

    Returns the first difference of each program, as text, and the number of statements up to there, without those that
    prepare programs.
    """
    found, count = [], 0
    for seed in seeds:
        statements = library_program(kind, seed)
        first = len(CLASSES[kind][0])
        here, there = ours.replies(statements), theirs.replies(statements)
        for number, statement in enumerate(statements):
            one = here[number] if number < len(here) else "<nothing>"
            other = there[number] if number < len(there) else "<nothing>"
            count += number >= first
            if _compared(one) != _compared(other):
                before = " ;; ".join(statements[first:number])
                found.append(f"{kind} {seed}: {before}\n  > {statement}\n    {one!r}\n    {other!r}")
                break
    return found, count
