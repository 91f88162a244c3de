"""Signatures and one-line help of the functions that every node has, from `signatures.txt`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

_FILE: Final = Path(__file__).with_name("signatures.txt")
_LINE = re.compile(r"(?P<name>[\w.:]+)(?P<parameters>[({].*[)}]) -- (?P<help>.*)")


@dataclass(frozen=True, slots=True)
class Signature:
    """The signature of a function.

    `parameters` includes the brackets, `help` is one line, `place` tells where the function is defined.
    """

    name: str
    parameters: str
    help: str = ""
    place: str = ""

    def argument(self, number: int) -> tuple[int, int] | None:
        """Return the span in `parameters` of the parameter with this number."""
        inner = self.parameters[1:-1]
        if not inner:
            return None
        spans = [(match.start() + 1, match.end() + 1) for match in _PARAMETER.finditer(inner) if match[0].strip()]
        if not spans:
            return None
        return spans[number] if number < len(spans) else (spans[-1] if "..." in inner else None)


_PARAMETER = re.compile(r"(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|\[\{.*?\}\]|\[[^\]]*\]|[^,\[\]{}])+")


@cache
def known() -> dict[str, Signature]:
    """Return all signatures of the file by name: `box.begin`, `space:insert`."""
    found = {}
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        match = _LINE.fullmatch(line)
        if match:
            found[match["name"]] = Signature(match["name"], match["parameters"], match["help"])
    return found


@cache
def methods_of(owner: str) -> tuple[str, ...]:
    """Return the names of the methods of a class; for `tuple` these are `bsize` and others."""
    return tuple(sorted(name.partition(":")[2] for name in known() if name.startswith(f"{owner}:")))
