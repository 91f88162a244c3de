"""Events: values under keys, and watchers that are notified of the latest value of a key (`box.broadcast`,
`box.watch`).

```
state of a watcher   event                                           next state
PENDING              its turn in the queue comes                     RUNNING, with the newest value
RUNNING              it acknowledges, the value has not changed      IDLE
RUNNING              it acknowledges, the value has changed          PENDING
IDLE                 a value is broadcast                            PENDING
any                  it is unregistered                              no more notifications
```

A watcher is notified once when it is registered, and then of the newest value only. Values in between are skipped, so a
slow watcher never has more than one place in the queue. Values are MessagePack; for a key without a value the watcher
gets None.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

_AT_ONCE: Final = 128
"""The number of watchers that are notified in one turn of the loop."""

Run = Callable[["EventWatcher", "bytes | None"], None]
"""Notifies a watcher of a value. It must not raise; the watcher calls `acknowledge` when it is ready for the next
value.
"""


class WatcherState(Enum):
    """The states of a watcher; the table at the top of the module lists the transitions."""

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
    """A watcher of one key."""

    __slots__ = ("_events", "_place", "_seen", "run", "state")

    def __init__(self, events: Events, place: _EventKey, run: Run) -> None:
        self._events = events
        self._place: _EventKey | None = place
        self._seen = 0
        self.run = run
        self.state = WatcherState.PENDING

    @property
    def key(self) -> bytes | None:
        """The watched key, or None once the watcher is unregistered."""
        return None if self._place is None else self._place.key

    def tell(self) -> None:
        """Run the watcher with the newest value."""
        place = self._place
        if place is not None:
            self.state = WatcherState.RUNNING
            self._seen = place.version
            self.run(self, place.value)

    def acknowledge(self) -> None:
        """Acknowledge the last value: the watcher is ready for the next one."""
        place = self._place
        if place is None or self.state is not WatcherState.RUNNING:
            return
        if self._seen == place.version:
            self.state = WatcherState.IDLE
        else:
            self._events.put(self)

    def unregister(self) -> None:
        """Unregister the watcher; it gets no more notifications."""
        place, self._place = self._place, None
        if place is not None:
            del place.watchers[self]
            self._events.look_at(place)

    def __repr__(self) -> str:
        return f"<watcher of {self.key!r} {self.state.name}>"


class Events:
    """The keys and watchers of one node. The values of keys registered by `provide` are made by the node itself, when
    they are watched.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._places: dict[bytes, _EventKey] = {}
        self._makers: dict[bytes, Callable[[], bytes]] = {}
        self._pending: deque[EventWatcher] = deque()
        self._is_scheduled = False
        self._is_changed = False

    def __len__(self) -> int:
        """Return the number of keys that have a value or a watcher."""
        return len(self._places)

    def watch(self, key: bytes, run: Run) -> EventWatcher:
        """Register a watcher, which is notified of the present value in a later turn of the loop."""
        place = self._place(key)
        maker = self._makers.get(key)
        if maker is not None:
            self._set(place, maker())
        watcher = EventWatcher(self, place, run)
        place.watchers[watcher] = None
        self.put(watcher)
        return watcher

    def broadcast(self, key: bytes, value: bytes | None) -> None:
        """Set the value of a key and notify its watchers; None removes the value."""
        place = self._place(key)
        place.value = value
        place.version += 1
        self._wake(place)
        self.look_at(place)

    def value(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None if it has none."""
        maker = self._makers.get(key)
        if maker is not None:
            return maker()
        place = self._places.get(key)
        return None if place is None else place.value

    def provide(self, key: bytes, maker: Callable[[], bytes]) -> None:
        """Register a function that makes the value of a key: for new watchers, and whenever `changed` is called."""
        self._makers[key] = maker

    def changed(self) -> None:
        """Recalculate the values that the node makes itself, soon, and notify watchers of values that differ."""
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
        """Put a watcher into the queue for its next notification."""
        watcher.state = WatcherState.PENDING
        self._pending.append(watcher)
        self._schedule()

    def look_at(self, place: _EventKey) -> None:
        """Forget a key if it has neither watchers nor a value that was broadcast."""
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
