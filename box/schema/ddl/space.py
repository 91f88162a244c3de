"""`_space` and `_truncate`: creating, altering, dropping and emptying spaces."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

from box.data.format import TupleFormat
from box.errors import BoxError, ErrorCode, client_error
from box.schema.access import Credentials, Privilege, check_ddl
from box.schema.ddl.alter import exchange, has_tuples, make_again, make_format, make_space, needs_check
from box.schema.ddl.build import Deferred, FormatCheck, check_not_altered, deferred
from box.schema.ddl.dictionary_change import DdlStatement, DdlTransaction
from box.schema.ddl.rules import (
    check_may_be_emptied,
    check_may_be_temporary,
    check_not_referenced,
    check_rules,
    is_own_change,
    rule_check,
)
from box.schema.ddl.sql import install_checks
from box.schema.fields import Fields
from box.schema.newer import decode_space_of
from box.schema.schema import Schema
from box.schema.space import Layout, Space, SpaceDef
from box.schema.sql_objects import CheckConstraint
from box.wire.constants import GROUP_LOCAL, RequestType


def on_replace_space(
    schema: Schema, credentials: Credentials, txn: DdlTransaction, stmt: DdlStatement
) -> Deferred | None:
    """Create, alter or drop a space.

    Whether it exists is decided by the dictionary, not by the old tuple: the first system spaces exist before their
    rows are read.
    """
    space_id = Fields(stmt.first).u32(0)
    space = schema.spaces.get(space_id)
    if stmt.new is None:
        _drop_space(schema, credentials, stmt, schema.space(space_id))
    elif space is None:
        _create_space(schema, credentials, stmt)
    else:
        return _alter_space(schema, credentials, txn, stmt, space)
    return None


def _create_space(schema: Schema, credentials: Credentials, stmt: DdlStatement) -> None:
    is_own = is_own_change(schema, stmt)
    definition = decode_space_of(schema, stmt.last, ErrorCode.CREATE_SPACE, is_own=is_own)
    check_ddl(credentials, Privilege.C, ("space", definition.id), definition.name, definition.owner)
    if is_own:
        check_rules(schema, credentials, definition)
    space = make_space(schema, definition)
    if definition.opts.view:
        schema.views[space.id] = _tables_of_view(schema, definition)
    schema.add_space(space)
    _changed(schema, space)

    def undo() -> None:
        schema.views.pop(space.id, None)
        schema.remove_space(space)
        _changed(schema, space)

    stmt.on_rollback.append(undo)


def _tables_of_view(schema: Schema, definition: SpaceDef) -> list[int]:
    """Return the ids of the spaces that a view reads.

    Raises:
        NoSuchSpaceError: one does not exist.
        ClientError: SQL_EXECUTE.
    """
    names = schema.sql.tables_of_view(definition.opts.sql or "")
    return [schema.space_by_name(name).id for name in names]


def _changed(schema: Schema, space: Space) -> None:
    schema.new_version()
    schema.space_changed(space)


def _drop_space(schema: Schema, credentials: Credentials, stmt: DdlStatement, space: Space) -> None:
    check_ddl(credentials, Privilege.D, ("space", space.id), space.name, space.owner)

    def wrong(text: str) -> BoxError:
        return client_error(ErrorCode.DROP_SPACE, space.name, text)

    if space.indexes:
        raise wrong("the space has indexes")
    if schema.has_grants("space", space.id):
        raise wrong("the space has grants")
    if space.id in schema.truncated:
        raise wrong("the space has truncate record")
    if any(space.id in tables for tables in schema.views.values()):
        raise wrong("other views depend on this space")
    if any(space.id in (key.child_id, key.parent_id) for key in schema.foreign_keys.values()):
        raise wrong("the space has foreign key constraints")
    if space.checks:
        raise wrong("the space has check constraints")
    check_not_referenced(space)
    tables = schema.views.pop(space.id, None)
    schema.remove_space(space)
    _changed(schema, space)

    def undo() -> None:
        if tables is not None:
            schema.views[space.id] = tables
        schema.add_space(space)
        _changed(schema, space)

    stmt.on_rollback.append(undo)


def _make_new_format(schema: Schema, definition: SpaceDef, space: Space) -> TupleFormat:
    """Make the format of a space with its indexes after a change of its definition. Raises their mismatch."""
    indexes = [index.definition for index in space.indexes.values()]
    try:
        return make_format(schema, definition, indexes)
    except BoxError:
        # Tarantool names the fields as they are called before the change.
        names = [field.name for field in space.definition.fields]
        renamed = [replace(new, name=name) for new, name in zip_longest(definition.fields, names) if new is not None]
        make_format(schema, replace(definition, fields=tuple(renamed)), indexes)
        raise


def _alter_space(
    schema: Schema, credentials: Credentials, txn: DdlTransaction, stmt: DdlStatement, space: Space
) -> Deferred | None:
    if space.definition.opts.view:
        raise client_error(ErrorCode.ALTER_SPACE, space.name, "view can not be altered")
    is_own = is_own_change(schema, stmt)
    definition = decode_space_of(schema, stmt.last, ErrorCode.ALTER_SPACE, is_own=is_own)
    check_ddl(credentials, Privilege.A, ("space", definition.id), definition.name, definition.owner)

    def wrong(text: str) -> BoxError:
        return client_error(ErrorCode.ALTER_SPACE, space.name, text)

    if definition.id != space.id:
        raise wrong("space id is immutable")
    if definition.engine != space.engine.name:
        raise wrong("can not change space engine")
    if definition.opts.group_id != space.definition.opts.group_id:
        raise wrong("replication group is immutable")
    new_format = _make_new_format(schema, definition, space)
    if definition.opts.temporary != space.is_temporary and has_tuples(space):
        raise wrong("can not switch temporary flag on a non-empty space")
    if definition.opts.view != space.definition.opts.view:
        raise wrong("can not convert a space to a view and vice versa")
    if definition.name != space.name and any(space.id in tables for tables in schema.views.values()):
        raise wrong("can not rename space which is referenced by view")
    check_not_altered(schema, space)
    if is_own:
        if definition.opts.temporary and not space.is_temporary:
            check_may_be_temporary(space)
        check_rules(schema, credentials, definition)
    checks = {
        name: CheckConstraint(check.definition, schema.sql.compile_check(definition, name, check.definition.code))
        # Tarantool makes the constraints anew from the first to the last.
        for name, check in reversed(space.checks.items())
    }

    def finish() -> None:
        exchange(schema, stmt, space, Layout(definition, new_format, space.indexes))
        if checks:
            install_checks(schema, stmt, space, checks)

    adds_rules = is_own and definition.rules.adds_to(space.rules)
    if needs_check(txn, space, new_format, adds_rules=adds_rules):
        # Tarantool's fields get their new names after the check.
        test = rule_check(schema, definition, new_format) if adds_rules else new_format.validate_naming(space.format)
        return deferred(schema, space, FormatCheck(test), "ERRINJ_CHECK_FORMAT_DELAY", finish)
    finish()
    return None


def on_replace_truncate(schema: Schema, credentials: Credentials, txn: DdlTransaction, stmt: DdlStatement) -> None:
    """Truncate a space. The first INSERT comes from a snapshot and only records the count; a DELETE accompanies a
    drop.
    """
    space_id = Fields(stmt.last).u32(0)
    if stmt.new is None:
        schema.truncated.discard(space_id)
        stmt.on_rollback.append(lambda: schema.truncated.add(space_id))
        return
    space = schema.space(space_id)
    if stmt.type != RequestType.INSERT:
        _truncate(schema, credentials, stmt, space)
    if space_id not in schema.truncated:
        schema.truncated.add(space_id)
        stmt.on_rollback.append(lambda: schema.truncated.discard(space_id))


def _truncate(schema: Schema, credentials: Credentials, stmt: DdlStatement, space: Space) -> None:
    if space.is_system:
        raise client_error(ErrorCode.TRUNCATE_SYSTEM_SPACE, space.name)
    space.check_access(credentials, Privilege.W)
    if is_own_change(schema, stmt):
        check_may_be_emptied(space)
    check_not_altered(schema, space)
    if stmt.row is not None and (space.is_temporary or space.is_local):
        stmt.row.group_id = GROUP_LOCAL  # other instances do not have the tuples of this space
    indexes = {iid: make_again(schema, space, index, index.primary) for iid, index in space.indexes.items()}
    exchange(schema, stmt, space, Layout(space.definition, space.format, indexes), is_visible=False)
