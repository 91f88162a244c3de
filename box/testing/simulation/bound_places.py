"""The places that sockets are bound to: ports of hosts, and paths of unix sockets, on all hosts of a simulated network.

```
a port        one socket has it, or several that share it; free again when they are closed
a path        one socket has it; when that is closed, connections are refused there until another one takes the place
```
"""

from __future__ import annotations

import errno
from typing import Any, Final, NamedTuple

from box.testing.simulation.simulated_stream import network_error

_FIRST_PORT: Final = 32768
_LAST_PORT: Final = 60999
"""Ports that are given to who asks for any, as by Linux."""

TCP: Final = "tcp"
UDP: Final = "udp"
UNIX: Final = "unix"


class SocketPlace(NamedTuple):
    """A port or a path of a host; `kind` is one of the above."""

    host: str
    kind: str
    port: int | str


class BoundPlaces:
    """See the module's text."""

    def __init__(self) -> None:
        self._owners: dict[SocketPlace, list[Any]] = {}
        self._left: dict[SocketPlace, None] = {}
        """Paths whose socket is closed."""
        self._next_ports: dict[str, int] = {}

    def bind(self, place: SocketPlace, owner: Any, *, shares: bool = False) -> None:
        """Take a place. OSError (EADDRINUSE) unless everybody there shares it."""
        owners = self._owners.setdefault(place, [])
        if owners and not (shares and all(other.shares_place for other in owners)):
            raise network_error(errno.EADDRINUSE)
        owners.append(owner)
        self._left.pop(place, None)

    def release(self, place: SocketPlace, owner: Any) -> None:
        """Leave a place."""
        owners = self._owners.get(place, [])
        if owner in owners:
            owners.remove(owner)
        if not owners:
            self._owners.pop(place, None)
            if place.kind == UNIX:
                self._left[place] = None

    def owners(self, place: SocketPlace) -> list[Any]:
        """The sockets that are bound there."""
        return self._owners.get(place, [])

    def is_left(self, place: SocketPlace) -> bool:
        """Whether the file of a unix socket is there, but not its socket."""
        return place in self._left

    def free_port(self, host: str, kind: str) -> int:
        """A port that nobody has: the next one of the host. OSError (EADDRINUSE) if all are taken."""
        port = self._next_ports.get(host, _FIRST_PORT)
        for _ in range(_FIRST_PORT, _LAST_PORT + 1):
            self._next_ports[host] = port + 1 if port < _LAST_PORT else _FIRST_PORT
            if SocketPlace(host, kind, port) not in self._owners:
                return port
            port = self._next_ports[host]
        raise network_error(errno.EADDRINUSE)
