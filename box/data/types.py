"""Field types, the values they accept, and the names of values in messages.

Facts: `field_def.c` of 2.8.1; `datetime` and `interval` are those of 2.11. A type accepts MessagePack kinds, not
ranges: a `number` may be a decimal, a `double` may not be an integer, and `scalar` includes neither UUIDs, intervals
nor nil.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from enum import Enum
from functools import cache, lru_cache
from types import CodeType
from typing import Any, Final
from uuid import UUID

from box.data.times.points import Datetime, Interval


class FieldType(Enum):
    """A field type; the value is its name in formats and messages."""

    ANY = "any"
    UNSIGNED = "unsigned"
    STRING = "string"
    NUMBER = "number"
    DOUBLE = "double"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    VARBINARY = "varbinary"
    SCALAR = "scalar"
    DECIMAL = "decimal"
    UUID = "uuid"
    DATETIME = "datetime"
    INTERVAL = "interval"
    ARRAY = "array"
    MAP = "map"

    def __str__(self) -> str:
        return self.value

    def contains(self, other: FieldType) -> bool:
        """Return whether every value of `other` is also a value of this type."""
        return self is other or self is FieldType.ANY or other in _SUBTYPES.get(self, ())

    @classmethod
    def by_name(cls, name: str) -> FieldType | None:
        """Return the type with a name, in any case; 'num', 'str' and '*' are names of 1.6 and 1.7.

        Names that begin with 'num' or 'str' are accepted, as in Tarantool.
        """
        lower = name.lower()
        found = _BY_NAME.get(lower)
        if found is None and "num".startswith(lower):
            found = FieldType.UNSIGNED
        elif found is None and "str".startswith(lower):
            found = FieldType.STRING
        return found


_SUBTYPES: Final = {
    FieldType.INTEGER: (FieldType.UNSIGNED,),
    FieldType.NUMBER: (FieldType.UNSIGNED, FieldType.INTEGER, FieldType.DOUBLE, FieldType.DECIMAL),
    FieldType.SCALAR: (
        FieldType.UNSIGNED,
        FieldType.STRING,
        FieldType.NUMBER,
        FieldType.DOUBLE,
        FieldType.INTEGER,
        FieldType.BOOLEAN,
        FieldType.VARBINARY,
        FieldType.DECIMAL,
        FieldType.DATETIME,
    ),
}
_BY_NAME: Final = {kind.value: kind for kind in FieldType} | {"*": FieldType.ANY}

_NUMBERS: Final = frozenset({int, float, Decimal})
_SCALARS: Final = frozenset({int, float, Decimal, str, bytes, bool})

TYPE_SETS: Final = {
    "NUMBERS": _NUMBERS,
    "SCALARS": _SCALARS,
    "DATETIMES": (datetime, Datetime),
    "Decimal": Decimal,
    "UUID": UUID,
    "Interval": Interval,
}
"""The Python names that expressions of `check_expression` refer to."""

_EXPRESSIONS: Final = {
    FieldType.UNSIGNED: "type({0}) is int and {0} >= 0",
    FieldType.STRING: "type({0}) is str",
    FieldType.NUMBER: "type({0}) in NUMBERS",
    FieldType.DOUBLE: "type({0}) is float",
    FieldType.INTEGER: "type({0}) is int",
    FieldType.BOOLEAN: "type({0}) is bool",
    FieldType.VARBINARY: "type({0}) is bytes",
    FieldType.SCALAR: "(type({0}) in SCALARS or isinstance({0}, DATETIMES))",
    FieldType.DECIMAL: "type({0}) is Decimal",
    FieldType.UUID: "type({0}) is UUID",
    FieldType.DATETIME: "isinstance({0}, DATETIMES)",
    FieldType.INTERVAL: "type({0}) is Interval",
    FieldType.ARRAY: "type({0}) is list",
    FieldType.MAP: "type({0}) is dict",
}


def check_expression(kind: FieldType, nullable: bool, variable: str) -> str | None:
    """Return the Python source of "the value of `variable` fits the type", or None if every value does."""
    if kind is FieldType.ANY:
        return None
    test = _EXPRESSIONS[kind].format(variable)
    return f"({variable} is None or {test})" if nullable else f"({test})"


@lru_cache(1024)
def compiled_source(source: str) -> CodeType:
    """Compile a source. Cached, because formats and keys with the same types have the same source."""
    return compile(source, "<compiled>", "exec")


@cache
def checker(kind: FieldType, nullable: bool = False) -> Callable[[Any], bool]:
    """Return a predicate: does a decoded value fit the type?"""
    source = check_expression(kind, nullable, "value") or "True"
    predicate: Callable[[Any], bool] = eval(f"lambda value: {source}", dict(TYPE_SETS))
    return predicate


_NAMES: Final = {
    type(None): "nil",
    str: "string",
    bytes: "blob",
    list: "array",
    dict: "map",
    bool: "boolean",
    float: "double",
}


def type_name_of(value: Any) -> str:
    """Return the name of a decoded value's MessagePack kind for messages: `unsigned`, `nil`, `extension`, ..."""
    if type(value) is int:
        return "unsigned" if value >= 0 else "integer"
    return _NAMES.get(type(value), "extension")
