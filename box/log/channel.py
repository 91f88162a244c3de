"""A descriptor that lines are written to, even if its reader is slow or gone.

```
          write takes all                       part of a line taken, or `capacity` bytes may wait
        +----------------+                    +----------------------------------------------------+
        v                |                    |                                                    v
      CLEAR --(write)----+-------------------->                                                 BACKLOG
        ^                                                                                          |
        +--(the next line, or the thread that waits for the reader, has written what was kept)-----+
        +--(the descriptor fails: what was kept is lost, and the next line begins a new one)-------+
```

A line that neither fits the backlog nor can be written is lost; `lost` counts such lines.
"""

from __future__ import annotations

import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

CAPACITY: Final = 1 << 20
"""The bytes that may wait for a reader that must get every line."""
_POLL: Final = 100
"""The milliseconds after which the thread checks whether the channel is closed."""
_PAUSE: Final = 0.01
"""The seconds before the next attempt if poll reports room but write finds none."""
_PATIENCE: Final = 1.0
"""The seconds that a closing channel waits for its reader."""


class Channel:
    """Writes whole lines in their order. `write` takes bytes of a line and returns how many were written; it may raise
    OSError.

    The descriptor must not block. With a `capacity` of 0 only the rest of a line that was partly written may wait. A
    message of a datagram socket is a line, too, which `write` takes completely or not at all. All methods may be called
    in any thread.
    """

    def __init__(self, descriptor: int, write: Callable[[bytes], int], *, capacity: int = 0) -> None:
        self.capacity = capacity
        self.lost = 0
        self._descriptor = descriptor
        self._write = write
        # Reentrant, because a finalizer may log something while its thread is inside a method.
        self._lock = threading.RLock()
        self._backlog: deque[bytes] = deque()
        self._size = 0
        self._has_begun = False
        """True if a part of the first line of the backlog is written."""
        self._is_torn = False
        """True if the last written line has no newline at its end."""
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def send(self, line: bytes) -> bool:
        """Write a line or keep it for later. Returns False if the line is lost; then the caller counts it."""
        with self._lock:
            if self._is_closed:
                return False
            if self._backlog:
                self._push()
                if self._backlog:
                    return self._keep(line)
            if self._is_torn:
                line = b"\n" + line
            try:
                written = self._write_some(line)
            except OSError:
                return False
            if written == 0:
                return self._keep(line)
            self._is_torn = False
            if written == len(line):
                return True
            self._wait_with(line[written:])
            self._has_begun = True
            lost = self.lost
            self._push()  # a full disk reports its error only here
            if self.lost == lost:
                return True
            self.lost = lost
            return False

    def _write_some(self, data: bytes) -> int:
        """Write as much of the data as possible; returns the number of bytes. Raises OSError if the descriptor is of no
        more use, perhaps after a part of a line.
        """
        try:
            return self._write(data)
        except BlockingIOError:
            return 0

    def _keep(self, line: bytes) -> bool:
        if self._size + len(line) > self.capacity:
            return False
        self._wait_with(line)
        return True

    def _wait_with(self, data: bytes) -> None:
        self._backlog.append(data)
        self._size += len(data)
        if self.capacity and self._thread is None:
            self._thread = threading.Thread(target=self._drain, name="log", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # no thread can be started: the next line tries again
                self._thread = None

    def _push(self) -> None:
        """Write as much of the backlog as the descriptor takes; after a failure all of it is lost."""
        while self._backlog:
            data = self._backlog[0]
            try:
                written = self._write_some(data)
            except OSError:
                self._is_torn = self._has_begun
                self._forget()
                return
            self._size -= written
            self._has_begun = 0 < written < len(data) or (self._has_begun and not written)
            if written < len(data):
                self._backlog[0] = data[written:]
                return
            self._backlog.popleft()

    def _forget(self) -> None:
        self.lost += len(self._backlog)
        self._backlog.clear()
        self._size = 0
        self._has_begun = False

    def _drain(self) -> None:
        """Write the backlog as fast as its reader reads it, then end. This runs in the channel's thread."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        while True:
            is_ready = bool(poll.poll(_POLL))  # also true if the other end is gone, which the next write reports
            with self._lock:
                size = self._size
                if is_ready and not self._is_closed:
                    self._push()
                if self._is_closed or not self._backlog:
                    self._thread = None
                    return
                is_stuck = is_ready and self._size == size
            if is_stuck:
                time.sleep(_PAUSE)

    def close(self) -> None:
        """Wait a moment until the reader has read what is left, and end. The descriptor stays open, because it belongs
        to the caller.
        """
        thread = self._thread
        if thread is not None:
            thread.join(_PATIENCE)
        with self._lock:
            if not self._is_closed and self._backlog:
                self._push()
            self._is_closed = True
            self._forget()
        thread = self._thread
        if thread is not None:
            thread.join()
