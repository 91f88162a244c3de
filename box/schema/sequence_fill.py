"""Puts the next value of a space's sequence into a tuple that is being stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from box.data import codec
from box.data.json_path import follow, parse_path
from box.data.marks import NIL
from box.errors import BoxError
from box.schema.sequence import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from box.schema.access import Credentials
    from box.schema.sequence import Sequence
    from box.schema.space import Space


def fill_sequence(space: Space, credentials: Credentials, raw: bytes) -> bytes:
    """Return the tuple to insert or replace: nil in the sequence's field becomes the next value.

    A number in the field moves the sequence forward instead, so that a later nil does not collide with it. Recovery
    restores the value in this way. Any other value is left to the format check.
    """
    sequence = space.sequence
    if sequence is None:
        return raw
    if not sequence.is_generated:
        sequence.check_access(credentials)
    if space.primary is None:
        return raw
    if space.sequence_path is not None:
        return _fill_by_path(sequence, space.sequence_field, space.sequence_path, raw)
    start = _field_start(raw, space.sequence_field)
    if start is None:
        return raw
    if raw[start] == NIL:
        return raw[:start] + codec.pack(sequence.next()) + raw[start + 1 :]
    _take_note(sequence, codec.unpack(raw[start : codec.skip(raw, start)]))
    return raw


def may_fill(space: Space, credentials: Credentials) -> bool:
    """Return whether the user may let the space's sequence, if it has one, fill its field."""
    if space.sequence is None or space.sequence.is_generated:
        return True
    try:
        space.sequence.check_access(credentials)
    except BoxError:
        return False
    return True


def _take_note(sequence: Sequence, value: Any) -> None:
    if type(value) is int and INT64_MIN <= value <= INT64_MAX:
        sequence.advance_to(value)


def _field_start(raw: bytes, field_no: int) -> int | None:
    """Return the offset of a field (0-based) of a tuple; None if the tuple is shorter or not an array."""
    kind, count, position = codec.read_container(raw)
    if kind != "array" or count <= field_no:
        return None
    for _ in range(field_no):
        position = codec.skip(raw, position)
    return position


def _fill_by_path(sequence: Sequence, field_no: int, path: str, raw: bytes) -> bytes:
    """Return the tuple with nil replaced by the next value in a field inside a document, at `path` in a top-level
    field.
    """
    fields = codec.unpack(raw)
    if not isinstance(fields, list) or field_no >= len(fields):
        return raw
    *outer, last = parse_path(path)
    holder = follow(fields[field_no], tuple(outer))
    if isinstance(holder, dict):
        found = last in holder
    else:
        found = isinstance(holder, list) and isinstance(last, int) and last < len(holder)
    if not found:
        return raw
    if holder[last] is not None:
        _take_note(sequence, holder[last])
        return raw
    holder[last] = sequence.next()
    return codec.pack(fields)
