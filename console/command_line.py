"""Parses the command line of `lunabox`."""

from __future__ import annotations

import getopt
from dataclasses import dataclass, field


class UsageError(Exception):
    """A wrong command line; the text is for standard error."""


@dataclass(slots=True)
class Options:
    """The parsed command line. `prelude` has ('l', library) and ('e', expression) in their order."""

    prelude: list[tuple[str, str]] = field(default_factory=list)
    interactive: bool = False
    script: str | None = None
    arguments: list[str] = field(default_factory=list)
    show: str | None = None

    @property
    def has_expression(self) -> bool:
        return any(kind == "e" for kind, _ in self.prelude)


def parse_arguments(arguments: list[str]) -> Options:
    """Parse the command line. Raises UsageError."""
    try:
        pairs, rest = getopt.getopt(arguments, "hVvie:l:", ["help", "version"])
    except getopt.GetoptError as error:
        raise UsageError(f"lunabox: {_usage_problem(error)}") from error
    options = Options()
    for name, value in pairs:
        match name:
            case "-h" | "--help":
                options.show = options.show or "help"
            case "-v" | "-V" | "--version":
                options.show = options.show or "version"
            case "-i":
                options.interactive = True
            case _:
                options.prelude.append((name[1:], value))
    if rest:
        options.script, options.arguments = rest[0], rest[1:]
    return options


def _usage_problem(error: getopt.GetoptError) -> str:
    """Describe a problem with the command line in the words of the C library's getopt."""
    if len(error.opt) == 1:
        what = "invalid option" if "not recognized" in error.msg else "option requires an argument"
        return f"{what} -- '{error.opt}'"
    if "not recognized" in error.msg:
        return f"unrecognized option '--{error.opt}'"
    return f"option '--{error.opt}' doesn't allow an argument"
