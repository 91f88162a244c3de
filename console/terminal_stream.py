"""A terminal drawn by a thread, so that a terminal that does not read (Ctrl-S, a slow line) does not block the loop.

```
drawing     TerminalStream.write ---> queue ---> thread ---> the terminal, with a separate descriptor
answers     OUTPUT.write, in a thread if the queue is not empty: it waits until everything before it is drawn
```
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from contextlib import suppress
from typing import Final

from lua.standard_output import OUTPUT

_PIECE: Final = 65536
"""The bytes that are written at once; after each piece waiting writers hear how much is left."""
_MOST: Final = 16 * 1024 * 1024
"""The bytes that may wait to be written; beyond that a writer has to wait."""


class TerminalStream:
    """The part of a text stream that prompt-toolkit uses to draw."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._parts: deque[bytes] = deque()
        self._size = 0
        """The bytes that are not written yet, including the piece that is being written."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def write(self, text: str) -> int:
        """Queue text. Waits only if very much text is queued already."""
        data = text.encode(errors="replace")
        with self._changed:
            if self._thread is None:
                # A daemon thread, because the program may end while the terminal blocks.
                self._thread = threading.Thread(target=self._run, name="terminal", daemon=True)
                self._thread.start()
            self._changed.wait_for(lambda: self._size < _MOST)
            if data:
                self._parts.append(data)
                self._size += len(data)
                self._changed.notify_all()
        return len(text)

    def flush(self) -> None:
        """Do nothing: the thread writes queued text without being asked."""

    def fileno(self) -> int:
        """Return the descriptor, from which callers get the terminal's size."""
        return self._descriptor

    def isatty(self) -> bool:
        """Return whether the descriptor is a terminal."""
        return os.isatty(self._descriptor)

    @property
    def is_idle(self) -> bool:
        """True if everything is written."""
        return self._size == 0

    def wait(self, timeout: float | None = None) -> None:
        """Block until everything is written."""
        with self._changed:
            self._changed.wait_for(lambda: self._size == 0, timeout)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._parts))
                data = b"".join(self._parts)
                self._parts.clear()
            for start in range(0, len(data), _PIECE):
                piece = data[start : start + _PIECE]
                self._write(piece)
                with self._changed:
                    self._size -= len(piece)
                    self._changed.notify_all()

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        with suppress(OSError):  # the terminal has hung up, which its reader finds out too
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]


def own_stream() -> TerminalStream | None:
    """Return a stream that draws on standard output's terminal with a separate descriptor, and register it with
    `OUTPUT`. Returns None if standard output is not a terminal.
    """
    try:
        name = os.ttyname(sys.stdout.fileno())
        stream = TerminalStream(os.open(name, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except (OSError, ValueError, AttributeError):
        return None
    OUTPUT.ahead = stream
    return stream
