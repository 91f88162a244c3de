"""Parses the command line of `lunabox`."""

from __future__ import annotations

import getopt
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple


class UsageError(Exception):
    """A wrong command line; the text is for standard error."""


class Options(NamedTuple):
    """The parsed command line. `prelude` has ('l', library) and ('e', expression) in their order."""

    prelude: Sequence[tuple[str, str]] = ()
    interactive: bool = False
    script: str | None = None
    arguments: Sequence[str] = ()
    show: str | None = None

    @property
    def has_expression(self) -> bool:
        return any(kind == "e" for kind, _ in self.prelude)


def command_name() -> str:
    """Return the name of this command, which a link may change."""
    name = os.path.basename(sys.argv[0])
    return name if name and not name.endswith(".py") else "lunabox"


def parse_arguments(arguments: list[str]) -> Options:
    """Parse the command line. Raises UsageError."""
    try:
        pairs, rest = getopt.getopt(arguments, "hVvie:l:", ["help", "version"])
    except getopt.GetoptError as error:
        raise UsageError(f"{command_name()}: {_usage_problem(error, arguments)}") from error
    prelude: list[tuple[str, str]] = []
    interactive, show = False, None
    for name, value in pairs:
        match name:
            case "-h" | "--help":
                show = show or "help"
            case "-v" | "-V" | "--version":
                show = show or "version"
            case "-i":
                interactive = True
            case _:
                prelude.append((name[1:], value))
    return Options(tuple(prelude), interactive, rest[0] if rest else None, tuple(rest[1:]), show)


def _usage_problem(error: getopt.GetoptError, argv: Sequence[str]) -> str:
    """Describe a problem with the command line in the words of the C library's getopt."""
    if len(error.opt) == 1:
        what = "invalid option" if "not recognized" in error.msg else "option requires an argument"
        return f"{what} -- '{error.opt}'"
    if "not recognized" in error.msg:
        given = next(word for word in argv if word.partition("=")[0] == f"--{error.opt}")
        return f"unrecognized option '{given}'"
    return f"option '--{error.opt}' doesn't allow an argument"
