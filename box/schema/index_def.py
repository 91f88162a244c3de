"""Decodes an `_index` tuple to an `IndexDef`, with every check that needs only the space's definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from box.data.json_path import ANY_INDEX, Path, PathError, parse_path
from box.data.keydef import PartDef
from box.data.types import FieldType, type_name_of
from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.index import IndexDef
from box.schema.fields import Fields
from box.schema.identifier import check_name
from box.schema.ids import INDEX_FIELD_MAX, INDEX_MAX, INDEX_PART_MAX, SHOWN_NAME_MAX
from box.schema.options import BOOLEAN, ENUM, FLOAT, INTEGER, LEGACY, STRING, UNSIGNED, check_collation, check_options
from box.schema.space import SpaceDef
from box.schema.storage_engine import IndexRules

if TYPE_CHECKING:
    from box.schema.collation_def import CollationDef

_OPTS_FIELD = 4
_INDEX_OPTIONS = {
    "unique": BOOLEAN,
    "dimension": INTEGER,
    "distance": ENUM,
    "range_size": INTEGER,
    "page_size": INTEGER,
    "run_count_per_level": INTEGER,
    "run_size_ratio": FLOAT,
    "bloom_fpr": FLOAT,
    "lsn": INTEGER,
    "func": UNSIGNED,
    "sql": LEGACY,
    "hint": BOOLEAN,
}
_PART_OPTIONS = {
    "type": ENUM,
    "field": UNSIGNED,
    "collation": UNSIGNED,
    "is_nullable": BOOLEAN,
    "nullable_action": ENUM,
    "sort_order": ENUM,
    "path": STRING,
    "exclude_null": BOOLEAN,
}
_RECORD = "space id (unsigned), index id (unsigned), name (string), type (string), options (map), parts (array)"
_RECORD_TYPES = ("unsigned", "unsigned", "string", "string", "map", "array")
_SORT_ORDERS = frozenset(("asc", "desc", "undef"))


def decode_index(
    raw: bytes, space: SpaceDef, collations: Mapping[int, CollationDef], rules: IndexRules | None
) -> IndexDef:
    """Decode and check an `_index` tuple of a space. `collations` are the known collations by id, `rules` those of the
    engine.
    """
    definition = _decode(raw, space.name)
    for number, part in enumerate(definition.parts, 1):
        check_collation(part.collation_id, collations, ErrorCode.WRONG_INDEX_OPTIONS, number)
    definition = _with_orders(definition, collations)
    for number in range(1, len(definition.parts) + 1):
        _check_multikey_path(definition.parts, number)
    if definition.opts.get("func"):
        _check_function_parts(definition.parts)
    _check(raw, space.name, rules)
    return definition


def _with_orders(definition: IndexDef, collations: Mapping[int, CollationDef]) -> IndexDef:
    """Return a definition whose parts have the orders of collations instead of their ids."""
    if all(part.collation_id is None for part in definition.parts):
        return definition
    parts = tuple(
        part if part.collation_id is None else replace(part, collation_id=collations[part.collation_id].order)
        for part in definition.parts
    )
    return definition if parts == definition.parts else replace(definition, parts=parts)


def _check_multikey_path(parts: tuple[PartDef, ...], number: int) -> None:
    """Check that the path of part `number`, counted from 1, has exactly one `[*]`, at the place where other parts have
    it.
    """
    steps = parts[number - 1].steps
    if ANY_INDEX not in steps:
        return
    root = _multikey_root(parts[number - 1])
    if any(_multikey_root(part) != root for part in parts[: number - 1] if ANY_INDEX in part.steps):
        raise client_error(ErrorCode.WRONG_INDEX_OPTIONS, number, "incompatable multikey index path")
    if steps.count(ANY_INDEX) > 1:
        text = "no more than one array index placeholder [*] is allowed in JSON path"
        raise client_error(ErrorCode.WRONG_INDEX_OPTIONS, number, text)


def _multikey_root(part: PartDef) -> tuple[int, Path]:
    """Return the field of a multikey part, and the path inside it to the indexed array."""
    return part.fieldno, part.steps[: part.steps.index(ANY_INDEX)]


def _check_function_parts(parts: tuple[PartDef, ...]) -> None:
    """Check parts that describe the result of a function."""
    if any(part.path for part in parts):
        raise unsupported("Functional index", "json paths")
    if not parts or any(part.fieldno != number for number, part in enumerate(parts)):
        text = "key part numbers must be sequential and first part number must be 1"
        raise client_error(ErrorCode.FUNC_INDEX_PARTS, text)


@lru_cache(128)
def _check(raw: bytes, space_name: str, rules: IndexRules | None) -> None:
    """Check a definition. Cached like `_decode`, by the tuple."""
    definition = _decode(raw, space_name)
    _check_definition(definition, space_name)
    if rules is not None:
        rules(definition, space_name)


@lru_cache(128)
def _decode(raw: bytes, space_name: str) -> IndexDef:
    """Decode a definition without checking it.

    Cached, because every start has the same system indexes; a definition never changes.
    """
    fields = Fields(raw)
    _check_record(fields)
    options = _decode_options(fields.map(_OPTS_FIELD))
    name = fields.string(2)
    check_index_name(name, space_name)
    parts = _decode_parts(fields.array(5))
    return IndexDef(
        space_id=fields.u32(0),
        iid=fields.u32(1),
        name=name,
        type=fields.string(3).upper(),
        unique=options.pop("unique", True),
        parts=parts,
        opts=options,
    )


def _check_record(fields: Fields) -> None:
    types = tuple(type_name_of(value) for value in fields.values)
    if types != _RECORD_TYPES:
        raise client_error(ErrorCode.WRONG_INDEX_RECORD, ", ".join(types), _RECORD)


def check_index_name(name: str, space_name: str) -> None:
    """Check an index name. The error of a name that is too long names the space as well."""
    try:
        check_name(name, ErrorCode.CREATE_SPACE, "index")
    except BoxError as error:
        if error.code != ErrorCode.CREATE_SPACE:
            raise
        shown = name.encode("utf-8", "surrogateescape")[:SHOWN_NAME_MAX].decode("utf-8", "surrogateescape")
        raise client_error(ErrorCode.MODIFY_INDEX, shown, space_name, "index name is too long") from None


def _decode_options(raw: dict[Any, Any]) -> dict[str, Any]:
    options = check_options(raw, _INDEX_OPTIONS, ErrorCode.WRONG_INDEX_OPTIONS, _OPTS_FIELD)

    def wrong(text: str) -> BoxError:
        return client_error(ErrorCode.WRONG_INDEX_OPTIONS, _OPTS_FIELD, text)

    if options.get("distance", "euclid").lower() not in ("euclid", "manhattan"):
        raise wrong("distance must be either 'euclid' or 'manhattan'")
    # Options of vinyl, which Tarantool checks for every engine, with its defaults in the place of absent ones.
    page_size, range_size = options.get("page_size", 8192), options.get("range_size", 0)
    if page_size <= 0 or 0 < range_size < page_size:
        raise wrong("page_size must be greater than 0 and less than or equal to range_size")
    if options.get("run_count_per_level", 2) <= 0:
        raise wrong("run_count_per_level must be greater than 0")
    if options.get("run_size_ratio", 3.5) <= 1:
        raise wrong("run_size_ratio must be greater than 1")
    if not 0 < options.get("bloom_fpr", 0.05) <= 1:
        raise wrong("bloom_fpr must be greater than 0 and less than or equal to 1")
    return options


def _decode_parts(items: list[Any]) -> tuple[PartDef, ...]:
    """Decode parts given as maps, or as the arrays {field number, type} of old versions, which are never nullable."""
    if items and isinstance(items[0], list):
        return tuple(map(_decode_old_part, items))
    return tuple(_decode_part(item, number) for number, item in enumerate(items, 1))


def _decode_old_part(item: Any) -> PartDef:
    def wrong(text: str) -> BoxError:
        return client_error(ErrorCode.WRONG_INDEX_PARTS, text)

    if not isinstance(item, list):
        raise wrong("expected an array")
    if not item:
        raise wrong("expected a non-empty array")
    if len(item) < 2:
        raise wrong("a field type is missing")
    fieldno, type_name = item[0], item[1]
    if type(fieldno) is not int or fieldno < 0:
        raise wrong("field id must be an integer")
    if not isinstance(type_name, str):
        raise wrong("field type must be a string")
    field_type = FieldType.by_name(type_name)
    if field_type is None:
        raise wrong("unknown field type")
    return PartDef(fieldno=fieldno & 0xFFFFFFFF, type=field_type)


def _decode_part(item: Any, number: int) -> PartDef:
    def wrong(text: str) -> BoxError:
        return client_error(ErrorCode.WRONG_INDEX_OPTIONS, number, text)

    if not isinstance(item, dict):
        raise wrong("index part is expected to be a map")
    options = check_options(item, _PART_OPTIONS, ErrorCode.WRONG_INDEX_OPTIONS, number)
    field_type = FieldType.by_name(options["type"]) if "type" in options else None
    if field_type is None:
        raise wrong("index part: unknown field type")
    collation = options.get("collation", 0)
    if collation and field_type not in (FieldType.STRING, FieldType.SCALAR):
        raise wrong("collation is reasonable only for string and scalar parts")
    is_nullable = options.get("is_nullable", False)
    action = options.get("nullable_action", "none" if is_nullable else "default")
    if is_nullable != (action == "none"):
        raise wrong("index part: conflicting nullability and nullable action properties")
    if options.get("sort_order", "asc") not in _SORT_ORDERS:
        raise wrong("index part: unknown sort order")
    path = options.get("path", "").partition("\0")[0] or None
    try:
        _steps(path)
    except PathError:
        raise wrong("invalid path") from None
    return PartDef(
        fieldno=options.get("field", 0) & 0xFFFFFFFF,  # Tarantool takes the lower half
        type=field_type,
        is_nullable=is_nullable,
        collation_id=collation or None,
        path=path,
        exclude_null=options.get("exclude_null", False),
    )


def _check_definition(definition: IndexDef, space_name: str) -> None:
    """Check the rules for every engine."""

    def wrong(text: str) -> BoxError:
        return client_error(ErrorCode.MODIFY_INDEX, definition.name, space_name, text)

    parts = definition.parts
    if definition.iid >= INDEX_MAX:
        raise wrong("index id too big")
    if definition.iid == 0 and not definition.unique:
        raise wrong("primary key must be unique")
    if not parts:
        raise wrong("part count must be positive")
    if len(parts) > INDEX_PART_MAX:
        raise wrong("too many key parts")
    if definition.iid == 0 and has_multikey(parts):
        raise wrong("primary key cannot be multikey")
    if definition.iid == 0 and definition.opts.get("func"):
        raise wrong("primary key can not use a function")
    for number, part in enumerate(parts):
        if part.fieldno > INDEX_FIELD_MAX:
            raise wrong("field no is too big")
        if any(part.fieldno == other.fieldno and _steps(part.path) == _steps(other.path) for other in parts[:number]):
            raise wrong("same key part is indexed twice")


def has_multikey(parts: tuple[PartDef, ...]) -> bool:
    return any(ANY_INDEX in _steps(part.path) for part in parts)


def _steps(path: str | None) -> Path:
    return parse_path(path) if path else ()
