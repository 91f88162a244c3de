"""Sequences: definitions, the next value, and the auto-increment field of a space.

A value that was handed out is never given back: a rollback does not change the counter (only the drop of a sequence is
undone with its value). Sequences that only auto-increment fields use do not write each value to `_sequence_data`:
replaying the inserts restores the value, and a snapshot takes it from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from box.data.json_path import parse_path
from box.data.types import FieldType
from box.errors import BoxError, ErrorCode, client_error
from box.schema.access import Credentials, Privilege, check_object
from box.schema.fields import Fields
from box.schema.identifier import check_name

if TYPE_CHECKING:
    from box.index import IndexDef

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class SequenceDef:
    """A decoded `_sequence` tuple."""

    id: int
    owner: int
    name: str
    step: int = 1
    min: int = 1
    max: int = INT64_MAX
    start: int = 1
    cache: int = 0
    cycle: bool = False


def decode_sequence(raw: bytes, error_code: int) -> SequenceDef:
    """Decode and check a `_sequence` tuple; `error_code` is CREATE_SEQUENCE or ALTER_SEQUENCE."""
    fields = Fields(raw)
    name = fields.string(2)
    check_name(name, error_code, "sequence")
    definition = SequenceDef(
        id=fields.u32(0),
        owner=fields.u32(1),
        name=name,
        step=fields.i64(3),
        min=fields.i64(4),
        max=fields.i64(5),
        start=fields.i64(6),
        cache=fields.i64(7),
        cycle=fields.boolean(8),
    )
    if definition.step == 0:
        raise client_error(error_code, name, "step option must be non-zero")
    if definition.min > definition.max:
        raise client_error(error_code, name, "max must be greater than or equal to min")
    if not definition.min <= definition.start <= definition.max:
        raise client_error(error_code, name, "start must be between min and max")
    return definition


def check_sequence_part(index: IndexDef, field_no: int, path: str | None, space_name: str) -> None:
    """Check that a field (0-based, with a path inside it) is an integer part of the primary index."""

    def wrong(text: str) -> BoxError:
        return client_error(ErrorCode.MODIFY_INDEX, index.name, space_name, text)

    steps = parse_path(path) if path else ()
    part = next((item for item in index.parts if item.fieldno == field_no and item.steps == steps), None)
    if part is None:
        raise wrong("sequence field must be a part of the index")
    if part.type not in (FieldType.UNSIGNED, FieldType.INTEGER):
        raise wrong("sequence cannot be used with a non-integer key")


class Sequence:
    """A sequence and its last value, which is None before the first."""

    __slots__ = ("definition", "is_generated", "value")

    def __init__(self, definition: SequenceDef) -> None:
        self.definition = definition
        self.value: int | None = None
        self.is_generated = False
        """True if it was created together with an index: it then has the privileges of that space and cannot be
        attached elsewhere."""

    @property
    def id(self) -> int:
        """The id in `_sequence`."""
        return self.definition.id

    @property
    def name(self) -> str:
        """The current name."""
        return self.definition.name

    @property
    def owner(self) -> int:
        """The owner's user id."""
        return self.definition.owner

    def next(self) -> int:
        """Advance the sequence and return the value.

        Raises:
            ClientError: SEQUENCE_OVERFLOW, the bound is reached and the sequence does not cycle.
        """
        definition = self.definition
        if self.value is None:
            value = definition.start
        elif definition.step > 0 and self.value < definition.min:
            value = definition.min  # an alter has moved the bounds past the value
        elif definition.step < 0 and self.value > definition.max:
            value = definition.max
        else:
            value = self.value + definition.step
            if not definition.min <= value <= definition.max:
                if not definition.cycle:
                    raise client_error(ErrorCode.SEQUENCE_OVERFLOW, definition.name)
                value = definition.min if definition.step > 0 else definition.max
        self.value = value
        return value

    def current(self) -> int:
        """Return the last value.

        Raises:
            ClientError: SEQUENCE_NOT_STARTED.
        """
        if self.value is None:
            raise client_error(ErrorCode.SEQUENCE_NOT_STARTED, self.name)
        return self.value

    def set(self, value: int) -> None:
        """Set the last value."""
        self.value = value

    def reset(self) -> None:
        """Forget the value, so that the next one is the start."""
        self.value = None

    def advance_to(self, value: int) -> None:
        """Move forward to a value that a user stored explicitly; a value further back changes nothing."""
        last = self.value
        if last is None or (value > last if self.definition.step > 0 else value < last):
            self.value = value

    def check_access(self, credentials: Credentials, privilege: int = Privilege.W) -> None:
        """Check a privilege on the sequence; taking the next value needs write."""
        check_object(credentials, privilege, "sequence", self.id, self.name, self.owner)

    def __repr__(self) -> str:
        return f"<sequence {self.id} {self.name!r} at {self.value}>"
