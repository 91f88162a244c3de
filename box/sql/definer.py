"""CREATE, DROP and ALTER: each changes rows of the system spaces, with the rights of the user."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from box.data.codec import pack, unpack
from box.data.collation import id_of
from box.errors import BoxError, ErrorCode, client_error
from box.index import IteratorType
from box.schema.access import Privilege
from box.schema.ids import SYSTEM_ID_MAX, SpaceId
from box.sql import sql_nodes
from box.sql.catalogue import Catalogue
from box.sql.from_clause import different_names
from box.sql.kinds import kind_of
from box.sql.result import Changed
from box.sql.scope import KnownColumn, QueryScope, Relation
from box.sql.stored_values import execute_error
from box.sql.table_rows import ForeignKeyRow, IndexRow, ParentTable, TableBuilder, TableRows, rows_of
from box.sql.trigger_texts import trigger_of
from box.txn.pending import completed
from box.wire.change import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.session import Context
    from box.sql.reading import QueryRunner
    from box.txn.dml import Dml

_SEQUENCE_MAX: Final = 2**63 - 1
"""The greatest value of the sequence of an AUTOINCREMENT, a signed integer of 64 bits."""
_NOT_READ: Final = (SpaceId.PRIV, SpaceId.TRUNCATE)
"""System spaces whose rows Tarantool removes without looking for them before."""
_OWNER, _NAME, _FORMAT = 1, 2, 6
"""The numbers of fields in a `_space` tuple."""


class Definer:
    """Runs the CREATE, DROP and ALTER statements of one node."""

    def __init__(self, schema: Schema, dml: Dml, queries: QueryRunner) -> None:
        self._schema = schema
        self._dml = dml
        self._queries = queries

    async def run(self, ctx: Context, statement: sql_nodes.Definition) -> Changed:
        """Run a definition.

        Raises:
            ClientError: a definition is wrong, or an object does not exist or exists already.
            BoxError: the change of a system space raised it.
        """
        # Their objects are visible, but not the rows that describe them.
        self._dml.txns.storage.definitions.make_way(ctx.txn, None)
        if isinstance(statement, sql_nodes.CreateTable):
            return await self._create_table(ctx, statement)
        if isinstance(statement, sql_nodes.CreateIndex):
            return await self._create_index(ctx, statement)
        if isinstance(statement, sql_nodes.CreateView):
            return await self._create_view(ctx, statement)
        if isinstance(statement, sql_nodes.CreateTrigger):
            return await self._create_trigger(ctx, statement)
        if isinstance(statement, sql_nodes.Drop):
            return await self._drop(ctx, statement)
        if isinstance(statement, sql_nodes.RenameTable):
            return await self._rename(ctx, statement)
        if isinstance(statement, sql_nodes.AddColumn):
            return await self._add_column(ctx, statement)
        if isinstance(statement, sql_nodes.AddConstraint):
            return await self._add_constraint(ctx, statement)
        if isinstance(statement, sql_nodes.DropConstraint):
            return await self._drop_constraint(ctx, statement)
        return await self._enable_check(ctx, statement)

    # --- rows of system spaces ---

    async def _write(self, ctx: Context, space_id: SpaceId, request: Request) -> bytes | None:
        if space_id not in _NOT_READ:
            self._check_readable(ctx, space_id)
        return await completed(self._dml.write(ctx, self._schema.space(space_id), request))

    def _check_readable(self, ctx: Context, space_id: SpaceId) -> None:
        """Check that the user may read a system space, in which Tarantool looks for the row that it changes."""
        self._schema.space(space_id).check_access(ctx.credentials, Privilege.R)

    async def _insert(self, ctx: Context, space_id: SpaceId, row: Sequence[Any]) -> None:
        await self._write(ctx, space_id, Request.insert(pack(list(row))))

    def _rows(self, ctx: Context, space_id: SpaceId, key: list[Any]) -> list[list[Any]]:
        space = self._schema.space(space_id)
        everything = 2**32  # more rows than a space can have
        iterator = IteratorType.EQ if key else IteratorType.ALL
        found = self._dml.sql_reads.select(ctx, space, 0, iterator, 0, everything, key)
        return [unpack(raw) for raw in found]

    def _catalogue(self, ctx: Context) -> Catalogue:
        return Catalogue(self._schema)

    def _space(self, ctx: Context, name: str) -> Space:
        return self._schema.space_by_name(name)

    async def _next_space_id(self, ctx: Context) -> int:
        """Take the next id of a space.

        The greatest id so far is in `_schema`. The user needs no right to change it, so admin does.
        """
        self._schema.space(SpaceId.SPACE).check_access(ctx.credentials, Privilege.R)
        before, ctx.credentials = ctx.credentials, self._schema.admin
        try:
            request = Request.update(["max_id"], [["+", 2, 1]])
            outcome = self._dml.write(ctx, self._schema.space(SpaceId.SCHEMA), request)
        finally:
            ctx.credentials = before
        stored = await completed(outcome)
        if stored is None:  # dictionaries of 3.0 and later do not keep it
            return 1 + max(SYSTEM_ID_MAX, *self._schema.spaces)
        found: int = unpack(stored)[1]
        return found

    # --- tables ---

    async def _create_table(self, ctx: Context, statement: sql_nodes.CreateTable) -> Changed:
        exists = self._catalogue(ctx).find(statement.name) is not None
        try:
            rows = rows_of(
                statement, self._catalogue(ctx).collation_id, self._parent, partial(self._check_expression, ctx)
            )
        except BoxError as error:
            if not exists or error.code != ErrorCode.SPACE_FIELD_IS_DUPLICATE:
                raise
        if exists:
            if statement.if_not_exists:
                return Changed(0)
            raise client_error(ErrorCode.SPACE_EXISTS, statement.name)
        space_id = await self._next_space_id(ctx)
        engine = statement.engine
        if engine is None:
            engine = str(self._schema.session_settings.value(ctx.session, "sql_default_engine"))
        owner = ctx.credentials.uid
        row = [space_id, owner, rows.name, engine, len(rows.fields), {}, rows.fields]
        await self._insert(ctx, SpaceId.SPACE, row)
        for index in rows.indexes:
            await self._insert(ctx, SpaceId.INDEX, index.row(space_id))
        if rows.auto_field is not None:
            await self._attach_sequence(ctx, space_id, rows.name, rows.auto_field)
        await self._add_constraints(ctx, space_id, rows)
        return Changed(1)

    async def _attach_sequence(self, ctx: Context, space_id: int, name: str, place: int) -> None:
        sequence_id = max(self._schema.sequences, default=0) + 1
        row = [sequence_id, ctx.credentials.uid, name, 1, 0, _SEQUENCE_MAX, 1, 0, False]
        await self._insert(ctx, SpaceId.SEQUENCE, row)
        await self._insert(ctx, SpaceId.SPACE_SEQUENCE, [space_id, sequence_id, True, place, ""])

    async def _add_constraints(self, ctx: Context, space_id: int, rows: TableRows) -> None:
        # Reversed as in Tarantool, so that the first constraints of a table are listed and tested first.
        for key in reversed(rows.foreign_keys):
            if (key.name, space_id) in self._schema.foreign_keys:
                raise self._constraint_exists("FOREIGN KEY", key.name, space_id)
            await self._insert(ctx, SpaceId.FK_CONSTRAINT, self._foreign_key_row(space_id, key))
        for name, text in reversed(rows.checks):
            if name in self._schema.space(space_id).checks:
                raise self._constraint_exists("CHECK", name, space_id)
            await self._insert(ctx, SpaceId.CK_CONSTRAINT, [space_id, name, False, "SQL", text, True])

    def _constraint_exists(self, kind: str, name: str, space_id: int) -> BoxError:
        return client_error(ErrorCode.CONSTRAINT_EXISTS, kind, name, self._schema.space(space_id).name)

    @staticmethod
    def _foreign_key_row(space_id: int, found: ForeignKeyRow) -> list[Any]:
        key = found.key
        return [
            found.name,
            space_id,
            space_id if found.parent_id is None else found.parent_id,
            key.is_deferred,
            key.match,
            key.on_delete,
            key.on_update,
            found.columns,
            found.parent_columns,
        ]

    def _parent(self, name: str) -> ParentTable:
        space = self._schema.space_by_name(name)
        definition, primary = space.definition, space.primary
        return ParentTable(
            space.id,
            [item.name for item in definition.fields],
            None if primary is None else [part.fieldno for part in primary.definition.parts],
            definition.opts.view,
        )

    def _builder(self, ctx: Context, space: Space) -> TableBuilder:
        check = partial(self._check_expression, ctx)
        return TableBuilder(space.name, self._catalogue(ctx).collation_id, self._parent, check, _table_of(space))

    # --- indexes ---

    async def _create_index(self, ctx: Context, statement: sql_nodes.CreateIndex) -> Changed:
        if statement.if_not_exists and self._catalogue(ctx).find(statement.table) is None:
            return Changed(0)  # as in Tarantool
        space = self._space(ctx, statement.table)
        name = statement.name
        if space.definition.opts.view:
            raise client_error(ErrorCode.MODIFY_INDEX, name, space.name, "views can not be indexed")
        if space.id <= SYSTEM_ID_MAX:
            raise client_error(ErrorCode.MODIFY_INDEX, name, space.name, "can't create index on system space")
        if any(index.name == name for index in space.indexes.values()):
            if statement.if_not_exists:
                return Changed(0)
            raise client_error(ErrorCode.INDEX_EXISTS_IN_SPACE, name, space.name)
        await self._add_index(ctx, space, name, statement.parts, statement.is_unique)
        return Changed(1)

    async def _add_index(
        self,
        ctx: Context,
        space: Space,
        name: str,
        parts: list[sql_nodes.KeyPart],
        is_unique: bool,
        iid: int | None = None,
    ) -> None:
        builder = self._builder(ctx, space)
        if iid is None:
            iid = max(space.indexes, default=0) + 1
        await self._insert(ctx, SpaceId.INDEX, IndexRow(iid, name, is_unique, builder.parts(parts)).row(space.id))

    def _check_expression(self, ctx: Context, expr: sql_nodes.Expr, fields: list[dict[str, Any]]) -> None:
        columns = [KnownColumn(item["name"], item["type"], kind_of(item["type"])) for item in fields]
        scope = QueryScope(relations=[Relation("", "", columns)])
        self._queries.compiler(ctx, ()).expressions(scope).compile(expr)

    # --- views and triggers ---

    async def _create_view(self, ctx: Context, statement: sql_nodes.CreateView) -> Changed:
        fields = self._view_fields(ctx, statement)
        if self._catalogue(ctx).find(statement.name) is not None:
            if statement.if_not_exists:
                return Changed(0)
            raise client_error(ErrorCode.SPACE_EXISTS, statement.name)
        space_id = await self._next_space_id(ctx)
        options = {"sql": statement.text, "view": True}
        row = [space_id, ctx.credentials.uid, statement.name, "memtx", len(fields), options, fields]
        await self._insert(ctx, SpaceId.SPACE, row)
        return Changed(1)

    def _view_fields(self, ctx: Context, statement: sql_nodes.CreateView) -> list[dict[str, Any]]:
        columns = self._queries.compiler(ctx, ()).compile(statement.select).columns
        names = [column.name for column in columns] if statement.columns is None else statement.columns
        if len(names) != len(columns):
            text = "number of aliases doesn't match provided columns"
            raise client_error(ErrorCode.CREATE_SPACE, statement.name, text)
        fields: list[dict[str, Any]] = []
        for name, column in zip(different_names(names), columns, strict=True):
            entry = {"name": name, "type": column.type, "is_nullable": True, "nullable_action": "none"}
            if column.collation:
                str(column.collation)  # an unknown one is refused
                entry["collation"] = id_of(column.collation)
            fields.append(entry)
        return fields

    async def _create_trigger(self, ctx: Context, statement: sql_nodes.CreateTrigger) -> Changed:
        space = self._space(ctx, statement.table)
        if statement.name in self._schema.sql_triggers:
            if statement.if_not_exists:
                return Changed(0)
            raise client_error(ErrorCode.TRIGGER_EXISTS, statement.name)
        check_trigger_place(statement, space)
        await self._insert(ctx, SpaceId.TRIGGER, [statement.name, space.id, {"sql": statement.text}])
        return Changed(1)

    # --- DROP ---

    async def _drop(self, ctx: Context, statement: sql_nodes.Drop) -> Changed:
        if statement.kind == "TRIGGER":
            return await self._drop_trigger(ctx, statement)
        if statement.kind == "INDEX":
            return await self._drop_index(ctx, statement)
        space = self._catalogue(ctx).find(statement.name)
        if space is None:
            if statement.if_exists:
                return Changed(0)
            raise self._catalogue(ctx).unknown(statement.name)
        is_view = space.definition.opts.view
        if is_view != (statement.kind == "VIEW"):
            raise client_error(ErrorCode.DROP_SPACE, space.name, f"use DROP {'VIEW' if is_view else 'TABLE'}")
        if any(space.id == key.parent_id != key.child_id for key in self._schema.foreign_keys.values()):
            raise client_error(ErrorCode.DROP_SPACE, space.name, "other objects depend on it")
        await self._drop_space(ctx, space)
        return Changed(1)

    async def _revoke(self, ctx: Context, object_type: str, object_id: int) -> None:
        """Remove the privileges that users hold on an object."""
        holders = sorted(uid for uid, key in self._schema.grants if key == (object_type, object_id))
        for uid in holders:
            await self._write(ctx, SpaceId.PRIV, Request.delete([uid, object_type, object_id]))

    async def _drop_space(self, ctx: Context, space: Space) -> None:
        schema = self._schema
        await self._revoke(ctx, "space", space.id)
        for name in [item.name for item in schema.sql_triggers.values() if item.space_id == space.id]:
            await self._write(ctx, SpaceId.TRIGGER, Request.delete([name]))
        if any(space.id in tables for tables in schema.views.values()):
            raise client_error(ErrorCode.DROP_SPACE, space.name, "other views depend on this space")
        await self._drop_sequence_of(ctx, space)
        for key in [item for item in schema.foreign_keys.values() if item.child_id == space.id]:
            await self._write(ctx, SpaceId.FK_CONSTRAINT, Request.delete([key.name, space.id]))
        for name in list(space.checks):
            await self._write(ctx, SpaceId.CK_CONSTRAINT, Request.delete([space.id, name]))
        for iid in sorted(space.indexes, reverse=True):
            await self._write(ctx, SpaceId.INDEX, Request.delete([space.id, iid]))
        if not space.definition.opts.view:
            await self._write(ctx, SpaceId.TRUNCATE, Request.delete([space.id]))
        await self._write(ctx, SpaceId.SPACE, Request.delete([space.id]))

    async def _drop_sequence_of(self, ctx: Context, space: Space) -> None:
        sequence = space.sequence
        if sequence is not None:
            is_own = sequence.is_generated
            await self._write(ctx, SpaceId.SPACE_SEQUENCE, Request.delete([space.id]))
            if is_own:
                await self._write(ctx, SpaceId.SEQUENCE_DATA, Request.delete([sequence.id]))
                await self._revoke(ctx, "sequence", sequence.id)
                await self._write(ctx, SpaceId.SEQUENCE, Request.delete([sequence.id]))

    async def _drop_index(self, ctx: Context, statement: sql_nodes.Drop) -> Changed:
        assert statement.table is not None
        if statement.if_exists and self._catalogue(ctx).find(statement.table) is None:
            return Changed(0)
        space = self._space(ctx, statement.table)
        self._check_readable(ctx, SpaceId.INDEX)
        found = next((index for index in space.indexes.values() if index.name == statement.name), None)
        if found is None:
            if statement.if_exists:
                return Changed(0)
            raise client_error(ErrorCode.NO_SUCH_INDEX_NAME, statement.name, space.name)
        await self._write(ctx, SpaceId.INDEX, Request.delete([space.id, found.iid]))
        return Changed(1)

    async def _drop_trigger(self, ctx: Context, statement: sql_nodes.Drop) -> Changed:
        self._check_readable(ctx, SpaceId.TRIGGER)
        if statement.name not in self._schema.sql_triggers:
            if statement.if_exists:
                return Changed(0)
            raise client_error(ErrorCode.NO_SUCH_TRIGGER, statement.name)
        await self._write(ctx, SpaceId.TRIGGER, Request.delete([statement.name]))
        return Changed(1)

    # --- ALTER ---

    def _altered(self, ctx: Context, name: str) -> Space:
        space = self._space(ctx, name)
        if space.definition.opts.view:
            raise client_error(ErrorCode.ALTER_SPACE, space.name, "view can not be altered")
        return space

    def _space_row(self, ctx: Context, space: Space) -> list[Any]:
        return self._rows(ctx, SpaceId.SPACE, [space.id])[0]

    async def _rename(self, ctx: Context, statement: sql_nodes.RenameTable) -> Changed:
        if self._catalogue(ctx).find(statement.name) is not None:
            raise client_error(ErrorCode.SPACE_EXISTS, statement.name)
        space = self._altered(ctx, statement.table)
        self._schema.space(SpaceId.SPACE).check_access(ctx.credentials, Privilege.W)
        row = self._space_row(ctx, space)
        row[_NAME] = statement.name
        await self._write(ctx, SpaceId.SPACE, Request.replace(pack(row)))
        triggers = [item for item in self._schema.sql_triggers.values() if item.space_id == space.id]
        for trigger in reversed(triggers):
            start, end = trigger_of(trigger.sql).table_place
            quoted = statement.name.replace('"', '""')
            text = f'{trigger.sql[:start]}"{quoted}"{trigger.sql[end:]}'
            await self._write(ctx, SpaceId.TRIGGER, Request.replace(pack([trigger.name, space.id, {"sql": text}])))
        return Changed(0)

    async def _add_column(self, ctx: Context, statement: sql_nodes.AddColumn) -> Changed:
        space = self._altered(ctx, statement.table)
        builder = self._builder(ctx, space)
        self._count(builder, space)
        known = len(builder.rows.indexes)
        builder.add_column(statement.column)
        rows = builder.rows
        row = self._space_row(ctx, space)
        row[_FORMAT], row[_FORMAT - 2] = rows.fields, len(rows.fields)
        await self._write(ctx, SpaceId.SPACE, Request.replace(pack(row)))
        for index in rows.indexes[known:]:
            await self._insert(ctx, SpaceId.INDEX, index.row(space.id))
        if rows.auto_field is not None:
            if space.sequence is not None:
                raise client_error(ErrorCode.SQL_CANT_ADD_AUTOINC, space.name)
            await self._attach_sequence(ctx, space.id, space.name, rows.auto_field)
        await self._add_constraints(ctx, space.id, rows)
        return Changed(1)

    def _count(self, builder: TableBuilder, space: Space) -> None:
        keys = [key for key in self._schema.foreign_keys.values() if key.child_id == space.id]
        builder.count(indexes=len(space.indexes), checks=len(space.checks), foreign_keys=len(keys))

    async def _add_constraint(self, ctx: Context, statement: sql_nodes.AddConstraint) -> Changed:
        space, constraint = self._space(ctx, statement.table), statement.constraint
        assert constraint.name is not None
        if isinstance(constraint, sql_nodes.TableKey):
            if space.definition.opts.view:
                raise client_error(ErrorCode.MODIFY_INDEX, constraint.name, space.name, "views can not be indexed")
            self._altered(ctx, statement.table)
            if any(index.name == constraint.name for index in space.indexes.values()):
                raise client_error(ErrorCode.INDEX_EXISTS_IN_SPACE, constraint.name, space.name)
            iid = 0 if constraint.is_primary else None
            await self._add_index(ctx, space, constraint.name, constraint.parts, True, iid)
            return Changed(0)
        builder = self._builder(ctx, space)
        builder.is_complete = True
        builder.add_constraint(constraint)
        await self._add_constraints(ctx, space.id, builder.rows)
        return Changed(1)

    async def _drop_constraint(self, ctx: Context, statement: sql_nodes.DropConstraint) -> Changed:
        space, name = self._space(ctx, statement.table), statement.name
        if name in space.checks:
            await self._write(ctx, SpaceId.CK_CONSTRAINT, Request.delete([space.id, name]))
            return Changed(1)
        if (name, space.id) in self._schema.foreign_keys:
            await self._write(ctx, SpaceId.FK_CONSTRAINT, Request.delete([name, space.id]))
            return Changed(1)
        for index in space.indexes.values():
            if index.is_unique and index.name == name:
                await self._write(ctx, SpaceId.INDEX, Request.delete([space.id, index.iid]))
                return Changed(1)
        raise client_error(ErrorCode.NO_SUCH_CONSTRAINT, name, space.name)

    async def _enable_check(self, ctx: Context, statement: sql_nodes.EnableCheck) -> Changed:
        space, name = self._space(ctx, statement.table), statement.name
        self._check_readable(ctx, SpaceId.CK_CONSTRAINT)
        if name not in space.checks:
            raise client_error(ErrorCode.NO_SUCH_CONSTRAINT, name, space.name)
        definition = space.checks[name].definition
        row = [space.id, name, False, "SQL", definition.code, statement.is_enabled]
        await self._write(ctx, SpaceId.CK_CONSTRAINT, Request.replace(pack(row)))
        return Changed(0)


def _table_of(space: Space) -> TableRows:
    """Return the fields and indexes of an existing table."""
    rows = TableRows(space.name, [_with_nil(item) for item in space.definition.format])
    rows.indexes = [IndexRow(iid, index.name, index.is_unique, []) for iid, index in space.indexes.items()]
    return rows


def _with_nil(item: dict[str, Any]) -> dict[str, Any]:
    """Complete the map of a field with keys that SQL needs, because spaces made by Lua may lack them."""
    return {"type": "any", "is_nullable": False, **item}


def check_trigger_place(trigger: sql_nodes.CreateTrigger, space: Space) -> None:
    """Check that a trigger on a view is INSTEAD OF, that one on a table is not, and that system spaces have none.

    Raises:
        ClientError: SQL_EXECUTE.
    """
    if space.is_system:
        raise execute_error("cannot create trigger on system table")
    is_view = space.definition.opts.view
    if is_view and trigger.time != "INSTEAD":
        raise execute_error(f"cannot create {trigger.time} trigger on view: {space.name}")
    if not is_view and trigger.time == "INSTEAD":
        raise execute_error(f"cannot create INSTEAD OF trigger on space: {space.name}")
