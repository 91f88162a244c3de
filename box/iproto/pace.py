"""Lets a client's requests gather before the next read, as network cards moderate their interrupts.

A client that keeps many requests in flight and writes each with its own system call wakes the server for each of them,
so that both spend their time in the kernel. If the server pauses while the client goes on writing, one read and one
reply serve many requests. It pays only if the client does not run out of requests meanwhile, which cannot be known. So
on connections with a high rate each pause is tried for some milliseconds, and the best one is kept for a second.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final


class Pause(IntEnum):
    """The pause between two reads of a connection."""

    NONE = 0
    SHORT = 1
    """`TURNS` turns of the loop: less than 0.1 ms, for which loops have no timer."""
    LONG = 2
    """`SECONDS` seconds, which leave the processor to other processes."""


TURNS: Final = 40
"""The turns of the loop in a short pause."""
SECONDS: Final = 0.001
"""The seconds of a long pause."""

_TRIAL: Final = (1024, 256, 32)
"""The reads of a trial with each pause: about 20 ms of a busy connection."""
_KEPT: Final = (65536, 8192, 1024)
"""The reads for which each pause is kept if it was the best: about 1 s of a busy connection."""
_FEW: Final = (0, 2, 8)
"""For each pause, the number of requests in a read below which the client seems to run out of requests."""
_FEW_IN_A_ROW: Final = 4
"""The number of consecutive reads with few requests that ends a pause. A single one may fall into a time when the
client handles replies.
"""
_BUSY: Final = 50_000
"""Requests a second above which pauses are tried."""
_MANY: Final = 32
"""Requests in a read from which on a pause gains nothing."""
_PREFERENCE: Final = 1.03
"""A longer pause is preferred if its rate is lower by less than this factor, because it saves processor time."""


class Pace:
    """Watches the reads of one connection and chooses the pause before the next; `clock` must resolve microseconds."""

    __slots__ = ("_clock", "_few", "_is_trial", "_left", "_pause", "_rates", "_requests", "_since")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._rates = [0.0, 0.0, 0.0]
        """Requests a second with each pause, in the present trials."""
        self._begin(Pause.NONE, is_trial=True)

    def _begin(self, pause: Pause, *, is_trial: bool) -> Pause:
        """Begin a period with a pause: a trial, or the time for which the best pause is kept."""
        self._pause = pause
        self._is_trial = is_trial
        self._left = (_TRIAL if is_trial else _KEPT)[pause]
        self._requests = 0
        self._few = 0
        self._since = self._clock()
        return pause

    def after_read(self, requests: int) -> Pause:
        """Return the pause before the next read, after a read that brought `requests` requests."""
        self._requests += requests
        self._left -= 1
        if self._pause:
            self._few = self._few + 1 if requests < _FEW[self._pause] else 0
            if self._few == _FEW_IN_A_ROW:
                return self._try_next(0.0) if self._is_trial else self._begin(Pause.NONE, is_trial=True)
        return self._pause if self._left else self._next()

    def _next(self) -> Pause:
        """Choose the pause after a period has ended."""
        rate = self._requests / max(self._clock() - self._since, 1e-9)
        if not self._is_trial:  # compare again: the client may behave differently now
            return self._begin(Pause.NONE, is_trial=True)
        if self._pause is Pause.NONE and (rate < _BUSY or self._requests >= _TRIAL[Pause.NONE] * _MANY):
            return self._begin(Pause.NONE, is_trial=True)
        return self._try_next(rate)

    def _try_next(self, rate: float) -> Pause:
        """Record the rate of a trial. Returns the pause of the next trial, or after the last one the best pause."""
        self._rates[self._pause] = rate
        if self._pause is not Pause.LONG:
            return self._begin(Pause(self._pause + 1), is_trial=True)
        best = max(Pause, key=lambda pause: self._rates[pause] * _PREFERENCE**pause)
        return self._begin(best, is_trial=False)
