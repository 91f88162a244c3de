"""Isolation levels of transactions, as the 2.11 line numbers and names them.

```
READ_COMMITTED  prepared changes (on their way to the log, or in the limbo) are visible
READ_CONFIRMED  prepared changes are invisible: a transaction that meets one reads the former state, as in a read view
BEST_EFFORT     the behaviour of 2.8.1, and the default: prepared changes are visible, because later writes commit after
                them
LINEARIZABLE    not supported
```

Levels make a difference only if tuples have versions (`memtx_use_mvcc_engine`).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from box.errors import illegal_params, unsupported


class Isolation(IntEnum):
    """The numbers of the isolation levels; 0 stands for the default of the instance."""

    DEFAULT = 0
    READ_COMMITTED = 1
    READ_CONFIRMED = 2
    BEST_EFFORT = 3
    LINEARIZABLE = 4


LEVELS: Final = {level.name.lower().replace("_", "-"): level for level in Isolation} | {
    level.name: level for level in Isolation
}
"""The isolation levels by the names that Lua programs use."""


def level_of(value: str | float) -> Isolation | None:
    """Return the level of a name or number, or None if there is no such level."""
    if isinstance(value, str):
        return LEVELS.get(value)
    return Isolation(int(value)) if value in list(Isolation) else None


def checked_level(level: int, default: Isolation, *, has_versions: bool) -> Isolation:
    """Return the level for a number.

    Raises:
        IllegalParams: no level has this number.
        UnsupportedError: the level is not supported.
    """
    if not 0 <= level <= Isolation.LINEARIZABLE:
        raise illegal_params("unknown isolation level")
    if level == Isolation.LINEARIZABLE:
        if not has_versions:
            raise unsupported("Linearizable transaction", "disabled memtx mvcc engine")
        raise unsupported("Lunabox", "linearizable transactions")
    return Isolation(level) if level else default
