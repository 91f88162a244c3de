"""`_func`: stored functions."""

from __future__ import annotations

from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.schema.access import Credentials, Privilege, check_ddl
from box.schema.bootstrap import sql_function_names
from box.schema.ddl.dictionary_change import DdlStatement, DdlTransaction
from box.schema.ddl.rules import check_not_used, is_own_change
from box.schema.fields import Fields
from box.schema.function import Function, decode_function
from box.schema.schema import Schema

_SQL_FUNCTIONS = sql_function_names()


def on_replace_func(schema: Schema, credentials: Credentials, txn: DdlTransaction, stmt: DdlStatement) -> None:
    """Create or drop a function; a change must leave the definition equal."""
    function_id = Fields(stmt.first).u32(0)
    function = schema.functions.get(function_id)
    if stmt.new is None:
        if function is None:
            raise client_error(ErrorCode.NO_SUCH_FUNCTION, str(function_id))
        _drop_function(schema, credentials, stmt, function)
    elif function is None:
        _create_function(schema, credentials, stmt)
    elif stmt.old is None or decode_function(stmt.old) != decode_function(stmt.new):
        raise unsupported("function", "alter")


def _create_function(schema: Schema, credentials: Credentials, stmt: DdlStatement) -> None:
    definition = decode_function(stmt.last)
    check_ddl(credentials, Privilege.C, ("function", definition.id), definition.name, definition.owner)
    if definition.language == "SQL_BUILTIN" and definition.name not in _SQL_FUNCTIONS:
        raise client_error(ErrorCode.CREATE_FUNCTION, definition.name, "given built-in is not predefined")
    if definition.language == "SQL_EXPR" and is_own_change(schema, stmt):
        schema.sql.arguments_of(definition.body)
    function = Function(definition)
    if function.is_loaded and schema.load_function is not None:
        schema.load_function(function)
    schema.add_function(function)

    def undo() -> None:
        schema.remove_function(function)
        _unload(schema, function)

    stmt.on_rollback.append(undo)


def _drop_function(schema: Schema, credentials: Credentials, stmt: DdlStatement, function: Function) -> None:
    check_ddl(credentials, Privilege.D, ("function", function.id), function.name, function.owner)

    def wrong(text: str) -> BoxError:
        # Tarantool shows the owner's id here, although the text asks for the function's.
        return client_error(ErrorCode.DROP_FUNCTION, function.owner, text)

    if schema.has_grants("function", function.id):
        raise wrong("function has grants")
    if function.id in schema.index_functions.values():
        raise wrong("function has references")
    if function.definition.language == "SQL_BUILTIN":
        raise wrong("function is SQL built-in")
    check_not_used(schema, function)
    schema.remove_function(function)
    stmt.on_commit.append(lambda: _unload(schema, function))
    stmt.on_rollback.append(lambda: schema.add_function(function))


def _unload(schema: Schema, function: Function) -> None:
    if function.handle is not None and schema.unload_function is not None:
        schema.unload_function(function)
