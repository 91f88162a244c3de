"""The programs of regular expressions that imports compile, from one file: a twentieth of a start.

A pattern is parsed and compiled to a program in Python, once a process. Within `with`, `re` takes the program of a
pattern that it had before; the machine in C, which is given it, checks it as ever. Without the file, and for a pattern
that is not in it, it is compiled.

The file is a marshalled (magic number of the machine, {(pattern, flags): arguments of `_sre.compile`}), in
`__pycache__` under the conditions of `console.code_store`.
"""

from __future__ import annotations

import marshal
import re
import sys
from types import TracebackType
from typing import Any, Self

from console.code_store import replace_file, store_path

_COMPILE, _MACHINE = "compile", "_sre"


class StoredPatterns:
    """`with StoredPatterns("node"):` around imports. What they have compiled is in the file the next time."""

    def __init__(self, name: str) -> None:
        self._path = store_path(__file__, f"{name}-patterns")
        self._programs: dict[Any, tuple[Any, ...]] = {}
        self._known = 0
        self._compiler = vars(getattr(re, "_compiler"))  # noqa: B009 - no stub names it
        self._usual: Any = self._compiler[_COMPILE]
        self._machine: Any = self._compiler[_MACHINE]

    def __enter__(self) -> Self:
        self._programs = _read(self._path, self._machine.MAGIC)
        self._known = len(self._programs)
        self._compiler[_COMPILE] = self._compile
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        self._compiler[_COMPILE] = self._usual
        if kind is None and len(self._programs) > self._known and not sys.dont_write_bytecode:
            replace_file(self._path, [marshal.dumps((self._machine.MAGIC, self._programs))])
        self._programs = {}

    def _compile(self, pattern: Any, flags: int = 0) -> Any:
        key = (pattern, int(flags)) if isinstance(pattern, (str, bytes)) else None
        program = self._programs.get(key)
        return self._compile_anew(key, pattern, flags) if program is None else self._machine.compile(*program)

    def _compile_anew(self, key: Any, pattern: Any, flags: int) -> Any:
        listener = _Listener(self._machine)
        self._compiler[_MACHINE] = listener
        try:
            compiled = self._usual(pattern, flags)
        finally:
            self._compiler[_MACHINE] = self._machine
        if key is not None and not compiled.flags & re.LOCALE:
            self._programs[key] = listener.program
        return compiled


class _Listener:
    """In the place of the machine: keeps what it was given last."""

    def __init__(self, machine: Any) -> None:
        self._machine = machine
        self.program: tuple[Any, ...] = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)

    def compile(self, pattern: Any, flags: int, code: list[int], *rest: Any) -> Any:
        self.program = (pattern, int(flags), [int(number) for number in code], *rest)  # numbers have names there
        return self._machine.compile(*self.program)


def _read(path: str, magic: int) -> dict[Any, tuple[Any, ...]]:
    try:
        with open(path, "rb") as file:
            found, programs = marshal.loads(file.read())
    except (OSError, EOFError, ValueError, TypeError):
        return {}
    if found != magic or type(programs) is not dict:
        return {}
    return programs if all(type(program) is tuple for program in programs.values()) else {}
