"""The cases of `command_lines`: shell commands in which `$T` is the executable.

They stand in `command_line_texts`, each under a line `== its name`: files `.sh` have commands, files `.lua` scripts.
`command_line_options` makes more of them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from test.interop.command_line_options import CHANGES, STARTS, WRONG

_TEXTS = Path(__file__).with_name("command_line_texts")
_NAME = re.compile(r"^(?:#|--) == (.+)\n", re.MULTILINE)


class Case(NamedTuple):
    """A command of a shell, run in a directory with these files."""

    kind: str
    name: str
    command: str
    files: dict[str, str]


_FILES = {
    "a.lua": "print('script', arg[0], ...)\n",
    "c.lua": "print(debug.getinfo(1).source, debug.getinfo(1).short_src)\n",
    "s": "x = 5 print('s', ...)\n",
    "d/m.lua": "return {x = 7}\n",
    "d/logs.lua": "return function() require('log').warn('in d') end\n",
    "e/init.lua": "return {y = 8}\n",
    "bad.lua": "x = =\n",
    ".rocks/share/tarantool/rock.lua": "return {z = 9}\n",
}
"""The files that every case finds."""


def _script(kind: str, name: str, text: str) -> Case:
    return Case(kind, name, "$T x.lua", {**_FILES, "x.lua": text + "\n"})


def _read(path: Path) -> list[Case]:
    _, *parts = _NAME.split(path.read_text())
    texts = dict(zip(parts[::2], (text.strip() for text in parts[1::2]), strict=True))
    if path.suffix == ".lua":
        return [_script(path.stem, name, text) for name, text in texts.items()]
    return [Case(path.stem, name, text, _FILES) for name, text in texts.items()]


def _cases() -> list[Case]:
    cases = [case for path in sorted(_TEXTS.iterdir()) for case in _read(path)]
    options = {"wrong options": WRONG, "first options": STARTS, "later options": CHANGES}
    return cases + [_script(kind, name, text) for kind, named in options.items() for name, text in named.items()]


CASES = _cases()
