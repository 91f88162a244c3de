"""The entry to SQL: `Sql.execute` runs a statement, `Sql.prepare` checks a statement and keeps it.

```
text  ->  parse (cached)  ->  bind parameters  ->  query     SQLite over the spaces
                                                   change    rows from SQLite, changed by Dml one by one
                                                   others    rows of system spaces, transactions, settings
```

A statement that changes data is all or nothing. Outside of a transaction it opens and commits its own. Inside a
transaction an error rolls back to a savepoint at the start of the statement.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from box.errors import BoxError
from box.sql import sql_nodes
from box.sql.definer import Definer
from box.sql.definition_checks import DefinitionChecks
from box.sql.exact_names import with_exact_names
from box.sql.explain import explain, explain_fields
from box.sql.flat_calls import run_flat
from box.sql.foreign_keys import ForeignKeys
from box.sql.hooks import DictionaryFunctions
from box.sql.params import bind, check_values
from box.sql.point_statements import Point, PointStatements
from box.sql.pragmas import PragmaRunner, pragma_columns
from box.sql.prepared import Prepared, PreparedStatements
from box.sql.reading import ROW_COUNT, QueryRunner
from box.sql.result import Changed, Result, ResultField, ResultFields, Rows
from box.sql.row_changes import ChangeRunner
from box.sql.row_expressions import RowExpressions
from box.sql.row_triggers import RowTriggers
from box.sql.shared_statements import parsed_text, shared_statement
from box.sql.stored_values import Value
from box.sql.transactions import TransactionRunner
from box.sql.trigger_texts import RaisedError
from box.txn.pending import completed
from box.wire.constants import RequestType

if TYPE_CHECKING:
    from box.schema.schema import Schema
    from box.session import Context
    from box.sql.reading import Compiled
    from box.txn.dml import Dml
    from box.txn.lifecycle import TransactionManager


class Sql:
    """Runs the SQL statements of one node."""

    def __init__(
        self,
        schema: Schema,
        dml: Dml,
        txns: TransactionManager,
        *,
        prepared: PreparedStatements,
        version: str,
        random_bytes: Callable[[int], bytes],
        count: Callable[[int, int], None],
        clock: Callable[[], float],
        has_node_ended: Callable[[], bool],
    ) -> None:
        self._schema = schema
        self._count = count
        self._txns = txns
        self._queries = QueryRunner(
            schema, dml, version=version, random_bytes=random_bytes, clock=clock, has_node_ended=has_node_ended
        )
        self._expressions = RowExpressions(self._queries)
        self._changes = changes = ChangeRunner(self._queries, dml, self._expressions)
        changes.triggers = RowTriggers(schema, self._queries, changes, self._expressions)
        changes.foreign_keys = self._foreign_keys = ForeignKeys(schema, dml, changes)
        self._points = PointStatements(schema, dml, self._queries, changes.triggers, self._foreign_keys)
        self._definer = Definer(schema, dml, self._queries)
        self._definition_checks = DefinitionChecks(schema, dml, self._queries)
        self._transactions = TransactionRunner(txns)
        self._pragmas = PragmaRunner(schema, dml.sql_reads)
        self.prepared = prepared
        self.for_dictionary = DictionaryFunctions(schema, self._queries, self._expressions)
        """The functions of SQL that the dictionary calls."""

    def end(self) -> None:
        """Keep nothing that refers to the indexes of spaces: the node has ended."""
        self._queries.end()
        self._expressions.end()

    # --- execution ---

    async def execute(self, ctx: Context, text: str, params: Sequence[Value]) -> Result:
        """Run a statement. Each of `params` is a value, or a map of one name to a value.

        Raises:
            ClientError: SQL_SYNTAX_NEAR_TOKEN or another error of the text; SQL_BIND_NOT_FOUND or another error of
                the parameters; SQL_EXECUTE; SQL_TYPE_MISMATCH.
            AccessDeniedError: the user lacks a right.
            UnsupportedError: SQL does not support it.
            BoxError: reading or changing the data raised it.
        """
        parsed, given = self._statement(ctx, text, params)
        point = self._point(ctx, parsed)
        result = None if point is None else await self._execute_point(ctx, point, given)
        if result is not None:
            return result
        values = self._bound(ctx, parsed, given)
        if parsed.trailing is not None:
            self._analyse(ctx, parsed, values)
            raise parsed.trailing
        self._count(RequestType.EXECUTE, 1)
        result = await self._run(ctx, parsed, values)
        ctx.session.storage[ROW_COUNT] = result.row_count if isinstance(result, Changed) else 0
        return result

    def _bound(self, ctx: Context, parsed: sql_nodes.Parsed, params: Sequence[Value]) -> Sequence[Value]:
        """Arrange the values of parameters, unless they are those of constants. A parameter without a place is an error
        after those of the statement.

        Raises:
            BoxError: see `bind`, and an error of the statement.
        """
        if parsed.constants:
            return params
        check_values(params)
        try:
            return bind(parsed.parameters, params)
        except BoxError:
            self._result_fields(ctx, parsed)
            if parsed.trailing is not None:
                raise parsed.trailing from None
            raise

    def _parsed(self, text: str) -> sql_nodes.Parsed:
        return parsed_text(with_exact_names(self._schema, text) if self._schema.is_of_3 else text)

    def _statement(self, ctx: Context, text: str, params: Sequence[Value]) -> tuple[sql_nodes.Parsed, Sequence[Value]]:
        """Return a parsed statement and the values to run it with: `params`, or those of its constants.

        A session with settings may want the texts of result columns, which shared statements do not have.
        """
        if params or self._schema.session_settings.concern_sql(ctx.session):
            return self._parsed(text), params
        return shared_statement(with_exact_names(self._schema, text) if self._schema.is_of_3 else text)

    async def _execute_point(self, ctx: Context, point: Point, params: Sequence[Value]) -> Result | None:
        """Run a statement on the fast path. Returns None, having done nothing, for values that need the general
        path.
        """
        try:
            if point.is_query:
                key = point.key(params)
                if key is None:
                    return None
                rows = point.rows(ctx, key)
                self.counted(ctx, 0)
                return Rows(point.fields, rows)
            written = point.run(ctx, params)
        except BoxError:
            self._count(RequestType.EXECUTE, 1)
            raise
        if written is None:
            return None
        await completed(written[1])
        self.counted(ctx, written[0])
        return Changed(written[0])

    def point(self, ctx: Context, text: str, params: Sequence[Value] = ()) -> tuple[Point | None, Sequence[Value]]:
        """Return the fast path of a statement that concerns one row by its key, None for any other statement; and the
        values to run it with: `params`, or those of the constants in the text.

        Raises:
            ClientError: the text is wrong.
        """
        parsed, values = self._statement(ctx, text, params)
        return self._point(ctx, parsed), values

    def _point(self, ctx: Context, parsed: sql_nodes.Parsed) -> Point | None:
        if self._schema.session_settings.concern_sql(ctx.session):
            return None
        return self._points.find(ctx, parsed)

    def query_at_once(
        self, ctx: Context, text: str, params: Sequence[Value], found: tuple[Point | None, Sequence[Value]]
    ) -> Rows | None:
        """Run a query without a loop; `found` is what `point` has found. Returns None for any other statement, for a
        long query, and for one that calls functions of the user.

        Raises:
            BoxError: see `execute`.
        """
        try:
            rows = self._query_at_once(ctx, text, params, *found)
        except BoxError:
            self._count(RequestType.EXECUTE, 1)
            raise
        if rows is not None:
            self.counted(ctx, 0)
        return rows

    def _query_at_once(
        self, ctx: Context, text: str, params: Sequence[Value], point: Point | None, values: Sequence[Value]
    ) -> Rows | None:
        if point is not None and point.is_query:
            key = point.key(values)
            if key is not None:
                return Rows(point.fields, point.rows(ctx, key))
        parsed, given = self._statement(ctx, text, params)
        if parsed.trailing is not None or not isinstance(parsed.statement, sql_nodes.Select):
            return None
        bound = self._bound(ctx, parsed, given)
        return self._queries.select_at_once(ctx, parsed.key, parsed.statement, bound)

    def prepared_text(self, ctx: Context, statement_id: int) -> str:
        """Return the text of a prepared statement.

        Raises:
            ClientError: WRONG_QUERY_ID, SQL_EXECUTE (the statement has expired).
        """
        prepared = self.prepared.find(ctx.session, statement_id)
        self.prepared.check_fresh(prepared, self._schema.version)
        return prepared.text

    def prepared_point(self, ctx: Context, statement_id: int) -> Point | None:
        """Return the fast path of a prepared statement that concerns one row by its key, or None for any other
        statement.

        Raises:
            BoxError: see `execute_prepared`.
        """
        point = self._point(ctx, self._parsed(self.prepared_text(ctx, statement_id)))
        if point is not None:
            self._points.remember(statement_id, point)
        return point

    def known_point(self, ctx: Context, statement_id: int) -> Point | None:
        """Return the fast path that `prepared_point` has found for a statement since the last change of the dictionary,
        or None.

        Raises:
            BoxError: see `execute_prepared`.
        """
        point = self._points.prepared(statement_id)
        if point is None or not PreparedStatements.has(ctx.session, statement_id) or ctx.txn is not None:
            return None
        return None if self._schema.session_settings.concern_sql(ctx.session) else point

    def count_failed(self) -> None:
        """Count a statement that has failed on the fast path."""
        self._count(RequestType.EXECUTE, 1)

    def counted(self, ctx: Context, row_count: int, times: int = 1) -> None:
        """Count a statement that has run on the fast path, so many times, and set the value of ROW_COUNT()."""
        self._count(RequestType.EXECUTE, times)
        ctx.session.storage[ROW_COUNT] = row_count

    @staticmethod
    def parameters(text: str) -> list[str | None]:
        """Return the names of the parameters of a statement with their marks, such as `:a`; None for `?`.

        Raises:
            ClientError: the text is wrong.
        """
        return parsed_text(text).parameters

    @staticmethod
    @lru_cache(1000)
    def changes_rows(text: str) -> bool:
        """Return whether a statement is INSERT, REPLACE, UPDATE or DELETE.

        Raises:
            ClientError: the text is wrong.
        """
        return isinstance(shared_statement(text)[0].statement, sql_nodes.Insert | sql_nodes.Update | sql_nodes.Delete)

    async def execute_prepared(self, ctx: Context, statement_id: int, params: Sequence[Value]) -> Result:
        """Run a prepared statement.

        Raises:
            ClientError: WRONG_QUERY_ID, SQL_EXECUTE (the statement has expired).
            BoxError: see `execute`.
        """
        return await self.execute(ctx, self.prepared_text(ctx, statement_id), params)

    def _analyse(self, ctx: Context, parsed: sql_nodes.Parsed, values: Sequence[Value]) -> None:
        """Raise the errors that a query or a change would raise before it runs."""
        statement = parsed.statement
        if isinstance(statement, sql_nodes.Select):
            self._queries.analyse(ctx, parsed.key, statement, values)
        elif isinstance(statement, sql_nodes.Pragma):
            pragma_columns(statement)
        else:
            self._query_of(ctx, parsed.key, statement, values)

    async def _run(self, ctx: Context, parsed: sql_nodes.Parsed, values: Sequence[Value]) -> Result:
        statement = parsed.statement
        if isinstance(statement, sql_nodes.Select):
            return await self._queries.select(ctx, parsed.key, statement, values)
        if isinstance(statement, sql_nodes.TransactionStep):
            return await self._transactions.run(ctx, statement)
        if isinstance(statement, sql_nodes.SetSession):
            self._schema.session_settings.set(ctx.session, statement.name, statement.value)
            return Changed(1)
        if isinstance(statement, sql_nodes.Pragma):
            return self._pragmas.run(statement, is_full=self._queries.has_full_metadata(ctx))
        if isinstance(statement, sql_nodes.Explain):
            return self._explain(ctx, parsed.key, statement, values)
        if isinstance(statement, sql_nodes.Insert | sql_nodes.Update):
            return await self._atomic(ctx, statement.action, lambda: self._change(ctx, parsed, values))
        if isinstance(statement, sql_nodes.Delete | sql_nodes.Truncate):
            return await self._atomic(ctx, "ABORT", lambda: self._change(ctx, parsed, values))
        definition = statement
        return await self._atomic(ctx, "ABORT", lambda: self._definer.run(ctx, definition))

    def _explain(self, ctx: Context, key: Hashable, explained: sql_nodes.Explain, values: Sequence[Value]) -> Rows:
        compiled = self._query_of(ctx, key, explained.statement, values)
        rows = explain(self._queries, ctx, compiled, values, is_plan=explained.is_plan)
        return Rows(ResultFields(explain_fields(explained.is_plan)), rows, self._queries.has_full_metadata(ctx))

    def _query_of(
        self, ctx: Context, key: Hashable, statement: sql_nodes.Statement, values: Sequence[Value]
    ) -> Compiled | None:
        """Return the query of a statement, or the query that finds the rows of a change; None if there is none. Raises
        errors of the query.
        """
        if isinstance(statement, sql_nodes.Select):
            return self._queries.compiled(ctx, key, lambda compiler: compiler.compile(statement), values)
        if isinstance(statement, sql_nodes.Insert | sql_nodes.Update | sql_nodes.Delete):
            return self._changes.check(ctx, key, statement, values)
        if isinstance(statement, sql_nodes.Truncate):
            self._changes.truncated(statement.table)
        elif isinstance(statement, sql_nodes.Definition):
            self._definition_checks.check(ctx, statement)
        return None

    async def _change(self, ctx: Context, parsed: sql_nodes.Parsed, values: Sequence[Value]) -> Changed:
        statement, changes = parsed.statement, self._changes
        if isinstance(statement, sql_nodes.Insert):
            return await changes.insert(ctx, parsed.key, statement, values)
        if isinstance(statement, sql_nodes.Update):
            return await changes.update(ctx, parsed.key, statement, values)
        if isinstance(statement, sql_nodes.Delete):
            return await changes.delete(ctx, parsed.key, statement, values)
        assert isinstance(statement, sql_nodes.Truncate)
        return await changes.truncate(ctx, statement.table)

    # --- all or nothing ---

    async def _atomic(self, ctx: Context, action: str, work: Callable[[], Coroutine[Any, Any, Changed]]) -> Changed:
        """Run a change. If it fails, undo as much as the OR clause says.

        ABORT undoes the statement, FAIL only the failed row, ROLLBACK the whole transaction.
        """
        txns, txn = self._txns, ctx.txn
        is_alone = txn is None
        if txn is None:
            txn = txns.begin(ctx)
        savepoint, yields = txns.savepoint(ctx), txn.yields
        self._foreign_keys.begin_statement(ctx, is_alone=is_alone)
        try:
            result = await run_flat(work())
            try:
                self._foreign_keys.end_statement(ctx)
            except BoxError:
                action = "ABORT"  # whatever the OR clause says
                raise
        except BaseException as error:
            self._foreign_keys.forget_statement(ctx)
            if isinstance(error, RaisedError):
                action = error.action
            if action == "FAIL" and isinstance(error, BoxError):
                if is_alone:
                    await self._commit(ctx)
            elif ctx.txn is not None and (is_alone or action == "ROLLBACK"):
                txns.rollback_open(ctx, ctx.txn)
            elif ctx.txn is not None and savepoint.is_valid_in(ctx.txn):
                txns.rollback_to_savepoint(ctx, savepoint)
            self._hide(ctx, yields)
            raise
        if is_alone:
            await self._commit(ctx)
        self._hide(ctx, yields)
        return result

    def _hide(self, ctx: Context, yields: int) -> None:
        """Hide what an aborted transaction has changed, if the statement has waited: its fiber goes on later."""
        if ctx.txn is not None and ctx.txn.yields != yields:
            self._txns.hide_doomed(ctx)

    async def _commit(self, ctx: Context) -> None:
        pending = self._txns.commit(ctx)
        if pending is not None:
            await pending.wait()

    # --- prepared statements ---

    def prepare(self, ctx: Context, text: str) -> Prepared:
        """Check a statement without running it, and keep it for the session.

        Raises:
            ClientError: SQL_PREPARE, the cache has no room.
            BoxError: see `execute`.
        """
        self._count(RequestType.PREPARE, 1)
        parsed = self._parsed(text)
        fields = self._result_fields(ctx, parsed)
        if parsed.trailing is not None:
            raise parsed.trailing
        is_full = self._queries.has_full_metadata(ctx)
        return self.prepared.add(ctx.session, text, parsed.parameters, fields, is_full, self._schema.version)

    def _result_fields(self, ctx: Context, parsed: sql_nodes.Parsed) -> list[ResultField] | None:
        """Return the result columns of a statement, None for a change. Raises its errors that depend on no value."""
        statement = parsed.statement
        values: list[Value] = [None] * len(parsed.parameters)
        compiled = self._query_of(ctx, parsed.key, statement, values)
        if isinstance(statement, sql_nodes.Select) and compiled is not None:
            return compiled.fields
        if isinstance(statement, sql_nodes.Pragma):
            return pragma_columns(statement)
        if isinstance(statement, sql_nodes.Explain):
            self._query_of(ctx, parsed.key, statement.statement, values)
            return explain_fields(statement.is_plan)
        return None

    def unprepare(self, ctx: Context, statement_id: int) -> None:
        """Forget a prepared statement of the session.

        Raises:
            ClientError: WRONG_QUERY_ID.
        """
        self.prepared.remove(ctx.session, statement_id)
