"""The conversion of rows to the types of a space's fields, with what it needs worked out once for a definition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from box.sql.casts import convert
from box.sql.stored_values import Value

if TYPE_CHECKING:
    from box.schema.space import Space, SpaceDef

_NIL: Final = type(None)
_UNCHANGED: Final[dict[str, tuple[type, ...]]] = {
    "integer": (int,),
    "double": (float,),
    "number": (int, float),
    "string": (str,),
    "boolean": (bool,),
    "varbinary": (bytes,),
    "scalar": (bool, int, float, str, bytes),
}
"""The types of values that `convert` leaves as they are, whatever the value is."""
_KEPT: Final = 1000
"""The number of spaces whose shapes are kept."""


class RowShape:
    """The fields of one definition of a space."""

    __slots__ = ("definition", "plain", "types")

    def __init__(self, definition: SpaceDef) -> None:
        self.definition = definition
        self.types = [field.type.value for field in definition.fields]
        self.plain = [frozenset((*_UNCHANGED.get(name, ()), _NIL)) for name in self.types]
        """For each field, the types of values that need no conversion."""

    def converted(self, row: list[Value]) -> list[Value]:
        """Return a row with its values converted to the types of the fields.

        Raises:
            ClientError: SQL_TYPE_MISMATCH.
        """
        for value, plain in zip(row, self.plain, strict=True):
            if type(value) not in plain:
                return [convert(item, name) for item, name in zip(row, self.types, strict=True)]
        return row


class RowShapes:
    """The shapes of the spaces of one node."""

    def __init__(self) -> None:
        self._shapes: dict[int, RowShape] = {}

    def of(self, space: Space) -> RowShape:
        """Return the shape of a space."""
        found = self._shapes.get(space.id)
        if found is None or found.definition is not space.definition:
            if len(self._shapes) >= _KEPT:
                self._shapes.clear()
            found = self._shapes[space.id] = RowShape(space.definition)
        return found


def key_places(space: Space) -> list[int]:
    """Return the places of the columns that identify a row: those of the primary key, or all columns of a view."""
    if space.definition.opts.view:
        return list(range(len(space.definition.fields)))
    return [part.fieldno for part in space.index(0).definition.parts]


def padded(row: list[Value], count: int) -> list[Value]:
    """Return a row with nils for the fields that it lacks."""
    return row if len(row) >= count else row + [None] * (count - len(row))
