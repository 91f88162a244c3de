"""A bound for messages that clients can cause as often as they like."""

from __future__ import annotations

from typing import Final

_BURST: Final = 10
_INTERVAL: Final = 5.0
"""Messages in so many seconds, as in Tarantool."""


class RateLimit:
    """Lets ten messages pass in five seconds and counts the others."""

    __slots__ = ("_begin", "_passed", "_suppressed")

    def __init__(self) -> None:
        self._begin = float("-inf")
        self._passed = 0
        self._suppressed = 0

    def take(self, now: float) -> int | None:
        """None if a message has to be left out at `now`, in seconds; else how many were since the last that passed."""
        if now - self._begin >= _INTERVAL:
            self._begin, self._passed = now, 0
        if self._passed == _BURST:
            self._suppressed += 1
            return None
        self._passed += 1
        suppressed, self._suppressed = self._suppressed, 0
        return suppressed
