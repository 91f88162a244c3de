"""`_index`: creating, altering and dropping indexes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from box.data.format import FieldDef, TupleFormat
from box.data.keydef import KeyDef, PartDef
from box.errors import ErrorCode, client_error, unsupported
from box.index import Index, IndexDef
from box.index.functional import DisabledIndex
from box.schema.access import Credentials, Privilege, check_ddl
from box.schema.ddl.alter import exchange, is_empty, make_again, make_format, needs_check
from box.schema.ddl.build import Deferred, Finish, FormatCheck, IndexBuild, check_not_altered, deferred
from box.schema.ddl.dictionary_change import DdlStatement, DdlTransaction
from box.schema.ddl.rules import check_may_be_emptied
from box.schema.ddl.sql import check_constraint_name
from box.schema.fields import Fields
from box.schema.function import Function
from box.schema.index_def import decode_index
from box.schema.newer import check_index_of
from box.schema.schema import Schema
from box.schema.sequence import check_sequence_part
from box.schema.space import Layout, Space


def on_replace_index(
    schema: Schema, credentials: Credentials, txn: DdlTransaction, stmt: DdlStatement
) -> Deferred | None:
    """Create, alter or drop an index. Whether it exists is decided by the dictionary, not by the old tuple."""
    fields = Fields(stmt.first)
    space, iid = schema.space(fields.u32(0)), fields.u32(1)
    if space.definition.opts.view:
        raise client_error(ErrorCode.ALTER_SPACE, space.name, "can not add index on a view")
    privilege = Privilege.D if stmt.new is None else Privilege.C if stmt.old is None else Privilege.A
    check_ddl(credentials, privilege, ("space", space.id), space.name, space.owner)
    if iid == 0 and stmt.new is None:
        _check_drop_primary(space)
    if iid != 0 and space.primary is None:
        raise client_error(ErrorCode.ALTER_SPACE, space.name, "can not add a secondary key before primary")
    check_not_altered(schema, space)
    old = space.indexes.get(iid)
    if stmt.new is None:
        _drop_index(schema, stmt, space, iid)
        return None
    check_index_of(schema, stmt.new, space.name)
    definition = decode_index(stmt.new, space.definition, schema.collations, type(space.engine).index_rules)
    function = schema.functions.get(definition.opts.get("func", 0))
    if function is not None:
        _check_function(function)
    if iid == 0 and space.sequence is not None:
        check_sequence_part(definition, space.sequence_field, space.sequence_path, space.name)
    if old is None:
        return _create_index(schema, txn, stmt, space, definition)
    return _alter_index(schema, txn, stmt, space, old, definition)


def _check_drop_primary(space: Space) -> None:
    if space.is_system:
        raise client_error(ErrorCode.LAST_DROP, space.name)
    if len(space.indexes) > 1:
        raise client_error(ErrorCode.DROP_PRIMARY_KEY, space.name)
    if space.sequence is not None:
        text = "can not drop primary key while space sequence exists"
        raise client_error(ErrorCode.ALTER_SPACE, space.name, text)
    check_may_be_emptied(space)


def _drop_index(schema: Schema, stmt: DdlStatement, space: Space, iid: int) -> None:
    if _is_referenced(schema, space, space.index(iid).definition):
        raise client_error(ErrorCode.ALTER_SPACE, space.name, "can not drop a referenced index")
    indexes = {number: index for number, index in space.indexes.items() if number != iid}
    new_format = make_format(schema, space.definition, (index.definition for index in indexes.values()))
    exchange(schema, stmt, space, Layout(space.definition, new_format, indexes))


def _is_referenced(schema: Schema, space: Space, definition: IndexDef) -> bool:
    """Return whether a foreign key finds its parents with this unique index: the first one of these fields."""
    fields = {part.fieldno for part in definition.parts}
    others = [index.definition for iid, index in space.indexes.items() if iid < definition.iid]
    if not definition.unique or any(
        other.unique and {part.fieldno for part in other.parts} == fields for other in others
    ):
        return False
    return any(
        key.parent_id == definition.space_id and {parent for _, parent in key.links} == fields
        for key in schema.foreign_keys.values()
    )


def _field_count(fields: Iterable[FieldDef], definitions: Iterable[IndexDef]) -> int:
    """Return the number of fields that a tuple needs: up to the last one that must not be null."""
    needed = [number for number, field in enumerate(fields, 1) if not field.is_nullable]
    needed += [part.fieldno + 1 for one in definitions for part in one.parts if not part.is_nullable]
    return max(needed, default=0)


def _format_with(schema: Schema, space: Space, definition: IndexDef) -> TupleFormat:
    """Return the space's format with a new or changed index.

    The index comes last, so that conflicts are attributed to it; the primary index comes first. As in Tarantool, a
    changed index keeps its place if tuples then need more or fewer fields.
    """
    known = {iid: index.definition for iid, index in space.indexes.items()}
    definitions = {**known, definition.iid: definition}
    fields = space.definition.fields
    if definition.iid in known and _field_count(fields, known.values()) == _field_count(fields, definitions.values()):
        del definitions[definition.iid]
        definitions[definition.iid] = definition
    if definition.iid == 0:
        definitions = {0: definition, **definitions}
    return make_format(schema, space.definition, definitions.values())


def _create_index(
    schema: Schema, txn: DdlTransaction, stmt: DdlStatement, space: Space, definition: IndexDef
) -> Deferred | None:
    if definition.unique:
        check_constraint_name(schema, space, definition.name)
    new_format = _format_with(schema, space, definition)
    index = space.engine.make_index(schema, space, definition, _primary_key_def(space))

    def finish() -> None:
        indexes = dict(sorted({**space.indexes, definition.iid: index}.items()))
        exchange(schema, stmt, space, Layout(space.definition, new_format, indexes))

    if is_empty(space):
        finish()
        return None
    txn.check_single_statement("index build")
    return _build(schema, space, [index], new_format, finish)


def _build(schema: Schema, space: Space, indexes: list[Index], new_format: TupleFormat, finish: Finish) -> Deferred:
    """Fill indexes of a space that has tuples, then finish. Raises INJECTION, and the errors of the build."""
    if schema.errinj.values["ERRINJ_BUILD_INDEX"] in [index.iid for index in indexes]:
        raise client_error(ErrorCode.INJECTION, "build index")
    work = IndexBuild(schema, space, indexes, new_format)
    return deferred(schema, space, work, "ERRINJ_BUILD_INDEX_DELAY", finish)


def _primary_key_def(space: Space) -> KeyDef | None:
    return space.primary.key_def if space.primary is not None else None


def _alter_index(
    schema: Schema, txn: DdlTransaction, stmt: DdlStatement, space: Space, old: Index, definition: IndexDef
) -> Deferred | None:
    """Change an index: only its definition if the stored order stays, otherwise by a rebuild.

    Tarantool keeps the data in more cases than this node can, because keys here depend on types and nullability. It
    refuses a rebuild in a transaction with other statements; `_rebuilds` tells what it calls a rebuild.
    """
    before = old.definition
    if _rebuilds(before, definition) and _is_referenced(schema, space, before):
        raise client_error(ErrorCode.ALTER_SPACE, space.name, "can not alter a referenced index")
    if definition.unique and not (before.unique and before.name == definition.name):
        check_constraint_name(schema, space, definition.name)
    new_format = _format_with(schema, space, definition)
    is_checked = False
    if not _rebuilds(before, definition):
        is_checked = needs_check(txn, space, new_format)
    elif not is_empty(space):
        txn.check_single_statement("index build")
    if not _is_same_data(before, definition):
        return _replace_index(schema, stmt, space, new_format, definition, old.primary)

    def finish() -> None:
        _redefine(stmt, old, definition)
        exchange(schema, stmt, space, Layout(space.definition, new_format, dict(space.indexes)))

    if is_checked:
        return deferred(schema, space, FormatCheck(new_format.validate), "ERRINJ_CHECK_FORMAT_DELAY", finish)
    finish()
    return None


def _replace_index(
    schema: Schema,
    stmt: DdlStatement,
    space: Space,
    new_format: TupleFormat,
    definition: IndexDef,
    primary: KeyDef | None,
) -> Deferred | None:
    """Replace an index. If it is the primary one all secondary indexes are rebuilt too, because their keys end with its
    key.
    """
    new = {definition.iid: space.engine.make_index(schema, space, definition, primary)}
    if definition.iid == 0:
        key_def = new[0].key_def
        for iid, index in space.indexes.items():
            if iid != 0:
                new[iid] = make_again(schema, space, index, key_def)

    def finish() -> None:
        exchange(schema, stmt, space, Layout(space.definition, new_format, {**space.indexes, **new}))

    if not is_empty(space):
        return _build(schema, space, list(new.values()), new_format, finish)
    finish()
    return None


def _redefine(stmt: DdlStatement, index: Index, definition: IndexDef) -> None:
    before = index.definition
    index.definition = definition

    def undo() -> None:
        index.definition = before

    stmt.on_rollback.append(undo)


def _is_same_data(before: IndexDef, after: IndexDef) -> bool:
    if before.opts.get("func") != after.opts.get("func") or _shape(before) != _shape(after):
        return False
    return (before.type, before.unique, before.parts) == (after.type, after.unique, after.parts)


def _shape(definition: IndexDef) -> tuple[int, str] | None:
    """Return the dimension and the distance of an R-tree."""
    if definition.type != "RTREE":
        return None
    return definition.opts.get("dimension", 2), definition.opts.get("distance", "euclid").lower()


def _rebuilds(before: IndexDef, after: IndexDef) -> bool:
    """Return whether a change counts as a rebuild: another type, another order or stricter uniqueness."""
    if before.type != after.type or (after.unique and not before.unique):
        return True
    if any(before.opts.get(name) != after.opts.get(name) for name in ("hint", "func")):
        return True
    if _shape(before) != _shape(after):
        return True
    return [_place(part) for part in before.parts] != [_place(part) for part in after.parts]


def _place(part: PartDef) -> tuple[Any, ...]:
    return part.fieldno, part.collation_id, part.steps, part.exclude_null


def on_replace_func_index(
    schema: Schema, credentials: Credentials, txn: DdlTransaction, stmt: DdlStatement
) -> Deferred | None:
    """Connect an index with a function, or disconnect it; an index that is connected already is unchanged."""
    fields = Fields(stmt.last)
    space, iid = schema.space(fields.u32(0)), fields.u32(1)
    if stmt.old is not None and stmt.new is not None:
        raise unsupported("functional index", "alter")
    index, function_id = space.index(iid), fields.u32(2)
    if stmt.new is None:
        del schema.index_functions[space.id, iid]
        stmt.on_rollback.append(lambda: schema.index_functions.update({(space.id, iid): function_id}))
        disabled = DisabledIndex(index.definition, index.primary, space_name=space.name, engine=space.engine.name)
        exchange(schema, stmt, space, Layout(space.definition, space.format, {**space.indexes, iid: disabled}))
        return None
    function = schema.functions.get(function_id)
    if function is None:
        raise client_error(ErrorCode.NO_SUCH_FUNCTION, str(function_id))
    _check_function(function)
    if index.definition.opts.get("func") != function_id:
        text = "Function ids defined in _index and _func_index don't match"
        raise client_error(ErrorCode.WRONG_INDEX_OPTIONS, 0, text)
    schema.index_functions[space.id, iid] = function_id
    stmt.on_rollback.append(lambda: schema.index_functions.__delitem__((space.id, iid)))
    if not isinstance(index, DisabledIndex):
        return None
    check_not_altered(schema, space)
    if not is_empty(space):
        txn.check_single_statement("index build")
    return _replace_index(schema, stmt, space, space.format, index.definition, index.primary)


def _check_function(function: Function) -> None:
    if not function.makes_keys:
        text = "referenced function doesn't satisfy functional index function constraints"
        raise client_error(ErrorCode.WRONG_INDEX_OPTIONS, 0, text)
