"""Decodes a `_space` tuple to a `SpaceDef`, with every check that needs no other space."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from box.data.format import FieldDef
from box.data.types import FieldType
from box.errors import BoxError, ErrorCode, client_error
from box.schema.constraints import CONSTRAINT, FOREIGN_KEY, NO_RULES, FormatRules, MisfitError, Rule, decode_rules
from box.schema.fields import Fields
from box.schema.identifier import check_identifier, check_name
from box.schema.ids import ENGINE_NAME_MAX, GROUP_DEFAULT, GROUP_LOCAL, NAME_MAX, SPACE_ID_MAX
from box.schema.options import BOOLEAN, ENUM, LEGACY, STRING, UNSIGNED, check_options
from box.schema.space import SpaceDef, SpaceOpts

_OPTS_FIELD = 5
_SPACE_OPTIONS = {
    "group_id": UNSIGNED,
    "temporary": BOOLEAN,
    "view": BOOLEAN,
    "is_sync": BOOLEAN,
    "sql": STRING,
    "checks": LEGACY,
    CONSTRAINT: LEGACY,
    FOREIGN_KEY: LEGACY,
}
_FIELD_OPTIONS = {
    "name": STRING,
    "type": ENUM,
    "is_nullable": BOOLEAN,
    "nullable_action": ENUM,
    "collation": UNSIGNED,
    "default": STRING,
}
NULLABLE_ACTIONS = frozenset(("none", "rollback", "abort", "fail", "ignore", "replace", "default"))
_COLLATED_TYPES = frozenset(("string", "scalar", "any"))


@lru_cache(128)
def decode_space(
    raw: bytes,
    error_code: int,
    *,
    skip_unknown: bool = False,
    skip_defaults: bool = False,
    skip_misfits: bool = False,
) -> SpaceDef:
    """Decode and check a `_space` tuple; `error_code` is CREATE_SPACE or ALTER_SPACE.

    `skip_unknown`: options of the space that are unknown are no error. `skip_defaults`: fields have no defaults,
    whatever the format says. `skip_misfits`: constraints and foreign keys of the wrong form have no effect, as in
    Tarantool 2.8.1, which knows neither.

    Cached, because every start has the same system spaces; a definition never changes.
    """
    fields = Fields(raw)
    name = fields.string(2)
    check_name(name, error_code, "space")
    space_id = fields.u32(0)
    if space_id > SPACE_ID_MAX:
        raise client_error(error_code, name, "space id is too big")
    if space_id == 0:
        raise client_error(error_code, name, "space id 0 is reserved")
    owner, field_count = fields.u32(1), fields.u32(4)
    engine = fields.string(3)
    if len(engine.encode("utf-8", "surrogateescape")) > ENGINE_NAME_MAX:
        raise client_error(error_code, name, "space engine name is too long")
    check_identifier(engine)
    options, space_format = fields.map(_OPTS_FIELD), fields.array(6)
    items = [_without_default(item) for item in space_format] if skip_defaults else space_format
    field_defs = decode_format(items, name, error_code)
    if 0 < field_count < len(field_defs):
        raise client_error(error_code, name, "exact_field_count must be either 0 or >= formatted field count")
    opts = _decode_opts(options, name, error_code, skip_unknown=skip_unknown)
    _check_duplicates(field_defs)
    rules = _decode_rules(options, space_format, skip_misfits)
    return SpaceDef(space_id, owner, name, engine, field_count, opts, space_format, field_defs, rules)


def _decode_rules(options: dict[Any, Any], space_format: list[dict[Any, Any]], skip_misfits: bool) -> FormatRules:
    """Decode the constraints and foreign keys of a space.

    Raises:
        ClientError: WRONG_SPACE_OPTIONS or WRONG_SPACE_FORMAT.
    """

    def decoded(found: dict[Any, Any], number: int | None) -> tuple[Rule, ...]:
        try:
            return decode_rules(found, is_field=number is not None)
        except MisfitError as misfit:
            if skip_misfits:
                return ()
            if number is None:
                # Tarantool's own text: unlike for other options, it does not name the field of `_space`.
                raise BoxError(ErrorCode.WRONG_SPACE_OPTIONS, f"Wrong space options: {misfit}") from None
            raise BoxError(ErrorCode.WRONG_SPACE_FORMAT, f"Wrong space format field {number + 1}: {misfit}") from None

    of_tuple = decoded(options, None)
    of_fields = [(number, decoded(item, number)) for number, item in enumerate(space_format)]
    used = tuple((number, rules) for number, rules in of_fields if rules)
    return FormatRules(of_tuple, used) if of_tuple or used else NO_RULES


def _without_default(item: Any) -> Any:
    return {key: value for key, value in item.items() if key != "default"} if isinstance(item, dict) else item


def _decode_opts(options: dict[Any, Any], name: str, error_code: int, *, skip_unknown: bool) -> SpaceOpts:
    known = check_options(
        options, _SPACE_OPTIONS, ErrorCode.WRONG_SPACE_OPTIONS, _OPTS_FIELD, skip_unknown=skip_unknown
    )
    opts = SpaceOpts(**known)
    if opts.group_id not in (GROUP_DEFAULT, GROUP_LOCAL):
        raise client_error(ErrorCode.NO_SUCH_GROUP, str(opts.group_id))
    if opts.view and not opts.sql:
        raise client_error(ErrorCode.VIEW_MISSING_SQL)
    if opts.is_sync and opts.group_id == GROUP_LOCAL:
        raise client_error(error_code, name, "local space can't be synchronous")
    return opts


def decode_format(items: list[Any], space_name: str, error_code: int) -> tuple[FieldDef, ...]:
    """Decode a format, a list of maps with `name`, `type`, `is_nullable` and `collation`."""
    return tuple(_decode_field(item, number, space_name, error_code) for number, item in enumerate(items, 1))


def _check_duplicates(field_defs: tuple[FieldDef, ...]) -> None:
    names: set[str | None] = set()
    for field_def in field_defs:
        if field_def.name in names:
            raise client_error(ErrorCode.SPACE_FIELD_IS_DUPLICATE, field_def.name)
        names.add(field_def.name)


def _decode_field(item: Any, number: int, space_name: str, error_code: int) -> FieldDef:
    def wrong(text: str) -> BoxError:
        return client_error(error_code, space_name, text)

    if not isinstance(item, dict):
        raise wrong(f"field {number} is not map")
    options = check_options(
        item,
        _FIELD_OPTIONS,
        ErrorCode.WRONG_SPACE_FORMAT,
        number,
        skip_unknown=True,
        key_error=lambda: wrong(f"field {number} format is not map with string keys"),
    )
    name = options.get("name")
    if not name:
        raise wrong(f"field {number} name is not specified")
    if len(name.encode("utf-8", "surrogateescape")) > NAME_MAX:
        raise wrong(f"field {number} name is too long")
    check_identifier(name.partition("\0")[0])  # as in Tarantool, the rest of the name is not looked at
    type_name = options.get("type", "any")
    field_type = FieldType.by_name(type_name)
    if field_type is None:
        raise wrong(f"field {number} has unknown field type")
    is_nullable = options.get("is_nullable", False)
    action = options.get("nullable_action", "none" if is_nullable else "default")
    if action not in NULLABLE_ACTIONS:
        raise wrong(f"field {number} has unknown field on conflict nullable action")
    if is_nullable != (action == "none"):
        raise wrong(f"field {number} has conflicting nullability and nullable action properties")
    collation = options.get("collation", 0)
    if collation and field_type.value not in _COLLATED_TYPES:
        raise wrong("collation is reasonable only for string, scalar and any fields")
    return FieldDef(
        name=name,
        type=field_type,
        is_nullable=is_nullable,
        collation_id=collation or None,
        nullable_action=action,
        default=options.get("default"),
    )
