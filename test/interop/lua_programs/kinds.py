"""The classes of programs by their names."""

from __future__ import annotations

from test.interop.lua_programs import (
    access,
    data,
    errors,
    fibers,
    info,
    language,
    limits,
    module_calls,
    net_box,
    printing,
    sequences,
    tap,
    transactions,
    triggers,
    updates,
)
from test.interop.lua_programs.source import Program, Source

MODULES = [
    "json = require('json') msgpack = require('msgpack') decimal = require('decimal')",
    "uuid = require('uuid') fiber = require('fiber') fun = require('fun')",
]
"""What each program begins with."""
KINDS: dict[str, Program] = {
    "access": access.access,
    "ddl": data.ddl,
    "errors": errors.errors,
    "fiber": fibers.fibers,
    "fun": language.fun,
    "info": info.info,
    "limits": limits.limits,
    "modules": module_calls.modules,
    "net.box": net_box.net_box,
    "numbers": language.numbers,
    "print": printing.printing,
    "select": data.select,
    "sequences": sequences.sequences,
    "syntax": language.syntax,
    "tap": tap.tap,
    "transactions": transactions.transactions,
    "triggers": triggers.triggers,
    "tuple": data.tuples,
    "updates": updates.updates,
}


MIXED = "mixed"
"""The name of the class whose programs have parts of three others."""


class LuaClasses:
    """These classes, for a comparison."""

    @property
    def names(self) -> list[str]:
        """The names of the classes."""
        return [*KINDS, MIXED]

    def modules(self, name: str) -> list[str]:
        """Return the statements with which each program begins; they are the same for all classes."""
        return MODULES

    def program(self, name: str, seed: int) -> list[str]:
        """Return a program of a class: modules first, then its own statements."""
        source = Source(seed)
        if name != MIXED:
            return MODULES + KINDS[name](source)
        names = source.random.sample(sorted(KINDS), 3)
        return MODULES + [statement for name in names for statement in KINDS[name](source)]


CLASSES = LuaClasses()
