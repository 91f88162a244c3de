"""Types of columns, and constructors of values.

`description` tells the type of a column as a word of SQL, such as `"integer"`. It equals one of the objects here:

```
STRING     string, text, uuid
NUMBER     integer, unsigned, double, number, decimal
BINARY     varbinary
DATETIME   datetime
ROWID      none: rows have no number of their own
```
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Final


class TypeObject:
    """A group of types: equal to the name of each type in it."""

    def __init__(self, name: str, *types: str) -> None:
        self._name = name
        self._types = frozenset(types)

    def __eq__(self, other: object) -> bool:
        return other is self or other in self._types

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return self._name


STRING: Final = TypeObject("STRING", "string", "text", "uuid")
BINARY: Final = TypeObject("BINARY", "varbinary")
NUMBER: Final = TypeObject("NUMBER", "integer", "unsigned", "double", "number", "decimal")
DATETIME: Final = TypeObject("DATETIME", "datetime")
ROWID: Final = TypeObject("ROWID")

Date: Final = datetime.date
Time: Final = datetime.time
Timestamp: Final = datetime.datetime
DateFromTicks: Final[Callable[[float], datetime.date]] = datetime.date.fromtimestamp
TimestampFromTicks: Final[Callable[[float], datetime.datetime]] = datetime.datetime.fromtimestamp
Binary: Final = bytes


def TimeFromTicks(ticks: float) -> datetime.time:
    """Return the local time of day at a number of seconds since 1970."""
    return datetime.datetime.fromtimestamp(ticks).time()
