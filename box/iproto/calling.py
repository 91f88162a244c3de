"""The calling half of a client's connection: limits how many of its functions run at once.

Results that the client does not read stop the connection (`sending.py`). But functions that wait for something run
already and add their results in any case, up to `net_msg_max` of them. So a connection has a window of calls:

```
at first           `FIRST` calls
a small result     one more
a large result     as many as bring `RESULTS_SIZE` bytes together, if each is as large as the largest recent one
none for a while   twice as many, until the next result: they may wait for a request that comes after them
```

Functions that do not wait are not counted: their results stop the connection before the next call begins.
"""

from __future__ import annotations

from typing import Final

from box.iproto.sending import ReplyServer, SendingHalf
from box.iproto.stop import Stop

FIRST: Final = 16
"""The number of calls in a new window."""
RESULTS_SIZE: Final = 16 * 1024 * 1024
"""The bytes that the results of all calls of a window may have together."""
_PATIENCE: Final = 0.02
"""Seconds without a result after which more calls may run."""
_LARGE_PATIENCE: Final = 0.05
"""Seconds without a result after which more calls may run, if large results are expected."""
_DECAY: Final = 8
"""The expected size of a result shrinks by one part in so many with each call."""


class CallWindow:
    """The calls of one connection that run, and how many may. It has no clock."""

    __slots__ = ("ended", "expected", "room", "running")

    def __init__(self) -> None:
        self.running = 0
        self.room = FIRST
        self.ended = 0
        """The number of calls that have ended."""
        self.expected = 0
        """The expected bytes of a result: those of the largest recent one."""

    def __repr__(self) -> str:
        return f"<CallWindow {self.running} of {self.room}, {self.expected} bytes each>"

    @property
    def is_full(self) -> bool:
        return self.running >= self.room

    @property
    def _allowed(self) -> int:
        """The number of results of the expected size that fit into `RESULTS_SIZE`, at least one."""
        return RESULTS_SIZE // max(self.expected, 1) or 1

    @property
    def patience(self) -> float:
        """Seconds without a result after which to call `widen`."""
        return _PATIENCE if self.room < self._allowed else _LARGE_PATIENCE

    def begin(self, count: int = 1) -> None:
        """Count calls that have begun to wait."""
        self.running += count

    def end(self, size: int, count: int = 1) -> None:
        """Count the end of calls whose results have up to `size` bytes each, and adapt the window."""
        self.running -= count
        self.ended += count
        expected = self.expected
        for _ in range(count):
            if expected <= size:
                break
            expected -= expected // _DECAY
        self.expected = expected = size if size > expected else expected
        self.room += count
        if self.room * expected > RESULTS_SIZE:
            self.room = min(self.room, self._allowed)

    def widen(self) -> None:
        """Double the window, because no call has ended for a while."""
        self.room *= 2


class CallingHalf(SendingHalf):
    """The half of `ServerConnection` that counts waiting functions and stops input while too many wait."""

    __slots__ = ("_calls", "_is_timed")

    def __init__(self, server: ReplyServer) -> None:
        super().__init__(server)
        self._calls = CallWindow()
        self._is_timed = False
        """True if a timer runs that may widen the window."""

    def _stop(self, reason: int) -> None:
        """Stop serving input for a reason, until `_resume` is called for it."""
        raise NotImplementedError

    def _resume(self, reason: int) -> None:
        """Remove a reason to stop, and serve input again if no reason is left."""
        raise NotImplementedError

    @property
    def room_for_calls(self) -> int:
        """The number of functions that may begin to wait before input is stopped."""
        return self._calls.room - self._calls.running

    def call_waits(self, count: int = 1) -> None:
        """Count functions that have begun to wait."""
        self._calls.begin(count)
        if self._calls.is_full:
            self._stop(Stop.CALLS)
            self._set_timer()

    def call_ended(self, size: int, count: int = 1) -> None:
        """Count the end of functions that have waited; `size` is that of their largest results in bytes."""
        calls = self._calls
        calls.end(size, count)
        if self._stopped & Stop.CALLS and not calls.is_full:
            self._resume(Stop.CALLS)

    def _set_timer(self) -> None:
        if not self._is_timed:
            self._is_timed = True
            self._server.loop.call_later(self._calls.patience, self._look_at_calls, self._calls.ended)

    def _look_at_calls(self, ended: int) -> None:
        """Widen the window if no call has ended since the timer was set; `ended` is the number of ended calls at that
        time.
        """
        self._is_timed = False
        calls = self._calls
        if self._transport is None or not self._stopped & Stop.CALLS:
            return
        if calls.ended == ended:
            calls.widen()
        if calls.is_full:
            self._set_timer()
        else:
            self._resume(Stop.CALLS)
