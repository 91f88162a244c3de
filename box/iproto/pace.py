"""Lets a client's requests gather before the next read, as network cards moderate their interrupts.

A client that keeps many requests in flight and writes each with a system call of its own wakes the server for each, and
both spend their time in the kernel. Not reading for a moment, while the client goes on writing, makes one read and
one reply of many. It pays only if the client does not run out of requests meanwhile, which nobody can know; so
on connections with a high rate the pauses are tried for some milliseconds each, and the best is kept for a second.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final


class Pause(IntEnum):
    """The pause between two reads of a connection."""

    NONE = 0
    SHORT = 1
    """`TURNS` turns of the loop: below 0.1 ms, for which the loops have no timer."""
    LONG = 2
    """`SECONDS`, which leaves the processor to others."""


TURNS: Final = 40
SECONDS: Final = 0.001

_TRIAL: Final = (1024, 256, 32)
_KEPT: Final = (65536, 8192, 1024)
"""Reads of a period with each pause: about 20 ms and 1 s of a busy connection."""
_FEW: Final = (0, 2, 8)
_FEW_IN_A_ROW: Final = 4
"""A client is idle when so many reads after pauses bring fewer requests than that: one read may fall into the time
in which the client works at the replies."""
_BUSY: Final = 50_000
"""Requests a second above which it is worth trying."""
_MANY: Final = 32
"""Requests a read from which on there is nothing to gain."""
_PREFERENCE: Final = 1.03
"""A longer pause may cost so much of the rate, as it saves processor time."""


class Pace:
    """Watches the reads of one connection and says what to do before the next. `clock` knows microseconds."""

    __slots__ = ("_clock", "_few", "_is_trial", "_left", "_pause", "_rates", "_requests", "_since")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._rates = [0.0, 0.0, 0.0]
        """Requests a second with each pause in the trials that are under way."""
        self._begin(Pause.NONE, is_trial=True)

    def _begin(self, pause: Pause, *, is_trial: bool) -> Pause:
        self._pause = pause
        self._is_trial = is_trial
        self._left = (_TRIAL if is_trial else _KEPT)[pause]
        self._requests = 0
        self._few = 0
        self._since = self._clock()
        return pause

    def after_read(self, requests: int) -> Pause:
        """A read brought so many requests: the pause before the next."""
        self._requests += requests
        self._left -= 1
        if self._pause:
            self._few = self._few + 1 if requests < _FEW[self._pause] else 0
            if self._few == _FEW_IN_A_ROW:
                return self._try_next(0.0) if self._is_trial else self._begin(Pause.NONE, is_trial=True)
        return self._pause if self._left else self._next()

    def _next(self) -> Pause:
        """A period has ended: choose what comes then."""
        rate = self._requests / max(self._clock() - self._since, 1e-9)
        if not self._is_trial:  # compare anew, as the client may have changed
            return self._begin(Pause.NONE, is_trial=True)
        if self._pause is Pause.NONE and (rate < _BUSY or self._requests >= _TRIAL[Pause.NONE] * _MANY):
            return self._begin(Pause.NONE, is_trial=True)
        return self._try_next(rate)

    def _try_next(self, rate: float) -> Pause:
        """A trial has given this rate: the next trial, or after the last the pause with the best rate."""
        self._rates[self._pause] = rate
        if self._pause is not Pause.LONG:
            return self._begin(Pause(self._pause + 1), is_trial=True)
        best = max(Pause, key=lambda pause: self._rates[pause] * _PREFERENCE**pause)
        return self._begin(best, is_trial=False)
