"""A LuaJIT state on an asyncio loop: the boundary between Python and Lua.

Rules (ARCHITECTURE.md, "Rules of the Lua boundary"): Python holds Lua functions by integer handles; calls go through
dispatcher functions made once on the main Lua state; errors cross as values; only bytes, numbers, booleans and nil
cross.

A bound function (see `bind`) returns bytes, None, True or a number >= 0 as its result; `(False, error bytes)` for an
error that Lua raises; a negative integer, a token from `new_token` or `drive`, to let the fiber wait. It must not
raise.
"""

from __future__ import annotations

import asyncio
import errno
import importlib
import os
import sys
import time
from array import array
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, Protocol, cast

from box.data.marks import FIXARRAY
from box.errors import BoxError, ErrorCode
from box.journal.round import Round
from box.wire.tarantool_version import PACKAGE_VERSION
from lua.bindings.fiber import FiberBinding
from lua.boundary import NoAccess, decode_error, encode_error, error_from_exception
from lua.fiber import RUNNING_FIBER, WAVE, WOKEN_MAX, Dispatchers, LuaAnswer, Scheduler, Value, Waits, Waves
from lua.machine import Machine
from lua.standard_output import OUTPUT
from lua.turn_clock import CLOCKS

__all__ = ["Runtime", "decode_error", "encode_error", "error_from_exception"]

_MODULES = os.path.join(os.path.dirname(__file__), "modules")
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
"""Errors that say that a file is not there. After others, such as EMFILE, it may well be."""
_FLAVOURS = ("luajit20", "luajit21")
_NO_ARGS = bytes((FIXARRAY,))
REQUEST_FIBER: Final = "main"
"""The name of a fiber that serves a request."""
# The numbers of cells, see `internal/cells.lua`; 0 is RUNNING_FIBER of lua.fiber, 3 is WOKEN there.
_TICK_WANTED, _NEXT_ID, _DEAD, _LAZY = 1, 2, 7, 8
_CELLS = 11

Values = tuple[Value, ...]
Ending = Callable[[Values | BoxError], None]
"""A callback that is told how a call has ended."""


def default_flavour() -> str:
    """Return the name of the LuaJIT version: `LUNABOX_LUAJIT`, or luajit20 if available, whose `pairs()` has
    Tarantool's order.
    """
    chosen = os.environ.get("LUNABOX_LUAJIT")
    if chosen:
        return chosen
    try:
        importlib.import_module("lupa.luajit20")
    except ImportError:
        return "luajit21"
    return "luajit20"


class LogSpeaker(Protocol):
    """Receives a message for the log."""

    def __call__(self, level: str, text: str, where: str = "") -> None: ...


class Runtime:
    """A Lua state and its fibers.

    `new_context()` makes the Context of a fiber on first use; `end_context(ctx)` is called when such a fiber has ended.
    `log_problem` receives uncaught errors; `log(level, text, where)` other messages, with the levels 'crit', 'error',
    'warn', 'info' and 'debug'; `where` is the `file:line` of an error or empty.
    `write(bytes)` receives the output of `print`, `on_exit(code)` the code of `os.exit`. With `uses_stdout` `print`
    writes to the C library's stream for standard output instead, which buffers; see `flush`.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop | None = None,
        *,
        flavour: str | None = None,
        new_context: Callable[[], Any] | None = None,
        end_context: Callable[[Any], None] | None = None,
        log: LogSpeaker | None = None,
        log_problem: Callable[[BoxError], None] | None = None,
        write: Callable[[bytes], None] | None = None,
        uses_stdout: bool = False,
        on_exit: Callable[[int], None] | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.perf_counter,
        getcwd: Callable[[], str] = os.getcwd,
        version: str = PACKAGE_VERSION,
        fiber_round: Round | None = None,
        machine: Machine | None = None,
    ) -> None:
        self.loop = loop if loop is not None else asyncio.get_running_loop()
        self.flavour = flavour or default_flavour()
        if self.flavour not in _FLAVOURS:
            raise ValueError(f"unknown Lua flavour {self.flavour!r}: one of {', '.join(_FLAVOURS)} is expected")
        self.new_context = new_context or object
        self.end_context = end_context
        self.on_lend: Callable[[Any], None] = lambda ctx: None
        """Called with a Context that has a transaction open, before Lua runs with it and may start other fibers."""
        self.on_return = self.on_lend
        """Called with the Context of a call that has waited, at its end."""
        self._reserved = self._next_system = 0
        self.log = log or _log_to_stderr
        self.log_problem = log_problem or (lambda error: self.log("error", error.log_text, ""))
        self.machine = machine or Machine()
        """The files, sockets and clocks that Lua modules use."""
        self.processes: set[int] = set()
        """The ids of child processes that other code waits for."""
        self.contexts: dict[int, Any] = {}
        """The contexts by the id of their fiber; other modules only read them."""
        self._lent: set[int] = set()
        self.waves: Waves | None = None
        """Makes the contexts of the functions of waves."""
        self.passing_contexts: dict[int, Any] = {}  # by wave, see `passing_ctx`
        self._fiber_of: dict[int, int] = {}
        self._activations: dict[int, asyncio.Future[Values] | Ending] = {}
        self._entries: dict[str, int] = {}
        self._later: dict[str, Callable[[], object]] = {}
        """Functions that bind other functions for Lua at the first use, by the prefix of the names that they bind."""
        self._cells_memory = array("i", [0] * _CELLS)
        self.cells = memoryview(self._cells_memory)
        """Memory that is shared with Lua: see `internal/cells.lua`."""
        self._woken_memory = array("d", [0.0] * WOKEN_MAX)
        self._turn_times_memory = array("d", [0.0] * CLOCKS)
        self.turn_times: memoryview[float] = memoryview(self._turn_times_memory)
        """Memory that is shared with Lua: see `lua/turn_clock.py`."""
        self.waits = Waits(self.loop, self.cells, memoryview(self._woken_memory), fiber_round or Round(), monotonic)
        self.closed = False
        self._open()
        binding = FiberBinding(
            self,
            write=write,
            uses_stdout=uses_stdout,
            on_exit=on_exit,
            clock=clock,
            monotonic=monotonic,
            getcwd=getcwd,
            version=version,
        )
        binding.install()
        self._boot()

    # ---- the Lua state ----

    def _open(self) -> None:
        lupa = importlib.import_module(f"lupa.{self.flavour}")
        self._state = lupa.LuaRuntime(
            encoding=None,
            unpack_returned_tuples=True,
            register_eval=False,
            register_builtins=False,
            attribute_filter=_no_attributes,
        )
        memories: tuple[array[Any], ...] = (self._cells_memory, self._woken_memory, self._turn_times_memory)
        self._bind, self._start_lua = self._state.execute(
            _module_text("internal.boot"),
            _read_module,
            self._bind_missing,
            *(float(memory.buffer_info()[0]) for memory in memories),
            name="@builtin/internal/boot.lua",
        )

    def _boot(self) -> None:
        (
            self._start,
            run,
            deliver,
            deliver_error,
            fire,
            self._keep_context,
            self._cancel_fiber,
            self._is_in_python,
            self._release,
            self._start_wave,
            self._finalize_all,
            is_alone,
            self._flush,
        ) = self._start_lua()
        self.waits.attach(cast(Scheduler, Dispatchers(run, deliver, deliver_error, fire, is_alone)))

    def bind(self, name: str, function: Callable[..., Any], *, is_direct: bool = False) -> None:
        """Offer `function` to Lua as `require('internal.python').<name>`.

        Bind once, at start-up, because a bound callable lives as long as the state. Arguments arrive as bytes, int,
        float, bool or None. Arguments of other types and exceptions become Lua errors. With `is_direct` they are not
        handled, which saves a tenth of a microsecond for each call.
        """
        self._bind(name.encode(), function, is_direct)

    def bind_later(self, prefixes: Iterable[str], make: Callable[[], object]) -> None:
        """Call `make`, which binds functions, when Lua uses a function for the first time that is not bound and whose
        name begins with one of the prefixes and an underscore.
        """
        self._later.update(dict.fromkeys(prefixes, make))

    def _bind_missing(self, name: bytes) -> None:
        make = self._later.get(name.decode().partition("_")[0])
        if make is not None:
            self._later = {prefix: other for prefix, other in self._later.items() if other is not make}
            make()

    # ---- contexts ----

    @property
    def ctx(self) -> Any:
        """The Context of the running Lua fiber; made on first use."""
        fiber_id = self.cells[RUNNING_FIBER]
        return self.contexts.get(fiber_id) or self._make_context(fiber_id)

    def passing_ctx(self) -> Any:
        """Return a Context of the running Lua fiber for an operation that neither changes nor keeps it."""
        cells = self.cells
        fiber_id = cells[RUNNING_FIBER]
        if fiber_id == cells[_LAZY] and (ctx := self.passing_contexts.get(cells[WAVE])) is not None:
            return ctx
        return self.contexts.get(fiber_id) or self._make_context(fiber_id)

    def context_of(self, fiber_id: int) -> Any:
        """Return the Context of a Lua fiber, made on first use."""
        return self.contexts.get(fiber_id) or self._make_context(fiber_id)

    def _make_context(self, fiber_id: int) -> Any:
        if fiber_id == 0:
            raise RuntimeError("no Lua fiber is running")
        if self.closed:
            return self.new_context()  # for finalizers, which run when the Lua state is freed
        waves = self.waves
        if waves is not None and fiber_id == self.cells[_LAZY] and waves.is_running:
            ctx = waves.make_context()
            self._lent.add(fiber_id)
            self.cells[_LAZY] = 0
        elif (wave := self._keep_context(fiber_id)) is None or waves is None:
            ctx = self.new_context()
        else:
            ctx = waves.make_context_of(*wave)
            self._lent.add(fiber_id)
        self.contexts[fiber_id] = ctx
        self._fiber_of[id(ctx)] = fiber_id
        return ctx

    @property
    def fiber_id(self) -> int:
        """The id of the running Lua fiber, or 0."""
        return self.cells[RUNNING_FIBER]

    def number_fibers_from(self, fiber_id: int) -> None:
        """Set the id of the next fiber, while none exists."""
        self.cells[_NEXT_ID] = fiber_id

    def number_next_call(self, fiber_id: int) -> None:
        """Give the fiber of the next call with a Context this id, which no other fiber has."""
        self._reserved = fiber_id

    def number_system_fibers(self, names: Iterable[str]) -> dict[str, int]:
        """Take the next ids for fibers of the node itself; returns them by their names.

        Ids for more of them follow, until `number_fibers_after` is called.
        """
        self._next_system = self.cells[_NEXT_ID]
        numbers = {name: self.take_system_number() for name in names}
        self.cells[_NEXT_ID] = self._next_system
        return numbers

    def take_system_number(self) -> int:
        """Return an id for a new fiber of the node itself."""
        if self._next_system:
            self._next_system += 1
            return self._next_system - 1
        self.cells[_NEXT_ID] += 1
        return self.cells[_NEXT_ID] - 1

    def number_fibers_after(self, highest: int, count: int) -> None:
        """Leave out `count` ids after those of the node itself; the next one is also behind `highest`, the id of the
        last fiber that lives, and all fibers with a Context.
        """
        wanted, self._next_system = self._next_system + count, 0
        self.cells[_NEXT_ID] = max(wanted, int(highest) + 1, *(fiber_id + 1 for fiber_id in self.contexts))

    def fiber_ended(self, fiber_id: int) -> None:
        """Forget the Context of a fiber that has ended. Lua calls it, and `waves` for functions that have waited."""
        ctx = self.contexts.pop(fiber_id, None)
        if ctx is None:
            return
        self._fiber_of.pop(id(ctx), None)
        if fiber_id in self._lent:
            self._lent.discard(fiber_id)
        elif self.end_context is not None:
            self.end_context(ctx)

    def _lend(self, ctx: Any) -> int:
        """Give `ctx` to the fiber that is about to be made. Returns the id that the fiber must get, or 0 without `ctx`.

        The id is reserved at once, because a finalizer that runs on the way into Lua may make fibers, too.
        """
        if ctx is None:
            return 0
        if getattr(ctx, "txn", None) is not None:
            self.on_lend(ctx)
        cells = self.cells
        if self._reserved:
            fiber_id, self._reserved = self._reserved, 0
        else:
            fiber_id = cells[_NEXT_ID]
            cells[_NEXT_ID] = fiber_id + 1
        self.contexts[fiber_id] = ctx
        self._fiber_of[id(ctx)] = fiber_id
        self._lent.add(fiber_id)
        return fiber_id

    # ---- calls into Lua ----

    def start(
        self, handle: int, *args: Value, ctx: Any = None, name: str = REQUEST_FIBER
    ) -> Values | asyncio.Future[Values]:
        """Start a registered function on a new fiber, with `ctx` as its Context.

        Returns its values if it ends without waiting, otherwise a future of them. Cancelling the future cancels the
        fiber.

        Raises:
            BoxError: the function failed before it waited; the future raises it otherwise.
        """
        return self._started(self._start(0, name.encode(), self._lend(ctx), handle, *args))

    def start_inside(self, handle: int, *args: Value, ctx: Any = None) -> Values | asyncio.Future[Values]:
        """Start a registered function inside the fiber that `ctx` belongs to, if that fiber is in a bound function now.

        So triggers run in the fiber of their statement. Without a Context the fiber is the running one. In any other
        case the function gets a new fiber, as with `start`, which also describes the result.
        """
        running = self.cells[RUNNING_FIBER]
        fiber_id = running if ctx is None else self._fiber_of.get(id(ctx), 0)
        if fiber_id == 0 or self.closed or (fiber_id != running and not self._is_in_python(fiber_id)):
            return self.start(handle, *args, ctx=ctx)
        if getattr(ctx, "txn", None) is not None:
            self.on_lend(ctx)
        return self._started(self._start(fiber_id, b"", 0, handle, *args))

    def _started(self, outcome: Any) -> Values | asyncio.Future[Values]:
        if self.cells[_TICK_WANTED]:
            self.waits.schedule_tick()
        if outcome is True:
            return ()
        status = outcome[0]
        if status is True:
            return cast(Values, outcome[1:])
        if status is False:
            raise decode_error(outcome[1])
        return self._pending(*outcome)

    def _pending(self, activation: int, fiber_id: int) -> asyncio.Future[Values]:
        future = self._activations[activation] = LuaAnswer(self.loop, self.contexts.get(fiber_id), self.on_return)

        def done(future: asyncio.Future[Values]) -> None:
            if future.cancelled() and self._activations.pop(activation, None) is not None and not self.closed:
                self._cancel_fiber(fiber_id)
                self.waits.schedule_tick()

        future.add_done_callback(done)
        return future

    def finish(self, activation: int, ok: bool, *values: Any) -> None:
        """Report the end of a call that had to wait; Lua calls it."""
        waiter = self._activations.pop(activation, None)
        if waiter is None:
            return
        if not isinstance(waiter, asyncio.Future):
            waiter(values if ok else decode_error(values[0]))
        elif waiter.done():
            return
        elif ok:
            waiter.set_result(values)
        else:
            waiter.set_exception(decode_error(values[0]))

    def start_then(self, ended: Ending, handle: int, *args: Value, ctx: Any, name: str = REQUEST_FIBER) -> None:
        """Start a registered function on a new fiber, and pass its values or error to `ended`.

        `ended` is called immediately if the function does not wait. This is cheaper than a future, but the call cannot
        be cancelled, and nothing is reported when the runtime closes.
        """
        outcome = self._start(0, name.encode(), self._lend(ctx), handle, *args)
        if self.cells[_TICK_WANTED]:
            self.waits.schedule_tick()
        if outcome is True:
            ended(())
            return
        status = outcome[0]
        if status is True:
            ended(outcome[1:])
        elif status is False:
            ended(decode_error(outcome[1]))
        else:
            self._activations[status] = ended

    def start_wave(self, handle: int, *args: Value) -> Any:
        """Run a registered function on a new fiber, and on others if it waits; see `box.call_wave`.

        Returns `(True, values...)` or `(False, error bytes)` if a fiber has ended without waiting, or True if all of
        them wait.
        """
        outcome = self._start_wave(handle, *args)
        if self.cells[_TICK_WANTED]:
            self.waits.schedule_tick()
        return outcome

    async def call_raw(self, handle: int, *args: Value, ctx: Any = None, name: str = REQUEST_FIBER) -> Values:
        """Call a registered function with plain values on a new fiber, and return its values."""
        outcome = self.start(handle, *args, ctx=ctx, name=name)
        return outcome if isinstance(outcome, tuple) else await outcome

    async def invoke(self, handle: int, *args: Value, ctx: Any = None) -> Values:
        """Call a registered function, in the fiber that `start_inside` chooses, and return its values."""
        outcome = self.start_inside(handle, *args, ctx=ctx)
        return outcome if isinstance(outcome, tuple) else await outcome

    def invoke_now(self, handle: int, *args: Value, ctx: Any = None) -> Values:
        """Call a registered function that does not wait, in the fiber of `start_inside`, and return its values."""
        outcome = self.start_inside(handle, *args, ctx=ctx)
        if isinstance(outcome, tuple):
            return outcome
        outcome.cancel()
        raise BoxError(ErrorCode.PROC_LUA, "a function that must not wait has waited", type="LuajitError")

    async def eval(
        self,
        source: bytes,
        args: bytes = _NO_ARGS,
        ctx: Any = None,
        chunk_name: str | None = None,
        *,
        serializer: int | None = None,
        name: str = REQUEST_FIBER,
    ) -> bytes:
        """Run a source text with the arguments of a MessagePack array.

        Returns the MessagePack array of its results, or what the Lua function with the handle `serializer` makes of
        them.

        Raises:
            BoxError: the text does not compile, or its code failed.
        """
        chunk = None if chunk_name is None else chunk_name.encode()
        prefix: tuple[int, ...] = () if serializer is None else (serializer,)
        handle = self._entries["eval" if serializer is None else "eval_with"]
        (result,) = await self.call_raw(handle, *prefix, source, args, chunk, ctx=ctx, name=name)
        return cast(bytes, result)

    async def call(
        self, target: str | int, args: bytes = _NO_ARGS, ctx: Any = None, *, name: str = REQUEST_FIBER
    ) -> bytes:
        """Call a function by name ('a.b', 'a.b:method') or handle; arguments and results are MessagePack arrays.

        Raises:
            BoxError: NO_SUCH_PROC for an unknown name, or the error of the function.
        """
        if isinstance(target, int):
            (result,) = await self.call_raw(self._entries["call_handle"], target, args, ctx=ctx, name=name)
        else:
            encoded = target.encode("utf-8", "surrogateescape")
            (result,) = await self.call_raw(self._entries["call"], encoded, args, ctx=ctx, name=name)
        return cast(bytes, result)

    def compile(self, source: bytes, chunk_name: str) -> int:
        """Run a source text that must not wait and returns one value, a function as a rule. Returns its handle."""
        return cast(int, self.invoke_now(self._entries["compile_handle"], source, chunk_name.encode())[0])

    def entry(self, name: bytes, handle: int) -> None:
        """Register the handle of a function that Python starts by name; Lua calls it."""
        self._entries[os.fsdecode(name)] = handle

    def handle_of(self, name: str) -> int:
        """Return the handle of a function that a Lua module registered with `internal.python.entry(name, handle)`."""
        return self._entries[name]

    def release(self, handle: int) -> None:
        """Release a handle."""
        if not self.closed:
            self._release(handle)

    # ---- waits: see lua/fiber.py ----

    def new_token(self, on_cancel: Callable[[], None] | None = None) -> int:
        return self.waits.new_token(on_cancel)

    def wake(self, token: int, *values: Value) -> None:
        self.waits.wake(token, *values)

    def fail(self, token: int, error: BoxError) -> None:
        self.waits.fail(token, error)

    def drive(self, coro: Coroutine[Any, Any, Any], *, is_cancellable: bool = True) -> Any:
        return self.waits.drive(coro, is_cancellable=is_cancellable)

    def begin(self, coro: Coroutine[Any, Any, Any]) -> asyncio.Task[Any] | None:
        return self.waits.begin(coro)

    # ---- end ----

    def flush(self) -> int:
        """Write what is left in the C library's streams. Returns the errno of standard output, or 0."""
        return 0 if self.closed else cast(int, self._flush())

    async def close(self) -> None:
        """Give up every fiber, wait and timer, cancel running calls and free the Lua state."""
        if self.closed:
            return
        self._finalize_all()  # first, while what the finalizers call is still there
        OUTPUT.failed(self.flush())
        self.closed = True
        tasks = self.waits.close()
        futures = list(self._activations.values())
        self._activations.clear()
        for future in futures:
            if isinstance(future, asyncio.Future):
                future.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
        contexts = [(fiber_id, ctx) for fiber_id, ctx in self.contexts.items() if fiber_id not in self._lent]
        self.contexts.clear()
        self._fiber_of.clear()
        if self.end_context is not None:
            for _, ctx in contexts:
                self.end_context(ctx)
        self._free()

    def abandon(self) -> None:
        """End as a killed process does: nobody is told, and no finalizer of the user runs. Not to be called from Lua.

        The state is freed here, while everything it needs still exists; the garbage collector would not ensure that.
        """
        if self.closed:
            return
        self.closed = True
        self.cells[_DEAD] = 1
        self.waits.abandon()
        self._activations.clear()
        self.contexts.clear()
        self._fiber_of.clear()
        self._free()

    def _free(self) -> None:
        self._start = self._start_wave = self._bind = self._keep_context = _refuse
        del self._start_lua, self._cancel_fiber, self._is_in_python, self._release, self._finalize_all, self._flush
        del self._state


def _refuse(*_args: Any) -> Any:
    raise RuntimeError("the Lua runtime is closed")


def _module_path(name: str) -> str:
    """Return the file of a built-in module.

    An absolute path, or one that leaves the directory, is not a module's name and has no file.
    """
    parts = name.split(".")
    is_name = all(part.replace("_", "").replace("-", "").isalnum() for part in parts)
    return os.path.join(_MODULES, *parts) + ".lua" if is_name else ""


def _module_text(name: str) -> bytes:
    """Return the source of a built-in module.

    Raises:
        OSError: there is no such module, or its file cannot be read.
    """
    with open(_module_path(name), "rb", buffering=0) as file:
        return file.readall()


def _read_module(name: bytes) -> bytes | tuple[None, bytes] | None:
    """Return a built-in module's source, None if there is no such module, or None and why its file cannot be read."""
    try:
        return _module_text(os.fsdecode(name))
    except OSError as error:
        return None if error.errno in _ABSENT else (None, os.fsencode(str(error)))


def _no_attributes(_object: Any, name: Any, _setting: bool) -> Any:
    raise NoAccess(f"no access to {name!r}: Lua may call bound functions and nothing else")


def _log_to_stderr(level: str, text: str, where: str = "") -> None:
    print(f"{level}: {where}{where and ' '}{text}", file=sys.stderr)
