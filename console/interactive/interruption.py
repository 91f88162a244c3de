"""Ctrl-C while a statement runs: it ends the statement, not the program.

    a statement is read  the signals of the process go to a thread of this module
    Ctrl-C               the loop is asked to cancel what the statement waits for. If Lua runs the statement, or if the
                         loop does not answer, the thread sets a hook that raises an error in Lua
                         (internal/interruption.lua)
    again within 1 s     the console says what the statement is doing
    the next prompt      the signals go where they went before

Lua's interpreter runs hooks, compiled code does not. Python's own signal handlers would run only after Lua has
returned. So the thread that reads the signals sets the hook with `lua_sethook` of the library that holds the Lua state;
a running Lua state does not hold the interpreter's lock. If the library does not export that function, only statements
that wait can be interrupted.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lua.runtime import Runtime

_COUNT: Final = 8  # LUA_MASKCOUNT
_ANSWER_TIME: Final = 0.2
"""Seconds within which the interrupted program has to react."""
_TWICE: Final = 1.0
"""Seconds within which a second Ctrl-C counts as a repetition."""
_HINT: Final = "Ctrl-\\ ends the program."


def keys_make_signals() -> bool:
    """Return whether Ctrl-C on the terminal is a signal at this moment."""
    try:
        return bool(termios.tcgetattr(0)[3] & termios.ISIG)
    except (termios.error, OSError, ValueError):
        return False


class LuaHook:
    """The count hook of a Lua state, put on and taken off through its address.

    `take` is called right after Lua has set the hook: it remembers the function and takes it off. From then on any
    thread may call `put_on`.
    """

    def __init__(self, flavour: str) -> None:
        self._library: Any = ctypes.CDLL(importlib.import_module(f"lupa.{flavour}").__file__)
        self._set = self._library.lua_sethook
        self._set.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
        self._get = self._library.lua_gethook
        self._get.argtypes, self._get.restype = [ctypes.c_void_p], ctypes.c_void_p
        self._state = 0
        self._function = 0
        self._every = 0

    def take(self, state: int, every: int) -> None:
        self._state, self._every = state, every
        self._function = self._get(state) or 0
        self.take_off()

    def put_on(self, every: int = 0) -> None:
        """Have the hook called after every `every` instructions; does nothing without a hook."""
        if self._function:
            self._set(self._state, self._function, _COUNT, every or self._every)

    def take_off(self) -> None:
        if self._state:
            self._set(self._state, None, 0, 0)

    def forget(self) -> None:
        """Forget the Lua state, which is about to be freed."""
        self._state = self._function = 0


class Interruption:
    """Interrupts the statements of one interactive session. `tell` writes a line to the terminal and may be called in
    any thread.
    """

    def __init__(self, runtime: Runtime, tell: Callable[[str], None]) -> None:
        self._runtime = runtime
        self._tell = tell
        self._hook: LuaHook | None = None
        self._fiber_id = 0
        self._ends_anybody = False
        self._is_held = False
        self._last = -_TWICE
        self._answered = threading.Event()
        self._reading, self._writing = -1, -1
        self._previous, self._is_captured = -1, False
        self._handler: Any = signal.SIG_DFL
        self._on_idle: Callable[[], None] = lambda: None
        self._began = 0.0
        self.seconds: float | None = None
        self._bind()

    def _bind(self) -> None:
        bind = self._runtime.bind
        bind("console_begin_statement", self.begin)
        bind("console_end_statement", self.finish)
        bind("console_ends_anybody", lambda: self._ends_anybody)
        bind("console_unhook", self._unhook)
        bind("console_hook_every", self._hook_every)
        bind("console_take_hook", self._take_hook)

    def start(self) -> None:
        """Open the pipe that signals are announced on, and start the thread that reads it; for the main thread."""
        if self._reading >= 0:
            return
        with suppress(OSError, AttributeError, ImportError):  # another Lua library, which does not export its functions
            self._hook = LuaHook(self._runtime.flavour)
        if self._hook is not None:
            self._runtime.compile(b"require('internal.interruption').install() return true", "=console")
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        threading.Thread(target=self._watch, name="interruption", daemon=True).start()
        with suppress(ValueError):  # only the main thread can set signal handlers
            self._handler = signal.signal(signal.SIGINT, self._on_signal)

    def hold(self, is_held: bool) -> None:
        """Leave Ctrl-C to another program (a pager) while it has the terminal."""
        self._is_held = is_held

    def capture(self, on_idle: Callable[[], None]) -> None:
        """Announce signals to the thread that reads them. `on_idle` is called for Ctrl-C while no statement runs."""
        self._on_idle = on_idle
        if self._writing >= 0 and not self._is_captured:
            with suppress(ValueError):  # only the main thread can set the wakeup descriptor
                self._previous = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
                self._is_captured = True

    def release(self) -> None:
        """Send signals where they went before."""
        if self._is_captured:
            signal.set_wakeup_fd(self._previous, warn_on_full_buffer=False)
            self._is_captured = False
        self.seconds = None

    def _on_signal(self, _number: int, _frame: object) -> None:
        """Ignore the signal: this replaces the loop's handler, which would remember the signal until later."""
        if not self.owns_signal():
            self._runtime.loop.call_soon_threadsafe(self._pass_on)

    def owns_signal(self) -> bool:
        """Return whether a SIGINT should not reach the program.

        While a statement runs, the thread that reads signals acts on it. At the prompt Ctrl-C is a key, so a signal
        comes from elsewhere, or from a key pressed before the prompt appeared.
        """
        return self._is_captured or (self._reading >= 0 and keys_make_signals())

    def _pass_on(self) -> None:
        """Send the signal again, for the program."""
        signal.signal(signal.SIGINT, self._handler)
        os.kill(os.getpid(), signal.SIGINT)

    # -- from Lua ------------------------------------------------------------------------------------------------

    def begin(self, fiber_id: float) -> None:
        """Note that a statement runs in a fiber."""
        self._fiber_id, self._ends_anybody = int(fiber_id), False
        self._began = time.perf_counter()

    def finish(self) -> None:
        """Note that the statement has ended."""
        self.seconds = time.perf_counter() - self._began
        self._fiber_id = 0
        self._unhook()

    def _unhook(self) -> None:
        self._ends_anybody = False
        if self._hook is not None:
            self._hook.take_off()

    def _hook_every(self, count: float) -> None:
        if self._hook is not None:
            self._hook.put_on(int(count))

    def _take_hook(self, state: bytes, every: float) -> None:
        assert self._hook is not None
        self._hook.take(int(state, 16), int(every))  # the address as Lua prints it

    # -- the thread that reads signals -----------------------------------------------------------------------------

    def _watch(self) -> None:
        while numbers := os.read(self._reading, 64):
            for number in numbers:
                if number != signal.SIGINT:
                    with suppress(OSError):  # asyncio's own pipe, which the descriptor of this one has replaced
                        os.write(self._previous, bytes([number]))
                elif not self._is_held:
                    self.interrupt()

    def interrupt(self) -> None:
        """End the running statement; called by the thread that reads signals."""
        now = time.monotonic()
        is_again, self._last = now - self._last < _TWICE, now
        if self._fiber_id == 0 or self._runtime.closed:
            self._on_idle()
            return
        self._answered.clear()
        self._runtime.loop.call_soon_threadsafe(self._cancel, is_again)
        # The statement itself computes, so its hook ends it. One that waits is cancelled on the loop.
        if self._runtime.fiber_id == self._fiber_id and not self._answered.is_set():
            self._put_on()
        # The loop has no turn: some fiber computes without an end, and it is ended whichever it is.
        if not self._answered.wait(_ANSWER_TIME) and self._fiber_id:
            self._ends_anybody = True
            self._put_on()
            if is_again and not self._answered.wait(_ANSWER_TIME):
                self._tell(f"Still running: {self._busy_with()}. {_HINT}\n")

    def _put_on(self) -> None:
        if self._hook is not None:
            self._hook.put_on()

    def _busy_with(self) -> str:
        """Return what the loop's thread works on, as far as another thread can tell."""
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        name = frame.f_code.co_filename.rpartition(os.sep)[2] if frame is not None else ""
        fiber = self._runtime.fiber_id
        if frame is None or name in ("fiber.py", "runtime.py"):
            return f"fiber {fiber} is in compiled Lua code or in a C function" if fiber else "a C function"
        return f"fiber {fiber} is in {frame.f_code.co_qualname} ({name}:{frame.f_lineno})"

    # -- on the loop -----------------------------------------------------------------------------------------------

    def _cancel(self, is_again: bool) -> None:
        """Cancel what the statement waits for: it does wait, because the loop answers."""
        self._answered.set()
        if self._fiber_id == 0 or self._runtime.closed:
            return
        runtime = self._runtime
        runtime.invoke_now(runtime.handle_of("interruption.cancel"))
        runtime.waits.schedule_tick()
        if is_again:
            self._runtime.loop.call_later(_ANSWER_TIME, self._tell_wait, self._fiber_id)

    def _tell_wait(self, fiber_id: int) -> None:
        """Report a wait that cannot be cancelled, such as the wait for a write to the log."""
        if self._fiber_id != fiber_id or self._runtime.closed:
            return
        runtime = self._runtime
        (stack,) = runtime.invoke_now(runtime.handle_of("interruption.stack"))
        lines = bytes(stack).decode(errors="replace") if isinstance(stack, bytes) else ""
        self._tell(f"Still waiting: this cannot be given up. {_HINT}\n{lines}\n")

    def close(self) -> None:
        """Take the hook off, because the session has ended."""
        if self._hook is not None:
            self._hook.take_off()
            self._hook.forget()
