"""`_sequence`, `_sequence_data` and `_space_sequence`: sequences, their values and their fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.schema.access import Credentials, Privilege, check_ddl
from box.schema.ddl.dictionary_change import DdlStatement, DdlTransaction
from box.schema.fields import Fields
from box.schema.schema import Schema
from box.schema.sequence import Sequence, check_sequence_part, decode_sequence
from box.schema.space import Space


def on_replace_sequence(schema: Schema, credentials: Credentials, txn: DdlTransaction, stmt: DdlStatement) -> None:
    """Create, alter or drop a sequence."""
    if stmt.new is None:
        _drop_sequence(schema, credentials, stmt)
    elif stmt.old is None:
        _create_sequence(schema, credentials, stmt)
    else:
        _alter_sequence(schema, credentials, stmt)


def _changed(schema: Schema, stmt: DdlStatement, sequence: Sequence, undo: Callable[[], Any]) -> None:
    """Call the listeners now, and again if the change is rolled back."""

    def take_back() -> None:
        undo()
        schema.sequence_changed(sequence)

    schema.sequence_changed(sequence)
    stmt.on_rollback.append(take_back)


def _create_sequence(schema: Schema, credentials: Credentials, stmt: DdlStatement) -> None:
    definition = decode_sequence(stmt.last, ErrorCode.CREATE_SEQUENCE)
    check_ddl(credentials, Privilege.C, ("sequence", definition.id), definition.name, definition.owner)
    sequence = schema.sequences[definition.id] = Sequence(definition)
    _changed(schema, stmt, sequence, lambda: schema.sequences.pop(definition.id))


def _drop_sequence(schema: Schema, credentials: Credentials, stmt: DdlStatement) -> None:
    sequence = schema.sequence(Fields(stmt.first).u32(0))
    _check_ddl(credentials, Privilege.D, sequence)

    def wrong(text: str) -> BoxError:
        return client_error(ErrorCode.DROP_SEQUENCE, sequence.name, text)

    # A snapshot has the values of all sequences, also those that only a transaction has taken that was rolled back. No
    # row of the log deletes these. So a row with an lsn, which was accepted once, drops the sequence with its data.
    if sequence.id in schema.sequence_rows and (stmt.row is None or not stmt.row.lsn):
        raise wrong("the sequence has data")
    if any(space.sequence is sequence for space in schema.spaces.values()):
        raise wrong("the sequence is in use")
    if schema.has_grants("sequence", sequence.id):
        raise wrong("the sequence has grants")
    del schema.sequences[sequence.id]
    had_row = sequence.id in schema.sequence_rows
    schema.sequence_rows.discard(sequence.id)

    def undo() -> None:
        schema.sequences[sequence.id] = sequence
        if had_row:
            schema.sequence_rows.add(sequence.id)

    _changed(schema, stmt, sequence, undo)


def _alter_sequence(schema: Schema, credentials: Credentials, stmt: DdlStatement) -> None:
    definition = decode_sequence(stmt.last, ErrorCode.ALTER_SEQUENCE)
    sequence = schema.sequence(definition.id)
    _check_ddl(credentials, Privilege.A, sequence)
    before, sequence.definition = sequence.definition, definition

    def undo() -> None:
        sequence.definition = before

    _changed(schema, stmt, sequence, undo)


def _check_ddl(credentials: Credentials, privilege: Privilege, sequence: Sequence) -> None:
    check_ddl(credentials, privilege, ("sequence", sequence.id), sequence.name, sequence.owner)


def on_replace_sequence_data(schema: Schema, credentials: Credentials, txn: DdlTransaction, stmt: DdlStatement) -> None:
    """Set a sequence's value. A rollback does not reset a value that was set, but restores a deleted one."""
    fields = Fields(stmt.first)
    sequence = schema.sequence(fields.u32(0))
    rows = schema.sequence_rows
    if stmt.new is not None:
        sequence.set(Fields(stmt.new).i64(1))
        if sequence.id not in rows:
            rows.add(sequence.id)
            stmt.on_rollback.append(lambda: rows.discard(sequence.id))
        return
    value = fields.i64(1)
    rows.discard(sequence.id)
    sequence.reset()

    def undo() -> None:
        rows.add(sequence.id)
        sequence.set(value)

    stmt.on_rollback.append(undo)


def on_replace_space_sequence(
    schema: Schema, credentials: Credentials, txn: DdlTransaction, stmt: DdlStatement
) -> None:
    """Attach a sequence to a space's field, or detach it."""
    fields = Fields(stmt.last)
    is_generated = fields.boolean(2)
    space, sequence = schema.space(fields.u32(0)), schema.sequence(fields.u32(1))
    if stmt.new is not None and stmt.old is not None:
        raise unsupported('space "_space_sequence"', "update")
    _check_attach(credentials, space, sequence, is_generated, is_new=stmt.new is not None)
    before = (space.sequence, space.sequence_field, space.sequence_path)
    before_generated = sequence.is_generated

    def assign(attached: Sequence | None, field_no: int, path: str | None, generated: bool) -> None:
        space.attach_sequence(attached, field_no, path)
        sequence.is_generated = generated
        schema.space_changed(space)

    if stmt.new is None:
        assign(None, 0, None, False)
    else:
        field_no, path = _sequence_field(space, fields)
        if sequence.is_generated:
            raise client_error(ErrorCode.ALTER_SPACE, space.name, "can not attach generated sequence")
        assign(sequence, field_no, path, is_generated)
    stmt.on_rollback.append(lambda: assign(*before, before_generated))


def _check_attach(
    credentials: Credentials, space: Space, sequence: Sequence, is_generated: bool, *, is_new: bool
) -> None:
    """Check the rights to attach a sequence.

    A generated sequence is created and dropped together with the attachment. Any other one must be readable and
    writable.
    """
    if is_generated or not is_new:
        _check_ddl(credentials, Privilege.C if is_new else Privilege.D, sequence)
    else:
        _check_ddl(credentials, Privilege.R, sequence)
        _check_ddl(credentials, Privilege.W, sequence)
    check_ddl(credentials, Privilege.A, ("space", space.id), space.name, space.owner)


def _sequence_field(space: Space, fields: Fields) -> tuple[int, str | None]:
    """Return field number (0-based) and path; rows of old versions mean the first part of the primary key."""
    primary = space.index(0).definition
    field_no, path = primary.parts[0].fieldno, primary.parts[0].path
    if len(fields) > 3:
        field_no, path = fields.u32(3), fields.string(4) or None
    check_sequence_part(primary, field_no, path, space.name)
    return field_no, path
