"""Dictionaries made by a newer Tarantool: which of their contents are read, ignored or refused.

The version in `_schema` shows that a dictionary is newer. Its rows stay as they are, so that snapshots and replicas get
them unchanged:

    system spaces       those of 2.10 and later are ordinary spaces here; their views are read
    options of spaces   unknown ones have no effect
    types of fields     those that 3.x has added (`int8`, `decimal32`, ...) are refused; so are descending parts of keys
    options of fields   unknown ones have no effect, as in 2.8.1; compression is refused, because its tuples are
                        unreadable; `default`, which from 3.0 on is a value and no expression of SQL, has no effect
    grants              those on `lua_eval`, `lua_call` and `sql`, which 3.0 has added, have no effect
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from box.data.codec import unpack
from box.errors import BoxError, ErrorCode, unsupported
from box.schema.bootstrap import DICTIONARY_VERSION
from box.schema.ids import SpaceId
from box.schema.space import SpaceDef
from box.schema.space_def import decode_space

if TYPE_CHECKING:
    from box.data.format import FieldDef
    from box.schema.schema import Schema

Version = tuple[int, int, int]

_DEFAULTS: Final = ("default", "default_func")
_NEWER_TYPES: Final = frozenset(
    (
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
        *("float32", "float64", "decimal32", "decimal64", "decimal128", "decimal256"),
    )
)
_NEWER_OBJECTS: Final = frozenset(("lua_eval", "lua_call", "sql"))
"""Types of objects that privileges can be granted on from 3.0 on, and that are unknown here."""
_SHOWN: Final = 10
"""The number of space names that one line of the log shows."""


def dictionary_version(schema: Schema) -> Version | None:
    """Return the version in the row `version` of `_schema`, or None without that row."""
    for raw in schema.tuples(SpaceId.SCHEMA):
        row = unpack(raw)
        if row[0] == "version":
            major, minor, patch = (*row[1:], 0, 0, 0)[:3]
            return major, minor, patch
    return None


def is_newer(schema: Schema) -> bool:
    """Return whether a newer Tarantool has made or upgraded the dictionary."""
    found = dictionary_version(schema)
    return found is not None and found > DICTIONARY_VERSION


def decode_space_of(schema: Schema, raw: bytes, error_code: int, *, is_own: bool = False) -> SpaceDef:
    """Decode and check a `_space` tuple; in a newer dictionary unknown options are ignored.

    `is_own`: a user writes the tuple here, so that its constraints and foreign keys have to be of the right form.

    Raises:
        BoxError: see `decode_space`, `Schema.engine` and `Engine.check_space`.
        UnsupportedError: a field of a newer dictionary is compressed, or its type is unknown.
    """
    if schema.is_of_3:
        _, _, name, _, _, _, space_format, *_ = unpack(raw)
        for item in filter(_is_map, space_format):
            _check_type(item.get("type"), f"field '{item.get('name')}' of space '{name}'")
    try:
        definition = decode_space(raw, error_code, skip_misfits=not is_own)
    except BoxError as error:
        if error.code not in (ErrorCode.WRONG_SPACE_OPTIONS, ErrorCode.WRONG_SPACE_FORMAT) or not is_newer(schema):
            raise
        definition = decode_space(
            raw,
            error_code,
            skip_unknown=True,
            skip_defaults=schema.is_of_3,
            skip_misfits=not is_own,
        )
    if any(item.default is not None for item in definition.fields) and schema.is_of_3:
        definition = decode_space(raw, error_code, skip_unknown=True, skip_defaults=True, skip_misfits=not is_own)
    schema.engine(definition.engine).check_space(definition)
    for item in definition.format:
        if item.get("compression", "none") != "none" and is_newer(schema):
            what = f"compressed fields (field '{item.get('name')}' of space '{definition.name}')"
            raise unsupported("Lunabox", what)
    if any(item.collation_id in schema.collations for item in definition.fields):
        definition = replace(definition, fields=tuple(_with_order(schema, item) for item in definition.fields))
    return definition


def _is_map(item: Any) -> bool:
    return isinstance(item, dict)


def _check_type(kind: Any, place: str) -> None:
    if isinstance(kind, str) and kind in _NEWER_TYPES:
        raise unsupported("Lunabox", f"the field type '{kind}' ({place})")


def check_index_of(schema: Schema, raw: bytes, space_name: str) -> None:
    """Check that an `_index` tuple has only what is known here, if the dictionary is newer.

    Raises:
        UnsupportedError: a part is descending, or its type is unknown.
    """
    if not schema.is_of_3:
        return
    _, _, name, _, _, parts, *_ = unpack(raw)
    place = f"index '{name}' of space '{space_name}'"
    for item in parts:
        options = (
            item
            if _is_map(item)
            else dict(zip(("field", "type"), item if isinstance(item, list) else (), strict=False))
        )
        _check_type(options.get("type"), place)
        if options.get("sort_order") == "desc":
            raise unsupported("Lunabox", f"descending parts of keys ({place})")


def _with_order(schema: Schema, item: FieldDef) -> FieldDef:
    """Return a field of a format in which the id of its collation is replaced by the collation's order."""
    collation = None if item.collation_id is None else schema.collations.get(item.collation_id)
    return item if collation is None else replace(item, collation_id=collation.order)


def grants_newer_object(schema: Schema, raw: bytes) -> bool:
    """Return whether a `_priv` tuple is about something that only Tarantool 3.0 and later know."""
    return schema.is_of_3 and unpack(raw)[2] in _NEWER_OBJECTS


def newer_notes(schema: Schema) -> list[str]:
    """Return lines for the log about a newer dictionary; an empty list for any other dictionary."""
    if not is_newer(schema):
        return []
    version, own = (".".join(map(str, found or ())) for found in (dictionary_version(schema), DICTIONARY_VERSION))
    notes = [f"schema version {version} is newer than {own}: system spaces stay as they are, there is no upgrade"]
    rows = list(map(unpack, schema.tuples(SpaceId.SPACE)))
    if schema.is_of_3:
        names = [row[2] for row in rows if _has_any(_DEFAULTS, row[6])]
        if names:
            text = ", ".join(f"'{name}'" for name in names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
            notes.append(f"defaults in the formats of these spaces have no effect: {text}")
    if ignored := _NEWER_OBJECTS.intersection(unpack(raw)[2] for raw in schema.tuples(SpaceId.PRIV)):
        notes.append(f"grants on these objects have no effect: {', '.join(sorted(ignored))}")
    return notes


def _has_any(names: Iterable[str], options: Iterable[Any]) -> bool:
    return any(isinstance(one, dict) and any(one.get(name) for name in names) for one in options)
