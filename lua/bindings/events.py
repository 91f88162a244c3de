"""`box.broadcast`, `box.watch` and `box.iproto`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from box.data.codec import pack
from box.errors import BoxError
from box.wire.features import FEATURES, PROTOCOL_VERSION
from lua.bindings.binding import Binding, exported

if TYPE_CHECKING:
    from box.events import EventWatcher
    from box.instance.node import Instance
    from lua.runtime import Runtime, Values


class EventBinding(Binding):
    """Watchers that are Lua functions; each runs in a fiber of its own and is ready for the next value when it ends."""

    def __init__(self, runtime: Runtime, node: Instance) -> None:
        super().__init__(runtime, node)
        self._watchers: dict[int, EventWatcher] = {}
        self._last_id = 0

    @exported("event_broadcast")
    def broadcast(self, key: bytes, value: bytes | None) -> None:
        """Set the value of a key; None removes it."""
        self.node.events.broadcast(key, value)

    @exported("event_watch")
    def watch(self, key: bytes, handle: int) -> int:
        """Register a Lua function by its handle. Returns the watcher's number."""
        self._last_id += 1
        self._watchers[self._last_id] = self.node.events.watch(key, partial(self._tell, key, int(handle)))
        return self._last_id

    @exported("event_unwatch")
    def unwatch(self, number: int) -> None:
        """Unregister a watcher."""
        self._watchers.pop(int(number)).unregister()

    def _tell(self, key: bytes, handle: int, watcher: EventWatcher, value: bytes | None) -> None:
        def ended(outcome: Values | BoxError) -> None:
            if isinstance(outcome, BoxError):
                self.node.log.problem(outcome)
            watcher.acknowledge()

        if not self.runtime.closed:
            entry = self.runtime.handle_of("box.run_watcher")
            self.runtime.start_then(ended, entry, handle, key, value, ctx=None, name="box.watcher")

    @exported("iproto_features")
    def features(self) -> bytes:
        """Return the version of the protocol and the features by name."""
        return pack([PROTOCOL_VERSION, FEATURES])
