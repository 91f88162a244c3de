"""Conversion between tuples and the values that Python programs read and give.

```
MessagePack     read as        given as
array (tuple)   NamedRow       list, tuple, NamedRow, a dict by the names of the space's format, a dataclass
string          str            str
binary          bytes          bytes, bytearray, memoryview
integer         int            int from -2^63 to 2^64-1
float, bool     float, bool    float, bool
decimal, UUID   Decimal, UUID  Decimal of at most 38 digits, UUID
datetime        datetime       an aware datetime, Datetime
interval        Interval       Interval
array, map      list, dict     list, tuple, dict
```

A datetime is read as `box.Datetime` if Python's `datetime` cannot hold it: nanoseconds, years below 1 and above 9999. A
`datetime` without a time zone raises UNSUPPORTED, as `date`, `time` and `timedelta` do.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from functools import lru_cache
from itertools import islice
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, ClassVar, Final

from box.data.codec import pack, pack_usual, unpack, unpack_many
from box.embed.shown_values import shown, shown_with_type
from box.errors import BoxError, ErrorCode, client_error, illegal_params, unsupported

if TYPE_CHECKING:
    from box.schema.space import Space

_TIMES = (datetime.date, datetime.time, datetime.timedelta)
_INTEGERS: Final = range(-(2**63), 2**64)
_UNUSUAL: Final = (TypeError, ValueError, OverflowError)
"""What `pack_usual` raises for values that need more than the C extension."""
_LISTS: Final = {list}
_AT_ONCE: Final = 64
"""The number of rows that are packed together."""
_FEW: Final = 8
"""The number of tuples from which it pays to decode them with one call."""


class NamedRow(tuple[Any, ...]):
    """A tuple of a space: a Python tuple whose fields have the names of the space's format.

    `row.name` and `row["name"]` access a field by name, `row[0]` by position, counted from 0. A field that the tuple
    omits is None by name. Names that Python or `tuple` uses otherwise (`count`, `class`) work in brackets only. A row
    equals a tuple or list with the same values. It can be pickled, and hashes like a tuple.
    """

    __slots__ = ()
    _space: ClassVar[str] = ""
    _fields: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:
        # The rows of each space have a class of their own, which type checkers cannot see.
        def __getattr__(self, name: str) -> Any: ...

    def _asdict(self) -> dict[str, Any]:
        """Return the named fields as a dict; fields that the tuple omits are None."""
        return {name: self[name] for name in self._fields}

    def __getitem__(self, place: Any) -> Any:
        if type(place) is not str:
            return tuple.__getitem__(self, place)
        try:
            number = self._fields.index(place)
        except ValueError:
            raise KeyError(place) from None
        return tuple.__getitem__(self, number) if number < len(self) else None

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return tuple.__hash__(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._space, self._fields, tuple(self))

    def __repr__(self) -> str:
        if not self._fields:
            return tuple.__repr__(self)
        named = [f"{name}={value!r}" for name, value in zip(self._fields, self, strict=False)]
        return f"{self._space}({', '.join(named + [repr(value) for value in self[len(named) :]])})"


def _restored(space: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> NamedRow:
    return row_type(space, fields)(values)


def _getter(number: int) -> Callable[[NamedRow], Any]:
    def get(row: NamedRow) -> Any:
        return tuple.__getitem__(row, number) if number < len(row) else None

    return get


@lru_cache(maxsize=4096)
def row_type(space: str, fields: tuple[str, ...]) -> type[NamedRow]:
    """Make the row class of a space whose format has these field names."""
    members: dict[str, Any] = {"__slots__": (), "_space": space, "_fields": fields}
    for number, name in enumerate(fields):
        if name.isidentifier() and not (iskeyword(name) or name.startswith("_") or hasattr(NamedRow, name)):
            members[name] = property(_getter(number), doc=f"Field {number} of the format.")
    return type("NamedRow", (NamedRow,), members)


class RowCodec:
    """Converts rows of one space from and to MessagePack, following the space's current format."""

    __slots__ = ("_definition", "_space", "type")

    def __init__(self, space: Space) -> None:
        self._space = space
        self._definition: Any = None
        self.type: type[NamedRow] = NamedRow

    def _refresh(self) -> None:
        definition = self._space.definition
        if definition is not self._definition:
            self._definition = definition
            self.type = row_type(definition.name, tuple(field.name or "" for field in definition.fields))

    def check(self) -> None:
        """Check that the row class fits the format; every `NamedRow` does."""

    def decode(self, raw: bytes) -> Any:
        """Decode a stored tuple to a `NamedRow`."""
        if self._space.definition is not self._definition:
            self._refresh()
        return self.type(unpack(raw))

    def of_fields(self, fields: list[Any]) -> Any:
        """Make the row of the decoded fields of a tuple, which belong to the row from now on."""
        if self._space.definition is not self._definition:
            self._refresh()
        return self.type(fields)

    def decode_many(self, raws: list[bytes]) -> list[Any]:
        """Decode stored tuples."""
        decode = self.decode
        values = unpack_many(raws) if len(raws) >= _FEW else None
        if values is None:
            return [*map(decode, raws)]
        if self._space.definition is not self._definition:
            self._refresh()
        return [*map(self.type, values)]

    def encode(self, row: Any) -> bytes:
        """Pack a row that the program gives: a sequence, a dict by the names of the format, or a dataclass.

        Raises:
            DataError: NO_SUCH_FIELD_NAME_IN_SPACE, the format lacks a name.
            TypeError: the row has another type.
            UnsupportedError: a value is a date, a time or a datetime without a time zone.
            ClientError: ILLEGAL_PARAMS, a value cannot be stored.
        """
        kind = type(row)
        if kind is list:
            try:
                return pack_usual(row)
            except _UNUSUAL:
                return encode_values(row)
        if kind is tuple:
            return encode_values(list(row))
        return encode_values(self._values(row))

    def encode_many(self, rows: Iterator[Any], most: int) -> list[bytes]:
        """Pack the next rows, at most `most` of them. Raises as `encode`."""
        raws: list[bytes] = []
        while some := list(islice(rows, min(most - len(raws), _AT_ONCE))):
            try:
                raws += [*map(pack_usual if set(map(type, some)) == _LISTS else self.encode, some)]
            except _UNUSUAL:
                raws += [*map(self.encode, some)]
        return raws

    def _values(self, row: Any) -> list[Any]:
        """Return the values of a row that is not a plain list."""
        if isinstance(row, Mapping):
            return self._by_name(row)
        if is_dataclass(row) and not isinstance(row, type):
            values = {field.name: getattr(row, field.name) for field in fields(row)}
            self._refresh()
            return self._by_name(values) if self.type._fields else list(values.values())
        if isinstance(row, Iterable) and not isinstance(row, (str, bytes, bytearray, memoryview, Set)):
            return list(row)
        raise TypeError(f"a row is a list, a tuple, a dict, a NamedTuple or a dataclass, not {shown_with_type(row)}")

    def _by_name(self, row: Mapping[str, Any]) -> list[Any]:
        """Return the values in the order of the format; missing ones are None, and those at the end are omitted."""
        self._refresh()
        names = self.type._fields
        for name in row:
            if name not in names:
                raise client_error(ErrorCode.NO_SUCH_FIELD_NAME_IN_SPACE, name, self._space.name)
        values = [row.get(name) for name in names]
        given = [number for number, name in enumerate(names, 1) if name in row]
        return values[: given[-1] if given else 0]


def encode_values(values: list[Any]) -> bytes:
    """Pack Python values as a MessagePack array.

    Raises:
        UnsupportedError: a value is a date, a time or a datetime without a time zone.
        ClientError: ILLEGAL_PARAMS, a value is an integer of more than 64 bits or of an unsupported type.
    """
    try:
        return pack(values)
    except BoxError as error:
        if error.code != ErrorCode.PROC_RET:
            raise
        raise _refusal(values) or error from None


def explained(error: BoxError, values: list[Any]) -> BoxError:
    """Return a clearer error if one of `values` has no MessagePack form, otherwise `error` itself."""
    return (_refusal(values) if error.code == ErrorCode.PROC_RET else None) or error


def _refusal(value: Any) -> BoxError | None:
    """Return the error for the first part of `value` that cannot be stored, or None.

    The search has a stack of its own, because the packer accepts deeper nesting than Python's stack does.
    """
    left = [value]
    seen = {}
    while left:
        item = left.pop()
        if not isinstance(item, (Mapping, list, tuple)):
            if (refusal := _refusal_of_one(item)) is not None:
                return refusal
        elif id(item) not in seen:
            seen[id(item)] = item
            left += reversed([*item.keys(), *item.values()] if isinstance(item, Mapping) else item)
    return None


def _refusal_of_one(value: Any) -> BoxError | None:
    if isinstance(value, _TIMES) and not isinstance(value, datetime.datetime):
        return unsupported("Tarantool 2.8", f"values of type {type(value).__name__}")
    if isinstance(value, int) and value not in _INTEGERS:
        return illegal_params(f"the integer {value} is out of range, from -2^63 to 2^64-1 is expected")
    try:
        pack(value)
    except BoxError as error:
        if error.code != ErrorCode.PROC_RET:
            return error
        if isinstance(value, str):
            return illegal_params(f"the text {shown(value)} is not valid Unicode: pass bytes to store it as varbinary")
        return illegal_params(f"a value of type {type(value).__name__} cannot be stored")
    return None
