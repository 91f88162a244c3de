"""Checks and converts the arguments of requests: keys, operations, rows, limits and iterators.

An argument that cannot be right raises an error that says what is expected.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from box.embed.named_rows import encode_values
from box.embed.shown_values import shown, shown_with_type
from box.errors import ErrorCode, client_error, illegal_params
from box.index import IteratorType

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Row = Sequence[Any] | Mapping[str, Any] | DataclassInstance
else:
    Row = Any
"""A tuple as a program passes it: a sequence, a dict by the field names of the space, or a dataclass."""
Operations = Sequence[Sequence[Any]] | Mapping[str, Any] | Mapping[int, Any]
"""Changes of a tuple: a list of operations, or a dict of assignments such as `{"price": 3}`."""
IteratorName = Literal[
    "EQ", "REQ", "ALL", "LT", "LE", "GE", "GT", "BITS_ALL_SET", "BITS_ANY_SET", "BITS_ALL_NOT_SET", "OVERLAPS",
    "NEIGHBOR", "eq", "req", "all", "lt", "le", "ge", "gt", "bits_all_set", "bits_any_set", "bits_all_not_set",
    "overlaps", "neighbor",
]  # fmt: skip
"""The names of iterators, in upper or lower case. TREE indexes take EQ, REQ, ALL, LT, LE, GE and GT."""

T = TypeVar("T")

# What MessagePack's signed and unsigned integers hold together.
_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**64 - 1
_VCLOCK_MAX: Final = 32
_LSN_MAX: Final = 2**63 - 1
_TEXTS: Final = (str, bytes, bytearray, memoryview)


def key_values(key: Any) -> list[Any]:
    """Return the parts of a key as a list; the key is a sequence of parts or a single value.

    Raises:
        BoxError: the key is an object that has no MessagePack form.
    """
    values = list(key) if isinstance(key, (list, tuple)) else [key]
    for value in values:
        kind = type(value)
        if kind is not str and not (kind is int and _INT_MIN <= value <= _INT_MAX):
            encode_values([value])
    return values


def operation_list(operations: Operations) -> list[list[Any]]:
    """Return operations as a list of lists; a dict `{field: value}` becomes assignments.

    Raises:
        TypeError: the operations have another form, for instance one operation without the list around it.
    """
    if operations.__class__ is list:
        if len(operations) == 1 and operations[0].__class__ is list:
            return [operations[0][:]]
        if set(map(type, operations)) == {list}:
            return [*map(list, operations)]
    if isinstance(operations, Mapping):
        return [["=", field, value] for field, value in operations.items()]
    if isinstance(operations, _TEXTS) or not isinstance(operations, Sequence):
        raise _no_operations(operations)
    found = []
    for operation in operations:
        if isinstance(operation, _TEXTS) or not isinstance(operation, Sequence):
            raise _no_operations(operations)
        found.append(list(operation))
    return found


def _no_operations(given: Any) -> TypeError:
    expected = '[["=", "price", 3], ["+", "count", 1]], or a dict of assignments such as {"price": 3}'
    return TypeError(f"operations are a list of lists such as {expected}, not {shown(given)}")


def part_list(parts: Any) -> Any:
    """Return the parts of an index as a list; a single name stands for one part."""
    if isinstance(parts, str):
        return [parts]
    return list(parts) if isinstance(parts, Iterable) else parts


def field_list(fields: Any) -> list[Any]:
    """Return the fields of a format as a list.

    Raises:
        TypeError: the format is no list of fields, for instance a single name.
    """
    if isinstance(fields, (*_TEXTS, Mapping)) or not isinstance(fields, Iterable):
        raise TypeError(f"a format is a list of fields, such as ['id', ('name', 'string')], not {shown(fields)}")
    return list(fields)


def checked_function(function: Any) -> Any:
    """Return a function that the node is to call.

    Raises:
        TypeError: it cannot be called.
    """
    if not callable(function):
        raise TypeError(f"a function is needed, not {shown_with_type(function)}")
    return function


def checked_text(name: str, value: Any) -> Any:
    """Return an argument that has to be a text. `name` names it in the error.

    Raises:
        TypeError: it is something else.
        ClientError: ILLEGAL_PARAMS, it is not valid Unicode.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} is a str, not {shown_with_type(value)}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise illegal_params(f"{name} is not valid Unicode: {shown(value)}") from None
    return value


def text_or_none(name: str, value: Any) -> Any:
    """Return an argument that has to be a text or None; see `checked_text`."""
    return value if value is None else checked_text(name, value)


def checked_path(name: str, value: Any) -> Any:
    """Return an argument that has to be a path or None. `name` names it in the error.

    Raises:
        TypeError: it is something else.
        ValueError: no file can have this name.
    """
    if value is None:
        return None
    if not isinstance(value, str | PathLike):
        raise TypeError(f"{name} is a path, not {shown_with_type(value)}")
    try:
        path = os.fsencode(value)
    except UnicodeEncodeError:
        path = b"\0"
    if b"\0" in path:
        raise ValueError(f"{name} is no possible path: {shown(value)}")
    return value


def checked_flag(name: str, value: Any) -> bool:
    """Return an argument that has to be True or False. `name` names it in the error.

    Raises:
        TypeError: it is something else.
    """
    return _checked(name, value, bool, "True or False")


def _checked(name: str, value: Any, kind: type[T], what: str) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {what}, not {shown_with_type(value)}")
    return value


def checked_count(name: str, value: Any, least: int = 0) -> int:
    """Return an argument that has to be an integer of at least `least`. `name` names it in the error.

    Raises:
        TypeError: it is no integer.
        ClientError: ILLEGAL_PARAMS, it is smaller.
    """
    number = checked_integer(name, value)
    if number < least:
        raise illegal_params(f"{name} must " + ("be positive" if least == 1 else "not be negative"))
    return number


def checked_integer(name: str, value: Any) -> int:
    """Return an argument that has to be an integer. `name` names it in the error.

    Raises:
        TypeError: it is no integer.
    """
    return _checked(name, value, int, "an integer")


def checked_vclock(start: Any) -> None:
    """Check the vclock from which changes are read: `{replica_id: lsn}`.

    Raises:
        TypeError: it is no mapping from integers to integers.
        ClientError: ILLEGAL_PARAMS, a replica id or an lsn is out of range.
    """
    if not isinstance(start, Mapping) or not all(type(part) is int for pair in start.items() for part in pair):
        raise TypeError(f"start is a vclock such as {{1: 10}}, which a stream has as its position, not {shown(start)}")
    for replica_id, lsn in start.items():
        if not 0 <= replica_id < _VCLOCK_MAX or not 0 <= lsn <= _LSN_MAX:
            raise illegal_params(f"start has replica ids from 0 to 31 and numbers of rows, not {replica_id}: {lsn}")


def rows_of(caller: str, rows: Iterable[Any]) -> Iterable[Any]:
    """Return the rows of a call that stores many, after a check that they are several rows.

    Raises:
        TypeError: `rows` is a single row, or cannot be iterated.
    """
    if isinstance(rows, (*_TEXTS, Mapping)) or not hasattr(rows, "__iter__"):
        raise TypeError(f"{caller} takes many rows, such as [[1, 'a'], [2, 'b']], not {shown(rows)}")
    return rows


def limit_of(limit: int | None) -> int:
    """Return the largest number of rows to read; None means no limit.

    Raises:
        TypeError: the limit is not an integer.
        ClientError: ILLEGAL_PARAMS, it is negative.
    """
    if limit is None:
        return NO_LIMIT
    if not isinstance(limit, int):
        raise TypeError(f"limit is a number of rows or None, not {shown(limit)}")
    if limit < 0:
        raise illegal_params("limit must not be negative")
    return limit


def check_offset(offset: int) -> None:
    """Check the number of rows to skip.

    Raises:
        TypeError: the offset is not an integer.
        ClientError: ILLEGAL_PARAMS, it is negative.
    """
    if not isinstance(offset, int):
        raise TypeError(f"offset is a number of rows, not {shown(offset)}")
    if offset < 0:
        raise illegal_params("offset must not be negative")


NO_LIMIT: Final = 2**32 - 1
"""The limit that stands for none, as in Tarantool: a request carries the limit as a number of 32 bits."""


def iterator_type(iterator: IteratorName | IteratorType | int | None, key: list[Any]) -> IteratorType:
    """Return the iterator for a name or number. The default is EQ with a key and ALL without one.

    Raises:
        DataError: ITERATOR_TYPE, no iterator has this name or number.
    """
    if iterator is None:
        return IteratorType.EQ if key else IteratorType.ALL
    if isinstance(iterator, IteratorType):
        return iterator
    try:
        if isinstance(iterator, str):
            return IteratorType[iterator.upper()]
        if isinstance(iterator, int):
            return IteratorType(iterator)
    except (KeyError, ValueError):
        pass
    raise client_error(ErrorCode.ITERATOR_TYPE, shown(iterator).strip("'"))
