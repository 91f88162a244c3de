"""TYPEOF: the type of columns, casts and arithmetic is known beforehand, that of other expressions depends on the
value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from box.sql import sql_nodes
from box.sql.kinds import boxed
from box.sql.operators import ARITHMETIC

if TYPE_CHECKING:
    from box.sql.expression_compiler import ExpressionCompiler
    from box.sql.scope import KnownColumn

_PLAIN: Final = frozenset(("integer", "unsigned", "number", "double", "string", "boolean", "varbinary"))
_OWN: Final = _PLAIN | {"decimal", "uuid", "array", "map", "any"}
"""Types of columns that TYPEOF shows whatever the value is."""
_BITS: Final = frozenset(("&", "|", "<<", ">>"))
_SAME: Final = frozenset(("LIKELY", "UNLIKELY", "LIKELIHOOD"))
_NIL: Final = "'boolean'"


def type_of(expr: sql_nodes.Expr, scope: ExpressionCompiler) -> str:
    """Return the SQL for TYPEOF of an expression."""
    if isinstance(expr, sql_nodes.Case):
        whens = [sql_nodes.Case(expr.operand, [when], None) for when in expr.whens]
        tests = [_is_taken(when, scope) for when in whens]
        return _first(tests, [result for _, result in expr.whens], expr.otherwise, scope)
    if isinstance(expr, sql_nodes.FunctionCall):
        if expr.name in ("COALESCE", "IFNULL") and len(expr.args) > 1:
            tests = [f"{scope.compile(arg).sql} IS NOT NULL" for arg in expr.args[:-1]]
            return _first(tests, expr.args[:-1], expr.args[-1], scope)
        if expr.name == "NULLIF" and len(expr.args) == 2:
            test = f"{scope.compile(expr).sql} IS NULL AND {scope.compile(expr.args[0]).sql} IS NOT NULL"
            return f"CASE WHEN {test} THEN {_NIL} ELSE {type_of(expr.args[0], scope)} END"
        if expr.name in ("GREATEST", "LEAST") and len(expr.args) > 1:
            return _of_chosen(expr, scope)
        if expr.name in _SAME and expr.args:
            return type_of(expr.args[0], scope)
    known, known_nil = _known(expr, scope)
    return f"lb_typeof({boxed(scope.compile(expr))}, '{known}', '{known_nil or 'boolean'}')"


def _of_chosen(expr: sql_nodes.FunctionCall, scope: ExpressionCompiler) -> str:
    """Return the SQL for the type of the argument that GREATEST or LEAST gives."""
    args = [scope.compile(arg) for arg in expr.args]
    collation = scope.queries.calls.common_collation(args, scope)
    values = ", ".join(map(boxed, args))
    whens = "".join(f" WHEN {place} THEN {type_of(arg, scope)}" for place, arg in enumerate(expr.args))
    return f"CASE lb_chosen({int(expr.name == 'GREATEST')}, {collation}, {values}){whens} ELSE {_NIL} END"


def _is_taken(case: sql_nodes.Case, scope: ExpressionCompiler) -> str:
    (condition, _), *_ = case.whens
    one = sql_nodes.Case(case.operand, [(condition, sql_nodes.Literal(1))], None)
    return f"{scope.compile(one).sql} IS NOT NULL"


def _first(
    tests: list[str], results: list[sql_nodes.Expr], otherwise: sql_nodes.Expr | None, scope: ExpressionCompiler
) -> str:
    whens = "".join(f" WHEN {test} THEN {type_of(result, scope)}" for test, result in zip(tests, results, strict=True))
    return f"CASE{whens} ELSE {_NIL if otherwise is None else type_of(otherwise, scope)} END"


def _known(expr: sql_nodes.Expr, scope: ExpressionCompiler) -> tuple[str, str]:
    """Return the types of an expression's values and of its nil, if they are known beforehand, else ''."""
    if isinstance(expr, sql_nodes.Literal):
        return ("integer" if type(expr.value) is int else ""), ""
    if isinstance(expr, sql_nodes.Name):
        column = scope.compile(expr).column
        return ("signed", "") if scope.scope.is_grouped else _of_column(column)
    if isinstance(expr, sql_nodes.Subquery):
        return _of_column(scope.queries.compile(expr.select, scope.scope).columns[0])
    if isinstance(expr, sql_nodes.Cast):
        return (expr.type, expr.type) if expr.type in _PLAIN else _known(expr.operand, scope)
    if isinstance(expr, sql_nodes.Collate):
        return _known(expr.operand, scope)
    if isinstance(expr, sql_nodes.Unary):
        return _of_unary(expr, scope)
    if isinstance(expr, sql_nodes.Binary) and expr.op in ARITHMETIC:
        if expr.op == "||":
            return "", "string"
        name = "integer" if expr.op in _BITS else "number"
        return name, name
    if isinstance(expr, sql_nodes.FunctionCall):
        return _of_function(expr, scope), ""
    return "", ""


def _of_column(column: KnownColumn | None) -> tuple[str, str]:
    if column is None or not column.is_plain or column.type not in _OWN:
        return "signed", ""
    return column.type, "" if column.may_be_missing else column.type


def _of_unary(expr: sql_nodes.Unary, scope: ExpressionCompiler) -> tuple[str, str]:
    if expr.op == "+":
        return _known(expr.operand, scope)
    if expr.op == "~":
        return "integer", "integer"
    if expr.op == "-" and not isinstance(expr.operand, sql_nodes.Literal):
        return "number", "number"
    return "", ""


def _of_function(expr: sql_nodes.FunctionCall, scope: ExpressionCompiler) -> str:
    """Return the known result type of a function; `signed` stands for an integer of any sign."""
    if expr.name in ("MIN", "MAX") and len(expr.args) == 1:
        return _known(expr.args[0], scope)[0]
    return "signed" if expr.name in ("SUM", "RANDOM", "QUOTE") else ""
