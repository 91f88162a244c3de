"""`_index`: creating, altering and dropping indexes."""

from __future__ import annotations

from typing import Any

from box.data.format import TupleFormat
from box.data.keydef import KeyDef, PartDef
from box.errors import ErrorCode, client_error, unsupported
from box.index import Index, IndexDef
from box.schema.access import Credentials, Privilege, check_ddl
from box.schema.ddl.alter import build_index, check_format, exchange, is_empty, make_format, make_index
from box.schema.ddl.dictionary_change import DdlStatement, DdlTransaction
from box.schema.fields import Fields
from box.schema.index_def import decode_index
from box.schema.schema import Schema
from box.schema.sequence import check_sequence_part
from box.schema.space import Layout, Space


def on_replace_index(schema: Schema, credentials: Credentials, txn: DdlTransaction, stmt: DdlStatement) -> None:
    """Create, alter or drop an index. The dictionary, not the old tuple, says whether it exists."""
    fields = Fields(stmt.first)
    space, iid = schema.space(fields.u32(0)), fields.u32(1)
    privilege = Privilege.D if stmt.new is None else Privilege.C if stmt.old is None else Privilege.A
    check_ddl(credentials, privilege, ("space", space.id), space.name, space.owner)
    if iid == 0 and stmt.new is None:
        _check_drop_primary(space)
    if iid != 0 and space.primary is None:
        raise client_error(ErrorCode.ALTER_SPACE, space.name, "can not add a secondary key before primary")
    old = space.indexes.get(iid)
    if stmt.new is None:
        _drop_index(schema, stmt, space, iid)
        return
    definition = decode_index(stmt.new, space.definition, schema.collations)
    if iid == 0 and space.sequence is not None:
        check_sequence_part(definition, space.sequence_field, space.sequence_path, space.name)
    if old is None:
        _create_index(schema, txn, stmt, space, definition)
    else:
        _alter_index(schema, txn, stmt, space, old, definition)


def _check_drop_primary(space: Space) -> None:
    if space.is_system:
        raise client_error(ErrorCode.LAST_DROP, space.name)
    if len(space.indexes) > 1:
        raise client_error(ErrorCode.DROP_PRIMARY_KEY, space.name)
    if space.sequence is not None:
        text = "can not drop primary key while space sequence exists"
        raise client_error(ErrorCode.ALTER_SPACE, space.name, text)


def _drop_index(schema: Schema, stmt: DdlStatement, space: Space, iid: int) -> None:
    space.index(iid)
    indexes = {number: index for number, index in space.indexes.items() if number != iid}
    new_format = make_format(schema, space.definition, (index.definition for index in indexes.values()))
    exchange(schema, stmt, space, Layout(space.definition, new_format, indexes))


def _format_with(schema: Schema, space: Space, definition: IndexDef) -> TupleFormat:
    """The format with a new or changed index. It joins behind the others, so that it is the one that conflicts."""
    definitions = [index.definition for iid, index in space.indexes.items() if iid != definition.iid]
    definitions.insert(0 if definition.iid == 0 else len(definitions), definition)
    return make_format(schema, space.definition, definitions)


def _create_index(schema: Schema, txn: DdlTransaction, stmt: DdlStatement, space: Space, definition: IndexDef) -> None:
    index = make_index(schema, space, definition, _primary_key_def(space))
    indexes = dict(sorted({**space.indexes, definition.iid: index}.items()))
    new_format = _format_with(schema, space, definition)
    if not is_empty(space):
        txn.check_single_statement("index build")
        build_index(schema, space, index, new_format)
    exchange(schema, stmt, space, Layout(space.definition, new_format, indexes))


def _primary_key_def(space: Space) -> KeyDef | None:
    return space.primary.key_def if space.primary is not None else None


def _alter_index(
    schema: Schema, txn: DdlTransaction, stmt: DdlStatement, space: Space, old: Index, definition: IndexDef
) -> None:
    """Change an index: by definition only where the stored order stays, else by a rebuild.

    The peer keeps the data of more changes than this node can (its keys depend on types and nullability), and
    refuses a rebuild in a longer transaction; `_rebuilds` tells what it calls a rebuild.
    """
    before = old.definition
    new_format = _format_with(schema, space, definition)
    if _rebuilds(before, definition):
        if not is_empty(space):
            txn.check_single_statement("index build")
    else:
        check_format(schema, txn, space, new_format)
    indexes = dict(space.indexes)
    if _is_same_data(before, definition):
        _redefine(stmt, old, definition)
    else:
        indexes[definition.iid] = _rebuilt(schema, space, new_format, definition, old.primary)
        if definition.iid == 0:
            _rebuild_dependent(schema, space, new_format, indexes)
    exchange(schema, stmt, space, Layout(space.definition, new_format, indexes))


def _rebuilt(
    schema: Schema, space: Space, new_format: TupleFormat, definition: IndexDef, primary: KeyDef | None
) -> Index:
    index = make_index(schema, space, definition, primary)
    build_index(schema, space, index, new_format)
    return index


def _rebuild_dependent(schema: Schema, space: Space, new_format: TupleFormat, indexes: dict[int, Index]) -> None:
    """Build the secondary indexes anew whose keys end with the primary key."""
    primary = indexes[0].key_def
    for iid, index in indexes.items():
        if iid != 0:
            indexes[iid] = _rebuilt(schema, space, new_format, index.definition, primary)


def _redefine(stmt: DdlStatement, index: Index, definition: IndexDef) -> None:
    before = index.definition
    index.definition = definition

    def undo() -> None:
        index.definition = before

    stmt.on_rollback.append(undo)


def _is_same_data(before: IndexDef, after: IndexDef) -> bool:
    return (before.type, before.unique, before.parts) == (after.type, after.unique, after.parts)


def _rebuilds(before: IndexDef, after: IndexDef) -> bool:
    """True for the changes that count as a rebuild: another type, order or stricter uniqueness."""
    if before.type != after.type or (after.unique and not before.unique):
        return True
    if before.opts.get("hint") != after.opts.get("hint"):
        return True
    return [_place(part) for part in before.parts] != [_place(part) for part in after.parts]


def _place(part: PartDef) -> tuple[Any, ...]:
    return part.fieldno, part.collation_id, part.steps, part.exclude_null


def on_replace_func_index(schema: Schema, credentials: Credentials, txn: DdlTransaction, stmt: DdlStatement) -> None:
    """`_func_index` ties an index to a function, which is not supported; removing a record is harmless."""
    if stmt.new is not None:
        raise unsupported("Lunabox", "functional indexes")
