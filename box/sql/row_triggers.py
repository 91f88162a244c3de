"""Runs the triggers of SQL for one row."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from box.errors import BoxError
from box.session import Context
from box.sql import sql_nodes
from box.sql.exact_names import with_exact_names
from box.sql.flat_calls import deeper
from box.sql.reading import ROW_COUNT
from box.sql.scope import Special, scope_of
from box.sql.stored_values import Value, execute_error
from box.sql.trigger_lists import NONE, RowTrigger, RowTriggerList, StepKey
from box.sql.trigger_texts import trigger_of

if TYPE_CHECKING:
    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.sql.query import Query, QueryCompiler
    from box.sql.reading import QueryRunner
    from box.sql.row_changes import ChangeRunner
    from box.sql.row_expressions import RowExpressions


_DEPTH_MAX: Final = 1000
"""The limit of Tarantool for nested triggers and actions of foreign keys."""
_KEPT_MAX: Final = 1000
"""The number of triggers, or of their parts, that are remembered."""
_SHALLOW: Final = 8
"""The number of nested triggers that run on the stack of their caller. Those below them run as `flat_calls` has it."""


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

    def ready(self, space: Space, event: str, columns: list[str] | None) -> RowTriggerList:
        """Return the triggers of `of` after compiling their steps, and the triggers that these may fire.

        Tarantool does so even if no row fires them, and so raises what is wrong with any step.

        Raises:
            ClientError: a step is wrong.
        """
        triggers = self.of(space, event, columns)
        for trigger in triggers.all:
            self._check(trigger)
        return triggers

    def _check(self, trigger: RowTrigger) -> None:
        mark = trigger.text, self._schema.version
        if mark in self._checked:
            return
        if len(self._checked) >= _KEPT_MAX:
            self._checked.clear()
        self._checked.add(mark)
        ctx = Context.admin(self._schema.admin)
        special = trigger.special([], [])
        try:
            if trigger.when is not None:
                self._queries.compiler(ctx, ()).expressions(scope_of(special)).compile(trigger.when)
            for key, step in trigger.steps("ABORT"):
                self._check_step(ctx, key, step, special)
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
            return NONE
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
            found.append(RowTrigger(space, trigger))
        return RowTriggerList(found)

    async def run(
        self,
        ctx: Context,
        triggers: list[RowTrigger],
        old: list[Value] | None,
        new: list[Value] | None,
        action: str = "ABORT",
    ) -> None:
        """Run triggers for a row. The OR clause of the statement applies to all steps.

        Raises:
            IgnoreRow: a trigger wants the row left alone.
            BoxError: a step raised it.
        """
        counts = ctx.session.storage
        for trigger in triggers:
            if trigger.name in self._running.get(ctx, ()) and not self._is_recursive(ctx):
                continue
            depth = self._enter(ctx, trigger.name)
            before = counts.get(ROW_COUNT, 0)  # as in Tarantool, what a trigger counts is forgotten at its end
            try:
                special = trigger.special(old, new)
                if trigger.when is None or self._holds(ctx, trigger, special):
                    work = self._steps(ctx, trigger, special, action)
                    await (work if depth <= _SHALLOW else deeper(work))
            finally:
                self._leave(ctx)
                counts[ROW_COUNT] = before

    def _is_recursive(self, ctx: Context) -> bool:
        return bool(self._schema.session_settings.value(ctx.session, "sql_recursive_triggers"))

    def _enter(self, ctx: Context, name: str | None) -> int:
        """Note that a trigger begins. Returns its level, from 1.

        Raises:
            ClientError: SQL_EXECUTE, there are too many levels.
        """
        running = self._running.get(ctx)
        if running is None:
            running = self._running[ctx] = []
        if len(running) >= _DEPTH_MAX:
            raise execute_error("too many levels of trigger recursion")
        running.append(name)
        return len(running)

    def _leave(self, ctx: Context) -> None:
        """Note that a trigger has ended."""
        running = self._running[ctx]
        running.pop()
        if not running:
            del self._running[ctx]

    async def run_inside(self, ctx: Context, name: str | None, work: Coroutine[Any, Any, None]) -> None:
        """Run a trigger one level deeper. `name` is None for the action of a foreign key.

        Raises:
            ClientError: SQL_EXECUTE, there are too many levels.
            BoxError: `work` raised it.
        """
        try:
            self._enter(ctx, name)
        except BoxError:
            work.close()
            raise
        try:
            await deeper(work)
        finally:
            self._leave(ctx)

    def _holds(self, ctx: Context, trigger: RowTrigger, special: Special) -> bool:
        """Return whether the WHEN of a trigger is true."""
        assert trigger.condition is not None
        scope, values = lambda: scope_of(special), special.values
        return self._expressions.value(ctx, trigger.condition_key, trigger.condition, scope, values) is True

    async def _steps(self, ctx: Context, trigger: RowTrigger, special: Special, action: str) -> None:
        counts, changes = ctx.session.storage, self._changes
        for key, step in trigger.steps(action):
            if isinstance(step, sql_nodes.Insert):
                changed = await changes.insert(ctx, key, step, (), special)
            elif isinstance(step, sql_nodes.Update):
                changed = await changes.update(ctx, key, step, (), special)
            elif isinstance(step, sql_nodes.Delete):
                changed = await changes.delete(ctx, key, step, (), special)
            else:
                await self._select(ctx, trigger, key, step, special)
                continue
            counts[ROW_COUNT] = changed.row_count

    async def _select(
        self, ctx: Context, trigger: RowTrigger, key: StepKey, select: sql_nodes.Select, special: Special
    ) -> None:
        def make(compiler: QueryCompiler) -> Query:
            compiler.is_in_trigger = True
            return compiler.compile(select, scope_of(special))

        compiled = trigger.queries.get(key)
        if compiled is None:
            compiled = trigger.queries[key] = self._queries.compiled(ctx, (key, special.mark), make, ())
        if self._expressions.can_run(compiled):
            self._expressions.rows(ctx, compiled, special.values)
        else:
            await self._queries.rows(ctx, compiled, special.values)
