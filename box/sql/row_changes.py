"""INSERT, REPLACE, UPDATE and DELETE: SQLite finds the rows, `Dml` changes them one by one.

The keys and new values of all rows are known before the first row is changed, so a statement never reads its own
changes.

```
row   ->  types  ->  BEFORE triggers  ->  NOT NULL  ->  conflicts (OR ...)  ->  Dml.write (CHECK, indexes, log)
      ->  foreign keys  ->  AFTER triggers
```
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from box.data.codec import pack, unpack
from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.index import IteratorType
from box.schema.access import Privilege
from box.schema.ids import SpaceId
from box.sql import sql_nodes
from box.sql.casts import convert
from box.sql.catalogue import Catalogue
from box.sql.changed_rows import ChangedRows, ChangePlan
from box.sql.inserted_rows import (
    InsertPlan,
    are_free,
    check_count,
    constant_rows,
    has_one_row,
    places_of,
    sort_gathered,
    store_request,
    store_together,
)
from box.sql.not_null import check_nil, check_updated
from box.sql.plain_changes import PlainInsert, generated_place
from box.sql.point_changes import count_of
from box.sql.query import Query, QueryCompiler
from box.sql.result import Changed
from box.sql.row_shapes import RowShapes, padded
from box.sql.scope import Special, scope_of
from box.sql.stored_values import Value, execute_error
from box.sql.trigger_texts import IgnoreRow
from box.txn.pending import completed
from box.wire.change import Request

if TYPE_CHECKING:
    from box.schema.space import Space, SpaceDef
    from box.session import Context
    from box.sql.foreign_keys import ForeignKeys
    from box.sql.reading import Compiled, QueryRunner
    from box.sql.row_expressions import RowExpressions
    from box.sql.row_triggers import RowTriggers
    from box.sql.trigger_lists import RowTriggerList
    from box.txn.dml import Dml
    from box.txn.transaction_writes import TransactionWriter

_KEPT_MAX: Final = 1000
"""The number of plans that are kept."""


class ChangeRunner:
    """Runs the changes of one node."""

    def __init__(self, queries: QueryRunner, dml: Dml, expressions: RowExpressions) -> None:
        self._queries = queries
        self._dml = dml
        self._expressions = expressions
        self.triggers: RowTriggers
        self.foreign_keys: ForeignKeys
        self._rows = ChangedRows(queries, dml, expressions)
        self._shapes = RowShapes()
        self._step_plans: dict[Hashable, InsertPlan | ChangePlan] = {}
        """The plans of the steps of triggers."""

    def _space(self, name: str) -> Space:
        space = Catalogue(self._queries.schema).space(name)
        if space.primary is None and not space.definition.opts.view:
            raise unsupported("SQL", "spaces without primary key")
        return space

    def _triggers_of(self, space: Space, change: sql_nodes.Change) -> RowTriggerList:
        """Return the triggers of a change, after checking those and the ones of rows that it replaces."""
        if not isinstance(change, sql_nodes.Delete) and change.action == "REPLACE":
            self.triggers.ready(space, "DELETE", None)
        columns = [name for names, _ in change.sets for name in names] if isinstance(change, sql_nodes.Update) else None
        return self.triggers.ready(space, type(change).__name__.upper(), columns)

    # --- INSERT ---

    async def insert(
        self, ctx: Context, key: Any, insert: sql_nodes.Insert, params: Sequence[Value], special: Special | None = None
    ) -> Changed:
        """Run an INSERT or a REPLACE.

        Raises:
            TransactionConflictError: the table's definition changed while a trigger waited.
            BoxError: any other error of the statement.
        """
        while True:
            plan = self._insert_plan(key, insert, special)
            space, triggers, definition = plan.space, plan.triggers, plan.space.definition
            rows = await self._new_rows(ctx, key, insert, plan, params, special)
            if self._is_same(space, definition):
                break
        is_single = special is None and has_one_row(insert)
        is_free = not triggers and insert.action == "ABORT" and are_free(space)
        if is_free and self.foreign_keys.allow_together(ctx, space, is_single=is_single):
            stored = store_together(ctx, self._dml, space, self._shapes.of(space), rows)
            self.foreign_keys.check_new(ctx, space, stored)
            return Changed(len(stored))
        writer = self._inserter(ctx, space, triggers, insert.action)
        if writer is not None:
            plain = PlainInsert(space, self._shapes.of(space), writer, ctx.credentials, insert.action)
            for row in rows:
                plain.run(row)
            return plain.result
        is_alone = is_single and not triggers and insert.action != "REPLACE"
        result = Changed()
        for row in rows:
            self._check_same(space, definition)
            if definition.opts.view:
                await self.triggers.run(ctx, triggers.instead, None, row, insert.action)
                continue
            await self._insert_row(ctx, space, row, insert.action, triggers, result, is_alone=is_alone)
        return result

    def _is_same(self, space: Space, definition: SpaceDef) -> bool:
        """Return whether a space still has a definition. While a statement waits, others may change or drop it."""
        return space.definition is definition and self._queries.schema.spaces.get(space.id) is space

    def _check_same(self, space: Space, definition: SpaceDef) -> None:
        """Raise the error of a transaction that makes way if a statement that has changed rows can go on no more."""
        if not self._is_same(space, definition):
            raise client_error(ErrorCode.TRANSACTION_CONFLICT)

    def _inserter(self, ctx: Context, space: Space, triggers: RowTriggerList, action: str) -> TransactionWriter | None:
        """Return a writer for the rows of an INSERT or REPLACE in which neither triggers nor foreign keys take part."""
        if triggers or space.definition.opts.view or self.foreign_keys.has_parents(space):
            return None
        if action == "REPLACE" and (self.foreign_keys.has_children(space) or self.triggers.of(space, "DELETE", None)):
            return None
        return self._dml.row_writer(ctx, space)

    def _insert_plan(self, key: Any, insert: sql_nodes.Insert, special: Special | None) -> InsertPlan:
        """Return the plan of an INSERT. Those of the steps of triggers are kept, because many rows fire them."""
        mark, version = (key, insert.action), self._queries.schema.version
        plan = self._step_plans.get(mark) if special is not None else None
        if not isinstance(plan, InsertPlan) or plan.version != version:
            space = self._space(insert.table)
            triggers = self._triggers_of(space, insert)
            self._refuse_view(space, bool(triggers))
            plan = InsertPlan(version, space, triggers, insert, special)
            if special is not None:
                self._keep(mark, plan)
        return plan

    @staticmethod
    def _refuse_view(space: Space, has_triggers: bool) -> None:
        if space.definition.opts.view and not has_triggers:
            raise client_error(ErrorCode.ALTER_SPACE, space.name, "space is a view")

    async def _new_rows(
        self,
        ctx: Context,
        key: Any,
        insert: sql_nodes.Insert,
        plan: InsertPlan,
        params: Sequence[Value],
        special: Special | None,
    ) -> list[list[Value]]:
        defaults = plan.default_row(ctx, self._expressions)
        if insert.select is None:
            check_count(insert, plan.space, 0, len(insert.columns or ()))
            return [defaults]
        return plan.whole_rows(await self._given_rows(ctx, key, insert, plan, params, special), defaults)

    async def _given_rows(
        self,
        ctx: Context,
        key: Any,
        insert: sql_nodes.Insert,
        plan: InsertPlan,
        params: Sequence[Value],
        special: Special | None,
    ) -> list[list[Value]]:
        assert insert.select is not None
        space = plan.space
        if special is not None:
            row = plan.plain_row(special.values)
            if row is not None:
                return [row]
        rows = constant_rows(insert.select, params) if special is None and not insert.common else None
        is_gathered = bool(plan.triggers)
        if rows is not None:
            check_count(insert, space, len(rows[0]), len(plan.places))
        else:
            compiled = plan.compiled
            if compiled is None:
                compiled = self._analyse_rows(ctx, key, insert, plan.places, space, params, special)
                assert compiled is not None
                if special is not None:
                    plan.compiled = compiled
            rows = await self._query_rows(ctx, compiled, special.values if special else params)
            is_gathered = is_gathered or space in compiled.used
        if is_gathered and space.sequence is None:
            sort_gathered(rows)
        return rows

    async def _query_rows(self, ctx: Context, compiled: Compiled, values: Sequence[Value]) -> list[list[Value]]:
        if self._expressions.can_run(compiled):
            return self._expressions.rows(ctx, compiled, values)
        return await self._queries.rows(ctx, compiled, values)

    def _analyse_rows(
        self,
        ctx: Context,
        key: Any,
        insert: sql_nodes.Insert,
        places: list[int],
        space: Space,
        params: Sequence[Value],
        special: Special | None,
    ) -> Compiled | None:
        """Return the query that gives the inserted rows, or None for DEFAULT VALUES."""
        select = insert.select
        if select is None:
            check_count(insert, space, 0, len(insert.columns or ()))
            return None

        def make(compiler: QueryCompiler) -> Query:
            scope = scope_of(special)
            prefix = compiler.common_prefix(insert.common, scope)
            query = compiler.compile(select, scope)
            query.prefix = prefix + query.prefix if not query.prefix else query.prefix
            check_count(insert, space, len(query.columns), len(places))
            return query

        return self._queries.compiled(ctx, (key, special and special.mark), make, params)

    async def _insert_row(
        self,
        ctx: Context,
        space: Space,
        row: list[Value],
        action: str,
        triggers: RowTriggerList,
        result: Changed,
        *,
        is_alone: bool,
    ) -> None:
        fields = space.definition.fields
        auto = generated_place(space)
        # As in Tarantool, NOT NULL is checked before the types, but triggers see a row with converted types.
        if not triggers and None in row and not check_nil(space, row, action, auto):
            return
        row[:] = self._shapes.of(space).converted(row)
        if triggers.before:
            try:
                await self.triggers.run(ctx, triggers.before, None, row, action)
            except IgnoreRow:
                return
        if triggers and None in row and not check_nil(space, row, action, auto):
            return
        is_generated = auto >= 0 and row[auto] is None
        if is_generated and action == "REPLACE":
            # As in 2.8, the old tuple is looked up before the sequence gives the key.
            raise client_error(ErrorCode.KEY_PART_TYPE, 0, fields[auto].type.value)
        if action == "REPLACE":
            result.row_count += await self._make_room(ctx, space, row, None)
        pending = self.foreign_keys.before_store(ctx, space, None, row)
        if is_alone:  # before the sequence gives a key
            if action != "IGNORE":
                space.check_access(ctx.credentials, Privilege.W)
            self.foreign_keys.check_alone(ctx, space, row)
        try:
            outcome = await completed(self._dml.write(ctx, space, store_request(row, action)))
        except BoxError:
            if action == "IGNORE":  # as in Tarantool, whatever the error is; triggers see the row as if it was stored
                await self._run_after(ctx, triggers, None, row, action)
                return
            raise
        stored = unpack(outcome) if outcome is not None else row
        result.row_count += 1
        if is_generated:
            result.autoincrement_ids.append(stored[auto])
        pending.note(stored)
        await self._run_after(ctx, triggers, None, stored, action)

    async def _run_after(
        self,
        ctx: Context,
        triggers: RowTriggerList,
        old: list[Value] | None,
        new: list[Value] | None,
        action: str = "ABORT",
    ) -> None:
        if triggers.after:
            with suppress(IgnoreRow):
                await self.triggers.run(ctx, triggers.after, old, new, action)

    async def _make_room(self, ctx: Context, space: Space, row: list[Value], old: list[Value] | None) -> int:
        """Delete the tuples that conflict with `row` in a unique index, for OR REPLACE. Returns their number."""
        count = 0
        for index in list(space.indexes.values()):
            if not index.is_unique:
                continue
            key = index.key_def.extract_values(row)
            if any(value is None for value in key):
                continue
            found = self._dml.sql_reads.get(ctx, space, index.iid, key)
            if found is None or (old is not None and found == pack(old)):
                continue
            await self._delete_row(ctx, space, unpack(found), self.triggers.of(space, "DELETE", None), None)
            count += 1
        return count

    # --- UPDATE ---

    def _plan(
        self,
        ctx: Context,
        key: Hashable,
        change: sql_nodes.Update | sql_nodes.Delete,
        params: Sequence[Value],
        special: Special | None,
    ) -> ChangePlan:
        """Return the plan of an UPDATE or DELETE. Those of the steps of triggers are kept: many rows fire them."""
        version, action = self._queries.schema.version, change.action if isinstance(change, sql_nodes.Update) else ""
        mark = key, action
        plan = self._step_plans.get(mark) if special is not None else None
        if isinstance(plan, ChangePlan) and plan.version == version:
            return plan
        space = self._space(change.table)
        triggers = self._triggers_of(space, change)
        self._refuse_view(space, bool(triggers))
        if isinstance(change, sql_nodes.Update):
            places = self._rows.updated_places(ctx, space, change, params, special)
            has_keys = self.foreign_keys.concern(space, places)
        else:
            places, has_keys = [], self.foreign_keys.has_children(space)
        finder = self._rows.finder(key, space, change, special)
        plan = ChangePlan(version, space, triggers, finder, places, has_keys=has_keys)
        if special is not None:
            self._keep(mark, plan)
        return plan

    def _keep(self, mark: Hashable, plan: InsertPlan | ChangePlan) -> None:
        if len(self._step_plans) >= _KEPT_MAX:
            self._step_plans.clear()
        self._step_plans[mark] = plan

    async def update(
        self, ctx: Context, key: Any, update: sql_nodes.Update, params: Sequence[Value], special: Special | None = None
    ) -> Changed:
        """Run an UPDATE. Raises as `insert`."""
        while True:
            plan = self._plan(ctx, key, update, params, special)
            space, triggers, places, key_count = plan.space, plan.triggers, plan.places, plan.key_count
            definition = space.definition
            found = await plan.finder.rows(ctx, params, special)
            if self._is_same(space, definition):
                break
        result = Changed()
        writer = None if plan.has_keys else self._writer(ctx, space, triggers, update.action)
        for values in found:
            if writer is not None:
                count = plan.plain.run(writer, values[:key_count], values[key_count:])
                if count is not None:
                    result.row_count += count
                    continue
            new_values = dict(zip(places, values[key_count:], strict=True))
            self._check_same(space, definition)
            if definition.opts.view:
                old = values[:key_count]
                new = [new_values.get(number, value) for number, value in enumerate(old)]
                await self.triggers.run(ctx, triggers.instead, old, new, update.action)
                continue
            await self._update_row(ctx, space, values[:key_count], new_values, update.action, triggers, result)
            writer = None if plan.has_keys else self._writer(ctx, space, triggers, update.action)
        return result

    def _writer(self, ctx: Context, space: Space, triggers: RowTriggerList, action: str) -> TransactionWriter | None:
        """Return a writer for rows without triggers and an OR clause, until the next wait; None for others."""
        if triggers or action != "ABORT" or space.definition.opts.view:
            return None
        return self._dml.row_writer(ctx, space)

    async def _update_row(
        self,
        ctx: Context,
        space: Space,
        primary_key: list[Value],
        new_values: dict[int, Value],
        action: str,
        triggers: RowTriggerList,
        result: Changed,
    ) -> None:
        raw = self._dml.sql_reads.get(ctx, space, 0, primary_key)
        if raw is None:
            return
        fields = space.definition.fields
        old = padded(unpack(raw), len(fields))
        new = list(old)
        for place, value in new_values.items():
            new[place] = value
        if not triggers and not check_updated(space, new, action):  # REPLACE fills in defaults
            return
        for place in new_values:
            new[place] = convert(new[place], fields[place].type.value)
        if triggers.before:
            try:
                await self.triggers.run(ctx, triggers.before, old, new, action)
            except IgnoreRow:
                return
            raw = self._dml.sql_reads.get(ctx, space, 0, primary_key)
            if raw is None:
                return
            now = padded(unpack(raw), len(fields))
            new = [new[number] if number in new_values else value for number, value in enumerate(now)]
        if triggers and not check_updated(space, new, action):
            return
        for place in range(count_of(raw), max(new_values, default=0)):
            # A tuple that lacks the changed field also gets the fields before it.
            new_values.setdefault(place, new[place])
        if action == "IGNORE" and self._is_taken(ctx, space, new, new_values):
            return
        await self._store_updated(ctx, space, primary_key, old, new, new_values, action, result)
        await self._run_after(ctx, triggers, old, new, action)

    def _is_taken(self, ctx: Context, space: Space, new: list[Value], changed: dict[int, Value]) -> bool:
        """Return whether a unique index with a changed column has the key of the new row. As in Tarantool, the old row
        itself counts, and so does nil.
        """
        for index in space.indexes.values():
            if index.is_unique and any(part.fieldno in changed for part in index.definition.parts):
                key = index.key_def.extract_values(new)
                if self._dml.sql_reads.select(ctx, space, index.iid, IteratorType.EQ, 0, 1, key):
                    return True
        return False

    async def _store_updated(
        self,
        ctx: Context,
        space: Space,
        primary_key: list[Value],
        old: list[Value],
        new: list[Value],
        new_values: dict[int, Value],
        action: str,
        result: Changed,
    ) -> None:
        pending = self.foreign_keys.before_store(ctx, space, old, new, new_values)
        result.row_count += 1  # as in Tarantool, even if the write fails and IGNORE hides that
        try:
            if action == "REPLACE":
                # As in Tarantool, the removed row and the added row are both counted.
                result.row_count += 1 + await self._make_room(ctx, space, new, old)
                await completed(self._dml.write(ctx, space, Request.delete(primary_key)))
                await completed(self._dml.write(ctx, space, Request.replace(pack(new))))
                await pending.run_replaced(new)
            else:
                operations = [["=", place + 1, new[place]] for place in sorted(new_values)]
                writer = self._dml.row_writer(ctx, space)
                if writer is None:
                    await completed(self._dml.write(ctx, space, Request.update(primary_key, operations)))
                else:
                    writer.change(primary_key, operations)
        except BoxError:
            if action == "IGNORE":
                return
            raise
        if action != "REPLACE":
            await pending.run(new)

    # --- DELETE ---

    async def delete(
        self, ctx: Context, key: Any, delete: sql_nodes.Delete, params: Sequence[Value], special: Special | None = None
    ) -> Changed:
        """Run a DELETE. Raises as `insert`."""
        while True:
            plan = self._plan(ctx, key, delete, params, special)
            space, triggers, definition = plan.space, plan.triggers, plan.space.definition
            is_view = definition.opts.view
            if delete.where is None and not (triggers or is_view):  # Tarantool empties the table without reading it
                space.check_access(ctx.credentials, Privilege.W)
            found = await plan.finder.rows(ctx, params, special)
            if self._is_same(space, definition):
                break
        result = Changed()
        writer = None if plan.has_keys else self._writer(ctx, space, triggers, "ABORT")
        for values in found:
            if writer is not None:
                result.row_count += writer.change(values, None)
                continue
            self._check_same(space, definition)
            if is_view:
                await self.triggers.run(ctx, triggers.instead, values, None)
                continue
            raw = self._dml.sql_reads.get(ctx, space, 0, values)
            if raw is not None:
                await self._delete_row(ctx, space, unpack(raw), triggers, result)
        return result

    async def _delete_row(
        self, ctx: Context, space: Space, old: list[Value], triggers: RowTriggerList, result: Changed | None
    ) -> None:
        old = padded(old, len(space.definition.fields))
        if triggers.before:
            try:
                await self.triggers.run(ctx, triggers.before, old, None)
            except IgnoreRow:
                return
        pending = self.foreign_keys.before_store(ctx, space, old, None)
        key = space.index(0).key_def.extract_values(old)
        writer = self._dml.row_writer(ctx, space)
        if writer is not None:
            is_removed = writer.change(key, None)
        else:
            is_removed = await completed(self._dml.write(ctx, space, Request.delete(key))) is not None
        if is_removed and result is not None:
            result.row_count += 1
        await pending.run(None)
        await self._run_after(ctx, triggers, old, None)

    # --- for prepared statements ---

    def check(
        self, ctx: Context, key: Any, change: sql_nodes.Change, params: Sequence[Value], special: Special | None = None
    ) -> Compiled | None:
        """Raise the errors that a change would raise before it runs.

        Returns the query that finds its rows, or None if it needs none.
        """
        space = self._space(change.table)
        self._refuse_view(space, bool(self._triggers_of(space, change)))
        if isinstance(change, sql_nodes.Insert):
            return self._analyse_rows(ctx, key, change, places_of(space, change), space, params, special)
        if isinstance(change, sql_nodes.Update):
            self._rows.updated_places(ctx, space, change, params, special)
        return self._rows.finder(key, space, change, special).compiled(ctx, params, special)

    # --- for foreign keys ---

    async def change_child(
        self, ctx: Context, space: Space, old: list[Value], new: list[Value] | None, places: list[int]
    ) -> None:
        """Apply the action of a foreign key to a child row: delete it (`new` is None), or set the columns at `places`,
        those of the key, to the values in `new`.
        """
        if new is None:
            await self._delete_row(ctx, space, old, self.triggers.of(space, "DELETE", None), None)
            return
        names = [space.definition.fields[place].name or "" for place in places if new[place] != old[place]]
        key, values = space.index(0).key_def.extract_values(old), {place: new[place] for place in places}
        await self._update_row(ctx, space, key, values, "ABORT", self.triggers.of(space, "UPDATE", names), Changed())

    def truncated(self, name: str) -> Space:
        """Return the space of a TRUNCATE TABLE. Raises SQL_EXECUTE if it may not be emptied."""
        space = self._space(name)
        if space.definition.opts.view:
            raise execute_error(f"can not truncate space '{name}' because space is a view")
        if self.foreign_keys.has_children(space):
            raise execute_error(f"can not truncate space '{name}' because other objects depend on it")
        return space

    async def truncate(self, ctx: Context, name: str) -> Changed:
        """Run a TRUNCATE TABLE."""
        space = self.truncated(name)
        space.check_access(ctx.credentials, Privilege.W)
        request, schema = Request.upsert(pack([space.id, 1]), [["+", 2, 1]]), self._queries.schema
        before, ctx.credentials = ctx.credentials, schema.admin
        try:
            outcome = self._dml.write(ctx, schema.space(SpaceId.TRUNCATE), request)
        finally:
            ctx.credentials = before
        await completed(outcome)
        return Changed()
