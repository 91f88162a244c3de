"""Update and upsert of a tuple: operations are applied in order, each to the result of the previous ones.

Most updates set a few top-level fields or add to them. They take a fast path: decode, change, encode. It is allowed if
encoding the unchanged fields gives back the very same bytes. All others open the tuple as a tree of raw pieces
(`_update_tree.py`), which copies everything they do not touch byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgpack import unpackb

from box.data._update_ops import MAX_OPERATIONS, Operation, read_operations
from box.data._update_tree import Array
from box.data.codec import decode_ext, pack, pack_usual
from box.data.format import TupleFormat
from box.errors import BoxError

FieldChecks = dict[int, Callable[[Any], bool]]
"""Predicates of the values of top-level fields, by the 0-based number of the field."""
_NUMBERS: Final = (int, float)
_SUMS: Final = ("+", "-")
"""The operations that add and subtract."""
_INT32_MAX: Final = 2**31 - 1
"""The greatest field number that an operation can name, an int32_t in Tarantool."""


def apply_update(raw: bytes, ops: Any, *, fmt: TupleFormat, index_base: int = 1) -> bytes:
    """Return the tuple after the operations. The first error ends them.

    `ops` is the decoded list of lists of a request, whose field numbers start from `index_base` (1 in Lua, 0 in a
    request without IPROTO_INDEX_BASE). The result is not checked against the format.
    """
    return updated(raw, ops, fmt, index_base)[0]


def updated(raw: bytes, ops: Any, fmt: TupleFormat, index_base: int) -> tuple[bytes, list[Any] | None]:
    """Apply operations as `apply_update` does. Returns the tuple, and its fields if they are known, else None.

    Fields that an operation has set keep the Python value of the operation.
    """
    fields = _apply_fast(raw, ops, fmt, index_base)
    if fields is not None:
        return pack(fields), fields
    return _apply_general(raw, read_operations(ops, fmt, index_base), fmt, None), None


def apply_upsert(
    raw: bytes,
    ops: Any,
    *,
    fmt: TupleFormat,
    index_base: int = 1,
    on_error: Callable[[BoxError], None] | None = None,
) -> bytes:
    """Return the tuple after the operations that could be applied.

    An operation that fails is skipped and reported to `on_error`; malformed operations raise, as in `apply_update`.
    """
    return upserted(raw, ops, fmt, index_base, on_error)[0]


def upserted(
    raw: bytes, ops: Any, fmt: TupleFormat, index_base: int, on_error: Callable[[BoxError], None] | None = None
) -> tuple[bytes, list[Any] | None]:
    """Apply operations as `apply_upsert` does. Returns the tuple, and its fields if they are known, else None."""
    fields = _apply_fast(raw, ops, fmt, index_base)
    if fields is not None:
        return pack(fields), fields
    return _apply_general(raw, read_operations(ops, fmt, index_base), fmt, on_error or _ignore), None


def check_operations(ops: Any, *, fmt: TupleFormat, index_base: int = 1) -> None:
    """Raise the errors of malformed operations. An upsert that inserts needs this check, too."""
    if type(ops) is list and len(ops) <= MAX_OPERATIONS:
        for op in ops:
            if type(op) is not list or len(op) != 3:
                break
            opcode, place, argument = op
            kind = type(argument)
            if kind is int:
                # What MessagePack's signed and unsigned integers hold together; literals, as each operation comes here.
                if not -(2**63) <= argument < 2**64:
                    break
            elif kind is not float and kind is not str:
                break
            if opcode != "=" and (opcode not in _SUMS or kind is str):
                break
            if type(place) is int:
                if not index_base <= place <= _INT32_MAX:
                    break
            elif type(place) is not str or place not in fmt.names:
                break
        else:
            return
    read_operations(ops, fmt, index_base)


def _ignore(error: BoxError) -> None:
    """Ignore the error of an upsert operation."""


def _apply_fast(raw: bytes, ops: Any, fmt: TupleFormat, index_base: int) -> list[Any] | None:
    """Return the fields after operations that `change_fields` can apply, or None."""
    try:
        fields = unpackb(raw, strict_map_key=False, ext_hook=decode_ext, unicode_errors="surrogateescape")
        if pack_usual(fields) != raw or type(fields) is not list:
            return None
    except (ValueError, TypeError, OverflowError):
        return None
    return fields if change_fields(fields, ops, fmt, index_base, None) else None


def change_fields(fields: list[Any], ops: Any, fmt: TupleFormat, index_base: int, checks: FieldChecks | None) -> bool:
    """Apply operations to decoded fields if each sets, or adds to, another existing top-level field.

    With `checks` only the fields in it may change, to values that their predicates accept. Returns False in all other
    cases, even for errors, which the general path then finds. The fields are as before then if there are `checks`;
    without these some may have changed.
    """
    if type(ops) is not list or len(ops) > MAX_OPERATIONS:
        return False
    seen: set[int] | None = set() if len(ops) > 1 else None
    before = fields[:] if seen is not None and checks is not None else None
    size = len(fields)
    for op in ops:
        if type(op) is not list or len(op) != 3:
            break
        opcode, place, argument = op
        # 2.0 and True are equal to numbers, but name no field.
        if type(place) is int:
            number = place - index_base
        elif type(place) is str and place in fmt.names:
            number = fmt.names[place]
        else:
            break
        if not 0 <= number < size:
            break
        if seen is not None:
            if number in seen:
                break
            seen.add(number)
        if opcode != "=":
            argument = sum_of(opcode, fields[number], argument, fmt.double_fields, number)
            if argument is None:
                break
        if checks is not None and not (number in checks and checks[number](argument)):
            break
        fields[number] = argument
    else:
        return True
    if before is not None:
        fields[:] = before
    return False


def sum_of(opcode: Any, old: Any, other: Any, double_fields: frozenset[int], number: int) -> int | float | None:
    """Return the sum of two integers, or of two numbers in a field of type double; None for anything else.

    A sum of floats in other fields may have to be stored with single precision, and decimals have separate rules.
    """
    if opcode == "-" and type(other) in _NUMBERS:
        other = -other
    elif opcode != "+" or type(other) not in _NUMBERS:
        return None
    if type(old) is int and type(other) is int:
        total = old + other
        return total if -(2**63) <= total < 2**64 else None
    return float(old) + float(other) if number in double_fields and type(old) is float else None


def _apply_general(
    raw: bytes, operations: list[Operation], fmt: TupleFormat, on_error: Callable[[BoxError], None] | None
) -> bytes:
    root = Array(raw, fmt)
    for operation in operations:
        try:
            root.apply(operation, operation.fieldno)
        except BoxError as error:
            if on_error is None or error.type != "ClientError":
                raise
            on_error(error)
    return root.store_root()
