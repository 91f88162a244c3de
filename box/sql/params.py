"""Values for the parameters of a statement, by position or by name: `[1, {":a": 2}]`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from box.errors import ErrorCode, client_error
from box.sql.stored_values import Value, execute_error

_COUNT_MAX: Final = 65000
"""Tarantool's limit of parameter values."""
_KINDS: Final[dict[type, str]] = {dict: "MAP", list: "ARRAY"}
_ADVICE: Final = {
    "Decimal": "pass a float or a str",
    "UUID": "pass its str or bytes",
    "datetime": "pass a text such as that of isoformat()",
    "Datetime": "pass a text such as that of isoformat()",
}
"""For types that spaces can hold but no statement of Tarantool 2.8 can take: what a program can pass instead."""


def check_values(given: Sequence[Value]) -> None:
    """Check that SQL knows the types of values.

    Raises:
        ClientError: SQL_BIND_PARAMETER_MAX, SQL_BIND_TYPE, INVALID_MSGPACK.
    """
    if len(given) > _COUNT_MAX:
        raise client_error(ErrorCode.SQL_BIND_PARAMETER_MAX, len(given))
    for number, item in enumerate(given, 1):
        _check(number, item)


def bind(parameters: list[str | None], given: Sequence[Value]) -> list[Value]:
    """Arrange checked values by the places of parameters. A parameter without a value is nil, and so is NaN, as in
    Tarantool.

    Raises:
        ClientError: SQL_BIND_NOT_FOUND, or SQL_EXECUTE if there are too many values.
    """
    values: list[Value] = [None] * len(parameters)
    for number, item in enumerate(given):
        value, place = item, number
        if isinstance(item, dict):
            name, value = next(iter(item.items()))
            if name not in parameters:
                raise client_error(ErrorCode.SQL_BIND_NOT_FOUND, f"'{name}'")
            place = parameters.index(name)
        if place >= len(parameters):
            raise execute_error("The number of parameters is too large")
        values[place] = None if value != value else value
    return values


def _check(number: int, item: Value) -> None:
    """Check that a value, alone or in a map with its name, has a type that SQL knows.

    Raises:
        ClientError: INVALID_MSGPACK, SQL_BIND_TYPE.
    """
    shown, value = str(number), item
    if isinstance(item, dict):
        if len(item) != 1 or not isinstance(next(iter(item)), str | int):
            raise client_error(ErrorCode.INVALID_MSGPACK, "SQL bind parameter")
        name, value = next(iter(item.items()))
        shown = f"'{name}'"
    if type(value) not in (bool, int, float, str, bytes, type(None)):
        kind = type(value)
        error = client_error(ErrorCode.SQL_BIND_TYPE, _KINDS.get(kind, "USERDATA"), shown)
        if kind.__name__ in _ADVICE:
            advice = f"{_ADVICE[kind.__name__]}, or use the methods of the space"
            error.add_note(f"SQL of Tarantool 2.8 has no parameters of type {kind.__name__}: {advice}.")
        raise error


def kinds(values: Sequence[Value]) -> tuple[type, ...]:
    """Return the types of parameters. The analysis of a statement is only valid for the types that it was made with."""
    return tuple(map(type, values))
