"""The ports and the paths of unix sockets that are in use on the hosts of a simulated network.

```
a port        belongs to one socket, or to several that share it; it is free when they are closed
a path        belongs to one socket; after that is closed, connections are refused until another socket binds the path,
              or the file is removed
```
"""

from __future__ import annotations

import errno
from typing import Any, Final, NamedTuple

from box.testing.simulation.simulated_stream import network_error

_FIRST_PORT: Final = 32768
_LAST_PORT: Final = 60999
"""The range of ports for sockets that bind to any port: the default of Linux (`ip_local_port_range`)."""

TCP: Final = "tcp"
"""The kind of the ports of stream sockets."""
UDP: Final = "udp"
"""The kind of the ports of datagram sockets."""
UNIX: Final = "unix"
"""The kind of the paths of unix sockets."""


class SocketPlace(NamedTuple):
    """A port or a path of a host. `kind` is `TCP`, `UDP` or `UNIX`."""

    host: str
    kind: str
    port: int | str


class BoundPlaces:
    """The bound ports and paths of all hosts, with the sockets that own them."""

    def __init__(self) -> None:
        self._owners: dict[SocketPlace, list[Any]] = {}
        self._left: dict[SocketPlace, None] = {}
        """Paths whose socket is closed; as on a real system, the file remains."""
        self._next_ports: dict[str, int] = {}

    def bind(self, place: SocketPlace, owner: Any, *, shares: bool = False) -> None:
        """Bind a socket to a place.

        Raises:
            OSError: EADDRINUSE if the place is taken and not shared by all its sockets.
        """
        owners = self._owners.setdefault(place, [])
        if owners and not (shares and all(other.shares_place for other in owners)):
            raise network_error(errno.EADDRINUSE)
        owners.append(owner)
        self._left.pop(place, None)

    def release(self, place: SocketPlace, owner: Any) -> None:
        """Remove a socket from a place."""
        owners = self._owners.get(place, [])
        if owner not in owners:  # the file of a unix socket was removed before
            return
        owners.remove(owner)
        if not owners:
            self._owners.pop(place, None)
            if place.kind == UNIX:
                self._left[place] = None

    def remove_file(self, place: SocketPlace) -> bool:
        """Remove the file of a unix socket, which may still be open. Returns False if there is none."""
        if place in self._left:
            del self._left[place]
            return True
        return self._owners.pop(place, None) is not None

    def owners(self, place: SocketPlace) -> list[Any]:
        """Return the sockets that are bound to a place."""
        return self._owners.get(place, [])

    def is_left(self, place: SocketPlace) -> bool:
        """Return True if the file of a unix socket exists, but its socket is closed."""
        return place in self._left

    def free_port(self, host: str, kind: str) -> int:
        """Return the next free port of a host.

        Raises:
            OSError: EADDRINUSE if all ports are taken.
        """
        port = self._next_ports.get(host, _FIRST_PORT)
        for _ in range(_FIRST_PORT, _LAST_PORT + 1):
            self._next_ports[host] = port + 1 if port < _LAST_PORT else _FIRST_PORT
            if SocketPlace(host, kind, port) not in self._owners:
                return port
            port = self._next_ports[host]
        raise network_error(errno.EADDRINUSE)
