"""`_collation`: definitions of string orders."""

from __future__ import annotations

from functools import lru_cache

from box.data.collation import id_of
from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.schema.access import Credentials, Privilege, check_ddl
from box.schema.collation_def import CollationDef
from box.schema.ddl.dictionary_change import DdlStatement, DdlTransaction
from box.schema.fields import Fields
from box.schema.identifier import check_identifier
from box.schema.ids import NAME_MAX
from box.schema.options import ENUM, check_options
from box.schema.schema import Schema

_OPTS_FIELD = 5
_LOCALE_MAX = 30
"""Tarantool's limit of the name of a locale, in bytes."""
_ON_OFF = ("ON", "OFF")
_OPTIONS = {
    "french_collation": _ON_OFF,
    "alternate_handling": ("NON_IGNORABLE", "SHIFTED"),
    "case_first": ("OFF", "UPPER_FIRST", "LOWER_FIRST"),
    "case_level": _ON_OFF,
    "normalization_mode": _ON_OFF,
    "strength": ("PRIMARY", "SECONDARY", "TERTIARY", "QUATERNARY", "IDENTICAL"),
    "numeric_collation": _ON_OFF,
}
"""The names and values of ICU's attributes, in the order in which they are checked."""


def on_replace_collation(schema: Schema, credentials: Credentials, txn: DdlTransaction, stmt: DdlStatement) -> None:
    """Create or drop a collation."""
    if stmt.new is not None and stmt.old is not None:
        raise unsupported("collation", "alter")
    if stmt.new is not None:
        collation = decode_collation(stmt.new)
        _check_ddl(credentials, Privilege.C, collation)
        schema.add_collation(collation)
        stmt.on_rollback.append(lambda: schema.remove_collation(collation))
        return
    collation_id = Fields(stmt.first).u32(0)
    if collation_id == 0:
        raise client_error(ErrorCode.DROP_COLLATION, "none", "system collation")
    collation = schema.collations[collation_id]
    _check_ddl(credentials, Privilege.D, collation)
    _check_unused(schema, collation)
    schema.remove_collation(collation)
    stmt.on_rollback.append(lambda: schema.add_collation(collation))


def _check_unused(schema: Schema, collation: CollationDef) -> None:
    for space in schema.spaces.values():
        for what, used in (
            ("space format", space.definition.fields),
            ("index", [part for index in space.indexes.values() for part in index.definition.parts]),
        ):
            if any(item.collation_id is not None and id_of(item.collation_id) == collation.id for item in used):
                raise client_error(ErrorCode.DROP_COLLATION, collation.name, f"collation is referenced by {what}")


def _check_ddl(credentials: Credentials, privilege: Privilege, collation: CollationDef) -> None:
    check_ddl(credentials, privilege, ("collation", collation.id), collation.name, collation.owner)


@lru_cache(512)
def decode_collation(raw: bytes) -> CollationDef:
    """Decode and check a `_collation` tuple. Cached, because each bootstrap and each snapshot has the same 277 rows."""

    def wrong(text: str) -> BoxError:
        return client_error(ErrorCode.CANT_CREATE_COLLATION, text)

    fields = Fields(raw)
    collation_id, name = fields.u32(0), fields.string(1)
    if len(name.encode("utf-8", "surrogateescape")) > NAME_MAX:
        raise wrong("collation name is too long")
    check_identifier(name)
    owner, kind, locale = fields.u32(2), fields.string(3).upper(), fields.string(4)
    if kind not in ("ICU", "BINARY"):
        raise wrong("unknown collation type")
    if len(locale) > _LOCALE_MAX:
        raise wrong("collation locale is too long")
    if locale:
        check_identifier(locale)
    names = dict.fromkeys(_OPTIONS, ENUM)
    options = check_options(fields.map(_OPTS_FIELD), names, ErrorCode.WRONG_COLLATION_OPTIONS, _OPTS_FIELD)
    for option, values in _OPTIONS.items():
        if option in options and options[option].upper() not in values:
            raise wrong(f"ICU wrong {option} option setting, expected {' | '.join(values)}")
    return CollationDef(collation_id, name, owner, kind, locale, options)
