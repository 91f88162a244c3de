"""`key_def`: definitions and comparison of keys, for Lua."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from box.data import codec
from box.data.collation import Collation, collation_by_id, collation_by_name, is_binary, name_of, order_of
from box.data.json_path import ANY_INDEX, parse_path
from box.data.keydef import KeyDef, PartDef, SortKey
from box.data.types import FieldType, checker
from box.errors import BoxError, ErrorCode, client_error
from lua.bindings.binding import Binding, Outcome, guarded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from box.instance.node import Instance

_EQUAL: Final = 256
"""Added to the result of a comparison, because Lua takes a negative number for a wait. Differences of bytes are above
-256."""
_UNORDERED: Final = frozenset({FieldType.ANY, FieldType.ARRAY, FieldType.MAP})


def _wrong(message: str) -> BoxError:
    return BoxError(ErrorCode.ILLEGAL_PARAMS, message, type="IllegalParams")


def _part(options: dict[str, Any], own: tuple[Collation, ...]) -> PartDef:
    kind = FieldType.by_name(str(options["type"]))
    if kind is None:
        raise _wrong(f"Unknown field type: {options['type']}")
    path = options.get("path")
    if path is not None:
        _check_path(str(path))
    return PartDef(
        int(options["fieldno"]) - 1,
        kind,
        bool(options.get("is_nullable")),
        _collation(options, own),
        path,
        bool(options.get("exclude_null")),
    )


def _check_path(path: str) -> None:
    try:
        steps = parse_path(path)
    except (BoxError, ValueError) as error:
        raise _wrong("invalid path") from error
    if ANY_INDEX in steps:
        raise _wrong("multikey path is unsupported")


def _collation(options: dict[str, Any], own: tuple[Collation, ...]) -> int | None:
    number, name = options.get("collation_id"), options.get("collation")
    if name is None:
        if number is None:
            return None
        chosen = next((item for item in own if item.id == number), collation_by_id(int(number)))
        if chosen is None:
            raise client_error(ErrorCode.WRONG_INDEX_OPTIONS, 1, "collation was not found by ID")
        return order_of(chosen)
    if number is not None:
        raise _wrong("Conflicting options: collation_id and collation")
    found = next((item for item in own if item.name == name), collation_by_name(str(name)))
    if found is None:
        raise _wrong(f'Unknown collation: "{name}"')
    return order_of(found)


def _described(part: PartDef) -> dict[str, Any]:
    result: dict[str, Any] = {
        "type": str(part.type),
        "fieldno": part.fieldno + 1,
        "path": part.path,
        "is_nullable": part.is_nullable,
        "exclude_null": part.exclude_null or None,
    }
    result["collation"] = name_of(part.collation_id) if part.collation_id else None
    return {name: value for name, value in result.items() if value is not None}


@lru_cache(maxsize=256)
def _definition(packed: bytes, own: tuple[Collation, ...]) -> KeyDef:
    return KeyDef([_part(options, own) for options in codec.unpack(packed)])


def _can_follow(own: Sequence[PartDef], part: PartDef) -> bool:
    """Return whether a merge adds `part` to the parts `own`: not if one of these reads the same value and tells keys
    apart at least as well.

    Only the first part of `own` that reads the value counts, as in Tarantool. A part with a collation may take values
    for equal that a part without it, or with another one, tells apart.
    """
    same = next((one for one in own if (one.fieldno, one.steps) == (part.fieldno, part.steps)), None)
    return same is None or not (is_binary(same.collation_id) or same.same_place(part))


def _check_fields(key: KeyDef, fields: list[Any]) -> None:
    """Check that a tuple has the parts of a key.

    Raises:
        DataError: FIELD_MISSING or KEY_PART_TYPE.
    """
    for number, (part, value) in enumerate(zip(key.parts, key.extract_values(fields), strict=True)):
        if value is None:
            if part.is_nullable:
                continue
            if part.fieldno >= len(fields) or part.path:
                raise client_error(ErrorCode.FIELD_MISSING, f"[{part.fieldno + 1}]{part.path or ''}")
        if not checker(part.type)(value):
            raise client_error(ErrorCode.KEY_PART_TYPE, number, part.type)


def _fields(raw: bytes) -> list[Any]:
    fields = codec.unpack(raw)
    if not isinstance(fields, list):
        raise client_error(ErrorCode.TUPLE_NOT_ARRAY)
    return fields


def _ordered(key: KeyDef) -> None:
    for part in key.parts:
        if part.type in _UNORDERED:
            raise _wrong(f"Unsupported field type: {part.type}")


def ordered_definition(packed: bytes, own: tuple[Collation, ...]) -> KeyDef:
    """Return the key definition with these parts. `own` lists the collations of the instance that are not built in.

    Raises:
        IllegalParams: a part has a type without an order.
    """
    key = _definition(packed, own)
    _ordered(key)
    return key


def _difference(part: PartDef, left: Any, right: Any) -> int | None:
    """Return the difference of the first bytes in which two values differ, as Tarantool's comparison does.

    Tarantool compares unsigned numbers by the first byte of their MessagePack, and compares binaries, and texts without
    a collation, byte by byte. Returns None for values of any other kind, and if these bytes are equal.
    """
    if part.type == FieldType.UNSIGNED and isinstance(left, int) and isinstance(right, int):
        return (codec.pack(left)[0] - codec.pack(right)[0]) or None
    if isinstance(left, str) and isinstance(right, str) and is_binary(part.collation_id):
        left, right = (value.encode(errors="surrogateescape") for value in (left, right))
    if isinstance(left, bytes) and isinstance(right, bytes):
        return next((one - other for one, other in zip(left, right, strict=False) if one != other), None)
    return None


def _compared(
    key: KeyDef, left: list[Any], right: list[Any], lefts: Sequence[SortKey], rights: Sequence[SortKey]
) -> int:
    """Return how the values of a key compare with others, for which there are sort keys as well."""
    for part, one, other, low, high in zip(key.parts, left, right, lefts, rights, strict=False):
        if low != high:
            return _EQUAL + (_difference(part, one, other) or (-1 if low < high else 1))
    return _EQUAL


def _as_sequence(key: KeyDef, sort_key: SortKey) -> Sequence[SortKey]:
    return sort_key if len(key) > 1 else (sort_key,)


def own_collations(node: Instance) -> tuple[Collation, ...]:
    """Return the collations of an instance that are not built in."""
    return tuple(item.collation for item in node.schema.own_collations)


class KeyDefBinding(Binding):
    """Python half of lua/modules/key_def.lua.

    A key definition is identified by its packed parts: a list of maps in the form of `key_def.new`.
    """

    @property
    def _own(self) -> tuple[Collation, ...]:
        return own_collations(self.node)

    @guarded("key_def_parts")
    def parts(self, packed: bytes) -> Outcome:
        """Return the checked parts, described by names."""
        return codec.pack([_described(part) for part in _definition(packed, self._own).parts])

    @guarded("key_def_merge")
    def merge(self, left: bytes, right: bytes) -> Outcome:
        """Return the parts of the first definition and those of the second that it lacks."""
        own = _definition(left, self._own).parts
        missing = [part for part in _definition(right, self._own).parts if _can_follow(own, part)]
        return codec.pack([_described(part) for part in (*own, *missing)])

    @guarded("key_def_extract")
    def extract(self, packed: bytes, raw: bytes) -> Outcome:
        """Return the key of a tuple as a packed array."""
        key, fields = _definition(packed, self._own), _fields(raw)
        _check_fields(key, fields)
        return codec.pack(key.extract_values(fields))

    @guarded("key_def_compare")
    def compare(self, packed: bytes, left: bytes, right: bytes) -> Outcome:
        """Compare two tuples. Returns _EQUAL and what Tarantool's function returns."""
        key = ordered_definition(packed, self._own)
        first = _fields(left)
        _check_fields(key, first)
        second = _fields(right)
        _check_fields(key, second)
        lefts, rights = (_as_sequence(key, key.extract(fields)) for fields in (first, second))
        return _compared(key, key.extract_values(first), key.extract_values(second), lefts, rights)

    @guarded("key_def_compare_with_key")
    def compare_with_key(self, packed: bytes, raw: bytes, values: bytes) -> Outcome:
        """Compare a tuple with a key, which may have fewer parts. Returns a result like that of `compare`."""
        key = ordered_definition(packed, self._own)
        fields = _fields(raw)
        _check_fields(key, fields)
        wanted = _fields(values)
        given = key.parse_parts(wanted)
        return _compared(key, key.extract_values(fields), wanted, _as_sequence(key, key.extract(fields)), given)
