"""Key definitions: the fields that make a key, and keys as directly comparable Python values.

A sort key orders as Tarantool orders the tuples:

    one part                 the bare value of that part
    several parts            a tuple of them
    unsigned, integer        int
    number, double, decimal  int, float or Decimal, which compare by value; NaN is below every number
    string                   the UTF-8 bytes, or the collation's sort key
    varbinary                bytes
    uuid                     int (its 128 bits: the order of the bytes)
    datetime                 int (seconds and nanoseconds; not the zone)
    boolean                  bool
    scalar                   (class, value): booleans, then numbers, strings, binaries, datetimes
    a nullable part          (False,) for nil or a missing field, (True, value) otherwise

A part whose path has `[*]` makes the definition multikey: a tuple has a key for every element of that array.

The functions are compiled from source made of fixed text and field numbers: a key extraction stays one Python call, and
none at all for the commonest key (`operator.itemgetter`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import Any, Final

from box.data.collation import is_binary, sort_key_function
from box.data.json_path import ANY_INDEX, Path, follow, parse_path
from box.data.times.points import datetime_key
from box.data.types import TYPE_SETS, FieldType, check_expression, checker, compiled_source
from box.errors import ErrorCode, client_error, unsupported

SortKey = Any
"""A comparable, hashable value; the table at the top of the module says which."""

NIL_PART: Final = (False,)
"""The sort key of nil in a nullable part."""


class _Lowest:
    """The key of NaN: equal to itself, below every number."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __lt__(self, other: object) -> bool:
        return self is not other

    def __le__(self, other: object) -> bool:
        return True

    def __gt__(self, other: object) -> bool:
        return False

    def __ge__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "NaN"


class _Highest:
    """A value above everything: `key + (TOP,)` is just after every key that starts with `key`."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __lt__(self, other: object) -> bool:
        return False

    def __le__(self, other: object) -> bool:
        return self is other

    def __gt__(self, other: object) -> bool:
        return self is not other

    def __ge__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1

    def __repr__(self) -> str:
        return "TOP"


NAN: Final = _Lowest()
TOP: Final = _Highest()


@dataclass(frozen=True, slots=True)
class PartDef:
    """A part of a key. `fieldno` is 0-based, `path` a JSON path inside that field."""

    fieldno: int
    type: FieldType
    is_nullable: bool = False
    collation_id: int | None = None
    path: str | None = None
    exclude_null: bool = False

    @property
    def steps(self) -> Path:
        """The path as steps; () if the part is the field itself."""
        return parse_path(self.path) if self.path else ()

    @property
    def nullable_action(self) -> str:
        return "none" if self.is_nullable else "default"

    def same_place(self, other: PartDef) -> bool:
        """Return whether both parts read the same value and compare it alike."""
        return self.fieldno == other.fieldno and self.steps == other.steps and self._collation() == other._collation()

    def _collation(self) -> int | None:
        return None if is_binary(self.collation_id) else self.collation_id


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _number(value: int | float | Decimal) -> Any:
    return value if value == value else NAN


_NUMBERS: Final = (int, float, Decimal)


def _scalar(value: Any, text_key: Callable[[str], bytes] = _utf8) -> tuple[int, Any]:
    # The order of Tarantool's classes. 5 is that of UUIDs, which a scalar field does not take; datetimes come after it.
    kind = type(value)
    if kind is str:
        return 3, text_key(value)
    if kind is bool:
        return 1, value
    if kind is bytes:
        return 4, value
    if kind in _NUMBERS:
        return 2, _number(value)
    return 6, _datetime(value)


def _datetime(value: Any) -> int:
    try:
        return datetime_key(value)
    except ValueError as error:
        raise unsupported("MessagePack", str(error)) from None


_PLAIN: Final = {FieldType.UNSIGNED, FieldType.INTEGER, FieldType.BOOLEAN, FieldType.VARBINARY, FieldType.DECIMAL}


def _part_key(part: PartDef) -> Callable[[Any], Any]:
    """Return a function from a value, which is not nil, to the part's key."""
    if part.type in _PLAIN:
        return lambda value: value
    if part.type in (FieldType.NUMBER, FieldType.DOUBLE):
        return _number
    if part.type is FieldType.UUID:
        return lambda value: value.int
    if part.type is FieldType.DATETIME:
        return _datetime
    text_key = _utf8 if is_binary(part.collation_id) else sort_key_function(part.collation_id)
    if part.type is FieldType.STRING:
        return text_key
    return lambda value: _scalar(value, text_key)


def _part_source(part: PartDef, number: int) -> str:
    """Return the source of the part's key in terms of the fields `f`; `k<n>` are part keys, `p<n>` JSON paths."""
    place, there = f"f[{part.fieldno}]", f"len(f) > {part.fieldno} and "
    if ANY_INDEX in part.steps:
        place, there = "e" if part.steps[-1] is ANY_INDEX else f"follow(e, p{number})", ""
    elif part.path:
        place = f"follow(f[{part.fieldno}], p{number})"
    if part.is_nullable:
        present = f"{there}(v := {place}) is not None"
        return f"((True, {_key_source(part, number, 'v')}) if {present} else NIL)"
    return _key_source(part, number, place)


def _key_source(part: PartDef, number: int, value: str) -> str:
    if part.type in _PLAIN:
        return value
    if part.type in (FieldType.NUMBER, FieldType.DOUBLE):
        return f"(w if (w := {value}) == w else NAN)"
    if part.type is FieldType.UUID:
        return f"{value}.int"
    if part.type is FieldType.STRING and is_binary(part.collation_id):
        return f"{value}.encode()"
    return f"k{number}({value})"


def _is_plain(part: PartDef) -> bool:
    return part.type in _PLAIN and not part.is_nullable and not part.path


class GeneralKey:
    """Makes keys with each part's own functions: the slow path for everything that compiled functions do not handle."""

    __slots__ = ("_checkers", "is_nullable", "part_keys", "parts")

    def __init__(self, parts: tuple[PartDef, ...]) -> None:
        self.parts = parts
        self.is_nullable = any(part.is_nullable for part in parts)
        self.part_keys = tuple(map(_part_key, parts))
        self._checkers = [checker(part.type) for part in parts]

    def extract_values(self, fields: list[Any]) -> list[Any]:
        """Return the field values of the key in the form that users give (nil for missing fields)."""
        count = len(fields)
        return [follow(fields[part.fieldno], part.steps) if part.fieldno < count else None for part in self.parts]

    def parse_parts(self, values: list[Any], *, exact: bool = False) -> tuple[Any, ...]:
        """Return the part keys of a checked key, always as a tuple; partial and with nils unless `exact`."""
        if not isinstance(values, (list, tuple)):
            raise client_error(ErrorCode.TUPLE_NOT_ARRAY)
        if exact and len(values) != len(self.parts):
            raise client_error(ErrorCode.EXACT_MATCH, len(self.parts), len(values))
        if len(values) > len(self.parts):
            raise client_error(ErrorCode.KEY_PART_COUNT, len(self.parts), len(values))
        return tuple(self._parse_part(number, value, exact) for number, value in enumerate(values))

    def _parse_part(self, number: int, value: Any, exact: bool) -> Any:
        part = self.parts[number]
        if value is None and part.is_nullable and not exact:
            return NIL_PART
        if not self._checkers[number](value):
            raise client_error(ErrorCode.KEY_PART_TYPE, number, part.type)
        key = self.part_keys[number](value)
        return (True, key) if part.is_nullable else key

    def parse(self, values: list[Any], exact: bool = True) -> SortKey:
        """Return the sort key of a key that a user gave."""
        key = self.parse_parts(values, exact=exact)
        return key[0] if len(self.parts) == 1 and key else key

    def extract(self, fields: list[Any]) -> SortKey:
        """Return the sort key of a tuple; accepts strings that are not UTF-8."""
        return self._key_of_values(self.extract_values(fields))

    def extract_all(self, fields: list[Any]) -> tuple[SortKey, ...]:
        """Return the sort keys of a tuple for a multikey definition; accepts strings that are not UTF-8."""
        return tuple(dict.fromkeys(map(self._key_of_values, self.values_of_all(fields))))

    def values_of_all(self, fields: list[Any]) -> Iterator[list[Any]]:
        """Yield the field values of each key of a tuple for a multikey definition."""
        values = self.extract_values(fields)
        suffixes = {
            number: part.steps[part.steps.index(ANY_INDEX) + 1 :]
            for number, part in enumerate(self.parts)
            if ANY_INDEX in part.steps
        }
        for element in multikey_array(self.parts, fields):
            for number, suffix in suffixes.items():
                values[number] = follow(element, suffix)
            yield values.copy()

    def _key_of_values(self, values: list[Any]) -> SortKey:
        key = []
        for part, value, part_key in zip(self.parts, values, self.part_keys, strict=True):
            if not part.is_nullable:
                key.append(part_key(value))
            else:
                key.append(NIL_PART if value is None else (True, part_key(value)))
        return key[0] if len(key) == 1 else tuple(key)


class KeyDef:
    """An ordered list of key parts.

    `extract(fields)` returns the sort key of a decoded tuple that fits its format. `parse(values, exact)` checks a key
    given by a user. Both refer to a `GeneralKey` and not to the definition, so that the definition dies with its last
    user and dropped indexes leave nothing to the garbage collector.

    Raises:
        ClientError: KEY_PART_TYPE, KEY_PART_COUNT or EXACT_MATCH, from `parse`.
    """

    __slots__ = ("__dict__", "general", "is_multikey", "is_nullable", "part_keys", "parts")

    def __init__(self, parts: Sequence[PartDef]) -> None:
        self.parts = tuple(parts)
        self.is_multikey = any(ANY_INDEX in part.steps for part in self.parts)
        general = self.general = GeneralKey(self.parts)
        self.is_nullable = general.is_nullable
        self.part_keys = general.part_keys
        self.extract_values = general.extract_values
        self.parse_parts = general.parse_parts

    # Compiled at the first access, because many definitions are only compared or used to make a format.

    @cached_property
    def extract(self) -> Callable[[list[Any]], SortKey]:
        return _compile_extract(self.general)

    @cached_property
    def extract_all(self) -> Callable[[list[Any]], tuple[SortKey, ...]]:
        """A function that returns the sort keys of a decoded tuple for a multikey definition, without repetition."""
        return _compile_extract_all(self.general)

    @cached_property
    def parse(self) -> Callable[..., SortKey]:
        return _compile_parse(self.general)

    def __len__(self) -> int:
        return len(self.parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyDef) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(self.parts)

    def __repr__(self) -> str:
        return f"KeyDef({', '.join(f'[{part.fieldno + 1}, {part.type}]' for part in self.parts)})"

    def merge(self, tail: KeyDef) -> KeyDef:
        """Return this key followed by those parts of `tail` that it lacks, which makes keys of a non-unique index
        unique.
        """
        missing = [part for part in tail.parts if not any(part.same_place(own) for own in self.parts)]
        return KeyDef(self.parts + tuple(missing))


def multikey_array(parts: Sequence[PartDef], fields: list[Any]) -> list[Any]:
    """Return the array in a tuple whose elements have the keys of a multikey definition, or []."""
    part = next(part for part in parts if ANY_INDEX in part.steps)
    if part.fieldno >= len(fields):
        return []
    found = follow(fields[part.fieldno], part.steps[: part.steps.index(ANY_INDEX)])
    return found if type(found) is list else []


@lru_cache(256)
def key_def_of(parts: tuple[PartDef, ...]) -> KeyDef:
    """Return the `KeyDef` of these parts, one shared object for all indexes, formats and instances of the process."""
    return KeyDef(parts)


def _compile_extract(general: GeneralKey) -> Callable[[list[Any]], SortKey]:
    parts = general.parts
    if parts and all(map(_is_plain, parts)):
        return itemgetter(*(part.fieldno for part in parts))
    sources = [_part_source(part, number) for number, part in enumerate(parts)]
    names: dict[str, Any] = {"NIL": NIL_PART, "NAN": NAN, "follow": follow, "slow": general.extract}
    for number, part in enumerate(parts):
        names |= {f"k{number}": general.part_keys[number], f"p{number}": part.steps}
    body = sources[0] if len(sources) == 1 else f"({', '.join(sources)})"
    source = f"""
def extract(f):
    try:
        return {body}
    except UnicodeEncodeError:
        return slow(f)
"""
    exec(compiled_source(source), names)
    # Remove the function from its own namespace `names`, which would otherwise form a reference cycle.
    compiled: Callable[[list[Any]], SortKey] = names.pop("extract")
    return compiled


def _compile_extract_all(general: GeneralKey) -> Callable[[list[Any]], tuple[SortKey, ...]]:
    parts = general.parts
    sources = [_part_source(part, number) for number, part in enumerate(parts)]
    many = next(part for part in parts if ANY_INDEX in part.steps)
    prefix = many.steps[: many.steps.index(ANY_INDEX)]
    names: dict[str, Any] = {"NIL": NIL_PART, "NAN": NAN, "follow": follow, "slow": general.extract_all}
    names["prefix"] = prefix
    for number, part in enumerate(parts):
        steps = part.steps
        if ANY_INDEX in steps:
            steps = steps[steps.index(ANY_INDEX) + 1 :]
        names |= {f"k{number}": general.part_keys[number], f"p{number}": steps}
    body = sources[0] if len(sources) == 1 else f"({', '.join(sources)})"
    source = f"""
def extract_all(f):
    if len(f) <= {many.fieldno}:
        return ()
    elements = {f"follow(f[{many.fieldno}], prefix)" if prefix else f"f[{many.fieldno}]"}
    if type(elements) is not list:
        return ()
    try:
        return tuple({{{body}: None for e in elements}})
    except UnicodeEncodeError:
        return slow(f)
"""
    exec(compiled_source(source), names)
    compiled: Callable[[list[Any]], tuple[SortKey, ...]] = names.pop("extract_all")
    return compiled


def _compile_parse(general: GeneralKey) -> Callable[..., SortKey]:
    """Compile `parse(values, exact=True)` with a fast path for full keys whose parts are never nil."""
    parts = general.parts
    if not parts or general.is_nullable:
        return general.parse
    names: dict[str, Any] = {**TYPE_SETS, "NAN": NAN, "slow": general.parse}
    variables, checks, keys = [], [], []
    for number, part in enumerate(parts):
        names[f"k{number}"] = general.part_keys[number]
        variables.append(f"v{number}")
        checks.append(check_expression(part.type, False, f"v{number}") or "True")
        keys.append(_key_source(part, number, f"v{number}"))
    source = f"""
def parse(values, exact=True):
    try:
        {", ".join(variables)}, = values
        if {" and ".join(checks)}:
            return {keys[0] if len(keys) == 1 else f"({', '.join(keys)})"}
    except (TypeError, ValueError):
        pass
    return slow(values, exact)
"""
    exec(compiled_source(source), names)
    compiled: Callable[..., SortKey] = names.pop("parse")
    return compiled
