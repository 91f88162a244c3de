"""Rows as objects of a class of the program: a `NamedTuple` or a dataclass.

```
class            read as                               given as
NamedTuple       an object of the class                an object of the class, or what other spaces take
dataclass        an object of the class                an object of the class, or what other spaces take
```

The names of the class's fields are names of the space's format, in any order; a space without a format has the fields
of the class in their order. Fields that a tuple leaves out are None. Fields of the format that the class lacks are
dropped on reading and None on writing.
"""

from __future__ import annotations

import dataclasses
import datetime
import types
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin, get_type_hints

from box.data.codec import unpack
from box.data.times.points import Datetime, Interval
from box.embed.named_rows import RowCodec
from box.embed.shown_values import shown
from box.errors import ErrorCode, client_error

if TYPE_CHECKING:
    from box.schema.space import Space

_TYPES: Final[dict[Any, str]] = {
    int: "integer",
    str: "string",
    float: "number",
    bool: "boolean",
    bytes: "varbinary",
    Decimal: "decimal",
    uuid.UUID: "uuid",
    datetime.datetime: "datetime",
    Datetime: "datetime",
    Interval: "interval",
    list: "array",
    tuple: "array",
    dict: "map",
}
"""The field type for each type of an annotation. It is `number` for a float, because Python accepts an int there."""


def field_names(kind: type) -> tuple[str, ...]:
    """Return the field names of a NamedTuple or a dataclass.

    Raises:
        TypeError: the class is neither.
    """
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind) if field.init)
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return tuple(kind._fields)
    raise TypeError(f"row= takes a NamedTuple or a dataclass, not {shown(kind)}")


def format_of(kind: type) -> list[dict[str, Any]]:
    """Return the format of a space whose rows are of this class.

    A field `X | None` is nullable; a field with an unknown type is `any`.
    """
    names, hints = field_names(kind), get_type_hints(kind)
    return [_field(name, hints.get(name, Any)) for name in names]


def _field(name: str, hint: Any) -> dict[str, Any]:
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    found = [part for part in parts if part is not type(None)]
    kind = _TYPES.get(get_origin(found[0]) or found[0], "any") if len(found) == 1 else "any"
    nullable = {"is_nullable": True} if len(found) < len(parts) else {}
    return {"name": name, "type": kind, **nullable}


class RecordCodec(RowCodec):
    """Converts rows of one space to and from objects of a class."""

    __slots__ = ("_fields", "_getters", "_is_plain", "_kind", "_make", "_places", "_width")

    def __init__(self, space: Space, kind: type) -> None:
        super().__init__(space)
        self._kind = kind
        self._fields = field_names(kind)
        self._make = _maker(kind, self._fields)
        self._places: tuple[int, ...] = ()
        self._width = 0
        self._is_plain = False

    def _refresh(self) -> None:
        if self._space.definition is self._definition:
            return
        super()._refresh()
        names = self.type._fields or self._fields
        for name in self._fields:
            if name not in names:
                self._definition = None
                raise client_error(ErrorCode.NO_SUCH_FIELD_NAME_IN_SPACE, name, self._space.name)
        self._places = tuple(names.index(name) for name in self._fields)
        self._width = max(self._places, default=-1) + 1
        self._is_plain = self._places == tuple(range(len(self._fields)))

    def check(self) -> None:
        """Check that the format has all fields of the class.

        Raises:
            DataError: NO_SUCH_FIELD_NAME_IN_SPACE, the format lacks a field of the class.
        """
        self._refresh()

    def decode(self, raw: bytes) -> Any:
        """Decode a stored tuple to an object of the class."""
        return self.of_fields(unpack(raw))

    def of_fields(self, fields: list[Any]) -> Any:
        """Make the object of the decoded fields of a tuple."""
        if self._space.definition is not self._definition:
            self._refresh()
        if len(fields) < self._width:
            fields += [None] * (self._width - len(fields))
        if self._is_plain:
            return self._make(*fields[: self._width])
        return self._make(*[fields[place] for place in self._places])

    def decode_many(self, raws: list[bytes]) -> list[Any]:
        """Decode stored tuples."""
        return [*map(self.decode, raws)]

    def encode(self, row: Any) -> bytes:
        """Pack a row: an object of the class, or any row that `RowCodec` accepts."""
        if type(row) is self._kind:
            self._refresh()
            if isinstance(row, tuple) and self._is_plain:
                return super().encode(tuple(row))
            return super().encode(self._spread({name: getattr(row, name) for name in self._fields}))
        return super().encode(row)

    def _spread(self, values: dict[str, Any]) -> Mapping[str, Any] | Sequence[Any]:
        return values if self.type._fields else list(values.values())


def _maker(kind: type, fields: tuple[str, ...]) -> Callable[..., Any]:
    if dataclasses.is_dataclass(kind) and any(field.kw_only for field in dataclasses.fields(kind)):
        return lambda *values: kind(**dict(zip(fields, values, strict=True)))
    return kind
