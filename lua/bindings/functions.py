"""Runs functions by name for the binary protocol: CALL, EVAL and stored functions.

A stored function is checked and run by its definition. Any other name is a Lua global and needs the privilege `execute`
on the universe of functions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from box.data.codec import pack, unpack
from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.schema.access import Privilege, check_universe, denied, may_execute_all
from lua.bindings.binding import Binding, Outcome, guarded, text
from lua.bindings.call_wave import CallWave
from lua.boundary import decode_error

if TYPE_CHECKING:
    from box.instance.node import Instance
    from box.schema.function import Function
    from box.session import Context
    from lua.bindings.c_modules import CModules
    from lua.bindings.session import SessionBinding
    from lua.runtime import Runtime, Values

FunctionEnd = Callable[[bytes | BoxError], None]
"""A callback that takes the results of a call as a MessagePack array, or its error."""


_ARRAY_HEADER: Final = struct.Struct(">BI").pack
"""Makes the header of a MessagePack array of 32 bits: its first byte and the number of values."""


class FunctionBinding(Binding):
    """The node's `functions`: runs CALL and EVAL, and loads stored functions."""

    def __init__(self, runtime: Runtime, node: Instance, sessions: SessionBinding) -> None:
        super().__init__(runtime, node)
        self._sessions = sessions
        self.wave = CallWave(runtime, node)

    @cached_property
    def _libraries(self) -> CModules:
        """The libraries of functions in C, which few programs have."""
        from lua.bindings.c_modules import CModules

        return CModules(self._find_library)

    @cached_property
    def _apart(self) -> ModuleType:
        """The module `box.apart`, by which functions called from SQL wait; few programs need it."""
        from box import apart

        return apart

    def call(self, ctx: Context, name: str, args: bytes, ended: FunctionEnd, is_16: bool = False) -> None:
        """Run a CALL, or a CALL_16 if `is_16`; arguments and results are MessagePack arrays.

        A CALL_16 has a single tuple as its result in an array of its own, so that it differs from a table of tables.

        `ctx` serves this call alone, or a stream. A refusal is raised; every later outcome is passed to `ended`.

        Raises:
            ClientError: NO_SUCH_PROC; LOAD_MODULE or LOAD_FUNCTION for a function in C.
            UnsupportedError: the function is in C, and its library exists.
            AccessDeniedError: the user may not execute the function.
        """
        function = self._checked(ctx, name)
        if function is not None and function.definition.setuid:
            ctx.credentials = self.node.schema.user(function.owner).credentials
        entry = "box.run_call_16" if is_16 else "box.run_call"
        self._run(entry, ctx, ended, _body_handle(function), _raw(name), args)

    def eval(self, ctx: Context, expression: str, args: bytes, ended: FunctionEnd) -> None:
        """Run an EVAL; arguments and results are MessagePack arrays, errors are those of `call`."""
        check_universe(ctx.credentials, Privilege.X, "universe", "")
        self._run("box.run_eval", ctx, ended, _raw(expression), args)

    def _run(self, entry: str, ctx: Context, ended: FunctionEnd, *args: bytes | int) -> None:
        def told(outcome: Values | BoxError) -> None:
            self.wave.take_late()  # the replies of functions that have ended before this one
            ended(outcome if isinstance(outcome, BoxError) else cast(bytes, outcome[0]))

        if ctx.txn is not None:  # the request belongs to a stream
            entry += "_in_transaction"
        self.runtime.start_then(told, self.runtime.handle_of(entry), *args, ctx=ctx)

    def _checked(self, ctx: Context, name: str) -> Function | None:
        function = self.node.schema.function_by_name(name)
        if function is None:
            check_universe(ctx.credentials, Privilege.X, "function", name)
            return None
        function.check_access(ctx.credentials)
        if function.definition.language == "C":
            self._libraries.load_function(name)
        if function.definition.language != "LUA":
            raise unsupported("Lunabox", f"functions in {function.definition.language}")
        return function

    @guarded("function_enter")
    def enter(self, name: bytes) -> Outcome:
        """Begin `box.func.name:call()`. Returns the body's id, and a number for `session_su_leave` or 0."""
        function = self.node.schema.function_by_name(text(name))
        if function is None:
            raise client_error(ErrorCode.NO_SUCH_FUNCTION, text(name))
        self._checked(self.ctx, function.name)
        number = 0
        if function.definition.setuid:
            number = self._sessions.enter(self.node.schema.user(function.owner).credentials)
        return _body_handle(function), number

    def _find_library(self, package: str) -> tuple[str | None, str]:
        path, temporary = self.runtime.invoke_now(self.runtime.handle_of("box.find_c_module"), _raw(package))
        return None if path is None else text(cast(bytes, path)), text(cast(bytes, temporary))

    @guarded("function_reload")
    def reload(self, package: bytes) -> Outcome:
        """Load the library of stored functions in C anew."""
        credentials = self.ctx.credentials
        if not may_execute_all(credentials):
            raise denied(credentials, Privilege.U, "universe", "")
        self._libraries.reload(text(package))

    @guarded("c_module_load")
    def load_c_module(self, package: bytes) -> Outcome:
        """Try to load a library for `box.lib.load`; its functions could not be called.

        Raises:
            UnsupportedError: the library can be loaded.
        """
        self._libraries.try_loading(text(package))
        raise unsupported("Lunabox", "C modules")

    def load(self, function: Function) -> None:
        """Compile the body of a function, if it has one; the dictionary calls it when such a function is defined.

        Raises:
            ClientError: LOAD_FUNCTION.
        """
        definition = function.definition
        name, body = _raw(definition.name), _raw(definition.body)
        load = self.runtime.handle_of("box.load_function")
        options = definition.is_sandboxed, definition.takes_raw_args
        (function.handle,) = self.runtime.invoke_now(load, name, body, *options)

    def unload(self, function: Function) -> None:
        """Release a stored function; the dictionary calls it when one is dropped or redefined."""
        self.runtime.release(int(function.handle))
        function.handle = None

    def make_keys(self, function: Function, raw: bytes, space_id: int) -> list[Any] | BoxError:
        """Return the values of a functional index for a tuple, or the error if they cannot be stored in a tuple.

        The dictionary calls it. Raises the errors of the function.
        """
        entry = self.runtime.handle_of("box.make_keys")
        ok, packed = self.runtime.invoke_now(entry, _body_handle(function), raw, space_id)
        return cast("list[Any]", unpack(cast(bytes, packed))) if ok else decode_error(cast(bytes, packed))

    def make_many_keys(self, function: Function, tuples: list[bytes], space_id: int) -> list[list[Any]]:
        """Return what `make_keys` does, for tuples up to the first one whose call fails, or up to any other."""
        entry = self.runtime.handle_of("box.make_many_keys")
        try:
            count, packed = self.runtime.invoke_now(entry, _body_handle(function), b"".join(tuples), space_id)
        except BoxError:  # the function has waited
            return []
        return cast("list[list[Any]]", unpack(_ARRAY_HEADER(0xDD, int(cast(int, count))) + cast(bytes, packed)))

    def check_value(self, function: Function, raw: bytes, space_id: int | None, name: str) -> bool:
        """Return whether the function of a constraint accepts a tuple of a space, or the only value of an array if the
        id is None.

        The dictionary calls it. Raises the errors of the function.
        """
        entry = self.runtime.handle_of("box.check_value")
        (result,) = self.runtime.invoke_now(entry, _body_handle(function), raw, space_id, _raw(name))
        return bool(result)

    def run_in_sql(self, ctx: Context, function: Function, args: list[Any]) -> list[Any]:
        """Call a function with values of SQL, and return its results. Varbinary values are strings to it.

        It may wait if the statement runs apart. Raises the errors of the function.
        """
        given = [value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value for value in args]
        entry = self.runtime.handle_of("box.run_in_sql")
        arguments = _body_handle(function), _raw(function.name), pack(given)
        if self._apart.is_apart():
            outcome = self.runtime.start_inside(entry, *arguments, ctx=ctx)
            (packed,) = outcome if isinstance(outcome, tuple) else self._apart.wait_for(outcome)
        else:
            (packed,) = self.runtime.invoke_now(entry, *arguments, ctx=ctx)
        return cast("list[Any]", unpack(cast(bytes, packed)))


def _body_handle(function: Function | None) -> int:
    """Return the handle of a function's body, or 0 if it is called by its global name."""
    return 0 if function is None or function.handle is None else int(function.handle)


def _raw(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")
