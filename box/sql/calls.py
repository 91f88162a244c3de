"""Compiles calls of functions: built-in ones, aggregates, and functions of users."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from box.errors import BoxError, ErrorCode, client_error, illegal_params
from box.sql import sql_nodes
from box.sql.aggregates import AGGREGATES, SAFE, calls_of
from box.sql.builtins import SCALARS, UNAVAILABLE, not_available
from box.sql.kinds import as_kind, boxed, exact, joined, kind_of
from box.sql.parse.token_reader import generic, limit_exceeded
from box.sql.scope import Typed
from box.sql.stored_values import Texts
from box.sql.type_names import type_of

if TYPE_CHECKING:
    from box.sql.expression_compiler import ExpressionCompiler
    from box.sql.query import QueryCompiler

_KINDS: Final = {
    "ABS": "num",
    "CHAR": "str",
    "CHARACTER_LENGTH": "int",
    "CHAR_LENGTH": "int",
    "HEX": "str",
    "LENGTH": "int",
    "LOWER": "str",
    "POSITION": "int",
    "REPLACE": "str",
    "ROUND": "real",
    "SOUNDEX": "str",
    "UNICODE": "int",
    "UPPER": "str",
    "ZEROBLOB": "bin",
}
_LIKELY: Final = frozenset(("LIKELY", "UNLIKELY", "LIKELIHOOD"))


SHOWN_PLAIN: Final = ("MIN", "MAX", *sorted(_LIKELY))
"""Functions of which complete metadata tell no more than the type, though they give a value of a column."""
_SAME: Final = frozenset(("COALESCE", "GREATEST", "IFNULL", "LEAST", "NULLIF", "QUOTE", *_LIKELY))
"""Functions that return an argument as it is."""
_COUNTED_LATE: Final = frozenset(("GREATEST", "LEAST", "ROUND", "SUBSTR"))
"""Functions of which Tarantool counts the arguments when it calls them."""
_ARGS_MAX: Final = 127
"""The limit of Tarantool for the arguments of a function."""
_ONE_ARGUMENT: Final = "DISTINCT aggregates must have exactly one argument"


class CallCompiler:
    """Compiles the calls of one statement."""

    def __init__(self, queries: QueryCompiler) -> None:
        self._queries = queries

    def compile(self, expr: sql_nodes.FunctionCall, scope: ExpressionCompiler) -> Typed:
        """Compile a call.

        Raises:
            ClientError: NO_SUCH_FUNCTION, FUNC_WRONG_ARG_COUNT, SQL_PARSER_LIMIT, SQL_PARSER_GENERIC.
        """
        name = expr.name
        if len(expr.args) > _ARGS_MAX:
            raise limit_exceeded(f"Number of arguments to function {name}", len(expr.args), _ARGS_MAX)
        if name in AGGREGATES:
            return self._aggregate(expr, scope)
        if name == "TRIM":
            return self._trim(expr, scope)
        if name == "TYPEOF":
            return self._type_of(expr, scope)
        if name in ("PRINTF", "RANDOM", "RANDOMBLOB", "ROW_COUNT", "VERSION"):
            return self._special(expr, scope)
        if name in UNAVAILABLE:
            raise not_available(name)
        if name in SCALARS:
            return self._builtin(expr, scope)
        return self._user(expr, scope)

    # --- aggregates ---

    def _aggregate(self, expr: sql_nodes.FunctionCall, scope: ExpressionCompiler) -> Typed:
        name, inner = expr.name, scope.scope
        least, most, expected, returns = AGGREGATES[name]
        count = len(expr.args)
        if not least <= count <= most and least == most:
            raise client_error(ErrorCode.FUNC_WRONG_ARG_COUNT, name, expected, count)
        if inner.is_inside_aggregate or not inner.allows_aggregates:
            raise generic(f"misuse of aggregate function {name}()")
        inner.is_inside_aggregate = True
        args = [scope.compile(arg) for arg in expr.args]
        args = list(map(exact, args))
        inner.is_inside_aggregate = False
        owner = inner.of_aggregate(expr.args)
        if not owner.has_aggregates:
            raise generic(f"misuse of aggregate: {name}()")
        if owner.on_aggregate is not None:
            owner.on_aggregate()
        if owner is not inner:
            owner.inner_aggregates += 1
        if expr.is_distinct and count != 1:  # the whole query is looked at before
            inner.late_failure = inner.late_failure or generic(_ONE_ARGUMENT)
            return Typed("NULL", returns, "any", has_aggregate=True)
        distinct = "DISTINCT " if expr.is_distinct else ""
        sql, kind = self._aggregate_sql(name, args, distinct)
        collation = args[0].collation if args and name in ("MIN", "MAX") else 0
        return Typed(sql, returns, kind, collation, has_aggregate=True)

    @staticmethod
    def _aggregate_sql(name: str, args: list[Typed], distinct: str) -> tuple[str, str]:
        if distinct and args[0].kind in ("str", "any") and args[0].collation not in (0, 3):
            value = replace(args[0], sql=f"{args[0].sql} COLLATE lb_{args[0].collation}")
            args = [value, *args[1:]]
        least, most, expected, _ = AGGREGATES[name]
        if not least <= len(args) <= most:  # the error comes with the first row
            function = "count" if name == "COUNT" else "lb_group_concat"
            return f"{function}(lb_wrong_count('{name}', '{expected}', {len(args)}))", "any"
        if name == "COUNT":
            return f"count({distinct}{args[0].sql if args else '*'})", "int"
        value = args[0]
        if name in ("MIN", "MAX"):
            if value.kind in ("int", "real", "bool", "null") or (value.kind == "str" and value.collation in (0, 3)):
                return f"{name.lower()}({value.sql})", value.kind
            return f"lb_{name.lower()}({boxed(value)}, {value.collation})", value.kind if value.kind == "str" else "any"
        if name == "GROUP_CONCAT":
            rest = "" if len(args) == 1 else f", {boxed(args[1])}"
            return f"lb_group_concat({distinct}{boxed(value)}{rest})", "str"
        function = f"lb_{name.lower()}"
        if f"{function}_{value.kind}" in SAFE:
            function += f"_{value.kind}"
        return f"{function}({distinct}{boxed(value)})", (
            "int" if value.kind == "int" else "num"
        ) if name == "SUM" else "real"

    def extreme(self, parts: object, scope: ExpressionCompiler) -> str:
        """Return the beginning of the SQL for the value of a column in the row with the extreme, if there is just one
        MIN or MAX and SQLite does not know it as such; else ''.
        """
        found = list(calls_of(parts, ("MIN", "MAX")))
        if not found or any(other != found[0] for other in found) or len(found[0].args) != 1:
            return ""
        scope.scope.is_inside_aggregate = True
        try:
            with self._queries.naming_kept():
                value = exact(scope.compile(found[0].args[0]))
        except BoxError:  # raised when its turn comes
            return ""
        finally:
            scope.scope.is_inside_aggregate = False
        name = found[0].name.lower()
        sql, _ = self._aggregate_sql(found[0].name, [value], "")
        return f"lb_at_{name}({boxed(value)}, {value.collation}, " if sql.startswith("lb_") else ""

    # --- built-in functions ---

    def _builtin(self, expr: sql_nodes.FunctionCall, scope: ExpressionCompiler) -> Typed:
        entry = SCALARS[expr.name]
        if expr.name not in _COUNTED_LATE or scope.runs_first(expr.args):
            entry.check_count(len(expr.args))
        args = [scope.compile(arg) for arg in expr.args]
        if not entry.least <= len(args) <= entry.most:
            return Typed(f"lb_wrong_count('{entry.name}', '{entry.expected}', {len(args)})", entry.returns, "any")
        if expr.name not in _SAME:
            args = list(map(exact, args))
        has_aggregate = any(arg.has_aggregate for arg in args)
        if expr.name in _LIKELY:
            return self._likely(expr, args)
        if expr.name in ("COALESCE", "IFNULL"):
            kind = joined(arg.kind for arg in args)
            parts = ", ".join(as_kind(arg, kind) for arg in args)
            return Typed(f"coalesce({parts})", entry.returns, kind, has_aggregate=has_aggregate)
        collation = 0
        if entry.uses_collation:
            collation = self.common_collation(args, scope)
        values = [boxed(arg) for arg in args]
        if entry.uses_collation:
            values.insert(0, str(collation))
        if entry.name in ("LOWER", "UPPER") and args[0].collation:
            values.append(str(args[0].collation))
        kind = _KINDS.get(entry.name, "any")
        if entry.name == "SUBSTR" and args[0].kind == "str":
            kind = "str"
        kept = args[0] if entry.keeps_collation else None
        return Typed(
            f"lb_{entry.name.lower()}({', '.join(values)})",
            entry.returns,
            kind,
            kept.collation if kept else 0,
            kept.is_explicit if kept else False,
            has_aggregate=has_aggregate,
        )

    @staticmethod
    def common_collation(args: list[Typed], scope: ExpressionCompiler) -> int:
        """Return the collation by which a function compares its arguments. Raises ILLEGAL_COLLATION_MIX."""
        found = args[0]
        for arg in args[1:]:
            found = replace(
                found, collation=scope.collation(found, arg), is_explicit=found.is_explicit or arg.is_explicit
            )
        return found.collation

    @staticmethod
    def _likely(expr: sql_nodes.FunctionCall, args: list[Typed]) -> Typed:
        if expr.name == "LIKELIHOOD":
            chance = expr.args[1]
            is_right = (
                isinstance(chance, sql_nodes.Literal) and isinstance(chance.value, float) and 0 <= chance.value <= 1
            )
            if not is_right:
                raise illegal_params("second argument to likelihood() must be a constant between 0.0 and 1.0")
        return args[0]

    def _trim(self, expr: sql_nodes.FunctionCall, scope: ExpressionCompiler) -> Typed:
        args = [scope.compile(arg) for arg in expr.args]
        text = args[-1]
        values = [boxed(text), f"'{expr.trim}'"] + [boxed(arg) for arg in args[:-1]]
        kind = "str" if text.kind == "str" else "any"
        has_aggregate = any(arg.has_aggregate for arg in args)
        return Typed(
            f"lb_trim({', '.join(values)})",
            "string",
            kind,
            text.collation,
            text.is_explicit,
            has_aggregate=has_aggregate,
        )

    def _type_of(self, expr: sql_nodes.FunctionCall, scope: ExpressionCompiler) -> Typed:
        SCALARS["TYPEOF"].check_count(len(expr.args))
        (arg,) = expr.args
        has_aggregate = scope.compile(arg).has_aggregate
        with self._queries.naming_kept():
            sql = f"lb_text({type_of(arg, scope)})" if self._queries.texts is Texts.BYTES else type_of(arg, scope)
        return Typed(sql, "string", "str", has_aggregate=has_aggregate)

    def _special(self, expr: sql_nodes.FunctionCall, scope: ExpressionCompiler) -> Typed:
        name, args = expr.name, [exact(scope.compile(arg)) for arg in expr.args]
        expected = {"RANDOMBLOB": 1, "RANDOM": 0, "ROW_COUNT": 0, "VERSION": 0}.get(name)
        if expected is not None and len(args) != expected:
            raise client_error(ErrorCode.FUNC_WRONG_ARG_COUNT, name, str(expected), len(args))
        has_aggregate = any(arg.has_aggregate for arg in args)
        if name == "PRINTF":
            if not args:
                return Typed("NULL", "string", "null")
            first, *others = map(boxed, args)
            values = "".join(f", lb_printf({first}, {place}, {other})" for place, other in enumerate(others))
            sql = f"printf(lb_plain({first}){values})"
            if self._queries.texts is Texts.BYTES:
                sql = f"lb_text({sql})"
            return Typed(sql, "string", "str", has_aggregate=has_aggregate)
        if name == "RANDOM":
            return Typed("random()", "integer", "int")
        if name == "RANDOMBLOB":
            return Typed(f"lb_randomblob({boxed(args[0])})", "varbinary", "any", has_aggregate=has_aggregate)
        if name == "ROW_COUNT":
            return Typed("lb_row_count()", "integer", "int")
        return Typed("lb_version()", "string", "str")

    # --- functions of the user ---

    def _user(self, expr: sql_nodes.FunctionCall, scope: ExpressionCompiler) -> Typed:
        """Compile a call of a function in `_func`.

        Raises:
            ClientError: NO_SUCH_FUNCTION, SQL_PARSER_GENERIC, FUNC_WRONG_ARG_COUNT.
        """
        function, count = self._queries.catalogue.function(expr.name), len(expr.args)
        wanted = len(function.param_list)
        if count != wanted:
            raise client_error(ErrorCode.FUNC_WRONG_ARG_COUNT, function.name, str(wanted), count)
        args = [scope.compile(arg) for arg in expr.args]
        name = f"x'02{function.name.encode().hex()}'"
        sql = f"lb_call({', '.join((name, *map(boxed, args)))})"
        kind = kind_of(function.returns)
        if kind == "bool":
            sql = f"lb_truth({sql})"
        return Typed(sql, function.returns, kind, has_aggregate=any(arg.has_aggregate for arg in args))
