"""Events: values under keys, and watchers who are told of the latest value of a key (`box.broadcast`, `box.watch`).

```
watcher    what happened                                  next
PENDING    in the queue: its turn comes                   RUNNING, with the newest value
RUNNING    acknowledged, the value is still that one      IDLE
RUNNING    acknowledged, another value came meanwhile     PENDING
IDLE       a value is broadcast                           PENDING
any        unregistered                                   it is told of nothing more
```

A watcher is told once when it is registered, and then of the newest value only: values that came in between are passed
over, so that a slow watcher costs a place in the queue at most. Values are MessagePack; a key without one tells None.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

_AT_ONCE: Final = 128
"""Watchers that are told in one turn of the loop."""
SYSTEM_PREFIX: Final = b"box."

Run = Callable[["EventWatcher", "bytes | None"], None]
"""Tells a watcher a value. It raises nothing, and has the watcher acknowledge when it is ready for the next."""


class WatcherState(Enum):
    """See the table above."""

    PENDING = auto()
    RUNNING = auto()
    IDLE = auto()


class _EventKey:
    """One key with its value and its watchers."""

    __slots__ = ("key", "value", "version", "watchers")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.value: bytes | None = None
        self.version = 0
        self.watchers: dict[EventWatcher, None] = {}


class EventWatcher:
    """Somebody who is told of one key."""

    __slots__ = ("_events", "_place", "_seen", "run", "state")

    def __init__(self, events: Events, place: _EventKey, run: Run) -> None:
        self._events = events
        self._place: _EventKey | None = place
        self._seen = 0
        self.run = run
        self.state = WatcherState.PENDING

    @property
    def key(self) -> bytes | None:
        """The key, None once it is unregistered."""
        return None if self._place is None else self._place.key

    def tell(self) -> None:
        """Run with the newest value."""
        place = self._place
        if place is not None:
            self.state = WatcherState.RUNNING
            self._seen = place.version
            self.run(self, place.value)

    def acknowledge(self) -> None:
        """Be ready for the next value."""
        place = self._place
        if place is None or self.state is not WatcherState.RUNNING:
            return
        if self._seen == place.version:
            self.state = WatcherState.IDLE
        else:
            self._events.put(self)

    def unregister(self) -> None:
        """Be told of nothing more."""
        place, self._place = self._place, None
        if place is not None:
            del place.watchers[self]
            self._events.look_at(place)

    def __repr__(self) -> str:
        return f"<watcher of {self.key!r} {self.state.name}>"


class Events:
    """The keys of one node. Keys that `provide` names have values that the node makes itself, when somebody watches."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._places: dict[bytes, _EventKey] = {}
        self._makers: dict[bytes, Callable[[], bytes]] = {}
        self._pending: deque[EventWatcher] = deque()
        self._is_scheduled = False
        self._is_changed = False

    def __len__(self) -> int:
        """The number of keys that have a value or a watcher."""
        return len(self._places)

    def watch(self, key: bytes, run: Run) -> EventWatcher:
        """Register a watcher, which is told of the present value in a later turn of the loop."""
        place = self._place(key)
        maker = self._makers.get(key)
        if maker is not None:
            self._set(place, maker())
        watcher = EventWatcher(self, place, run)
        place.watchers[watcher] = None
        self.put(watcher)
        return watcher

    def broadcast(self, key: bytes, value: bytes | None) -> None:
        """Give a key another value, and tell its watchers; None takes the value away."""
        place = self._place(key)
        place.value = value
        place.version += 1
        self._wake(place)
        self.look_at(place)

    def value(self, key: bytes) -> bytes | None:
        """The value of a key, None for one without."""
        maker = self._makers.get(key)
        if maker is not None:
            return maker()
        place = self._places.get(key)
        return None if place is None else place.value

    def provide(self, key: bytes, maker: Callable[[], bytes]) -> None:
        """Have a key whose value is made by a function, for watchers who come and whenever it may have `changed`."""
        self._makers[key] = maker

    def changed(self) -> None:
        """Values that the node makes itself may have changed: their watchers are told soon, if they have."""
        if self._places and not self._is_changed and any(key in self._places for key in self._makers):
            self._is_changed = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._is_changed = False
        for key, maker in self._makers.items():
            place = self._places.get(key)
            if place is not None and self._set(place, maker()):
                self._wake(place)

    # -- for watchers

    def put(self, watcher: EventWatcher) -> None:
        """Queue a watcher who is to be told."""
        watcher.state = WatcherState.PENDING
        self._pending.append(watcher)
        self._schedule()

    def look_at(self, place: _EventKey) -> None:
        """Forget a key that nobody watches and that has no value of its own."""
        if not place.watchers and (place.value is None or place.key in self._makers):
            self._places.pop(place.key, None)

    # -- helpers

    def _place(self, key: bytes) -> _EventKey:
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = _EventKey(key)
        return place

    @staticmethod
    def _set(place: _EventKey, value: bytes) -> bool:
        if place.value == value:
            return False
        place.value = value
        place.version += 1
        return True

    def _wake(self, place: _EventKey) -> None:
        for watcher in place.watchers:
            if watcher.state is WatcherState.IDLE:
                self.put(watcher)

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        pending = self._pending
        try:
            for _ in range(min(_AT_ONCE, len(pending))):
                pending.popleft().tell()
        finally:
            self._is_scheduled = False
            if pending:
                self._schedule()
