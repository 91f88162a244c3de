"""The counters of `box.stat()` and `box.stat.net()`: a total and a rate per second for each name.

The rate is the mean of the last five whole seconds, as in Tarantool. Counting is one addition to `totals`; a timer
turns differences of totals into rates once a second.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import Final

from box.errors import BoxError, ClientError
from box.wire.constants import RequestType

_WINDOW: Final = 5
"""The seconds over which a rate is the mean."""


class Net(IntEnum):
    """The places of the counters of `box.stat.net()`."""

    SENT = 0
    RECEIVED = 1
    CONNECTIONS = 2
    REQUESTS = 3


ERROR: Final = 14
"""The place of the error counter, after those of the request types."""

BOX_NAMES: Final[dict[int, str]] = {
    RequestType.SELECT: "SELECT",
    RequestType.INSERT: "INSERT",
    RequestType.REPLACE: "REPLACE",
    RequestType.UPDATE: "UPDATE",
    RequestType.DELETE: "DELETE",
    RequestType.AUTH: "AUTH",
    RequestType.EVAL: "EVAL",
    RequestType.UPSERT: "UPSERT",
    RequestType.CALL: "CALL",
    RequestType.EXECUTE: "EXECUTE",
    RequestType.PREPARE: "PREPARE",
    ERROR: "ERROR",
}
"""The names that `box.stat()` shows, by the place of the counter: the request type, or `ERROR`."""


def _nothing() -> None:
    """Stands in for `Stats.settle`."""


class Meter:
    """A group of counters. `totals` is indexed by the keys of `names`; only named places are shown."""

    def __init__(self, names: dict[int, str]) -> None:
        self.names = names
        self.totals = [0] * (max(names) + 1)
        self._before = list(self.totals)
        self._seconds: deque[list[float]] = deque(maxlen=_WINDOW)
        """The rates of each of the last seconds."""

    def roll(self, elapsed: float) -> None:
        """Compute the rates of an interval of `elapsed` seconds, a second or more."""
        rates = [(now - before) / elapsed for now, before in zip(self.totals, self._before, strict=True)]
        self._before = list(self.totals)
        self._seconds.extend([rates] * min(_WINDOW, max(1, round(elapsed))))

    def rate(self, place: int) -> int:
        """Return the events per second of a counter over the window."""
        return int(sum(second[place] for second in self._seconds) / _WINDOW)

    def show(self) -> dict[str, dict[str, int]]:
        """Return `{name: {"total": n, "rps": n}}` in the order of the places."""
        return {
            name: {"total": self.totals[place], "rps": self.rate(place)} for place, name in sorted(self.names.items())
        }

    def reset(self) -> None:
        """Set all counters and rates to zero."""
        self.totals[:] = [0] * len(self.totals)
        self._before = list(self.totals)
        self._seconds.clear()


class Stats:
    """The counters of one node. `connections` and `requests` are present numbers, not totals."""

    def __init__(self) -> None:
        self.box = Meter(dict(BOX_NAMES))
        self.net = Meter({place: place.name for place in Net})
        self.connections = 0
        self.requests = 0
        self._timer: asyncio.TimerHandle | None = None
        self.settle: Callable[[], None] = _nothing
        """Adds events that are counted elsewhere; called before the counters are shown."""

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to compute rates."""
        if self._timer is None:
            self._timer = loop.call_later(1, self._roll, loop, loop.time())

    def _roll(self, loop: asyncio.AbstractEventLoop, before: float) -> None:
        now = loop.time()
        self.box.roll(now - before)
        self.net.roll(now - before)
        self._timer = loop.call_later(1, self._roll, loop, now)

    def stop(self) -> None:
        """Stop computing rates; totals stay."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def collect(self, request_type: int, count: int = 1) -> None:
        """Count requests of a type below 14."""
        self.box.totals[request_type] += count

    def count_error(self, error: BoxError) -> None:
        """Count an error that a client or a caller gets. As in Tarantool, only client errors count.

        An error whose `file` is set was counted before, when Lua or a client got it.
        """
        if isinstance(error, ClientError) and not error.file:
            self.box.totals[ERROR] += 1

    def count_lua_errors(self, count: int) -> None:
        """Count client errors that Lua code has made."""
        self.box.totals[ERROR] += count

    def reset(self) -> None:
        """Set all totals and rates to zero (`box.stat.reset()`)."""
        self.settle()
        self.box.reset()
        self.net.reset()

    def show_box(self) -> dict[str, dict[str, int]]:
        """Return `box.stat()`."""
        self.settle()
        return self.box.show()

    def show_net(self) -> dict[str, dict[str, int]]:
        """Return `box.stat.net()`; connections and requests also have a `current` number."""
        shown = self.net.show()
        shown["CONNECTIONS"]["current"] = self.connections
        shown["REQUESTS"]["current"] = self.requests
        return shown
