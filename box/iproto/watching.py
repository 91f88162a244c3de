"""The watchers of one connection: WATCH registers or acknowledges, UNWATCH unregisters, EVENT notifies the client.

```
WATCH    a new key               registers a watcher, which is notified of the present value
         a key that is watched   acknowledges the last EVENT: the next one may be sent
UNWATCH                          ends the notifications of this key
```

These requests have no replies. At most one EVENT of each key is on its way, so the memory for a client that does not
read is limited by the number of its keys, which `_ROOM` limits. Source: the protocol's reference document and the
behaviour of the 2.11 line.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from box.errors import out_of_memory
from box.wire.client_requests import encode_event

if TYPE_CHECKING:
    from box.events import Events, EventWatcher

_COST: Final = 512
"""The approximate memory in bytes that a watched key takes in addition to its name."""
_ROOM: Final = 32 * 1024 * 1024
"""The bytes that the watched keys of a connection may take together."""


class Watching:
    """The watchers of one connection by their keys, each with the sync of the last WATCH."""

    __slots__ = ("_by_key", "_events", "_room", "_send")

    def __init__(self, send: Callable[[bytes], None], events: Events) -> None:
        self._send = send
        self._events = events
        self._by_key: dict[bytes, tuple[EventWatcher, int]] = {}
        self._room = _ROOM

    def __len__(self) -> int:
        return len(self._by_key)

    def __contains__(self, key: bytes) -> bool:
        return key in self._by_key

    def watch(self, key: bytes, sync: int) -> None:
        """Serve WATCH. Raises OutOfMemory if the watched keys take too much memory."""
        known = self._by_key.get(key)
        if known is not None:
            self._by_key[key] = (known[0], sync)
            known[0].acknowledge()
            return
        cost = _COST + len(key)
        if cost > self._room:
            raise out_of_memory(cost, "malloc", "watcher")
        self._room -= cost
        self._by_key[key] = (self._events.watch(key, partial(self._tell, key)), sync)

    def unwatch(self, key: bytes) -> None:
        """Serve UNWATCH."""
        known = self._by_key.pop(key, None)
        if known is not None:
            self._room += _COST + len(key)
            known[0].unregister()

    def _tell(self, key: bytes, watcher: EventWatcher, value: bytes | None) -> None:
        self._send(encode_event(self._by_key[key][1], key, value))

    def close(self) -> None:
        """Unregister all watchers, because the connection has ended."""
        known = list(self._by_key.values())
        self._by_key.clear()
        for watcher, _ in known:
            watcher.unregister()
