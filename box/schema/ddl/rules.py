"""Constraints and foreign keys in formats: what they may refer to, and what may not be removed because of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from box.data.format import TupleFormat
from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.schema.access import Credentials
from box.schema.constraints import ConstraintDef, ReferenceDef
from box.schema.ddl.alter import has_tuples
from box.schema.ddl.dictionary_change import DdlStatement
from box.schema.function import Function
from box.schema.rule_checks import find_present
from box.schema.schema import Schema
from box.schema.space import Space, SpaceDef

REFERENCED = "space is referenced by foreign key"


def is_own_change(schema: Schema, stmt: DdlStatement) -> bool:
    """Return True if a user makes a change here: it is neither loaded nor of the log or another instance."""
    return not schema.is_loading and (stmt.row is None or not stmt.row.lsn)


def check_rules(schema: Schema, credentials: Credentials, definition: SpaceDef) -> None:
    """Check the constraints and foreign keys that a user defines.

    Raises:
        ClientError: CREATE_CONSTRAINT or CREATE_FOREIGN_KEY.
        AccessDeniedError: the user may not execute the function.
        UnsupportedError: the function is in C.
    """
    for number, rule in definition.rules.all():
        if isinstance(rule, ReferenceDef):
            _check_reference(schema, definition, rule)
        else:
            _check_constraint(schema, credentials, definition, rule, number)


def _check_constraint(
    schema: Schema, credentials: Credentials, definition: SpaceDef, rule: ConstraintDef, number: int | None
) -> None:
    def wrong(text: str) -> BoxError:
        return client_error(ErrorCode.CREATE_CONSTRAINT, rule.name, definition.name, text)

    function = schema.functions.get(rule.function_id)
    if function is None:
        raise wrong(f"constraint function '{rule.function_id}' was not found by ID")
    function.check_access(credentials)
    found = function.definition
    if found.language == "LUA" and not found.body:
        raise wrong(f"constraint lua function '{found.name}' must have persistent body")
    if found.language == "SQL_EXPR" and number is not None and len(schema.sql.arguments_of(found.body)) > 1:
        raise wrong("Number of arguments in a SQL field constraint function is greater than one")
    if not found.is_deterministic:
        raise wrong(f"constraint function '{found.name}' must be deterministic")
    if found.language not in ("LUA", "SQL_EXPR"):
        raise unsupported("Lunabox", f"constraints by functions in {found.language}")


def _check_reference(schema: Schema, definition: SpaceDef, key: ReferenceDef) -> None:
    def wrong(text: str) -> BoxError:
        return client_error(ErrorCode.CREATE_FOREIGN_KEY, key.name, definition.name, text)

    if key.space_id in (0, definition.id):
        return
    space = schema.spaces.get(key.space_id)
    if space is None:
        raise wrong(f"foreign space '{key.space_id}' was not found by id")
    if space.is_temporary and not definition.opts.temporary:
        raise wrong("foreign key from non-temporary space can't refer to temporary space")
    if space.is_local and definition.opts.group_id != space.definition.opts.group_id:
        raise wrong("foreign key from non-local space can't refer to local space")


def rule_check(schema: Schema, definition: SpaceDef, new_format: TupleFormat) -> Callable[[bytes], object]:
    """Return a function that checks a stored tuple by the format and the rules of a definition."""
    return partial(schema.rule_checks.validate, definition, new_format, find=find_present)


def check_not_referenced(space: Space) -> None:
    """Check that no other space has a foreign key to this one. Raises ALTER_SPACE."""
    if any(referrer.space is not space for referrer in space.referrers):
        raise client_error(ErrorCode.ALTER_SPACE, space.name, REFERENCED)


def check_may_be_emptied(space: Space) -> None:
    """Check that no other space has a foreign key to this one and tuples. Raises ALTER_SPACE."""
    for referrer in space.referrers:
        if referrer.space is not space and has_tuples(referrer.space):
            raise client_error(ErrorCode.ALTER_SPACE, space.name, REFERENCED)


def check_may_be_temporary(space: Space) -> None:
    """Check that no other space that is not temporary has a foreign key to this one. Raises ALTER_SPACE."""
    for referrer in space.referrers:
        other = referrer.space
        if other is not space and not other.is_temporary:
            text = f"foreign key '{referrer.key.name}' from non-temporary space '{other.name}'"
            raise client_error(ErrorCode.ALTER_SPACE, space.name, f"{text} can't refer to temporary space")


def check_not_used(schema: Schema, function: Function) -> None:
    """Check that no constraint uses a function. Raises DROP_FUNCTION."""
    if any(function.id in space.rules.functions() for space in schema.spaces.values() if space.rules):
        # As in the other errors of this kind, Tarantool shows the owner's id.
        raise client_error(ErrorCode.DROP_FUNCTION, function.owner, "function is referenced by constraint")
