"""The functions of SQL that the dictionary needs: tests of check constraints, tables of views, checks of triggers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.schema.sql_objects import RowCheck
from box.session import Context
from box.sql import sql_nodes
from box.sql.catalogue import Catalogue
from box.sql.definer import check_trigger_place
from box.sql.exact_names import of_fields, with_exact_names
from box.sql.from_clause import tables_of
from box.sql.kinds import kind_of
from box.sql.parse import parse_expression, parse_statement
from box.sql.scope import KnownColumn, QueryScope, Relation
from box.sql.stored_values import execute_error, mismatch
from box.sql.trigger_texts import trigger_of

if TYPE_CHECKING:
    from box.schema.schema import Schema
    from box.schema.space import SpaceDef
    from box.sql.reading import QueryRunner
    from box.sql.row_expressions import RowExpressions


class DictionaryFunctions:
    """Implements `box.schema.sql_hooks.SqlFunctions`."""

    def __init__(self, schema: Schema, queries: QueryRunner, expressions: RowExpressions) -> None:
        self._schema = schema
        self._queries = queries
        self._expressions = expressions

    def compile_check(self, space: SpaceDef, name: str, code: str) -> RowCheck:
        """Make the test of a check constraint.

        Raises:
            ClientError: CREATE_CK_CONSTRAINT.
        """
        queries, expressions = self._queries, self._expressions
        ctx = Context.admin(self._schema.admin)
        count = len(space.fields)
        if not count:
            raise unsupported("Tarantool", "CK constraint for space without format")

        def scope() -> QueryScope:
            return QueryScope(relations=[Relation(space.name, "", _parameters(space))])

        try:
            expr = parse_expression(of_fields(self._schema, code, space), allows_parameters=False)
            _refuse_queries(expr)
            inside = scope()
            inside.is_inside_aggregate = True
            queries.compiler(ctx, ()).expressions(inside).compile(expr)
        except BoxError as error:
            raise client_error(ErrorCode.CREATE_CK_CONSTRAINT, name, error.message) from None
        key = ("check", space.id, code)

        def test(row: list[Any]) -> bool:
            values = row[:count] + [None] * (count - len(row))
            found = expressions.value(ctx, key, expr, scope, values)
            if found is not None and type(found) is not bool:
                raise mismatch(found, "boolean")
            return found is not False

        return test

    def compile_function(self, space: SpaceDef, number: int | None, code: str) -> RowCheck:
        """Make the test of a constraint whose function is an expression.

        Raises:
            ClientError: the text is wrong, or it names fields that the space does not have.
        """
        queries, expressions, ctx = self._queries, self._expressions, Context.admin(self._schema.admin)
        expr = _function_body(of_fields(self._schema, code, space))
        columns = _parameters(space)
        if number is not None:
            names = _names_in(expr)
            columns = _parameters(replace(space, fields=(replace(space.fields[number], name=(names or [""])[0]),)))

        def scope() -> QueryScope:
            return QueryScope(relations=[Relation(space.name, "", columns)])

        count = len(columns)
        queries.compiler(ctx, ()).expressions(scope()).compile(expr)
        key = ("function", tuple(space.fields), number, code)

        def test(row: list[Any]) -> bool:
            values = row[:count] + [None] * (count - len(row))
            return expressions.value(ctx, key, expr, scope, values) is True

        return test

    def arguments_of(self, code: str) -> list[str]:
        """Return the names in an expression, each once.

        Raises:
            ClientError: the text is wrong.
            UnsupportedError: it has a query.
        """
        return _names_in(_function_body(code))

    def tables_of_view(self, text: str) -> list[str]:
        """Return the names of the tables that a view reads.

        Raises:
            ClientError: SQL_EXECUTE, NO_SUCH_SPACE.
        """
        statement = parse_statement(with_exact_names(self._schema, text)).statement
        if not isinstance(statement, sql_nodes.CreateView):
            raise execute_error(text)
        catalogue = Catalogue(self._schema)
        return [catalogue.space(name).name for name in tables_of(statement.select)]

    def check_trigger(self, text: str, name: str, space: SpaceDef) -> None:
        """Check that the text in a `_trigger` tuple defines a trigger of this name on this space.

        Raises:
            ClientError: SQL_EXECUTE, NO_SUCH_SPACE, or the text is wrong.
        """
        trigger = trigger_of(with_exact_names(self._schema, text, (name,)))
        if trigger.name != name:
            raise execute_error("trigger name does not match extracted from SQL")
        table = self._schema.space_by_name(trigger.table)
        check_trigger_place(trigger, table)
        if table.id != space.id:
            raise execute_error("trigger space_id does not match the value resolved on AST building from SQL")


def _parameters(space: SpaceDef) -> list[KnownColumn]:
    """Return the fields of a tuple as columns for a check constraint; each column reads a parameter."""
    found = []
    for number, item in enumerate(space.fields):
        kind = kind_of(item.type.value)
        place = f":p{number + 1}"
        sql = f"lb_truth({place})" if kind == "bool" else place
        found.append(KnownColumn(item.name or "", item.type.value, kind, item.collation_id or 0, sql=sql))
    return found


def _function_body(code: str) -> sql_nodes.Expr:
    """Parse the body of a function that is an expression.

    Raises:
        ClientError: the text is wrong.
        UnsupportedError: it has a query.
    """
    expr = parse_expression(code, allows_parameters=False)
    try:
        _refuse_queries(expr)
    except BoxError:
        raise unsupported("SQL expressions", "subselects") from None
    return expr


def _names_in(expr: object) -> list[str]:
    """Return the names of columns in an expression, each once."""
    found = [expr.name] if isinstance(expr, sql_nodes.Name) else []
    for value in sql_nodes.children(expr):
        found += _names_in(value)
    return list(dict.fromkeys(found))


def _refuse_queries(expr: object) -> None:
    """Check that an expression contains no query.

    Raises:
        ClientError: CK_DEF_UNSUPPORTED.
    """
    if isinstance(expr, sql_nodes.Subquery | sql_nodes.Exists | sql_nodes.InSelect):
        raise client_error(ErrorCode.CK_DEF_UNSUPPORTED, "Subqueries")
    for value in sql_nodes.children(expr):
        _refuse_queries(value)
