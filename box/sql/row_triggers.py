"""Runs the triggers of SQL for one row."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from box.errors import BoxError
from box.session import Context
from box.sql import sql_nodes
from box.sql.casts import in_trigger
from box.sql.catalogue import columns_of
from box.sql.exact_names import with_exact_names
from box.sql.flat_calls import deeper
from box.sql.reading import ROW_COUNT
from box.sql.scope import KnownColumn, Special, scope_of
from box.sql.stored_values import Value, execute_error
from box.sql.trigger_texts import trigger_of

if TYPE_CHECKING:
    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.sql.reading import QueryRunner
    from box.sql.row_changes import ChangeRunner
    from box.sql.row_expressions import RowExpressions

RowTriggerList = list[tuple["Space", sql_nodes.CreateTrigger]]

_DEPTH_MAX: Final = 1000
"""The limit of Tarantool for nested triggers and actions of foreign keys."""
_KEPT_MAX: Final = 1000
"""The number of triggers, or of their parts, that are remembered."""


class RowTriggers:
    """The triggers of all tables of one node."""

    def __init__(
        self, schema: Schema, queries: QueryRunner, changes: ChangeRunner, expressions: RowExpressions
    ) -> None:
        self._schema = schema
        self._expressions = expressions
        self._queries = queries
        self._changes = changes
        self._running: dict[Context, list[str | None]] = {}
        """The names of the running triggers in each context, outermost first. None stands for the action of a foreign
        key.
        """
        self._checked: set[tuple[str, int]] = set()
        """The texts of triggers whose steps have been compiled, with the version of the dictionary."""
        self._found: dict[tuple[Any, ...], tuple[int, RowTriggerList]] = {}
        """What `of` has found, with the version of the dictionary."""
        self._specials: dict[tuple[int, bool, bool], _SpecialColumns] = {}
        """The columns of NEW and OLD by the id of the space, and whether the trigger has NEW and OLD."""

    def ready(self, space: Space, event: str, columns: list[str] | None) -> RowTriggerList:
        """Return the triggers of `of` after compiling their steps, and the triggers that these may fire.

        Tarantool does so even if no row fires them, and so raises what is wrong with any step.

        Raises:
            ClientError: a step is wrong.
        """
        triggers = self.of(space, event, columns)
        for _, trigger in triggers:
            self._check(space, trigger)
        return triggers

    def _check(self, space: Space, trigger: sql_nodes.CreateTrigger) -> None:
        mark = trigger.text, self._schema.version
        if mark in self._checked:
            return
        if len(self._checked) >= _KEPT_MAX:
            self._checked.clear()
        self._checked.add(mark)
        ctx = Context.admin(self._schema.admin)
        special = self._special(
            space, trigger, None if trigger.event == "INSERT" else [], None if trigger.event == "DELETE" else []
        )
        try:
            if trigger.when is not None:
                self._queries.compiler(ctx, ()).expressions(scope_of(special)).compile(trigger.when)
            for number, step in enumerate(trigger.steps):
                self._check_step(ctx, (trigger.text, number), step, special)
        except BoxError:
            self._checked.discard(mark)
            raise

    def _check_step(self, ctx: Context, key: Any, step: sql_nodes.Change | sql_nodes.Select, special: Special) -> None:
        if isinstance(step, sql_nodes.Select):
            compiler = self._queries.compiler(ctx, special.values)
            compiler.is_in_trigger = True
            compiler.compile(step, scope_of(special))
        else:
            self._changes.check(ctx, key, step, (), special)

    def of(self, space: Space, event: str, columns: list[str] | None) -> RowTriggerList:
        """Return the triggers of a table for an event, the newest first.

        `columns` are the names that an update sets; None for other events.
        """
        if not self._schema.sql_triggers:
            return []
        mark = space.id, event, None if columns is None else tuple(columns)
        known = self._found.get(mark)
        if known is not None and known[0] == self._schema.version:
            return known[1]
        found = self._find(space, event, columns)
        if len(self._found) >= _KEPT_MAX:
            self._found.clear()
        self._found[mark] = self._schema.version, found
        return found

    def _find(self, space: Space, event: str, columns: list[str] | None) -> RowTriggerList:
        found = []
        for definition in self._schema.sql_triggers.values():
            if definition.space_id != space.id:
                continue
            trigger = trigger_of(with_exact_names(self._schema, definition.sql, (definition.name,)))
            if trigger.event != event:
                continue
            if columns is not None and trigger.columns is not None and not set(columns) & set(trigger.columns):
                continue
            found.append((space, trigger))
        return found

    async def run(
        self,
        ctx: Context,
        triggers: RowTriggerList,
        time: str,
        old: list[Value] | None,
        new: list[Value] | None,
        action: str = "ABORT",
    ) -> None:
        """Run the triggers of a row for one `time`: BEFORE, AFTER or INSTEAD. The OR clause of the statement applies to
        all steps.

        Raises:
            IgnoreRow: a trigger wants the row left alone.
            BoxError: a step raised it.
        """
        for space, trigger in triggers:
            if trigger.time == time:
                await self._run_one(ctx, space, trigger, old, new, action)

    async def _run_one(
        self,
        ctx: Context,
        space: Space,
        trigger: sql_nodes.CreateTrigger,
        old: list[Value] | None,
        new: list[Value] | None,
        action: str,
    ) -> None:
        settings = self._schema.session_settings
        if trigger.name in self._running.get(ctx, ()) and not settings.value(ctx.session, "sql_recursive_triggers"):
            return
        counts = ctx.session.storage
        before = counts.get(ROW_COUNT, 0)  # as in Tarantool, what a trigger counts is forgotten at its end
        try:
            await self.run_inside(ctx, trigger.name, self._steps(ctx, space, trigger, old, new, action))
        finally:
            counts[ROW_COUNT] = before

    async def run_inside(self, ctx: Context, name: str | None, work: Coroutine[Any, Any, None]) -> None:
        """Run a trigger one level deeper. `name` is None for the action of a foreign key.

        Raises:
            ClientError: SQL_EXECUTE, there are too many levels.
            BoxError: `work` raised it.
        """
        running = self._running.setdefault(ctx, [])
        if len(running) >= _DEPTH_MAX:
            work.close()
            raise execute_error("too many levels of trigger recursion")
        running.append(name)
        try:
            await deeper(work)
        finally:
            running.pop()
            if not running:
                del self._running[ctx]

    async def _steps(
        self,
        ctx: Context,
        space: Space,
        trigger: sql_nodes.CreateTrigger,
        old: list[Value] | None,
        new: list[Value] | None,
        action: str,
    ) -> None:
        special, counts = self._special(space, trigger, old, new), ctx.session.storage
        if trigger.when is not None:
            held = self._expressions.value(
                ctx, (trigger.text, "when"), _as_condition(trigger.when), lambda: scope_of(special), special.values
            )
            if held is not True:
                return
        for number, step in enumerate(trigger.steps):
            key = (trigger.text, number)
            if action != "ABORT" and isinstance(step, sql_nodes.Insert | sql_nodes.Update):
                step = replace(step, action=action)
            if isinstance(step, sql_nodes.Insert):
                changed = await self._changes.insert(ctx, key, step, (), special)
            elif isinstance(step, sql_nodes.Update):
                changed = await self._changes.update(ctx, key, step, (), special)
            elif isinstance(step, sql_nodes.Delete):
                changed = await self._changes.delete(ctx, key, step, (), special)
            else:
                await self._select(ctx, key, step, special)
                continue
            counts[ROW_COUNT] = changed.row_count

    def _special(
        self, space: Space, trigger: sql_nodes.CreateTrigger, old: list[Value] | None, new: list[Value] | None
    ) -> Special:
        """Return NEW and OLD as parameters; those of NEW come first."""
        mark = space.id, new is not None, old is not None
        known = self._specials.get(mark)
        if known is None or known.version != self._schema.version:
            known = self._specials[mark] = _SpecialColumns(self._schema.version, space, *mark[1:])
        return Special(known.columns, known.values(new, old), trigger.name)

    async def _select(self, ctx: Context, key: Any, select: sql_nodes.Select, special: Special) -> None:
        def make(compiler: Any) -> Any:
            compiler.is_in_trigger = True
            return compiler.compile(select, scope_of(special))

        compiled = self._queries.compiled(ctx, (key, special.mark), make, special.values)
        await self._queries.rows(ctx, compiled, special.values)


def _as_condition(expr: sql_nodes.Expr) -> sql_nodes.Expr:
    return sql_nodes.Binary("AND", expr, sql_nodes.Literal(True))


class _SpecialColumns:
    """The columns of NEW, OLD or both as parameters, in this order, under one version of the dictionary."""

    __slots__ = ("_count", "_numbers", "columns", "version")

    def __init__(self, version: int, space: Space, has_new: bool, has_old: bool) -> None:
        self.version = version
        self.columns: dict[str, list[KnownColumn]] = {}
        self._count = len(space.definition.fields)
        self._numbers: list[int] = []
        """The places of the values that `in_trigger` may change: those of NUMBER."""
        place = 0
        for name in [name for name, is_there in (("NEW", has_new), ("OLD", has_old)) if is_there]:
            self.columns[name] = columns_of(space)
            for column in self.columns[name]:
                if column.type == "number":
                    self._numbers.append(place)
                place += 1
                column.sql = f"lb_truth(:p{place})" if column.kind == "bool" else f":p{place}"

    def values(self, new: list[Value] | None, old: list[Value] | None) -> list[Value]:
        """Return the values of the parameters."""
        values: list[Value] = []
        for row in (new, old):
            if row is not None:
                values += row[: self._count]
                values += [None] * (self._count - len(row))
        for place in self._numbers:
            values[place] = in_trigger(values[place], "number")
        return values
