"""Members that owe an acknowledgement, and the time when it is late."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Final, Protocol

from box.swim.members import Member

_LONGEST: Final = 1e8
"""The longest delay of a timer in seconds; greater numbers, and infinity, are more than an event loop can hold."""


class Timer(Protocol):
    """A scheduled callback, which can be cancelled."""

    def cancel(self) -> None: ...


class TimeSource(Protocol):
    """The time in seconds, and timers. An asyncio loop is one."""

    def time(self) -> float: ...

    def call_later(self, delay: float, callback: Callable[[], object], /) -> Timer: ...


class Alarm:
    """A single timer, which can be set again and again."""

    __slots__ = ("_callback", "_clock", "_timer", "when")

    def __init__(self, clock: TimeSource, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._callback = callback
        self._timer: Timer | None = None
        self.when = 0.0
        """The time in seconds at which it goes off."""

    @property
    def is_set(self) -> bool:
        return self._timer is not None

    def set(self, delay: float) -> None:
        """Call back after `delay` seconds, in place of the time set before."""
        self.cancel()
        delay = min(delay, _LONGEST)
        self.when = self._clock.time() + delay
        self._timer = self._clock.call_later(delay, self._ring)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        self._callback()


class AwaitedAcks:
    """Members that owe an acknowledgement, by deadline.

    `on_late` is called when a deadline has passed; it takes the members by `take_late`. Entries of members that
    have answered stay in the heap until they are half of it.
    """

    def __init__(self, clock: TimeSource, on_late: Callable[[], None]) -> None:
        self._clock = clock
        self._alarm = Alarm(clock, on_late)
        self._heap: list[tuple[float, int, Member]] = []
        self._numbers = count()
        self._answered = 0
        """How many entries of the heap are of members that have answered."""

    def add(self, member: Member, timeout: float) -> None:
        """Expect an acknowledgement within `timeout` seconds, unless one is expected already."""
        if member.ack_deadline is None:
            member.ack_deadline = deadline = self._clock.time() + timeout
            heapq.heappush(self._heap, (deadline, next(self._numbers), member))
            self._arm()

    def remove(self, member: Member) -> None:
        """Stop waiting for an acknowledgement of this member."""
        if member.ack_deadline is None:
            return
        member.ack_deadline = None
        self._answered += 1
        if 2 * self._answered > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].ack_deadline == entry[0]]
            heapq.heapify(self._heap)
            self._answered = 0

    def take_late(self) -> list[Member]:
        """Return the members whose deadline has passed, and stop waiting for them."""
        now, late = self._clock.time(), []
        while self._heap and self._heap[0][0] <= now:
            deadline, _, member = heapq.heappop(self._heap)
            if member.ack_deadline == deadline:
                member.ack_deadline = None
                late.append(member)
            else:
                self._answered -= 1
        self._arm()
        return late

    def close(self) -> None:
        """Stop waiting for all acknowledgements."""
        self._alarm.cancel()
        self._heap.clear()

    def _arm(self) -> None:
        if self._heap and not (self._alarm.is_set and self._alarm.when <= self._heap[0][0]):
            self._alarm.set(max(self._heap[0][0] - self._clock.time(), 0))
