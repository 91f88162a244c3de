"""Calls functions of users in statements, and checks the values that they return."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from box.errors import ErrorCode, client_error, unsupported
from box.sql.stored_values import Value, execute_error

if TYPE_CHECKING:
    from box.schema.function import Function, FunctionDef
    from box.schema.schema import Schema
    from box.session import Context

_NUMBERS: Final = frozenset(("unsigned", "integer", "double"))
_ACCEPTED: Final[dict[str, frozenset[str]]] = {
    "unsigned": frozenset(("unsigned",)),
    "integer": frozenset(("unsigned", "integer")),
    "double": frozenset(("double",)),
    "number": _NUMBERS,
    "string": frozenset(("string",)),
    "boolean": frozenset(("boolean",)),
    "varbinary": frozenset(("blob",)),
    "scalar": _NUMBERS | {"string", "boolean", "blob"},
}
"""For each declared type of a result, the types of the values that a function may return. Nil is always allowed."""


def _type_of(value: Value) -> str:
    kind = type(value)
    if kind is int:
        return "unsigned" if value >= 0 else "integer"
    return {bool: "boolean", float: "double", str: "string", bytes: "blob"}.get(kind, "")


class UserFunctions:
    """Calls functions of `_func` for the statements of one node."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def call(self, ctx: Context, name: str, args: list[Value]) -> Value:
        """Return the result of a function.

        Raises:
            ClientError: NO_SUCH_FUNCTION, SQL_FUNC_WRONG_RET_COUNT, FUNC_INVALID_RETURN_TYPE, or SQL_EXECUTE if it
                returns a table.
            AccessDeniedError: the user may not call it.
            UnsupportedError: it is in a language that SQL does not call.
            BoxError: the function raised it.
        """
        function = self._schema.function_by_name(name)
        run = self._schema.run_function
        if function is None:
            raise client_error(ErrorCode.NO_SUCH_FUNCTION, name)
        function.check_access(ctx.credentials)
        if function.definition.language != "LUA" or run is None:
            raise unsupported("Lunabox", f"functions in {function.definition.language}")
        return _checked(function.definition, self._with_rights(ctx, function, run, args))

    def _with_rights(
        self, ctx: Context, function: Function, run: Callable[[Context, Function, list[Any]], list[Any]], args: Any
    ) -> list[Value]:
        """Run a function; one with `setuid` runs with the rights of its owner."""
        if not function.definition.setuid:
            return run(ctx, function, args)
        before, ctx.credentials = ctx.credentials, self._schema.user(function.owner).credentials
        try:
            return run(ctx, function, args)
        finally:
            ctx.credentials = before


def _checked(definition: FunctionDef, results: list[Value]) -> Value:
    if len(results) != 1:
        raise client_error(ErrorCode.SQL_FUNC_WRONG_RET_COUNT, "Lua", len(results))
    (value,) = results
    if value is None:
        return None
    kind = _type_of(value)
    if not kind or kind == "blob":
        raise execute_error("Unsupported type passed from Lua")
    wanted = definition.returns
    if wanted != "any" and kind not in _ACCEPTED.get(wanted, ()):
        raise client_error(ErrorCode.FUNC_INVALID_RETURN_TYPE, definition.name, wanted, kind)
    return value
