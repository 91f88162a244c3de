"""Turns: how connections that have much to do share the loop.

```
a read          served at once, for the length of a turn; what is left then waits in the queue
the queue       first come, first served, a turn each, until the round ends; the next round is in the next turn
                of the loop, after timers, sockets and the log have had theirs
```

So a client that sends one request is answered before those in the queue, and one that pipelines gets its share of each
round, however much it sends. A turn ends by time; the clock is read after every few requests and each costly one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

_ALONE: Final = 0.003
"""Seconds of a turn while the server has at most one connection."""
_USUAL: Final = 0.00025
"""Seconds of a turn while the server has several connections."""
_BRIEF: Final = 0.0001
"""Seconds of a turn after a read while others wait in the queue."""
_ROUND: Final = 0.0005
"""Seconds that the queue gets in one turn of the loop."""


class TakesTurns(Protocol):
    """A connection that can wait in the queue."""

    def take_turn(self, deadline: float) -> None:
        """Work until about `deadline`, a time of the monotonic clock; queue again if work is left."""


class Turns:
    """The queue of one server."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.is_alone = True
        """True if the server has at most one connection, which then gets long turns."""
        self._loop = loop
        self._waiting: deque[TakesTurns] = deque()
        self._is_scheduled = False

    def begin(self) -> float:
        """Return the deadline of a turn outside of the queue that begins now."""
        if self._waiting:
            return self.clock() + _BRIEF
        return self.clock() + (_ALONE if self.is_alone else _USUAL)

    def add(self, who: TakesTurns) -> None:
        """Queue a connection for a turn."""
        self._waiting.append(who)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._round)

    def _round(self) -> None:
        """Give at most one turn to each waiting connection, until the time of the round is over."""
        waiting, clock = self._waiting, self.clock
        length = _ALONE if self.is_alone else _USUAL
        now = clock()
        end = now + (_ALONE if self.is_alone else _ROUND)
        try:
            for _ in range(len(waiting)):
                waiting.popleft().take_turn(min(now + length, end))
                now = clock()
                if now >= end:
                    break
        finally:
            self._is_scheduled = bool(waiting)
            if waiting:
                self._loop.call_soon(self._round)
