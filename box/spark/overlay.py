"""Changes of a log laid over the tuples of a snapshot while its blocks are decoded."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from box.data.codec import unpack
from box.spark.changes import SpaceChanges
from box.spark.columns import Kind
from box.spark.definitions import IndexInfo

_KINDS = {"unsigned": Kind.INTEGER, "integer": Kind.INTEGER, "string": Kind.STRING}


def plain_first_part(primary: IndexInfo | None) -> tuple[int, Kind] | None:
    """Field and kind of the first part of a key, if Arrow compares its values as the index does."""
    part = None if primary is None else primary.parts[0]
    if part is None or part.type not in _KINDS or part.collation or part.path or part.is_nullable:
        return None
    return part.field, _KINDS[part.type]


class Overlay:
    """Takes changed tuples out of a snapshot's blocks; what they have become gathers in `outcomes`.

    `key_field` and `key_kind` say where the first part of the primary key is, if a decoder may compare it with
    `first_parts` to find the tuples that can be changed; without them every tuple has to be asked for.
    """

    def __init__(self, changes: SpaceChanges, primary: IndexInfo | None) -> None:
        self._changes = changes
        self.outcomes: list[bytes] = []
        self.key_field: int | None = None
        self.key_kind = Kind.INTEGER
        self.first_parts: pa.Array | None = None
        part = plain_first_part(primary)
        if part is not None:
            self._compare_first_parts(*part)

    def _compare_first_parts(self, field: int, kind: Kind) -> None:
        values: list[Any] = self._changes.first_parts()
        try:
            self.first_parts = pa.array(values, pa.int64() if kind is Kind.INTEGER else pa.string())
        except (pa.ArrowException, OverflowError, UnicodeError):
            return  # A number of 2^63 or more, or text that is not UTF-8.
        self.key_field, self.key_kind = field, kind

    def takes(self, raw: bytes) -> bool:
        """Whether the tuple is changed; its outcome, if there is any, goes to `outcomes`."""
        fields = unpack(raw)
        if not self._changes.is_changed(fields):
            return False
        outcome = self._changes.outcome(raw, fields)
        if outcome is not None:
            self.outcomes.append(outcome)
        return True

    def drain(self) -> list[bytes]:
        """The outcomes since the last call."""
        found, self.outcomes = self.outcomes, []
        return found
