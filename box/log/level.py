"""Levels of log messages."""

from __future__ import annotations

from enum import IntEnum

from box.errors import ErrorCode, client_error


class Level(IntEnum):
    """The levels, with their numbers in `log_level`."""

    FATAL = 0
    SYSERROR = 1
    ERROR = 2
    CRIT = 3
    WARN = 4
    INFO = 5
    VERBOSE = 6
    DEBUG = 7


LETTERS = "F!ECWIVD"


def log_level(value: int | str) -> int:
    """Return the number of a level, given as a number or by name. A number of more than 32 bits is the lowest level."""
    if not isinstance(value, str):
        if value == value and not -(2**31) - 1 < value < 2**31:
            return int(Level.FATAL)
        return int(min(max(value, 0), Level.DEBUG)) if value == value else int(Level.INFO)
    names = {level.name.lower(): int(level) for level in Level}
    if value not in names:
        raise client_error(ErrorCode.CFG, "log_level", "expected crit,warn,info,debug,syserror,verbose,fatal,error")
    return names[value]
