"""Ctrl-C while a statement runs ends the statement, not the program.

    a statement is read  the process's signals are announced to a thread of ours
    Ctrl-C               the loop is asked to cancel what the statement waits for. If Lua runs the statement, or if the
                         loop does not answer, a hook is put on that raises an error in Lua (internal/interruption.lua)
    again within 1 s     what is stuck is said
    the next prompt      the signals go where they went before

The interpreter looks for hooks, compiled code does not; Python's own signal handlers would wait for Lua's end. So the
hook is put on by `lua_sethook` of the library that holds the Lua state, from the thread that reads the signals: a Lua
state that runs does not hold the interpreter's lock. Where the library does not give that function away, only
statements that wait can be interrupted.
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
_TWICE: Final = 1.0
_HINT: Final = "Ctrl-\\ ends the program."


def keys_make_signals() -> bool:
    """Whether Ctrl-C on the terminal is a signal at this moment."""
    try:
        return bool(termios.tcgetattr(0)[3] & termios.ISIG)
    except (termios.error, OSError, ValueError):
        return False


class LuaHook:
    """The count hook of one Lua state, put on and taken off by its address.

    `take` is called right after Lua has set the hook: it remembers the function and takes it off. From then on `put_on`
    may be called from any thread.
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
        """To be called after so many instructions, again and again. Nothing happens where there is no hook."""
        if self._function:
            self._set(self._state, self._function, _COUNT, every or self._every)

    def take_off(self) -> None:
        if self._state:
            self._set(self._state, None, 0, 0)

    def forget(self) -> None:
        """The Lua state is about to be freed."""
        self._state = self._function = 0


class Interruption:
    """Interrupts the statements of one interactive session. `tell` writes a line to the terminal, from any thread."""

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
        """From the main thread: open the pipe that signals are announced on, and the thread that reads it."""
        if self._reading >= 0:
            return
        with suppress(OSError, AttributeError, ImportError):  # another library, which keeps its functions to itself
            self._hook = LuaHook(self._runtime.flavour)
        if self._hook is not None:
            self._runtime.compile(b"require('internal.interruption').install() return true", "=console")
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        threading.Thread(target=self._watch, name="interruption", daemon=True).start()
        with suppress(ValueError):  # not the main thread: it has no signals
            self._handler = signal.signal(signal.SIGINT, self._on_signal)

    def hold(self, is_held: bool) -> None:
        """While a program of its own has the terminal (a pager), Ctrl-C is that program's."""
        self._is_held = is_held

    def capture(self, on_idle: Callable[[], None]) -> None:
        """Signals are announced to our thread. `on_idle` is called at Ctrl-C while no statement runs."""
        self._on_idle = on_idle
        if self._writing >= 0 and not self._is_captured:
            with suppress(ValueError):  # not the main thread: it has no signals
                self._previous = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
                self._is_captured = True

    def release(self) -> None:
        """Signals go where they went before."""
        if self._is_captured:
            signal.set_wakeup_fd(self._previous, warn_on_full_buffer=False)
            self._is_captured = False
        self.seconds = None

    def _on_signal(self, _number: int, _frame: object) -> None:
        """In the place of the loop's handler, which would remember the signal until later."""
        if not self.owns_signal():
            self._runtime.loop.call_soon_threadsafe(self._pass_on)

    def owns_signal(self) -> bool:
        """Whether a SIGINT is not for the program. While a statement runs our thread acts. At the prompt Ctrl-C is a
        key, so that a signal comes from elsewhere, or from a key that was pressed before the prompt was there."""
        return self._is_captured or (self._reading >= 0 and keys_make_signals())

    def _pass_on(self) -> None:
        """The signal is for the program."""
        signal.signal(signal.SIGINT, self._handler)
        os.kill(os.getpid(), signal.SIGINT)

    # -- from Lua ------------------------------------------------------------------------------------------------

    def begin(self, fiber_id: float) -> None:
        """A statement runs in the fiber."""
        self._fiber_id, self._ends_anybody = int(fiber_id), False
        self._began = time.perf_counter()

    def finish(self) -> None:
        """It has ended."""
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
        self._hook.take(int(state, 16), int(every))

    # -- the thread that reads signals -----------------------------------------------------------------------------

    def _watch(self) -> None:
        while numbers := os.read(self._reading, 64):
            for number in numbers:
                if number != signal.SIGINT:
                    with suppress(OSError):
                        os.write(self._previous, bytes([number]))
                elif not self._is_held:
                    self.interrupt()

    def interrupt(self) -> None:
        """End the statement that runs. From the thread that reads signals."""
        now = time.monotonic()
        is_again, self._last = now - self._last < _TWICE, now
        if self._fiber_id == 0 or self._runtime.closed:
            self._on_idle()
            return
        self._answered.clear()
        self._runtime.loop.call_soon_threadsafe(self._cancel, is_again)
        if self._runtime.fiber_id == self._fiber_id and not self._answered.is_set():
            self._put_on()
        if not self._answered.wait(_ANSWER_TIME) and self._fiber_id:
            self._ends_anybody = True
            self._put_on()
            if is_again and not self._answered.wait(_ANSWER_TIME):
                self._tell(f"Still running: {self._busy_with()}. {_HINT}\n")

    def _put_on(self) -> None:
        if self._hook is not None:
            self._hook.put_on()

    def _busy_with(self) -> str:
        """The work of the loop's thread, as far as another thread can see."""
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        name = frame.f_code.co_filename.rpartition(os.sep)[2] if frame is not None else ""
        fiber = self._runtime.fiber_id
        if frame is None or name in ("fiber.py", "runtime.py"):
            return f"fiber {fiber} is in compiled Lua code or in a C function" if fiber else "a C function"
        return f"fiber {fiber} is in {frame.f_code.co_qualname} ({name}:{frame.f_lineno})"

    # -- on the loop -----------------------------------------------------------------------------------------------

    def _cancel(self, is_again: bool) -> None:
        """The loop runs, so the statement waits."""
        self._answered.set()
        if self._fiber_id == 0 or self._runtime.closed:
            return
        runtime = self._runtime
        runtime.invoke_now(runtime.handle_of("interruption.cancel"))
        runtime.waits.schedule_tick()
        if is_again:
            self._runtime.loop.call_later(_ANSWER_TIME, self._tell_wait, self._fiber_id)

    def _tell_wait(self, fiber_id: int) -> None:
        """A wait that cannot be given up, such as a write's for the log."""
        if self._fiber_id != fiber_id or self._runtime.closed:
            return
        runtime = self._runtime
        (stack,) = runtime.invoke_now(runtime.handle_of("interruption.stack"))
        lines = bytes(stack).decode(errors="replace") if isinstance(stack, bytes) else ""
        self._tell(f"Still waiting: this cannot be given up. {_HINT}\n{lines}\n")

    def close(self) -> None:
        """The session has ended."""
        if self._hook is not None:
            self._hook.take_off()
            self._hook.forget()
