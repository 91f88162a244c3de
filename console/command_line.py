"""Parses the command line of `lunabox`."""

from __future__ import annotations

import getopt
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

_SHORT = "hVvie:l:"
_LONG = ["help", "version"]
_SHOWS = {"-h": "help", "--help": "help", "-v": "version", "-V": "version", "--version": "version"}


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
    def names_source(self) -> bool:
        """True if there is a script or an expression to run."""
        return self.script is not None or any(kind == "e" for kind, _ in self.prelude)


def command_name() -> str:
    """Return the name of this command, which a link may change."""
    name = os.path.basename(sys.argv[0])
    return name if name and not name.endswith(".py") else "lunabox"


def parse_arguments(arguments: list[str]) -> Options:
    """Parse the command line. Raises UsageError."""
    try:
        pairs, rest = getopt.getopt(arguments, _SHORT, _LONG)
    except getopt.GetoptError as error:
        shown = _shown_before(arguments)
        if shown is not None:
            return Options(show=shown)
        raise UsageError(f"{command_name()}: {_usage_problem(error, arguments)}") from error
    prelude: list[tuple[str, str]] = []
    interactive, show = False, None
    for name, value in pairs:
        match name:
            case _ if name in _SHOWS:
                show = show or _SHOWS[name]
            case "-i":
                interactive = True
            case _:
                prelude.append((name[1:], value))
    return Options(tuple(prelude), interactive, rest[0] if rest else None, tuple(rest[1:]), show)


def _shown_before(arguments: list[str]) -> str | None:
    """Return what an option before a wrong one shows. Options are handled one after another, as by getopt of C."""
    beginnings = []
    for count, word in enumerate(arguments):
        # A word may have several short options.
        ends = [len(word)] if word.startswith("--") else range(1, len(word) + 1)
        beginnings += [[*arguments[:count], word[:end]] for end in ends]
    for beginning in reversed(beginnings):
        try:
            pairs, _ = getopt.getopt(beginning, _SHORT, _LONG)
        except getopt.GetoptError:
            continue
        return next((_SHOWS[name] for name, _ in pairs if name in _SHOWS), None)
    return None


def _usage_problem(error: getopt.GetoptError, argv: Sequence[str]) -> str:
    """Describe a problem with the command line in the words of the C library's getopt."""
    if len(error.opt) == 1:
        what = "invalid option" if "not recognized" in error.msg else "option requires an argument"
        return f"{what} -- '{error.opt}'"
    if "not recognized" in error.msg:
        given = next(word for word in argv if word.partition("=")[0] == f"--{error.opt}")
        return f"unrecognized option '{given}'"
    return f"option '--{error.opt}' doesn't allow an argument"
