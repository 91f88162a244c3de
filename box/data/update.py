"""Update and upsert of a tuple: operations in order, each on what the ones before it left.

Most updates set or compute a few top-level fields. They take a short way: decode, change, encode, allowed when
encoding the unchanged fields gives back the very same bytes. All others open the tuple as a tree of
raw pieces (`_update_tree.py`), which copies everything they do not touch byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from box.data._update_ops import Operation, Single, read_operations
from box.data._update_tree import Array
from box.data.codec import pack, unpack
from box.data.format import TupleFormat
from box.data.types import FieldType
from box.errors import BoxError


def apply_update(raw: bytes, ops: Any, *, fmt: TupleFormat, index_base: int = 1) -> bytes:
    """The tuple after the operations; the first error ends it.

    `ops` is the decoded list of lists of a request, whose field numbers start from `index_base` (1 in Lua, 0 in a
    request without IPROTO_INDEX_BASE). The result is not checked against the format.
    """
    operations = read_operations(ops, fmt, index_base)
    return _apply_short(raw, operations, fmt) or _apply_long(raw, operations, fmt, None)


def apply_upsert(
    raw: bytes,
    ops: Any,
    *,
    fmt: TupleFormat,
    index_base: int = 1,
    on_error: Callable[[BoxError], None] | None = None,
) -> bytes:
    """The tuple after the operations that could be applied.

    One that fails is left out and reported to `on_error`; malformed operations raise, as in `apply_update`.
    """
    operations = read_operations(ops, fmt, index_base)
    return _apply_long(raw, operations, fmt, on_error or _ignore)


def check_operations(ops: Any, *, fmt: TupleFormat, index_base: int = 1) -> None:
    """Raise what reading the operations raises: an upsert that inserts still wants them well-formed."""
    read_operations(ops, fmt, index_base)


def _ignore(error: BoxError) -> None:
    """Errors of upsert operations concern nobody here."""


def _apply_short(raw: bytes, operations: list[Operation], fmt: TupleFormat) -> bytes | None:
    """The result for operations on distinct top-level fields that exist; None where that is not the case."""
    fields = unpack(raw)
    size = len(fields) if type(fields) is list else 0
    seen = set()
    for operation in operations:
        number = operation.fieldno
        if number in seen or not 0 <= number < size or operation.opcode in "!#" or not operation.is_last_step:
            return None
        seen.add(number)
    if pack(fields) != raw:
        return None
    for operation in operations:
        number = operation.fieldno
        if operation.opcode == "=":
            fields[number] = operation.argument
        else:
            value = operation.compute(fields[number])
            if type(value) is Single:
                if fmt.field_type((number,)) is not FieldType.DOUBLE:
                    return None
                value = float(value)
            fields[number] = value
    return pack(fields)


def _apply_long(
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
