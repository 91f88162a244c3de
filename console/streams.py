"""The standard streams of the process, in whatever state they were inherited."""

from __future__ import annotations

import asyncio
import fcntl
import os
import select
import sys
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import Final, TypeVar

from lua.standard_output import OUTPUT

_T = TypeVar("_T")

_READ_SIZE: Final = 65536
"""The bytes of the standard input that are read at once."""


def open_missing() -> None:
    """Open /dev/null for each of the descriptors 0, 1 and 2 that is closed.

    Otherwise the next file or socket would get that number, and the event loop ends the process when it closes such a
    one.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is not None:
            continue
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor != number:
            os.dup2(descriptor, number)
            os.close(descriptor)
        setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - it lives as long as the process


class InheritedFlags:
    """The status flags of the standard descriptors, which are shared with the shell and other programs.

    On a non-blocking descriptor the C library's streams, such as `io.write` in Lua, lose data.
    """

    def __init__(self) -> None:
        self._flags: dict[int, int] = {}

    def make_blocking(self) -> None:
        """Remember the flags and make the descriptors blocking."""
        for number in range(3):
            with suppress(OSError):
                self._flags[number] = flags = fcntl.fcntl(number, fcntl.F_GETFL)
                if flags & os.O_NONBLOCK:
                    fcntl.fcntl(number, fcntl.F_SETFL, flags & ~os.O_NONBLOCK)

    def restore(self) -> None:
        """Restore the flags."""
        for number, flags in self._flags.items():
            with suppress(OSError):
                if fcntl.fcntl(number, fcntl.F_GETFL) != flags:
                    fcntl.fcntl(number, fcntl.F_SETFL, flags)


INHERITED = InheritedFlags()
"""The flags of this process."""


def tell_failures() -> None:
    """Report on standard error, once, that standard output cannot be written."""
    OUTPUT.on_failure = lambda error: complain(f"lunabox: standard output: {error.strerror}")


def write(text: str) -> None:
    """Write to standard output; surrogates become the original bytes. Blocks while its reader is slow; raises
    nothing.
    """
    OUTPUT.write(text.encode(errors="surrogateescape"))


def complain(text: str) -> None:
    """Write a line to standard error; a failure is ignored."""
    try:
        sys.stderr.flush()
        sys.stderr.buffer.write(f"{text}\n".encode(errors="surrogateescape"))
        sys.stderr.buffer.flush()
    except OSError:
        # Replaced, because its buffer would be written again at the end of the process, and would change the exit code.
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - it lives as long as the process
    except (ValueError, AttributeError):
        # The stream is closed, or there is none.
        return


class InputLines:
    """Lines of standard input, for one reader.

    They are read in a daemon thread, which does not keep the program alive, because a line may never come. The thread
    reads the descriptor itself, because the interpreter cannot end while a thread is inside `sys.stdin`.
    """

    def __init__(self) -> None:
        self._wanted: SimpleQueue[asyncio.Future[str]] = SimpleQueue()
        self._rest = bytearray()
        self._thread: threading.Thread | None = None

    async def next(self) -> str:
        """Return a line with its end, or an empty text at the end of the input. Invalid UTF-8 becomes surrogates."""
        line: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="input", daemon=True)
            self._thread.start()
        self._wanted.put(line)
        return await line

    def _run(self) -> None:
        while True:
            wanted = self._wanted.get()
            line = self._read().decode(errors="surrogateescape")
            with suppress(RuntimeError):  # the loop has ended
                wanted.get_loop().call_soon_threadsafe(_settle, wanted, line)

    def _read(self) -> bytes:
        searched = 0
        while (end := self._rest.find(b"\n", searched)) < 0:
            searched = len(self._rest)
            data = _read_some()
            if not data:
                end = len(self._rest) - 1
                break
            self._rest += data
        line = bytes(self._rest[: end + 1])
        del self._rest[: end + 1]
        return line


async def read_input() -> bytes:
    """Read all of standard input in a daemon thread, which does not keep the program alive."""
    loop = asyncio.get_running_loop()
    everything: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        data = b"".join(iter(_read_some, b""))
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(_settle, everything, data)

    threading.Thread(target=read, name="input", daemon=True).start()
    return await everything


def _read_some() -> bytes:
    """Read some input. Returns an empty text at the end of the input, also if the terminal has hung up."""
    while True:
        try:
            return os.read(0, _READ_SIZE)
        except BlockingIOError:
            _wait_for_input()
        except OSError:
            return b""


def _settle(future: asyncio.Future[_T], value: _T) -> None:
    if not future.done():
        future.set_result(value)


def _wait_for_input() -> None:
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.poll()


def finish(code: int) -> int:
    """Flush the streams. Returns the exit code, with 1 in place of 0 if something could not be written."""
    OUTPUT.flush()
    return 1 if code == 0 and OUTPUT.failure is not None else code
