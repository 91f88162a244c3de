"""Compiles expressions for SQLite.

An operator that SQLite evaluates as Tarantool does is passed to SQLite unchanged; any other becomes a call of a Python
function. The kinds of the operands decide (`box.sql.kinds`). So comparisons of columns with plain types are left to
SQLite, which can use an index for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from box.errors import BoxError, ErrorCode, client_error
from box.sql import sql_nodes
from box.sql.aggregates import is_aggregate
from box.sql.index_keys import condition_on_key, is_boolean_key, leads_index
from box.sql.key_choice import chosen_terms
from box.sql.kinds import (
    NUMBERS,
    NUMERIC,
    are_alike,
    as_kind,
    boxed,
    collation_name,
    constant,
    exact,
    given_constant,
    joined,
    kind_of,
    parameter,
    result_type,
    truth,
)
from box.sql.number_comparisons import compared_numbers
from box.sql.operators import ARITHMETIC, COMPARISONS
from box.sql.parse.token_reader import generic
from box.sql.scope import KnownColumn, QueryScope, Typed
from box.sql.stored_values import UINT_MAX, Texts, Value

if TYPE_CHECKING:
    from box.sql.query import Query, QueryCompiler

_NATIVE_SUMS: Final = frozenset("+-*")


def _has_one_row(select: sql_nodes.Select, query: Query) -> bool:
    """Return whether a query can give only one row."""
    if select.limit is not None:
        return True
    (core, *others) = select.cores
    if others:
        return False
    if core.values is not None:
        return len(core.values) == 1
    return not core.sources or query.is_one_group


def _one_row(sql: str, result: str = "min(c0)") -> str:
    """Return SQL that raises an error if a query gives a second row; SQLite alone would take the first."""
    return f"SELECT CASE WHEN count(*) > 1 THEN lb_second_row() ELSE {result} END FROM ({sql} LIMIT 2)"


def _terms(expr: sql_nodes.Expr) -> Iterator[sql_nodes.Expr]:
    """Return the terms of AND."""
    if isinstance(expr, sql_nodes.Binary) and expr.op == "AND":
        yield from _terms(expr.left)
        yield from _terms(expr.right)
    else:
        yield expr


def _is_false(expr: sql_nodes.Expr) -> bool:
    return isinstance(expr, sql_nodes.Literal) and expr.value is False


def _column_count(left: int, right: int) -> Exception:
    return client_error(ErrorCode.SQL_COLUMN_COUNT, left, right)


class ExpressionCompiler:
    """Compiles the expressions of one scope.

    `params` are the values of this execution: their types take part in the analysis.
    """

    def __init__(self, queries: QueryCompiler, scope: QueryScope, params: Sequence[Value]) -> None:
        self.queries = queries
        self.scope = scope
        self.params = params
        self._is_in_condition = False

    def runs_first(self, args: Sequence[sql_nodes.Expr]) -> bool:
        """Return whether a call with these arguments runs before there is a row: Tarantool takes constant calls out of
        conditions.
        """
        return self._is_in_condition and all(map(is_constant, args))

    def compile(self, expr: sql_nodes.Expr) -> Typed:
        """Compile an expression that has a single value."""
        method: Callable[[Any], Typed] = getattr(self, f"_{type(expr).__name__.lower()}")
        return method(expr)

    def condition(self, expr: sql_nodes.Expr) -> str:
        """Compile an expression that is used as a condition. A false term of AND makes the whole condition false."""
        before, self._is_in_condition = self._is_in_condition, True
        try:
            return self._condition(expr)
        finally:
            self._is_in_condition = before

    def _condition(self, expr: sql_nodes.Expr) -> str:
        terms = list(_terms(expr))
        if len(terms) == 1:
            return self._term(expr, is_key=True)
        if any(map(_is_false, terms)):
            return "0"
        are_keys = chosen_terms(terms, self.compile)
        texts = [self._term(term, is_key=is_key) for term, is_key in zip(terms, are_keys, strict=True)]
        return f"({' AND '.join(texts)})"

    def _term(self, expr: sql_nodes.Expr, *, is_key: bool) -> str:
        """Compile a term of AND. `is_key` tells that an index of its column may be chosen."""
        if not is_key:
            return truth(self.test(expr))
        if isinstance(expr, sql_nodes.Between) and isinstance(expr.operand, sql_nodes.Name) and not expr.negated:
            low = sql_nodes.Binary(">=", expr.operand, expr.low)
            high = sql_nodes.Binary("<=", expr.operand, expr.high)
            if leads_index(self.compile(expr.operand)):
                first, last = self.condition(low), self.condition(high)
                # A key that is refused leaves no rows for the other one, which is looked at when there is a row.
                late = last.replace("lb_refused_key(", f"lb_refused_bound({self.compile(expr.operand).sql}, ")
                return first if "lb_refused_key(" in first else f"({first} AND {late})"
        try:
            on_key = condition_on_key(expr, self.compile)
        except BoxError:  # raised again below, where operands are compiled in their order
            on_key = None
        return truth(self.test(expr)) if on_key is None else on_key

    def test(self, expr: sql_nodes.Expr) -> Typed:
        """Compile an expression that decides something: the right operand of AND and OR is evaluated only if the left
        one leaves the result open.
        """
        if isinstance(expr, sql_nodes.Unary) and expr.op == "NOT":
            inner = self.test(expr.operand)
            return Typed(f"(NOT {truth(inner)})", "boolean", "bool", has_aggregate=inner.has_aggregate)
        if not isinstance(expr, sql_nodes.Binary) or expr.op not in ("AND", "OR"):
            return self.compile(expr)
        if expr.op == "AND" and any(map(_is_false, (expr.left, expr.right))):
            return constant(False)
        left, right = self.test(expr.left), self.test(expr.right)
        has_aggregate = left.has_aggregate or right.has_aggregate
        # SQLite leaves out the left operand if it sees a constant true on the right.
        second = "(1 IS 1)" if right.sql == "1" else truth(right)
        return Typed(f"({truth(left)} {expr.op} {second})", "boolean", "bool", has_aggregate=has_aggregate)

    # --- leaves ---

    def _literal(self, expr: sql_nodes.Literal) -> Typed:
        value = expr.value
        if expr.place is not None:
            return given_constant(expr.place, value)
        if type(value) is int and value > UINT_MAX:
            raise _too_large(value)
        return constant(value, self.queries.texts)

    def _name(self, expr: sql_nodes.Name) -> Typed:
        found = self.scope.resolve(expr)
        if isinstance(found, sql_nodes.ResultColumn):
            assert not isinstance(found.expr, sql_nodes.Star)
            if (self.scope.is_inside_aggregate or not self.scope.allows_aggregates) and is_aggregate(found.expr):
                raise generic(f"misuse of aliased aggregate {found.alias}")
            return self.compile(found.expr)
        return self.column(found)

    def column(self, column: KnownColumn) -> Typed:
        """Return the SQL for the value of a column. Outside of aggregates it may mean that in one row of a group, of
        this query or of one around it.
        """
        found = column.typed()
        scope: QueryScope | None = self.scope
        while scope is not None and not scope.is_inside_aggregate:
            if scope.takes_last(column):
                return replace(found, sql=f"{scope.extreme or 'lb_last('}{found.sql})")
            if scope.on_aggregate is not None and not scope.allows_aggregates:
                break  # in WHERE SQLite computes no aggregate
            scope = scope.outer
        return found

    def _param(self, expr: sql_nodes.Param) -> Typed:
        value = self.params[expr.index] if expr.index < len(self.params) else None
        return parameter(expr.index, value)

    # --- operators ---

    def _unary(self, expr: sql_nodes.Unary) -> Typed:
        operand, op = expr.operand, expr.op
        if op == "-" and isinstance(operand, sql_nodes.Literal) and type(operand.value) in (int, float):
            return self._negative(operand)
        inner = exact(self.compile(operand))
        if op == "NOT":
            return Typed(f"(NOT {truth(inner)})", "boolean", "bool", has_aggregate=inner.has_aggregate)
        if op == "+":
            return Typed(
                f"(+{inner.sql})",
                inner.type,
                inner.kind,
                inner.collation,
                inner.is_explicit,
                has_aggregate=inner.has_aggregate,
            )
        if inner.kind == "null":
            return Typed("NULL", inner.type, "null")
        if op == "-" and inner.kind == "real":  # the space is for a negative constant: two signs begin a comment
            return Typed(f"(- {inner.sql})", inner.type, "real", has_aggregate=inner.has_aggregate)
        name = "lb_neg" if op == "-" else "lb_not"
        kind = "int" if op == "~" or inner.kind == "int" else "num"
        return Typed(f"{name}({boxed(inner)})", inner.type, kind, has_aggregate=inner.has_aggregate)

    def _negative(self, operand: sql_nodes.Literal) -> Typed:
        value = operand.value
        assert isinstance(value, int | float)
        if operand.place is not None:
            natural = given_constant(operand.place, value)
            return replace(natural, sql=f"(-{natural.sql})", literal=-1)
        if type(value) is int and value > 2**63:  # -2^63 itself is an integer
            raise _too_large(value, "-")
        return constant(-value)

    def _binary(self, expr: sql_nodes.Binary) -> Typed:
        op = expr.op
        if op == "AND" and any(map(_is_false, (expr.left, expr.right))):
            return constant(False)
        if op in ("AND", "OR"):
            left, right = self.compile(expr.left), self.compile(expr.right)
            sql = f"({truth(left)} {op} {truth(right)})"
            if not {left.kind, right.kind} <= {"bool", "null"}:
                # SQLite leaves out one side if the other decides, and looks at the left one first.
                sql = f"lb_{'both' if op == 'AND' else 'either'}({boxed(left)}, {boxed(right)})"
            return Typed(sql, "boolean", "bool", has_aggregate=left.has_aggregate or right.has_aggregate)
        if op in COMPARISONS:
            return self._compare(op, expr.left, expr.right)
        left, right = exact(self.compile(expr.left)), exact(self.compile(expr.right))
        has_aggregate = left.has_aggregate or right.has_aggregate
        if op == "||":
            return self._concatenate(left, right, has_aggregate)
        type_name = result_type(left.type, right.type)
        if op in _NATIVE_SUMS and _are_doubles(left, right):
            return Typed(f"({left.sql} {op} {right.sql})", type_name, "real", has_aggregate=has_aggregate)
        kind = "int" if op in ("&", "|", "<<", ">>", "%") or left.kind == right.kind == "int" else "num"
        call = f"{ARITHMETIC[op][0]}({boxed(left)}, {boxed(right)})"
        return Typed(call, type_name, kind, has_aggregate=has_aggregate)

    def _concatenate(self, left: Typed, right: Typed, has_aggregate: bool) -> Typed:
        collation, is_explicit = _joined_collation(left, right)
        if left.kind == right.kind == "str" and self.queries.texts is not Texts.BYTES:
            sql, kind = f"({left.sql} || {right.sql})", "str"
        else:
            sql = f"lb_concat({boxed(left)}, {boxed(right)})"
            kind = "str" if left.kind == right.kind == "str" else "any"
        return Typed(sql, "string", kind, collation, is_explicit, has_aggregate=has_aggregate)

    # --- comparisons ---

    def _compare(self, op: str, left: sql_nodes.Expr, right: sql_nodes.Expr) -> Typed:
        if isinstance(left, sql_nodes.RowValue) != isinstance(right, sql_nodes.RowValue):
            counts = [len(side.items) if isinstance(side, sql_nodes.RowValue) else 1 for side in (left, right)]
            if not isinstance(left, sql_nodes.Subquery) and not isinstance(right, sql_nodes.Subquery):
                raise _column_count(*counts)
        lefts, rights = self.row(left), self.row(right)
        if len(lefts) != len(rights):
            raise _column_count(len(lefts), len(rights))
        if len(lefts) > 1:
            return self._compare_rows(op, lefts, rights)
        return self.comparison(op, lefts[0], rights[0])

    def row(self, expr: sql_nodes.Expr) -> list[Typed]:
        """Return the compiled items of a row value; any other expression gives one item."""
        if isinstance(expr, sql_nodes.RowValue):
            return [self.compile(item) for item in expr.items]
        if isinstance(expr, sql_nodes.Subquery):
            return self._subquery_row(expr)
        return [self.compile(expr)]

    def _subquery_row(self, expr: sql_nodes.Subquery) -> list[Typed]:
        before = self.scope.inner_aggregates
        query = self.queries.compile(expr.select, self.scope, limit_name="SINGLE")
        found = self.scope.inner_aggregates > before
        if len(query.columns) == 1:
            column = query.columns[0]
            sql = query.sql if _has_one_row(expr.select, query) else _one_row(query.named_sql())
            return [Typed(f"({sql})", column.type, column.kind, column.collation, has_aggregate=found)]
        sql = query.named_sql() if expr.select.limit is None else f"SELECT * FROM ({query.named_sql()})"
        return [
            Typed(
                f"({_one_row(sql, f'min(c{number})')})",
                column.type,
                column.kind,
                column.collation,
                has_aggregate=found,
            )
            for number, column in enumerate(query.columns)
        ]

    def comparison(self, op: str, left: Typed, right: Typed) -> Typed:
        """Compile `left op right` for single values."""
        has_aggregate = left.has_aggregate or right.has_aggregate
        collation = self.collation(left, right)
        self._note_keys(left, right)
        if are_alike(left, right):
            suffix = f" COLLATE {collation_name(collation)}" if left.kind == right.kind == "str" and collation else ""
            sql = f"({left.sql} {op} {right.sql}{suffix})"
            return Typed(sql, _comparison_type(op), "bool", has_aggregate=has_aggregate)
        if op == "=":
            for column, other in ((left, right), (right, left)):
                if is_boolean_key(column) and (other.kind in ("str", "bin") or other.sql.startswith(":p")):
                    sql = f"({column.sql} = lb_refused_key({other.sql}, 'boolean'))"
                    return Typed(sql, "boolean", "bool", has_aggregate=has_aggregate)
        is_numeric = int(left.type in NUMERIC or right.type in NUMERIC)
        name = COMPARISONS[op][0]
        call = f"{name}({boxed(left)}, {boxed(right)}, {is_numeric}, {collation})"
        sql = compared_numbers(op, left, right, call) or call
        return Typed(sql, _comparison_type(op), "bool", has_aggregate=has_aggregate)

    def _note_keys(self, left: Typed, *rights: Typed) -> None:
        """Note whether a negative integer may become the key of an index of unsigned numbers, which is an error."""
        operands = (left, *rights)
        if not any(one.type == "unsigned" and one.column is not None for one in operands):
            return
        if not all(one.kind not in NUMBERS or _is_surely_natural(one) for one in operands):
            self.queries.allows_copies = False

    def _compare_rows(self, op: str, lefts: list[Typed], rights: list[Typed]) -> Typed:
        pairs = list(zip(lefts, rights, strict=True))
        if op in ("=", "!="):
            word = " AND " if op == "=" else " OR "
            return Typed("(" + word.join(self.comparison(op, *pair).sql for pair in pairs) + ")", "boolean", "bool")
        sql = self.comparison(op, *pairs[-1]).sql
        # An index can find the rows of OR. But SQLite evaluates both sides of it, and a comparison may fail.
        is_safe = all(are_alike(*pair) for pair in pairs)
        for left, right in reversed(pairs[:-1]):
            strict, equal = self.comparison(op[0], left, right).sql, self.comparison("=", left, right).sql
            sql = (
                f"({strict} OR ({equal} AND {sql}))" if is_safe else f"(CASE WHEN {equal} THEN {sql} ELSE {strict} END)"
            )
        return Typed(sql, _comparison_type(op), "bool")

    @staticmethod
    def collation(left: Typed, right: Typed) -> int:
        """Return the collation of a comparison.

        Raises:
            ClientError: ILLEGAL_COLLATION_MIX.
        """
        if left.is_explicit and right.is_explicit and left.collation != right.collation:
            raise client_error(ErrorCode.ILLEGAL_COLLATION_MIX)
        if left.is_explicit or right.is_explicit:
            return left.collation if left.is_explicit else right.collation
        if left.collation and right.collation and left.collation != right.collation:
            raise client_error(ErrorCode.ILLEGAL_COLLATION_MIX)
        return left.collation or right.collation

    def _like(self, expr: sql_nodes.Like) -> Typed:
        if expr.word != "LIKE":
            raise client_error(ErrorCode.NO_SUCH_FUNCTION, expr.word)
        pattern, left = self.compile(expr.pattern), self.compile(expr.left)
        collation = left.collation or pattern.collation
        args = [str(collation), boxed(pattern), boxed(left)]
        if expr.escape is not None:
            args.append(boxed(self.compile(expr.escape)))
        sql = f"lb_like({', '.join(args)})"
        is_column = left.column is not None and left.column.is_plain and left.kind == "str"
        if is_column and collation in (0, 3) and expr.escape is None:
            sql = f"lb_like_column({left.sql}, {boxed(pattern)})"  # a table can use an index for it
        has_aggregate = left.has_aggregate or pattern.has_aggregate
        if expr.negated:
            return Typed(f"(NOT {sql})", "boolean", "bool", has_aggregate=has_aggregate)
        return Typed(sql, "integer", "bool", has_aggregate=has_aggregate)

    def _isnull(self, expr: sql_nodes.IsNull) -> Typed:
        inner = self.compile(expr.operand)
        word = "NOT NULL" if expr.negated else "NULL"
        return Typed(f"({inner.sql} IS {word})", "boolean", "bool", has_aggregate=inner.has_aggregate)

    def _between(self, expr: sql_nodes.Between) -> Typed:
        low = self._compare(">=", expr.operand, expr.low)
        high = self._compare("<=", expr.operand, expr.high)
        sql = f"({low.sql} AND {high.sql})"
        if expr.negated:
            sql = f"(NOT {sql})"
        return Typed(sql, "boolean", "bool", has_aggregate=low.has_aggregate or high.has_aggregate)

    def _inlist(self, expr: sql_nodes.InList) -> Typed:
        word = "NOT " if expr.negated else ""
        if not expr.items:
            return Typed("1" if expr.negated else "0", "boolean", "bool")
        if len(expr.items) == 1:
            return self._compare("!=" if expr.negated else "=", expr.operand, expr.items[0])
        operands = self.row(expr.operand)
        rows = [self.row(item) for item in expr.items]
        if len(operands) > 1:
            raise _column_count(len(operands), 1)
        for row in rows:
            if len(row) != 1:
                raise _column_count(1, len(row))
        self._note_keys(operands[0], *(row[0] for row in rows))
        if all(are_alike(operands[0], row[0]) for row in rows):
            suffix = f" COLLATE {collation_name(operands[0].collation)}" if operands[0].collation else ""
            items = ", ".join(row[0].sql for row in rows)
            return Typed(
                f"({operands[0].sql}{suffix} {word}IN ({items}))",
                "boolean",
                "bool",
                has_aggregate=operands[0].has_aggregate,
            )
        return self._in_list(expr, operands[0], [row[0] for row in rows])

    @staticmethod
    def _in_list(expr: sql_nodes.InList, operand: Typed, items: list[Typed]) -> Typed:
        """Compile IN of a list whose values have unlike types.

        Up to two values, or values that are no constants, are compared one after another. More constants are a set:
        each gets the operand's type if it can, and values of unlike types are just different.
        """
        is_set = len(items) > 2 and all(map(is_constant, expr.items))
        values = ", ".join(boxed(item) for item in (operand, *items))
        sql = f"lb_in{'_set' if is_set else ''}('{operand.type}', {operand.collation}, {values})"
        has_aggregate = operand.has_aggregate or any(item.has_aggregate for item in items)
        return Typed(f"(NOT {sql})" if expr.negated else sql, "boolean", "bool", has_aggregate=has_aggregate)

    def _inselect(self, expr: sql_nodes.InSelect) -> Typed:
        query = self.queries.compile(expr.select, self.scope)  # its errors come first
        operands = self.row(expr.operand)
        if len(query.columns) != len(operands):
            raise _column_count(len(operands), len(query.columns))
        types = [_set_type(left, right) for left, right in zip(operands, query.columns, strict=True)]
        for operand, column in zip(operands, query.columns, strict=True):
            self._note_keys(operand, column.typed())
        query.box_unless([operand.kind for operand in operands])
        left = [
            _as_type(operand.sql if operand.kind == column.kind else boxed(operand), operand.kind, name, "lb_applied")
            for operand, column, name in zip(operands, query.columns, types, strict=True)
        ]
        for place, (operand, column) in enumerate(zip(operands, query.columns, strict=True)):
            collation = self.collation(operand, column.typed())
            if collation not in (0, 3) and operand.kind in ("str", "any"):
                left[place] += f" COLLATE {collation_name(collation)}"
        row = left[0] if len(left) == 1 else f"({', '.join(left)})"
        word = "NOT IN" if expr.negated else "IN"
        sql = query.sql
        if any(name and column.kind not in NUMBERS for column, name in zip(query.columns, types, strict=True)):
            items = [
                _as_type(f"c{place}", column.kind, name, "lb_converted")
                for place, (column, name) in enumerate(zip(query.columns, types, strict=True))
            ]
            sql = f"SELECT {', '.join(items)} FROM ({query.named_sql()})"
        return Typed(f"({row} {word} ({sql}))", "boolean", "bool")

    def _exists(self, expr: sql_nodes.Exists) -> Typed:
        query = self.queries.compile(expr.select, self.scope, limit_name="SINGLE", asks_existence=True)
        if _has_one_row(expr.select, query):
            return Typed(f"EXISTS ({query.sql})", "boolean", "bool")
        # As in 2.8, a second row is an error here too.
        return Typed(f"({_one_row(query.named_sql(), 'count(*)')})", "boolean", "bool")

    def _subquery(self, expr: sql_nodes.Subquery) -> Typed:
        row = self._subquery_row(expr)
        if len(row) > 1:
            raise _column_count(len(row), 1)
        return row[0]

    def _rowvalue(self, expr: sql_nodes.RowValue) -> Typed:
        self.row(expr)
        raise generic("row value misused")

    # --- forms with words ---

    def _case(self, expr: sql_nodes.Case) -> Typed:
        tests, results = [], []
        for condition, result in expr.whens:
            tests.append(self.test(condition) if expr.operand is None else self._compare("=", expr.operand, condition))
            results.append(self.compile(result))
        if expr.otherwise is not None:
            results.append(self.compile(expr.otherwise))
        kind = joined(result.kind for result in results)
        parts, has_aggregate = ["CASE"], any(item.has_aggregate for item in (*tests, *results))
        for test, found in zip(tests, results, strict=False):
            parts.append(f"WHEN {truth(test)} THEN {as_kind(found, kind)}")
        if expr.otherwise is not None:
            parts.append(f"ELSE {as_kind(results[-1], kind)}")
        parts.append("END")
        types = {result.type for result in results}
        type_name = types.pop() if len(types) == 1 else "scalar"
        return Typed(f"({' '.join(parts)})", type_name, kind, has_aggregate=has_aggregate)

    def _cast(self, expr: sql_nodes.Cast) -> Typed:
        inner, type_name = exact(self.compile(expr.operand)), expr.type
        kind = kind_of(type_name)
        if inner.kind == "null":
            return Typed("NULL", type_name, "null")
        if (inner.kind == kind and kind != "any" and type_name != "unsigned") or (
            type_name in ("scalar", "number")
            and inner.kind in ("int", "real", "str", "bin")
            and (type_name == "scalar" or inner.kind in ("int", "real"))
        ):
            return Typed(inner.sql, type_name, inner.kind, inner.collation, has_aggregate=inner.has_aggregate)
        sql = f"lb_cast({boxed(inner)}, '{type_name}')"
        if kind == "bool":
            sql = f"lb_truth({sql})"
        collation = inner.collation if type_name in ("string", "scalar") else 0
        return Typed(sql, type_name, kind, collation, has_aggregate=inner.has_aggregate)

    def _collate(self, expr: sql_nodes.Collate) -> Typed:
        inner = self.compile(expr.operand)
        if inner.type not in ("string", "scalar") and not (isinstance(expr.operand, sql_nodes.Param)):
            raise generic("COLLATE clause can't be used with non-string arguments")
        collation = self.queries.collation_order(expr.name)
        return Typed(inner.sql, inner.type, inner.kind, collation, True, None, inner.has_aggregate)

    def _functioncall(self, expr: sql_nodes.FunctionCall) -> Typed:
        return self.queries.calls.compile(expr, self)

    def _raise(self, expr: sql_nodes.Raise) -> Typed:
        if not self.queries.is_in_trigger:
            raise generic("RAISE() may only be used within a trigger-program")
        text = (expr.text or "").replace("'", "''")
        return Typed(f"lb_raise('{expr.action}', '{text}')", "scalar", "any")


def is_constant(expr: sql_nodes.Expr) -> bool:
    """Return whether an expression contains only constants and parameters."""
    if isinstance(expr, sql_nodes.Name | sql_nodes.FunctionCall | sql_nodes.Subquery | sql_nodes.Exists):
        return False
    if isinstance(expr, sql_nodes.InSelect | sql_nodes.Raise):
        return False
    return all(is_constant(child) for child in sql_nodes.children(expr))  # type: ignore[arg-type]


def _comparison_type(op: str) -> str:
    """Return the type of a comparison. Tarantool 2.8.1 forgets that `>=` gives a boolean."""
    return "any" if op == ">=" else "boolean"


def _is_surely_natural(number: Typed) -> bool:
    """Return whether a number is not negative, as far as the text tells; a parameter is looked at when it is known."""
    if isinstance(number.literal, int | float):
        return number.literal >= 0
    is_column = number.column is not None and number.column.is_plain
    return number.sql.startswith(":p") or (is_column and number.type == "unsigned")


def _set_type(left: Typed, right: KnownColumn) -> str:
    """Return the type to which the values on both sides of IN (SELECT ...) are converted, or '' for no conversion."""
    found = result_type(left.type, right.type)
    return found if found != "scalar" else ""


def _as_type(sql: str, kind: str, name: str, function: str) -> str:
    return f"{function}({sql}, '{name}')" if name and kind not in NUMBERS and kind != "null" else sql


def _too_large(value: int, sign: str = "") -> Exception:
    return client_error(ErrorCode.INT_LITERAL_MAX, sign, str(value))


def _are_doubles(left: Typed, right: Typed) -> bool:
    kinds = {left.kind, right.kind}
    if kinds == {"real"}:
        return True
    number = left.literal if left.kind == "int" else right.literal
    # Below 2^53 every integer is a double, so that SQLite's arithmetic on doubles is exact for it.
    return kinds == {"real", "int"} and isinstance(number, int) and abs(number) < 2**53


def _joined_collation(left: Typed, right: Typed) -> tuple[int, bool]:
    if left.is_explicit and right.is_explicit and left.collation != right.collation:
        raise client_error(ErrorCode.ILLEGAL_COLLATION_MIX)
    if left.is_explicit:
        return left.collation, True
    if right.is_explicit:
        return right.collation, True
    return (left.collation if left.collation == right.collation else 0), False
