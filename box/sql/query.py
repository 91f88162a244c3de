"""Compiles queries for SQLite.

Every relation in FROM gets an alias (`s1`, `s2`, ...), and its columns are named `c0`, `c1`, ... So SQLite never sees a
name that a user has given. The result columns of a query that another query reads get such names, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.sql import aggregates, sql_nodes
from box.sql.aggregates import aggregate_of, counts_rows, functions_of, is_aggregate
from box.sql.calls import SHOWN_PLAIN, CallCompiler
from box.sql.catalogue import Catalogue, UnknownCollation
from box.sql.common_tables import CommonTables
from box.sql.compound_queries import (
    check_sorted,
    combined,
    is_collated,
    keys_of,
    number_of,
    order_terms,
    ordered_place,
    place_of,
    with_ties,
)
from box.sql.expression_compiler import ExpressionCompiler
from box.sql.from_clause import FromCompiler
from box.sql.kinds import as_kind, collation_name, joined, truth
from box.sql.merged_queries import calls, name_of
from box.sql.missing_tables import check_tables
from box.sql.parse.token_reader import generic, limit_exceeded
from box.sql.result_columns import COLUMNS_MAX, check_count, check_distinct, check_parts, compiled_rows, reads_ungrouped
from box.sql.scope import CommonRelation, KnownColumn, QueryScope, StarColumn, Typed, generated_name
from box.sql.stored_values import Texts, Value, execute_error

_COMPOUND_MAX: Final = 30
"""The limit of Tarantool for the operators UNION, EXCEPT and INTERSECT in a query."""


@dataclass(slots=True)
class Query:
    """A compiled query: SQL for SQLite and its result columns. `prefix` is its WITH clause, `suffix` its LIMIT."""

    columns: list[KnownColumn]
    parts: list[tuple[str, list[list[Typed]], str]]
    """For each part of a compound query: `SELECT [DISTINCT] `, its rows of expressions, and the text after them."""
    operators: list[str]
    prefix: str = ""
    suffix: str = ""
    order: list[tuple[int, bool, int]] = field(default_factory=list)
    """The ORDER BY of a compound query: for each term the number of a column, whether it descends, and the id of its
    collation.
    """
    boxes: list[str] | None = None
    spans: list[str] = field(default_factory=list)
    is_one_group: bool = False
    """True if it has aggregates of its own and no GROUP BY, so that it gives one row at most."""
    is_recursive: bool = False
    """True if this is the query of a WITH table that reads itself."""

    @property
    def sql(self) -> str:
        return self._render(False)

    def named_sql(self) -> str:
        """Return the query with result columns named `c0`, `c1`, ..."""
        return self._render(True)

    def box_unless(self, kinds: list[str]) -> None:
        """Convert each boolean column to a value of any type, unless the kind wanted for it is also boolean."""
        for column, kind in zip(self.columns, kinds, strict=True):
            if kind != column.kind:
                column.kind = "any" if column.kind == "bool" else column.kind

    def _render(self, is_named: bool) -> str:
        # Tarantool merges sorted parts for ORDER BY, and then keeps the first of equal texts, as SQLite does.
        keeps_last = (
            len(self.parts) > 1 and not (self.is_recursive or self.order) and any(map(is_collated, self.columns))
        )
        parts = [self._part(number, is_named or keeps_last) for number in range(len(self.parts))]
        columns = self.columns if keeps_last else ()
        body = combined(parts, self.operators, columns)
        if self.is_recursive:
            # SQLite takes the rows that it still has to process in this order.
            terms = [f"{place + 1}{' DESC' if is_desc else ''}" for place, is_desc, _ in self.order]
            body += f" ORDER BY {', '.join(terms)}" if terms else ""
        elif len(self.parts) > 1 and (self.order or self._is_mixed):
            names = ", ".join(f"c{place}" for place in range(len(self.columns)))
            inner = body if is_named or keeps_last else self._render_named_body()
            body = f"SELECT {names} FROM ({inner}){self._compound_order()}"
        return f"{self.prefix}{body}{self.suffix}"

    def _items(self, number: int, row: list[Typed]) -> list[str]:
        """Return the expressions of a core.

        With DISTINCT, and in the first core of a compound, they name their collation, because SQLite compares by it.
        """
        items = [as_kind(item, column.kind) for item, column in zip(row, self.columns, strict=True)]
        is_compared = "DISTINCT" in self.parts[0][0] or any(operator != "UNION ALL" for operator in self.operators)
        if number or not is_compared:
            return items
        return [
            f"{item} COLLATE {collation_name(column.collation)}"
            if column.kind == "str" and column.collation not in (0, 3)
            else item
            for item, column in zip(items, self.columns, strict=True)
        ]

    def _part(self, number: int, is_named: bool) -> str:
        """Return the SQL of a part of a compound query, or of the only one."""
        head, rows, tail = self.parts[number]
        if not head:
            return self._values(rows, is_named)
        items = self._items(number, rows[0])
        if is_named:
            items = [f"{item} AS c{place}" for place, item in enumerate(items)]
        return f"{head}{', '.join(items)}{tail}"

    def _render_named_body(self) -> str:
        parts = [self._part(number, True) for number in range(len(self.parts))]
        return combined(parts, self.operators, ())

    @property
    def _is_mixed(self) -> bool:
        """Return whether the result is a set with values of different types, which Tarantool returns in the order of
        SCALAR.
        """
        return self.operators[0] != "UNION ALL" and any(column.kind == "any" for column in self.columns)

    def _compound_order(self) -> str:
        terms = []
        order = self.order or [(place, False, 0) for place in range(len(self.columns))]
        for place, is_desc, collation in order:
            terms += order_terms(f"c{place}", self.columns[place].kind, collation, is_desc)
        return f" ORDER BY {', '.join(terms)}"

    def _values(self, rows: list[list[Typed]], is_named: bool) -> str:
        texts = [
            "(" + ", ".join(as_kind(item, column.kind) for item, column in zip(row, self.columns, strict=True)) + ")"
            for row in rows
        ]
        values = f"VALUES {', '.join(texts)}"
        if not is_named:
            return values if len(self.parts) == 1 else f"SELECT * FROM ({values})"
        names = ", ".join(f"column{place + 1} AS c{place}" for place in range(len(self.columns)))
        return f"SELECT {names} FROM ({values})"


class QueryCompiler:
    """Compiles the queries of one statement, for the given values of its parameters."""

    def __init__(self, catalogue: Catalogue, params: Sequence[Value], texts: Texts = Texts.UTF8) -> None:
        self.catalogue = catalogue
        self.params = params
        self.texts = texts
        self.is_in_trigger = False
        self.has_full_names = False
        """True if result columns are named `TABLE.COLUMN`."""
        self.names_after_merging = False
        """True if result columns are named after Tarantool has merged queries, as those of a statement are."""
        self.allows_copies = True
        """False if the query could give other rows, or no error, on copies of the spaces (`box.sql.copies`)."""
        self.calls = CallCompiler(self)
        self.sources = FromCompiler(self)
        self.common = CommonTables(self)
        self._aliases = 0
        self._unnamed = 0
        self._depth = 0

    def collation_order(self, name: str) -> int:
        """Return the id of the collation that sorts as the one with a name does; one that does not exist is refused
        when it is used.
        """
        try:
            return self.catalogue.collation(name).order
        except BoxError:
            return UnknownCollation.named(name)

    def new_alias(self) -> str:
        """Return an unused alias for a relation."""
        self._aliases += 1
        return f"s{self._aliases}"

    def new_name(self) -> str:
        """Return a name for a result column without one."""
        self._unnamed += 1
        return generated_name(self._unnamed)

    @property
    def is_outermost(self) -> bool:
        """Return whether the query that is being compiled is not inside another one."""
        return self._depth == 1

    @property
    def names_given(self) -> int:
        """The number of names that `new_name` has given."""
        return self._unnamed

    def skip_names(self, count: int) -> None:
        """Leave out some names."""
        self._unnamed += count

    @contextmanager
    def naming_kept(self) -> Iterator[None]:
        """Keep the counter of generated names: names used inside the block are given again afterwards."""
        before = self._unnamed
        yield
        self._unnamed = before

    def expressions(self, scope: QueryScope) -> ExpressionCompiler:
        return ExpressionCompiler(self, scope, self.params)

    # --- queries ---

    def compile(
        self,
        select: sql_nodes.Select,
        outer: QueryScope | None = None,
        *,
        limit_name: str = "LIMIT",
        common: CommonRelation | None = None,
        asks_existence: bool = False,
    ) -> Query:
        """Compile a query; `outer` is the scope around it. If `limit_name` is SINGLE, only a limit of 1 is allowed.

        Parts of a compound query get names from the last to the first; `common` is the table of a WITH clause
        that it is the query of, where the last part of a UNION comes at the end.

        Raises:
            BoxError: the query is wrong.
        """
        is_outermost = not self._depth
        try:
            return self._compile(select, outer, limit_name, common, asks_existence=asks_existence)
        except BoxError:
            if is_outermost:
                check_tables(select, self.catalogue, outer)
            raise

    def _compile(
        self,
        select: sql_nodes.Select,
        outer: QueryScope | None,
        limit_name: str,
        common: CommonRelation | None,
        *,
        asks_existence: bool,
    ) -> Query:
        if select.limit is not None and len({term.is_desc for term in select.order_by or ()}) > 1:
            raise unsupported("ORDER BY with LIMIT", "different sorting orders")
        for clause, terms in (("ORDER", select.order_by), ("GROUP", select.cores[0].group_by)):
            if len(terms or ()) > COLUMNS_MAX:
                raise limit_exceeded(f"The number of terms in {clause} BY clause", len(terms or ()), COLUMNS_MAX)
        scope = QueryScope(outer=outer)
        is_ordered = select.order_by is not None or (not self._depth and aggregates.is_ordered_by_groups(select))
        if not is_ordered and not asks_existence and (not self._depth or select.limit is not None):
            self.allows_copies = False
        with self.naming_kept():
            limits = self._limits(select, limit_name)
        self._depth += 1
        self.common.declare(select.common, scope)
        if len(select.cores) > _COMPOUND_MAX:
            what = "The number of UNION or EXCEPT or INTERSECT operations"
            raise limit_exceeded(what, len(select.cores), _COMPOUND_MAX)
        compiled: dict[int, _Core] = {}
        places = list(reversed(range(len(select.cores))))
        is_common_union = common is not None and bool(select.operators) and select.operators[-1].startswith("UNION")
        if is_common_union:
            places.append(places.pop(0))
        for number in places:
            if common is not None and is_common_union and number == places[-1]:
                common.failure = "recursive reference in a subquery"
            compiled[number] = _Core(self, select, number, scope)
        self._depth -= 1
        cores = [compiled[number] for number in range(len(compiled))]
        query = self._assemble(select, cores, self.common.prefix(scope))
        query.suffix = limits
        return query

    def _assemble(self, select: sql_nodes.Select, cores: list[_Core], prefix: str) -> Query:
        first = cores[0]
        check_parts(select, [len(core.columns) for core in cores])
        columns = first.columns
        for place, column in enumerate(columns):
            column.kind = joined(row[place].kind for core in cores for row in core.rows)
            column.collation = _common_collation([core.rows[0][place] for core in cores], select)
        query = Query(columns, [(core.head, core.rows, core.tail) for core in cores], select.operators, prefix)
        query.spans = first.spans
        query.is_one_group = len(cores) == 1 and first.is_one_group
        if select.order_by is not None and len(cores) > 1:
            query.order = self._compound_order(select.order_by, columns, cores)
            check_sorted(select, query.order, [row for core in cores for row in core.rows], columns)
        return query

    def _compound_order(
        self, terms: list[sql_nodes.OrderTerm], columns: list[KnownColumn], cores: list[_Core]
    ) -> list[tuple[int, bool, int]]:
        found = []
        for number, term in enumerate(terms, 1):
            expr, collation = term.expr, 0
            if isinstance(expr, sql_nodes.Collate):
                collation, expr = self.collation_order(expr.name), expr.operand
            place = place_of(expr, len(columns), number, "ORDER")
            if place is None:
                place = ordered_place(expr, number, cores)
            found.append((place, term.is_desc, collation or columns[place].collation))
        return found

    def _limits(self, select: sql_nodes.Select, name: str) -> str:
        if select.limit is None:
            return ""
        compiler = self.expressions(QueryScope(outer=None))
        limit = compiler.compile(select.limit)
        sql = f" LIMIT lb_limit({as_kind(limit, 'any')}, '{name}')"
        if select.offset is not None:
            given = as_kind(compiler.compile(select.offset), "any")
            sql += f" OFFSET lb_offset({as_kind(limit, 'any')}, {given})"
        return sql

    def common_prefix(self, common: list[sql_nodes.CommonTable], scope: QueryScope) -> str:
        """Return the WITH clause that stands before a change."""
        self.common.declare(common, scope)
        for table in common:
            self.common.make_ready(scope.common[table.name])
        return self.common.prefix(scope)


class _Core:
    """A compiled core: `head`, rows of expressions, and `tail`."""

    def __init__(self, queries: QueryCompiler, select: sql_nodes.Select, number: int, outer: QueryScope) -> None:
        self._queries = queries
        core = select.cores[number]
        order = select.order_by if len(select.cores) == 1 else None
        self.spans: list[str] = []
        self.results: list[sql_nodes.ResultColumn] = []
        self.scope: QueryScope | None = None
        self.is_one_group = False
        self._groups: list[str] = []
        if core.values is not None:
            self._compile_values(core.values, outer)
            return
        self._scope = self.scope = scope = QueryScope(outer=outer)
        source = queries.sources.compile(core.sources, scope)
        results = self._expand(core, scope)
        is_merged = (
            queries.names_after_merging and queries.is_outermost and queries.sources.has_merged(select, core, scope)
        )
        names = [self._name(result, scope, is_merged=is_merged) for result in results]
        queries.skip_names(scope.names_in_joins)
        self._is_aggregate = scope.is_grouped = core.group_by is not None
        compiler = queries.expressions(scope)
        scope.allows_aggregates = scope.has_aggregates = True
        scope.on_aggregate = self._found_aggregate
        parts = [core.columns, core.having, order]
        called = functions_of(parts)
        if not called.isdisjoint(("MIN", "MAX")):
            scope.extreme = queries.calls.extreme(parts, compiler)
        elif core.group_by is not None or (called and any(map(is_aggregate, parts))):
            # SQLite chooses the right row itself if there is MIN or MAX.
            scope.is_of_last_row = True
        if scope.extreme or scope.is_of_last_row:
            scope.grouped = list(self._grouped(core, results, scope))
            scope.is_of_last_row = True
        self.rows = [[self._result(compiler, result) for result in results]]
        if counts_rows(core):
            self.rows = [[Typed("count(*)", "string", "any", has_aggregate=True)]]
        is_of_last_row, scope.is_of_last_row = scope.is_of_last_row, False
        scope.results = results
        self.results = results
        self.spans = [result.span for result in results]
        self.columns = [self._column(name, item) for name, item in zip(names, self.rows[0], strict=True)]
        for column, result in zip(self.columns, results, strict=True):
            if isinstance(result.expr, sql_nodes.Subquery) or (called and calls(result.expr, SHOWN_PLAIN)):
                column.shows_collation = column.is_plain = False
        # Tarantool looks for errors in this order of the clauses.
        scope.is_of_last_row = is_of_last_row
        having = "" if core.having is None else self._having(core, compiler)
        # In WHERE of a query with aggregates those of a query around it may stand.
        scope.is_of_last_row, scope.allows_aggregates, scope.has_aggregates = False, self._is_aggregate, False
        tail = f" FROM {source}" if source else ""
        if core.where is not None:
            tail += f" WHERE {compiler.condition(core.where)}"
        if scope.failure is not None:
            raise scope.failure
        scope.allows_aggregates = scope.has_aggregates = True
        scope.is_of_last_row = is_of_last_row
        is_distinct = core.is_distinct
        if is_distinct and order is not None and self._keeps_last(order):
            having, is_distinct = having + self._grouped_by_all(), False
        is_limited = select.limit is not None
        terms, is_reversed = ([], False) if order is None else self._order_by(order, compiler, is_limited=is_limited)
        scope.is_of_last_row = False
        if core.group_by is not None:
            tail += self._group_by(core.group_by, compiler)
        if scope.late_failure is not None:
            raise scope.late_failure
        tail += having
        if terms:
            tail += f" ORDER BY {', '.join(with_ties(terms, self._groups, is_reversed=is_reversed))}"
        self.is_one_group = self._is_aggregate and core.group_by is None
        self.head = "SELECT DISTINCT " if is_distinct else "SELECT "
        self.tail = tail

    def _found_aggregate(self) -> None:
        self._is_aggregate = True

    @staticmethod
    def _grouped(
        core: sql_nodes.Core, results: list[sql_nodes.ResultColumn], scope: QueryScope
    ) -> Iterator[KnownColumn]:
        """Return the columns of GROUP BY."""
        for term in core.group_by or ():
            expr: object = term
            number = number_of(term)
            if number is not None and 1 <= number <= len(results):
                expr = results[number - 1].expr
            elif isinstance(term, sql_nodes.Name) and term.table is None:
                expr = next((result.expr for result in results if result.alias == term.name), term)
            if isinstance(expr, StarColumn):
                yield expr.column
            elif isinstance(expr, sql_nodes.Name):
                found = scope.find_here(expr)
                if isinstance(found, KnownColumn):
                    yield found

    def _keeps_last(self, order: list[sql_nodes.OrderTerm]) -> bool:
        """Return whether Tarantool evaluates DISTINCT as GROUP BY, which keeps the last of equal texts: it does if
        ORDER BY has exactly the result columns, ascending.
        """
        if self._is_aggregate or len(order) != len(self.results) or not any(map(is_collated, self.columns)):
            return False
        for place, (term, result) in enumerate(zip(order, self.results, strict=True)):
            is_place = number_of(term.expr) == place + 1
            is_alias = isinstance(term.expr, sql_nodes.Name) and term.expr == sql_nodes.Name(result.alias or "")
            if term.is_desc or not (is_place or is_alias or term.expr == result.expr):
                return False
        return True

    def _grouped_by_all(self) -> str:
        """Group by all result columns, and let them show the last row of a group. Returns the text of GROUP BY."""
        keys = [key for item in self.rows[0] for key in keys_of(item)]
        self.rows = [[replace(item, sql=f"lb_last({item.sql})") for item in self.rows[0]]]
        return f" GROUP BY {', '.join(keys)}"

    def _compile_values(self, rows: list[list[sql_nodes.ResultColumn]], outer: QueryScope) -> None:
        check_count(len(rows[0]))
        names: list[str] = []
        compiler = self._queries.expressions(QueryScope(outer=outer))

        def compiled(row: list[sql_nodes.Expr]) -> list[Typed]:
            names[:] = [self._queries.new_name() if not isinstance(expr, sql_nodes.Name) else "" for expr in row]
            return list(map(compiler.compile, row))

        items = [[item.expr for item in row if not isinstance(item.expr, sql_nodes.Star)] for row in rows]
        self.rows = compiled_rows(items, compiled)
        if len({len(row) for row in rows}) > 1:
            raise generic("all VALUES must have the same number of terms")
        self.columns = [self._column(name, item) for name, item in zip(names, self.rows[0], strict=True)]
        self.spans = [item.span for item in rows[0]]
        self.head = self.tail = ""

    # --- the list ---

    def _expand(self, core: sql_nodes.Core, scope: QueryScope) -> list[sql_nodes.ResultColumn]:
        found: list[sql_nodes.ResultColumn] = []
        for result in core.columns:
            if not isinstance(result.expr, sql_nodes.Star):
                found.append(result)
                continue
            table = result.expr.table
            if not scope.relations and table is None:
                raise client_error(ErrorCode.SQL_SELECT_WILDCARD)
            relations = [relation for relation in scope.relations if table in (None, relation.name)]
            if not relations:
                raise client_error(ErrorCode.NO_SUCH_SPACE, table)
            for number, relation in enumerate(relations):
                for place, column in enumerate(relation.columns):
                    if column.is_hidden and table is None:
                        continue
                    check_distinct(relation, column, relations[:number])
                    found.append(sql_nodes.ResultColumn(StarColumn(relation.name, place, column), None, "*"))  # type: ignore[arg-type]
        check_count(len(found))
        return found

    def _name(self, result: sql_nodes.ResultColumn, scope: QueryScope, *, is_merged: bool) -> str:
        if result.alias is not None:
            return result.alias
        expr: object = result.expr
        if isinstance(expr, StarColumn):
            return expr.column.star_name or self._column_name(expr.column, expr.table)
        if isinstance(expr, sql_nodes.Name):
            try:
                found = scope.resolve(expr)
            except BoxError:  # raised when its turn comes: columns before it may be wrong, too
                return expr.name
            if is_merged:
                return name_of(result.span)
            return self._column_name(found, found.table) if isinstance(found, KnownColumn) else expr.name
        return self._queries.new_name()

    def _column_name(self, column: KnownColumn, table: str | None) -> str:
        is_full = self._queries.has_full_names and self._queries.is_outermost and table is not None
        return f"{table}.{column.name}" if is_full else column.name

    def _result(self, compiler: ExpressionCompiler, result: sql_nodes.ResultColumn) -> Typed:
        expr: object = result.expr
        if isinstance(expr, StarColumn):
            return compiler.column(expr.column)
        assert not isinstance(result.expr, sql_nodes.Star)
        return compiler.compile(result.expr)

    @staticmethod
    def _column(name: str, item: Typed) -> KnownColumn:
        source = item.column
        return KnownColumn(
            name,
            item.type,
            item.kind,
            item.collation,
            source is None or source.is_nullable,
            source is not None and source.is_autoincrement,
            is_plain=source is not None and source.is_plain,
        )

    # --- the clauses ---

    def _group_by(self, terms: list[sql_nodes.Expr], compiler: ExpressionCompiler) -> str:
        parts = []
        self._scope.allows_aggregates = self._scope.has_aggregates = True  # so that the error is that of GROUP BY
        for number, term in enumerate(terms, 1):
            place = place_of(term, len(self.rows[0]), number, "GROUP")
            results = self._scope.results or []
            item = compiler.compile(term) if place is None else self._result(compiler, results[place])
            if item.has_aggregate:
                raise generic("aggregate functions are not allowed in the GROUP BY clause")
            parts += keys_of(item)
        self._groups = parts
        return f" GROUP BY {', '.join(parts)}"

    def _having(self, core: sql_nodes.Core, compiler: ExpressionCompiler) -> str:
        assert core.having is not None
        text = "HAVING argument must appear in the GROUP BY clause or be used in an aggregate function"
        if core.group_by is None and any(reads_ungrouped(result.expr) for result in self.results):
            raise execute_error(text)
        item = compiler.test(core.having)
        if core.group_by is None and (not self._is_aggregate or reads_ungrouped(core.having)):
            raise execute_error(text)
        return f" HAVING {truth(item)}"

    def _order_by(
        self, terms: list[sql_nodes.OrderTerm], compiler: ExpressionCompiler, *, is_limited: bool
    ) -> tuple[list[str], bool]:
        """Return the terms of ORDER BY, and whether it reverses the order of rows that it considers equal."""
        parts: list[str] = []
        is_reversed = is_limited and all(term.is_desc for term in terms)
        for number, term in enumerate(terms, 1):
            expr, collation = term.expr, 0
            place = place_of(expr, len(self.rows[0]), number, "ORDER")
            if place is None and isinstance(expr, sql_nodes.Collate):
                place = place_of(expr.operand, len(self.rows[0]), number, "ORDER")
                if place is not None:
                    collation = self._queries.collation_order(expr.name)
            if place is None and isinstance(expr, sql_nodes.Name) and expr.table is None:
                place = next((at for at, column in enumerate(self._aliases) if column == expr.name), None)
            has_groups = self._is_aggregate
            item = self.rows[0][place] if place is not None else compiler.compile(expr)
            if item.has_aggregate and not has_groups:
                raise generic(f"misuse of aggregate: {aggregate_of(expr)}()")
            if number == 1 and item.column is not None and item.column.leads_index:
                is_reversed = False  # an index, read backwards, gives this order
            parts += keys_of(item, collation, term.is_desc)
        return parts, is_reversed

    @property
    def _aliases(self) -> list[str | None]:
        results = self._scope.results or []
        return [result.alias for result in results]


def _common_collation(items: list[Typed], select: sql_nodes.Select) -> int:
    """Return the collation of a column of a compound query. Raises ILLEGAL_COLLATION_MIX if values with two collations
    are compared.
    """
    found = items[0]
    is_compared = select.order_by is not None or any(operator != "UNION ALL" for operator in select.operators)
    for item in items[1:] if is_compared else ():
        collation = ExpressionCompiler.collation(found, item)
        found = Typed("", "", "", collation, found.is_explicit or item.is_explicit)
    return found.collation
