"""Decodes the option maps in system tuples: known names, types, and Tarantool's error texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from box.data.collation import is_own
from box.errors import BoxError, client_error

if TYPE_CHECKING:
    from box.schema.collation_def import CollationDef

Option = tuple[str, Callable[[Any], bool]]
"""The name of a type as messages show it, and the check of a value."""


def _is_int(value: Any) -> bool:
    return type(value) is int


BOOLEAN: Option = ("boolean", lambda value: isinstance(value, bool))
# Tarantool stores an `unsigned` option in 32 bits and an `integer` in 64 with a sign.
UNSIGNED: Option = ("unsigned", lambda value: _is_int(value) and 0 <= value < 2**32)
INTEGER: Option = ("integer", lambda value: _is_int(value) and value < 2**63)
FLOAT: Option = ("float", lambda value: _is_int(value) or isinstance(value, float))
STRING: Option = ("string", lambda value: isinstance(value, str))
ENUM: Option = ("enum", lambda value: isinstance(value, str))
LEGACY: Option = ("legacy", lambda value: True)
"""An option that old versions wrote: any value is accepted and ignored."""


def check_options(
    options: Mapping[Any, Any],
    registry: Mapping[str, Option],
    error_code: int,
    field_no: int,
    *,
    skip_unknown: bool = False,
    key_error: Callable[[], BoxError] | None = None,
) -> dict[str, Any]:
    """Return the known options of a map. Raises `error_code` with (field_no, text) for a wrong one.

    `key_error` makes the error for a key that is not a string, if that differs from "key must be a string".
    """
    result: dict[str, Any] = {}
    for name, value in options.items():
        if not isinstance(name, str):
            raise key_error() if key_error else client_error(error_code, field_no, "key must be a string")
        option = registry.get(name)
        if option is None:
            if skip_unknown:
                continue
            raise client_error(error_code, field_no, f"unexpected option '{name}'")
        type_name, is_valid = option
        if not is_valid(value):
            raise client_error(error_code, field_no, f"'{name}' must be {type_name}")
        if option is not LEGACY:
            result[name] = value
    return result


def check_collation(
    collation_id: int | None, known: Mapping[int, CollationDef], error_code: int, field_no: int
) -> None:
    """Check that a collation exists. `collation_id` is its id or its order."""
    if collation_id and not is_own(collation_id) and collation_id not in known:
        raise client_error(error_code, field_no, "collation was not found by ID")
