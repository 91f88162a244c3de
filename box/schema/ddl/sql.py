"""`_trigger`, `_fk_constraint` and `_ck_constraint`: SQL's additions to spaces."""

from __future__ import annotations

from box.data.types import FieldType
from box.errors import BoxError, ErrorCode, client_error
from box.schema.access import Credentials, Privilege, check_ddl
from box.schema.ddl.alter import has_tuples
from box.schema.ddl.dictionary_change import DdlStatement, DdlTransaction
from box.schema.fields import Fields
from box.schema.schema import Schema
from box.schema.space import Space
from box.schema.sql_objects import (
    CheckConstraint,
    ForeignKeyDef,
    TriggerDef,
    decode_check,
    decode_foreign_key,
    decode_trigger,
)


def on_replace_trigger(schema: Schema, credentials: Credentials, txn: DdlTransaction, stmt: DdlStatement) -> None:
    """Create or drop an SQL trigger."""
    old = None if stmt.old is None else decode_trigger(stmt.old)
    new = None if stmt.new is None else decode_trigger(stmt.new)
    for definition in (old, new):
        if definition is not None:
            space = schema.space(definition.space_id)
            check_ddl(credentials, Privilege.A, ("space", space.id), space.name, space.owner)
    if new is not None:
        schema.sql.check_trigger(new.sql, new.name, schema.space(new.space_id).definition)
    before = dict(schema.sql_triggers)
    if old is not None:
        schema.sql_triggers.pop(old.name, None)
    if new is not None:
        # Triggers fire from the newest to the oldest, so that a new one goes to the front.
        rest = dict(schema.sql_triggers)
        schema.sql_triggers.clear()
        schema.sql_triggers[new.name] = new
        schema.sql_triggers.update(rest)
    _changed(schema, stmt, lambda: _restore(schema.sql_triggers, before))


def _restore(target: dict[str, TriggerDef], before: dict[str, TriggerDef]) -> None:
    target.clear()
    target.update(before)


def _changed(schema: Schema, stmt: DdlStatement, undo: object) -> None:
    schema.new_version()

    def take_back() -> None:
        schema.new_version()
        assert callable(undo)
        undo()

    stmt.on_rollback.append(take_back)


# --- foreign keys ---


def on_replace_fk_constraint(schema: Schema, credentials: Credentials, txn: DdlTransaction, stmt: DdlStatement) -> None:
    """Create, replace or drop a foreign key.

    Errors: CREATE_FK_CONSTRAINT, DROP_FK_CONSTRAINT, CONSTRAINT_EXISTS.
    """
    keys = schema.foreign_keys
    before = dict(keys)
    if stmt.new is not None:
        definition = decode_foreign_key(stmt.new, ErrorCode.CREATE_FK_CONSTRAINT)
        _check_foreign_key(schema, definition)
        if stmt.old is None:
            check_constraint_name(schema, schema.space(definition.child_id), definition.name)
        keys[definition.name, definition.child_id] = definition
    else:
        definition = decode_foreign_key(stmt.last, ErrorCode.DROP_FK_CONSTRAINT)
        schema.space(definition.child_id)
        keys.pop((definition.name, definition.child_id), None)

    def undo() -> None:
        keys.clear()
        keys.update(before)

    _changed(schema, stmt, undo)


def _check_foreign_key(schema: Schema, definition: ForeignKeyDef) -> None:
    def wrong(text: str) -> BoxError:
        return client_error(ErrorCode.CREATE_FK_CONSTRAINT, definition.name, text)

    child = schema.space(definition.child_id)
    if child.definition.opts.view:
        raise wrong("referencing space can't be VIEW")
    parent = schema.space(definition.parent_id)
    if parent.definition.opts.view:
        raise wrong("referenced space can't be VIEW")
    if has_tuples(child) and not schema.is_loading:
        raise wrong("referencing space must be empty")
    for child_place, parent_place in definition.links:
        if child_place >= len(child.definition.fields) or parent_place >= len(parent.definition.fields):
            raise wrong("foreign key refers to nonexistent field")
        own, other = child.definition.fields[child_place], parent.definition.fields[parent_place]
        if not FieldType(other.type).contains(own.type):
            raise wrong("field type mismatch")
        if own.collation_id != other.collation_id:
            raise wrong("field collation mismatch")
    if len({place for _, place in definition.links}) < len(definition.links):
        raise wrong("referenced fields can not contain duplicates")
    wanted = sorted(place for _, place in definition.links)
    for index in parent.indexes.values():
        if index.is_unique and sorted(part.fieldno for part in index.definition.parts) == wanted:
            return
    raise wrong("referenced fields don't compose unique index")


# --- check constraints ---


def on_replace_ck_constraint(schema: Schema, credentials: Credentials, txn: DdlTransaction, stmt: DdlStatement) -> None:
    """Create, enable, disable or drop a check constraint. Errors: CREATE_CK_CONSTRAINT, CONSTRAINT_EXISTS."""
    space = schema.space(Fields(stmt.first).u32(0))
    before = space.checks
    if stmt.new is None:
        name = Fields(stmt.last).string(1)
        install_checks(schema, stmt, space, {key: check for key, check in before.items() if key != name})
        return
    definition = decode_check(stmt.new)
    known = before.get(definition.name)
    if known is not None and known.definition.code == definition.code:
        check = CheckConstraint(definition, known.test)
    else:
        if has_tuples(space) and not schema.is_loading:
            raise client_error(ErrorCode.CREATE_CK_CONSTRAINT, definition.name, "referencing space must be empty")
        if known is None:
            check_constraint_name(schema, space, definition.name)
        test = schema.sql.compile_check(space.definition, definition.name, definition.code)
        check = CheckConstraint(definition, test)
    rest = {key: other for key, other in before.items() if key != definition.name}
    is_kept = known is not None and check.test is known.test
    # The newest is tested first.
    install_checks(
        schema, stmt, space, {**before, definition.name: check} if is_kept else {definition.name: check, **rest}
    )


def install_checks(schema: Schema, stmt: DdlStatement, space: Space, checks: dict[str, CheckConstraint]) -> None:
    """Set the check constraints of a space; a rollback restores the former ones."""
    before = space.checks

    def set_checks(target: dict[str, CheckConstraint]) -> None:
        space.checks = target
        space.write_plan = None
        schema.new_version()
        schema.space_changed(space)

    set_checks(checks)
    stmt.on_rollback.append(lambda: set_checks(before))


def check_constraint_name(schema: Schema, space: Space, name: str) -> None:
    """Check that no other constraint of the space has this name. Raises CONSTRAINT_EXISTS with the other's kind."""
    kind = None
    if name in space.checks:
        kind = "CHECK"
    elif (name, space.id) in schema.foreign_keys:
        kind = "FOREIGN KEY"
    else:
        for index in space.indexes.values():
            if index.is_unique and index.name == name:
                kind = "PRIMARY KEY" if index.iid == 0 else "UNIQUE"
    if kind is not None:
        raise client_error(ErrorCode.CONSTRAINT_EXISTS, kind, name, space.name)
