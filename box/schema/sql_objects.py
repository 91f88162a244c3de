"""Check constraints, foreign keys and triggers of SQL, decoded from their system spaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from box.errors import BoxError, ErrorCode, client_error
from box.schema.fields import Fields
from box.schema.identifier import check_identifier
from box.schema.ids import NAME_MAX, SHOWN_NAME_MAX

_MATCHES: Final = frozenset(("simple", "partial", "full"))
_ACTIONS: Final = frozenset(("no_action", "restrict", "set_null", "set_default", "cascade"))

RowCheck = Callable[[list[Any]], bool]
"""Returns whether the fields of a tuple satisfy a constraint; a result of nil counts as true."""


@dataclass(frozen=True, slots=True)
class CheckDef:
    """A decoded `_ck_constraint` tuple."""

    space_id: int
    name: str
    code: str
    is_enabled: bool


@dataclass(slots=True)
class CheckConstraint:
    """A check constraint of a space."""

    definition: CheckDef
    test: RowCheck

    def check(self, fields: list[Any]) -> None:
        """Raise CK_CONSTRAINT_FAILED if the fields violate the constraint."""
        definition = self.definition
        if definition.is_enabled and not self.test(fields):
            raise client_error(ErrorCode.CK_CONSTRAINT_FAILED, definition.name, definition.code)


@dataclass(frozen=True, slots=True)
class ForeignKeyDef:
    """A decoded `_fk_constraint` tuple; `links` are (field of the child, field of the parent)."""

    name: str
    child_id: int
    parent_id: int
    is_deferred: bool
    match: str
    on_delete: str
    on_update: str
    links: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class TriggerDef:
    """A decoded `_trigger` tuple."""

    name: str
    space_id: int
    sql: str


def decode_check(raw: bytes) -> CheckDef:
    """Decode and check a `_ck_constraint` tuple.

    Raises:
        ClientError: CREATE_CK_CONSTRAINT, FUNCTION_LANGUAGE, IDENTIFIER or UNSUPPORTED.
    """
    fields = Fields(raw)
    if fields.boolean(2):
        raise client_error(ErrorCode.UNSUPPORTED, "Tarantool", "deferred ck constraints")
    name = fields.string(1)
    _check_length(name, ErrorCode.CREATE_CK_CONSTRAINT, "check constraint name is too long")
    language = fields.string(3)
    if language.upper() != "SQL":
        raise client_error(ErrorCode.FUNCTION_LANGUAGE, language, name)
    is_enabled = fields.boolean(5) if len(fields) > 5 else True
    return CheckDef(fields.u32(0), name, fields.string(4), is_enabled)


def decode_foreign_key(raw: bytes, error_code: int) -> ForeignKeyDef:
    """Decode and check a `_fk_constraint` tuple; `error_code` is CREATE_FK_CONSTRAINT or DROP_FK_CONSTRAINT.

    Raises:
        ClientError: `error_code`, or IDENTIFIER.
    """
    fields = Fields(raw)
    name = fields.string(0)
    _check_length(name, error_code, "constraint name is too long")
    children, parents = fields.array(7), fields.array(8)

    def wrong(text: str) -> BoxError:
        return client_error(error_code, name, text)

    if not children:
        raise wrong("at least one link must be specified")
    if len(children) != len(parents):
        raise wrong("number of referenced and referencing fields must be the same")
    if any(type(number) is not int or number < 0 for number in (*children, *parents)):
        raise wrong("value of 0 link is not unsigned")
    match, on_delete, on_update = fields.string(4), fields.string(5), fields.string(6)
    if match not in _MATCHES:
        raise wrong("unknown MATCH clause")
    if on_delete not in _ACTIONS:
        raise wrong("unknown ON DELETE action")
    if on_update not in _ACTIONS:
        raise wrong("unknown ON UPDATE action")
    links = tuple(zip(children, parents, strict=True))
    return ForeignKeyDef(name, fields.u32(1), fields.u32(2), fields.boolean(3), match, on_delete, on_update, links)


def decode_trigger(raw: bytes) -> TriggerDef:
    """Decode and check a `_trigger` tuple.

    Raises:
        ClientError: SQL_EXECUTE or IDENTIFIER.
    """
    fields = Fields(raw)
    name = fields.string(0)
    check_identifier(name)
    options = fields.map(2)
    sql = options.get("sql")
    if not isinstance(sql, str):
        raise client_error(ErrorCode.SQL_EXECUTE, "")
    return TriggerDef(name, fields.u32(1), sql)


def _check_length(name: str, error_code: int, text: str) -> None:
    raw = name.encode("utf-8", "surrogateescape")
    if len(raw) > NAME_MAX:
        raise client_error(error_code, raw[:SHOWN_NAME_MAX].decode("utf-8", "surrogateescape"), text)
    check_identifier(name)
