"""Keys and bounds of a scan, from the values of SQLite, and the ends of ranges."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from box.data.codec import unpack
from box.errors import ErrorCode, client_error
from box.sql.builtins import like
from box.sql.stored_values import load, mismatch

if TYPE_CHECKING:
    from box.index import Index

_WILDCARD: Final = re.compile("[%_]")
_LAST_BYTE: Final = "\udcff"
"""The byte 255, which never occurs in UTF-8. Tarantool looks for no prefix that ends with it."""
_PATTERN_MAX: Final = 1000
"""The number of characters up to which a pattern is certainly not too complex for LIKE."""


def end_of(
    index: Index, key: list[Any], last: tuple[str | None, Any], reverse: bool, equal: int
) -> Callable[[bytes], bool] | None:
    """Return a function that tells whether a tuple is still inside the range of the scan; None if the scan needs no
    check.
    """
    parts = index.definition.parts
    bound, place = last[1], parts[equal].fieldno if equal < len(parts) else 0
    if bound is None and not key:
        return None
    if any((part.collation_id or 0) not in (0, 3) for part in parts[: equal + 1]):
        return None
    fields = [part.fieldno for part in parts[:equal]]

    def is_inside(raw: bytes) -> bool:
        row = unpack(raw)
        if key and any(row[number] != value for number, value in zip(fields, key, strict=False)):
            return False
        if bound is None:
            return True
        value = row[place] if place < len(row) else None
        if value is None:
            return not reverse
        try:
            if type(value) is type(bound) is str and not value.isascii():
                return _bytes_of(value) >= _bytes_of(bound) if reverse else _bytes_of(value) <= _bytes_of(bound)
            given: bool = value >= bound if reverse else value <= bound
            return given
        except TypeError:
            return True

    return is_inside


def _bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


class NoKey:
    """The type of NOTHING."""


NOTHING: Final = NoKey()
"""Stands for a value that cannot equal any key of the index, because its type differs."""


def key_value(stored: Any, type_name: str) -> Any:
    """Convert a value of SQLite to a part of a key of the given type."""
    if type(stored) is int and type_name == "integer":
        return stored
    value = load(stored)
    if type_name in ("integer", "unsigned"):
        if type(value) is float and value.is_integer() and abs(value) < 2**63:
            value = int(value)
        if type(value) is not int or (type_name == "unsigned" and value < 0):
            return NOTHING
    elif type_name == "boolean":
        return bool(value) if type(value) is int else NOTHING
    elif type_name == "string":
        return value if type(value) is str else NOTHING
    elif type_name == "double":
        return float(value) if type(value) in (int, float) else NOTHING
    elif type_name == "number":
        return value if type(value) in (int, float) else NOTHING
    elif type_name == "varbinary":
        return value if type(value) is bytes else NOTHING
    return value


def refuse_negative(stored: Sequence[Any], types: Sequence[str]) -> None:
    """Refuse negative integers as parts of a key of unsigned values.

    Raises:
        ClientError: KEY_PART_TYPE.
    """
    for place, (value, type_name) in enumerate(zip(stored, types, strict=False)):
        if type_name == "unsigned" and type(value) is int and value < 0:
            raise client_error(ErrorCode.KEY_PART_TYPE, place, type_name)


def bound_value(stored: Any, type_name: str) -> Any:
    """Convert a value of SQLite to a bound of a range.

    Raises:
        ClientError: SQL_TYPE_MISMATCH, a negative integer cannot be a bound of an unsigned index.
    """
    if type_name == "unsigned" and type(stored) is int and stored < 0:
        raise mismatch(stored, type_name)
    return key_value(stored, type_name)


# --- prefixes of LIKE ---


def prefix_of(pattern: Any) -> str:
    """Return the text with which all texts begin that match a pattern of LIKE.

    Returns '' if there is none, if the pattern is no text, and if it is so long that it may be an error.
    """
    if type(pattern) is not str or len(pattern) > _PATTERN_MAX:
        return ""
    wildcard = _WILDCARD.search(pattern)
    prefix = pattern if wildcard is None else pattern[: wildcard.start()]
    return "" if prefix.endswith(_LAST_BYTE) else prefix


def after_prefix(prefix: str) -> str:
    """Return the least text after all texts that begin with a prefix of `prefix_of`."""
    given = _bytes_of(prefix)
    return (given[:-1] + bytes((given[-1] + 1,))).decode("utf-8", "surrogateescape")


def end_of_prefix(index: Index, key: list[Any], prefix: str) -> Callable[[bytes], bool]:
    """Return a function that tells whether a tuple has a key in its first parts, and a text with a prefix in the next
    one.
    """
    fields = [part.fieldno for part in index.definition.parts[: len(key)]]
    place = index.definition.parts[len(key)].fieldno
    first_bytes = b"" if prefix.isascii() else _bytes_of(prefix)

    def is_inside(raw: bytes) -> bool:
        row = unpack(raw)
        value = row[place]
        if type(value) is not str:
            return False
        if not (_bytes_of(value).startswith(first_bytes) if first_bytes else value.startswith(prefix)):
            return False
        return all(row[number] == item for number, item in zip(fields, key, strict=True))

    return is_inside


def like_column(text: Any, pattern: Any) -> int | None:
    """Evaluate `text LIKE pattern` for SQLite, without ESCAPE and with the order of bytes."""
    found = like(0, load(pattern), load(text))
    return None if found is None else int(found)
