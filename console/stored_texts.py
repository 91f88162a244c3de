"""The code that `dataclass`, `namedtuple` and `NamedTuple` compile from text, from one file: a sixth of a start.

They write a function's source for each method of a class, and give it to `exec` or `eval`; a named tuple compiles each
annotation. Within `with` these names of their modules mean functions that have the code of a text already, which
depends on nothing else. Without the file, and for a text that is not in it, they compile as ever.

The file is a marshalled {mode and text: code}, in `__pycache__` under the conditions of `console.code_store`.
"""

from __future__ import annotations

import collections
import dataclasses
import marshal
import sys
import typing
from types import CodeType, TracebackType
from typing import Any, Self

from console.code_store import replace_file, store_path

_EXEC, _EVAL, _COMPILE = "exec", "eval", "compile"


class StoredTexts:
    """`with StoredTexts("node"):` around imports. What they have compiled is in the file the next time."""

    def __init__(self, name: str) -> None:
        self._path = store_path(__file__, f"{name}-texts")
        self._codes: dict[str, CodeType] = {}
        self._known = 0

    def __enter__(self) -> Self:
        self._codes = _read(self._path)
        self._known = len(self._codes)
        vars(dataclasses)[_EXEC] = self._exec
        vars(collections)[_EVAL] = self._eval
        vars(typing)[_COMPILE] = self._compile
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        del vars(dataclasses)[_EXEC], vars(collections)[_EVAL], vars(typing)[_COMPILE]
        if kind is None and len(self._codes) > self._known and not sys.dont_write_bytecode:
            replace_file(self._path, [marshal.dumps(self._codes)])
        self._codes = {}

    def _exec(self, text: str, *names: Any) -> None:
        exec(self._code(_EXEC, text), *names)

    def _eval(self, text: Any, *names: Any) -> Any:
        return eval(self._code(_EVAL, text) if isinstance(text, str) else text, *names)

    def _compile(self, text: str, _name: str, mode: str) -> CodeType:
        return self._code(mode, text)

    def _code(self, mode: str, text: str) -> CodeType:
        key = f"{mode} {text}"
        code = self._codes.get(key)
        if code is None:
            code = self._codes[key] = compile(text, "<string>", mode, dont_inherit=True)
        return code


def _read(path: str) -> dict[str, CodeType]:
    try:
        with open(path, "rb") as file:
            loaded = marshal.loads(file.read())
    except (OSError, EOFError, ValueError, TypeError):
        return {}
    return loaded if type(loaded) is dict and all(type(code) is CodeType for code in loaded.values()) else {}
