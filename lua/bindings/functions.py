"""Functions by name for the binary protocol: CALL, EVAL and stored functions.

A stored function is checked and run by its definition; any other name is a Lua global, which takes `execute` on
the universe of functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from box.data.codec import unpack
from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.schema.access import Privilege, check_universe
from lua.bindings.binding import Binding, Outcome, guarded, text
from lua.boundary import decode_error

if TYPE_CHECKING:
    from box.instance.node import Instance
    from box.schema.function import Function
    from box.session import Context
    from lua.bindings.session import SessionBinding
    from lua.runtime import Runtime, Values

FunctionEnd = Callable[[bytes | BoxError], None]
"""Takes the results, a MessagePack array, or the error."""


class FunctionBinding(Binding):
    """The node's `functions`."""

    def __init__(self, runtime: Runtime, node: Instance, sessions: SessionBinding) -> None:
        super().__init__(runtime, node)
        self._sessions = sessions

    def call(self, ctx: Context, name: str, args: bytes, ended: FunctionEnd) -> None:
        """CALL: a MessagePack array in, a MessagePack array out. ER_NO_SUCH_PROC, ER_ACCESS_DENIED.

        `ctx` is for this call alone. A refusal is raised; `ended` is told of everything that comes later.
        """
        function = self._checked(ctx, name)
        if function is not None and function.definition.setuid:
            ctx.credentials = self.node.schema.user(function.owner).credentials
        self._run("box.run_call", ctx, ended, _body_handle(function), _raw(name), args)

    def eval(self, ctx: Context, expression: str, args: bytes, ended: FunctionEnd) -> None:
        """EVAL: a MessagePack array in, a MessagePack array out; as `call`."""
        check_universe(ctx.credentials, Privilege.X, "universe", "")
        self._run("box.run_eval", ctx, ended, _raw(expression), args)

    def _run(self, entry: str, ctx: Context, ended: FunctionEnd, *args: bytes | int) -> None:
        def told(outcome: Values | BoxError) -> None:
            ended(outcome if isinstance(outcome, BoxError) else cast(bytes, outcome[0]))

        self.runtime.start_then(told, self.runtime.handle_of(entry), *args, ctx=ctx)

    def _checked(self, ctx: Context, name: str) -> Function | None:
        function = self.node.schema.function_by_name(name)
        if function is None:
            check_universe(ctx.credentials, Privilege.X, "function", name)
            return None
        function.check_access(ctx.credentials)
        if function.definition.language != "LUA":
            raise unsupported("Lunabox", f"functions in {function.definition.language}")
        return function

    @guarded("function_enter")
    def enter(self, name: bytes) -> Outcome:
        """`box.func.name:call()`: the body's id, and the number for `session_su_leave` or 0."""
        function = self.node.schema.function_by_name(text(name))
        if function is None:
            raise client_error(ErrorCode.NO_SUCH_FUNCTION, text(name))
        self._checked(self.ctx, function.name)
        number = 0
        if function.definition.setuid:
            number = self._sessions.enter(self.node.schema.user(function.owner).credentials)
        return _body_handle(function), number

    def load(self, function: Function) -> None:
        """The schema's hook: compile a stored body. ER_LOAD_FUNCTION."""
        definition = function.definition
        if definition.language != "LUA" or not definition.body:
            return
        name, body = _raw(definition.name), _raw(definition.body)
        load = self.runtime.handle_of("box.load_function")
        (function.handle,) = self.runtime.invoke_now(load, name, body, definition.is_sandboxed)

    def unload(self, function: Function) -> None:
        """The schema's hook: the function is gone, or has another body now."""
        self.runtime.release(int(function.handle))
        function.handle = None

    def make_keys(self, function: Function, raw: bytes, space_id: int) -> list[Any] | BoxError:
        """The schema's hook: the values that a function returns for a tuple of a space, or why they cannot be in a
        tuple. Raises what the function raises."""
        entry = self.runtime.handle_of("box.make_keys")
        ok, packed = self.runtime.invoke_now(entry, _body_handle(function), raw, space_id)
        return cast("list[Any]", unpack(cast(bytes, packed))) if ok else decode_error(cast(bytes, packed))


def _body_handle(function: Function | None) -> int:
    """0 for what is called by its global name."""
    return 0 if function is None or function.handle is None else int(function.handle)


def _raw(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")
