"""The base of all bindings: binds their methods to Lua and converts the results of their calls.

A bound method returns to Lua: bytes, None, True or a number >= 0 as its result; `(False, error bytes)` for an error; a
negative number, the token of something that Lua has to wait for. No exception ever crosses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from box.errors import BoxError
from box.txn.pending import Pending
from lua.boundary import encode_error
from lua.fiber import RUNNING_FIBER

if TYPE_CHECKING:
    from box.instance.node import Instance
    from box.session import Context
    from lua.runtime import Runtime

Outcome = Any
"""A result, an error or a token for Lua, as the docstring of this module describes; mypy cannot tell a token from a
number."""

Shape = Callable[[bytes | None], Outcome]
"""A function that makes the result of a call from the tuple that a write returns, None if it returns none."""

_Method = TypeVar("_Method", bound=Callable[..., Any])

_EXPORT = "_exported_as"


def exported(name: str) -> Callable[[_Method], _Method]:
    """Bind a method to `require('internal.python').<name>`; the method handles its errors itself."""

    def mark(method: _Method) -> _Method:
        setattr(method, _EXPORT, name)
        return method

    return mark


def guarded(name: str) -> Callable[[Callable[..., Any]], Callable[..., Outcome]]:
    """Bind a method; a BoxError that it raises becomes an error in Lua. This costs time, so hot methods use
    `exported`.
    """

    def decorate(method: Callable[..., Any]) -> Callable[..., Outcome]:
        @wraps(method)
        def call(self: Binding, *args: Any) -> Outcome:
            try:
                return method(self, *args)
            except BoxError as error:
                return self.failure(error)

        setattr(call, _EXPORT, name)
        return call

    return decorate


def waiting(
    name: str, *, is_cancellable: bool = True
) -> Callable[[Callable[..., Awaitable[Any]]], Callable[..., Outcome]]:
    """Bind a coroutine method; Lua waits if it does not end at once.

    Operations that Tarantool runs in another thread are not cancellable: a cancelled fiber continues only after their
    end.
    """

    def decorate(method: Callable[..., Awaitable[Any]]) -> Callable[..., Outcome]:
        @wraps(method)
        def call(self: Binding, *args: Any) -> Outcome:
            return self.runtime.drive(self.remember_error(method(self, *args)), is_cancellable=is_cancellable)

        setattr(call, _EXPORT, name)
        return call

    return decorate


class Binding:
    """The Python half of a Lua module. Subclasses decorate the methods that Lua calls."""

    is_direct: ClassVar[bool] = False
    """True if Lua calls the methods directly: see `Runtime.bind`."""
    on_access_denied: Callable[[Context, BoxError], None] | None = None
    """Runs the triggers of `box.session.on_access_denied`; one function for all bindings of a runtime."""

    _exports: ClassVar[dict[str, str]] = {}
    """The names for Lua by those of the methods."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        names = ((attribute, getattr(value, _EXPORT, None)) for attribute, value in vars(cls).items())
        cls._exports = cls._exports | {attribute: name for attribute, name in names if name is not None}

    def __init__(self, runtime: Runtime, node: Instance) -> None:
        self.runtime = runtime
        self.node = node
        self._waits = runtime.waits
        for attribute, name in self._exports.items():
            runtime.bind(name, getattr(self, attribute), is_direct=self.is_direct)

    @property
    def ctx(self) -> Context:
        """The context of the running Lua fiber."""
        ctx: Context = self.runtime.ctx
        return ctx

    def failure(self, error: BoxError) -> tuple[bool, bytes]:
        """Return an error to Lua as the result of a call; it becomes the fiber's last error."""
        self.note_error(self.runtime.ctx, error)
        return False, encode_error(error)

    def note_error(self, ctx: Context, error: BoxError) -> None:
        """Make an error the last error of the fiber, count it, and run the triggers for denied accesses."""
        ctx.error = error
        self.node.stats.count_error(error)
        if error.fields is not None and self.on_access_denied is not None and error.type == "AccessDeniedError":
            self.on_access_denied(ctx, error)

    async def remember_error(self, work: Awaitable[Any]) -> Any:
        """Await some work; a BoxError becomes the last error of the waiting fiber.

        Work that succeeds makes no session for its fiber.
        """
        fiber_id = self.runtime.fiber_id
        try:
            return await work
        except BoxError as error:
            self.note_error(self.runtime.context_of(fiber_id), error)
            raise

    def after(self, outcome: Pending | bytes | None, result: Outcome) -> Outcome:
        """Return `result`, or, if a write or commit is pending, a token that wakes with `result` when that has
        ended.
        """
        return self.later(outcome, lambda _: result) if isinstance(outcome, Pending) else result

    def later(self, pending: Pending, shape: Shape | None) -> Outcome:
        """Return a token that wakes with `shape(result)` when `pending` ends, or with nothing if `shape` is None.

        If it has ended already, the fiber still waits for the end of this round: a write to the log always yields.
        """
        token = self._waits.new_token(pending.cancel if pending.may_be_cancelled else None)
        # Cheaper than a closure, which would need six cells.
        told = partial(self._ended, self.runtime.cells[RUNNING_FIBER], token, shape)
        if pending.done:
            self._waits.after_round(partial(told, pending))
        else:
            pending.on_done(told)
        self._waits.last_write = pending
        return token

    def _ended(self, fiber_id: int, token: int, shape: Shape | None, pending: Pending) -> None:
        if pending.error is not None:
            if not self.runtime.closed:
                self.note_error(self.runtime.context_of(fiber_id), pending.error)
            self.runtime.fail(token, pending.error)
        elif shape is None or (result := shape(pending.result)) is None:
            self._waits.wake_plainly(token)
        else:
            self.runtime.wake(token, result)


def text(raw: bytes) -> str:
    """Decode a Lua string to Python text."""
    return raw.decode("utf-8", "surrogateescape")
