"""The node's turn: a lock that the loop holds except while it waits in its selector.

```
the loop waits for sockets, timers, other threads     no thread has the turn
a blocking call takes it, runs its request itself     the loop, if it wakes, waits for the turn
the call has left work for the loop, or a timer       the call wakes the loop, which takes the turn after it
```

So a request of `box.sync` needs no switch to another thread. SQLite's mutex works in the same way.
"""

from __future__ import annotations

import asyncio
import selectors
import signal
import threading
from collections.abc import Callable, Mapping
from threading import get_ident
from types import FrameType
from typing import Any


class Turn:
    """The right to touch the node. `owner` is the thread that has it while `lock` is held.

    A thread that finds the lock held passes through `gate`, and so does the loop. Therefore the loop cannot take its
    turn back before a waiting thread has had one.
    """

    __slots__ = ("callers", "gate", "is_interrupted", "lock", "lone", "owner", "share")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.gate = threading.Lock()
        self.owner = 0
        self.callers: dict[int, None] = {}
        """The ids of the threads that are inside a call, from before they wait for the turn until they have released
        both locks. A signal handler of such a thread must not wait for the turn: it might wait for its own thread.
        """
        self.is_interrupted = False
        """True if Ctrl-C came in the middle of a request; KeyboardInterrupt is raised after the request."""
        self.lone: object = None
        """The owner of the open lone transaction (`TransactionManager.begin_lone`): a thread's id, or a connection's
        context. None if no lone transaction is open.
        """
        self.share: Callable[[], None] = lambda: None
        """Makes the lone transaction an ordinary one. Every other thread, and the loop, calls it first in its turn."""

    def check_interruption(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C came during a request of the main thread."""
        if self.is_interrupted and get_ident() == threading.main_thread().ident:
            self.is_interrupted = False
            raise KeyboardInterrupt


class InterruptGuard:
    """Delays Ctrl-C until the main thread's current request ends, unless the program handles the signal.

    `asyncio.run` takes the signal under that condition, too.
    """

    def __init__(self) -> None:
        self._turns: set[Turn] = set()

    def add(self, turn: Turn) -> None:
        """Delay Ctrl-C during requests of this node, too. Only the main thread may call it."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handle)
        self._turns.add(turn)

    def remove(self, turn: Turn) -> None:
        """Stop guarding a node that has stopped.

        The last node restores the signal's handler. Only the main thread can do that; elsewhere the handler stays and
        behaves like the default one.
        """
        self._turns.discard(turn)
        if self._turns or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGINT) == self._handle:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        me = get_ident()
        for turn in self._turns:
            if turn.owner == me and turn.lock.locked():
                turn.is_interrupted = True
                return
        signal.default_int_handler(number, frame)


guard = InterruptGuard()
"""The only guard of the process, because there is only one handler of the signal."""


class TurnSelector(selectors.BaseSelector):
    """A selector that releases the turn while it waits."""

    def __init__(self, turn: Turn) -> None:
        self._selector = selectors.DefaultSelector()
        self._turn = turn
        self.register = self._selector.register  # type: ignore[method-assign]
        self.unregister = self._selector.unregister  # type: ignore[method-assign]
        self.modify = self._selector.modify  # type: ignore[method-assign]
        self.get_key = self._selector.get_key  # type: ignore[method-assign]

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Never called: the constructor puts the wrapped selector's method in its place."""
        raise NotImplementedError

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Never called: the constructor puts the wrapped selector's method in its place."""
        raise NotImplementedError

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """Return the map of the wrapped selector."""
        return self._selector.get_map()

    def close(self) -> None:
        """Close the wrapped selector."""
        self._selector.close()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait without the turn, and return holding it."""
        turn = self._turn
        turn.owner = 0
        turn.lock.release()
        try:
            return self._selector.select(timeout)
        finally:
            with turn.gate:
                turn.lock.acquire()
            turn.owner = get_ident()
            if turn.lone is not None:
                turn.share()


class TurnLoop(asyncio.SelectorEventLoop):
    """An asyncio loop on which other threads may run requests while it waits."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(TurnSelector(turn))

    def first_timer(self) -> Any:
        """Return the timer that is due first, or None."""
        timers: list[Any] = self._scheduled  # type: ignore[attr-defined]
        return timers[0] if timers else None

    def wake_after(self, timer: Any) -> None:
        """Wake the loop if a callback is ready to run, or if `timer` is not the timer that is due first any more."""
        timers: list[Any] = self._scheduled  # type: ignore[attr-defined]
        if self._ready or (timers[0] if timers else None) is not timer:  # type: ignore[attr-defined]
            self._write_to_self()  # type: ignore[attr-defined]
