"""The classes of programs that use libraries, by their names."""

from __future__ import annotations

from collections.abc import Callable

from test.interop.library_programs import (
    digests,
    files,
    fun_iterators,
    hash_order,
    keys,
    lua_libraries,
    lua_syntax,
    rocks,
    serializers,
    sockets,
    swim_members,
    texts,
    wrong_calls,
)
from test.interop.random_lua import RandomLua

_KINDS: dict[str, tuple[list[str], Callable[[RandomLua], list[str]]]] = {
    "calls": (wrong_calls.MODULES, wrong_calls.wrong_calls),
    "digests": (digests.MODULES, digests.digests),
    "files": (files.MODULES, files.files),
    "fun": (fun_iterators.MODULES, fun_iterators.fun_iterators),
    "hash": (hash_order.MODULES, hash_order.hash_order),
    "hash_changes": (hash_order.CHANGES_MODULES, hash_order.hash_changes),
    "keys": (keys.MODULES, keys.keys),
    "libraries": (lua_libraries.MODULES, lua_libraries.lua_libraries),
    "rocks": (rocks.MODULES, rocks.rocks),
    "serializers": (serializers.MODULES, serializers.serializers),
    "sockets": (sockets.MODULES, sockets.sockets),
    "swim": (swim_members.MODULES, swim_members.swim_members),
    "syntax": (lua_syntax.MODULES, lua_syntax.lua_syntax),
    "texts": (texts.MODULES, texts.texts),
}
"""By the name of a class: statements that prepare its programs, and who makes the others."""


class LibraryClasses:
    """These classes, for a comparison."""

    @property
    def names(self) -> list[str]:
        """The names of the classes."""
        return sorted(_KINDS)

    def modules(self, name: str) -> list[str]:
        """Return the statements that prepare each program of a class."""
        return _KINDS[name][0]

    def program(self, name: str, seed: int) -> list[str]:
        """Return the statements of a program, those that prepare it first."""
        modules, make = _KINDS[name]
        return modules + make(RandomLua(seed))


CLASSES = LibraryClasses()
