"""The Python functions that the fiber scheduler, `print` and `os.exit` call."""

from __future__ import annotations

import errno
import os
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgpack

from lua.bindings.libraries import icu_files, library_problem, share_lua
from lua.boundary import decode_error, text_of_exception
from lua.standard_output import OUTPUT
from lua.turn_clock import TurnClock

if TYPE_CHECKING:
    from lua.runtime import Runtime


_SECOND: Final = 1_000_000_000
"""Nanoseconds in a second. Lua gets seconds and nanoseconds separately, because a double could not have both
exactly."""


class FiberBinding:
    """Python half of `internal.scheduler`, `internal.globals`, `internal.loader` and `clock`."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        write: Callable[[bytes], None] | None,
        uses_stdout: bool,
        on_exit: Callable[[int], None] | None,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        getcwd: Callable[[], str],
        version: str,
    ) -> None:
        self._runtime = runtime
        self._write = write or OUTPUT.write
        self._uses_stdout = uses_stdout
        self._on_exit = on_exit or _exit_process
        self._turn_clock = TurnClock(runtime.loop, runtime.turn_times, runtime.cells, clock, monotonic)
        self._monotonic = monotonic
        self._getcwd = getcwd
        self._version = version

    def install(self) -> None:
        """Bind everything; call it before the Lua side starts."""
        runtime, waits = self._runtime, self._runtime.waits
        functions: dict[str, Callable[..., object]] = {
            "timer_start": waits.timer_start,
            "timer_stop": waits.timer_stop,
            "cancel_wait": waits.cancel_wait,
            "fiber_end": runtime.fiber_ended,
            "finalizing": waits.finalizing,
            "finish": runtime.finish,
            "entry": runtime.entry,
            "monotonic_time": self._monotonic,
            "read_clocks": self._turn_clock.read,
            "print": self._write,
            "print_failed": lambda number: OUTPUT.failed(int(number)),
            "prints_to_stream": lambda: self._uses_stdout,
            "exit": self._exit,
            "exit_at_once": lambda code: None,
            "log": self._log,
            "log_error": self._log_error,
            "getcwd": self._current_directory,
            "abspath": self._absolute,
            "version": self._version_text,
            "errno_constants": _errno_constants,
            "unexpected": self._unexpected,
            "icu_files": icu_files,
            "library_problem": library_problem,
            "share_lua": self._share_lua,
        }
        if self._monotonic is not time.perf_counter:
            functions["seconds"] = self._monotonic  # otherwise the scheduler reads the system's clock itself
        clocks = runtime.machine.clocks
        if not clocks.are_of_system:
            functions["clock_read"] = lambda name: divmod(clocks.read(name.decode()), _SECOND)
        waits.on_unexpected = self._report
        for name, function in functions.items():
            runtime.bind(name, function, is_direct=True)

    def _exit(self, code: float) -> None:
        self._on_exit(int(code))

    def _log(self, level: bytes, text: bytes) -> None:
        self._runtime.log(level.decode(), text.decode("utf-8", "replace"))

    def _log_error(self, error: bytes) -> None:
        """Log an uncaught error, with the place where it was raised."""
        self._runtime.log_problem(decode_error(error))

    def _unexpected(self, raised: object) -> bytes | None:
        """Return the text of an exception that a bound function raised against the rules, or None."""
        if not isinstance(raised, BaseException):
            return None
        self._report(raised)
        return text_of_exception(raised).encode("utf-8", "replace")

    def _report(self, raised: BaseException) -> None:
        if isinstance(raised, MemoryError | RecursionError):
            return  # the fiber asked for too much memory or recursion, which is no defect of this code
        self._runtime.log("crit", "".join(traceback.format_exception(raised)).rstrip())

    def _current_directory(self) -> bytes:
        return os.fsencode(self._getcwd())

    def _absolute(self, path: bytes) -> bytes:
        return os.path.normpath(os.path.join(self._current_directory(), path))

    def _share_lua(self) -> None:
        share_lua(self._runtime.flavour)

    def _version_text(self) -> bytes:
        return self._version.encode()


def _errno_constants() -> bytes:
    """Return a MessagePack map of the names of `errno.h` and their numbers on this system."""
    packed: bytes = msgpack.packb({name: number for number, name in _named_errors()})
    return packed


def _named_errors() -> list[tuple[int, str]]:
    return [(number, name) for name, number in vars(errno).items() if name.startswith("E") and isinstance(number, int)]


def _exit_process(code: int) -> None:
    OUTPUT.flush()
    os._exit(code)
