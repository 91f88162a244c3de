"""The calling half of a client's connection: how many of its functions may run at once.

Results that nobody reads stop a connection (`sending.py`), but functions that run already, because they wait for
something, bring theirs all the same: up to `net_msg_max` of them. So a connection has a window:

```
at first           `FIRST` calls
a small result     one more
a large result     as many as bring `RESULTS_SIZE` bytes together, if all are as large as the largest of late
none for a while   twice as many, until the next result: they may wait for a request behind them
```

Functions that do not wait take no room: their results stop the connection before the next begins.
"""

from __future__ import annotations

from typing import Final

from box.iproto.sending import ReplyServer, SendingHalf
from box.iproto.stop import Stop

FIRST: Final = 16
RESULTS_SIZE: Final = 16 * 1024 * 1024
_PATIENCE: Final = 0.02
"""Seconds without a result after which more calls may run."""
_LARGE_PATIENCE: Final = 0.05
"""The same where large results are expected."""
_DECAY: Final = 8
"""A large result is expected again for about so many calls."""


class CallWindow:
    """The calls of one connection that run; no clock."""

    __slots__ = ("ended", "expected", "room", "running")

    def __init__(self) -> None:
        self.running = 0
        self.room = FIRST
        self.ended = 0
        """Calls that have ended."""
        self.expected = 0
        """Bytes of a result: the largest of late."""

    def __repr__(self) -> str:
        return f"<CallWindow {self.running} of {self.room}, {self.expected} bytes each>"

    @property
    def is_full(self) -> bool:
        return self.running >= self.room

    @property
    def _allowed(self) -> int:
        """Large results that there may be, one at least."""
        return RESULTS_SIZE // max(self.expected, 1) or 1

    @property
    def patience(self) -> float:
        """Seconds without a result until `widen`."""
        return _PATIENCE if self.room < self._allowed else _LARGE_PATIENCE

    def begin(self) -> None:
        """A call waits."""
        self.running += 1

    def end(self, size: int) -> None:
        """A call has ended with so many bytes of results."""
        self.running -= 1
        self.ended += 1
        expected = self.expected
        if expected:
            expected -= expected // _DECAY
        self.expected = expected = size if size > expected else expected
        if (self.room + 1) * expected <= RESULTS_SIZE:
            self.room += 1
        else:
            self.room = min(self.room + 1, self._allowed)

    def widen(self) -> None:
        """No call has ended for a while."""
        self.room *= 2


class CallingHalf(SendingHalf):
    """The half of `ServerConnection` that waits for functions; see the module's text."""

    __slots__ = ("_calls", "_is_timed")

    def __init__(self, server: ReplyServer) -> None:
        super().__init__(server)
        self._calls = CallWindow()
        self._is_timed = False
        """Whether a timer runs that widens the window."""

    def _stop(self, reason: int) -> None:
        """Serve nothing until `_resume`."""
        raise NotImplementedError

    def _resume(self, reason: int) -> None:
        """The reason is gone."""
        raise NotImplementedError

    def call_waits(self) -> None:
        """A function has begun to wait."""
        self._calls.begin()
        if self._calls.is_full:
            self._stop(Stop.CALLS)
            self._set_timer()

    def call_ended(self, size: int) -> None:
        """A function that waited has ended, with so many bytes of results."""
        calls = self._calls
        calls.end(size)
        if self._stopped & Stop.CALLS and not calls.is_full:
            self._resume(Stop.CALLS)

    def _set_timer(self) -> None:
        if not self._is_timed:
            self._is_timed = True
            self._server.loop.call_later(self._calls.patience, self._look_at_calls, self._calls.ended)

    def _look_at_calls(self, ended: int) -> None:
        """`ended` is the number of calls that had ended when the timer was set."""
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
