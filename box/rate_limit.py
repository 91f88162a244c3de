"""A limit for log messages that clients can cause at any rate."""

from __future__ import annotations

from typing import Final

_BURST: Final = 10
"""The number of messages that pass in an interval."""
_INTERVAL: Final = 5.0
"""The seconds of an interval; both are Tarantool's."""


class RateLimit:
    """Lets ten messages pass in five seconds and counts the others."""

    __slots__ = ("_begin", "_passed", "_suppressed")

    def __init__(self) -> None:
        self._begin = float("-inf")
        self._passed = 0
        self._suppressed = 0

    def take(self, now: float) -> int | None:
        """Return how many messages were suppressed since the last that passed, or None to suppress this one.

        `now` is in seconds.
        """
        if now - self._begin >= _INTERVAL:
            self._begin, self._passed = now, 0
        if self._passed == _BURST:
            self._suppressed += 1
            return None
        self._passed += 1
        suppressed, self._suppressed = self._suppressed, 0
        return suppressed
