"""Standard output of the process: everything written arrives, whatever the descriptor is.

A program that has the process to itself prints into the C library's stream for standard output, which buffers (see
`lua/modules/internal/standard_output.lua`). Then each write here flushes that stream first.

A descriptor that does not block is waited for (another program that shares the terminal may have set that), and a short
write is continued. A reader that has gone is not an error, as for Tarantool's `print`; any other failure is reported
once.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol, TextIO

_GONE: Final = frozenset({errno.EPIPE, errno.EIO, errno.EBADF})
"""The errors after which nobody reads the output: its reader has ended, the terminal has hung up, or it was never
open."""
_PATIENCE: Final = 1.0
"""Seconds that the end of the program waits for output."""


class Ahead(Protocol):
    """Something that draws on the same terminal and whose output comes first."""

    @property
    def is_idle(self) -> bool:
        """True if everything is written."""

    def wait(self, timeout: float | None = None) -> None:
        """Block until everything is written."""


class StandardOutput:
    """Writes to the current `sys.stdout`, which programs and tests may replace. For any thread."""

    def __init__(self) -> None:
        self.failure: OSError | None = None
        """The first error other than the end of the reader."""
        self.on_failure: Callable[[OSError], None] = _ignore
        self.ahead: Ahead | None = None
        self.flush_stream: Callable[[], int] | None = None
        """Writes what the C library's stream holds, and returns 0 or an errno. None if nothing prints into it."""
        self._lock = threading.Lock()

    def write(self, data: bytes) -> None:
        """Write all bytes, without mixing them with those of other threads. Blocks as long as the reader does not
        read.
        """
        stream = sys.stdout
        if stream is None:
            return
        self._flush_stream()
        try:
            descriptor = _descriptor(stream)
            if descriptor is None:
                _write_to_stream(stream, data)
                return
            with self._lock:
                if self.ahead is not None:
                    self.ahead.wait()
                _flush(stream, descriptor)
                _write_all(descriptor, data)
        except OSError as error:
            self._fail(error)
        except ValueError:  # the stream is closed
            pass

    def takes_at_once(self, size: int) -> bool:
        """True if so few bytes can probably be written without waiting."""
        if self.ahead is not None and not self.ahead.is_idle:
            return False
        try:
            descriptor = None if sys.stdout is None else _descriptor(sys.stdout)
        except (OSError, ValueError):
            return True
        return descriptor is None or (size <= select.PIPE_BUF and _is_ready(descriptor, 0))

    def flush(self) -> None:
        """Write the data that others have left in the stream.

        Data that can no longer be written is dropped, so that the interpreter does not report it at its end.
        """
        self._flush_stream()
        if sys.stdout is None:
            return
        try:
            descriptor = _descriptor(sys.stdout)
            if descriptor is None:
                sys.stdout.flush()
            else:
                self._flush_in_time(sys.stdout, descriptor)
        except OSError as error:
            self._fail(error)
            _lead_nowhere()
        except ValueError:  # the stream is closed
            pass

    def _flush_in_time(self, stream: TextIO, descriptor: int) -> None:
        """Write the stream's data, but give up on a reader that does not read, because the process is about to end."""
        if self.ahead is not None:
            self.ahead.wait(_PATIENCE)
        if self._lock.acquire(timeout=_PATIENCE):
            try:
                _flush(stream, descriptor)
            finally:
                self._lock.release()

    def _flush_stream(self) -> None:
        if self.flush_stream is not None:
            self.failed(self.flush_stream())

    def failed(self, number: int) -> None:
        """Note that the C library's stream could not be written, with this errno; 0 is no failure."""
        if number:
            self._fail(OSError(number, os.strerror(number)))

    def _fail(self, error: OSError) -> None:
        if self.failure is None and error.errno not in _GONE:
            self.failure = error
            self.on_failure(error)


def _ignore(error: OSError) -> None:
    """Ignore a failure that no caller needs to know about."""


def _descriptor(stream: TextIO) -> int | None:
    """Return the descriptor below a stream of the interpreter's kind, or None for another."""
    if not isinstance(stream, io.TextIOWrapper):
        return None
    try:
        return stream.fileno()
    except io.UnsupportedOperation:
        return None


def _write_to_stream(stream: TextIO, data: bytes) -> None:
    if hasattr(stream, "buffer"):
        stream.buffer.write(data)
    else:  # a text stream, such as the one that writes above the prompt
        stream.write(data.decode(errors="replace"))
    stream.flush()


def _flush(stream: TextIO, descriptor: int) -> None:
    while True:
        try:
            stream.flush()
            return
        except BlockingIOError:
            _is_ready(descriptor, None)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            _is_ready(descriptor, None)


def _is_ready(descriptor: int, milliseconds: int | None) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(milliseconds))


def _lead_nowhere() -> None:
    with suppress(OSError, ValueError):
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)


OUTPUT: Final = StandardOutput()
"""The standard output of this process."""
