"""Datagram sockets (SOCK_DGRAM) of a simulated process: UDP and unix.

```
UDP       each datagram has its own delay, so datagrams may overtake each other. One is lost if the way is cut when it
          arrives, if its checksum is wrong, or if the receiver's buffer is full. If no socket is bound to the port, a
          connected sender gets ECONNREFUSED
unix      a datagram arrives at once; the sender gets EAGAIN while the receiver has `_QUEUE` unread ones
```
"""

from __future__ import annotations

import errno
import socket
from collections import deque
from typing import Any, Final, NamedTuple

from box.testing.simulation.bound_places import UDP, SocketPlace
from box.testing.simulation.host_names import is_wildcard
from box.testing.simulation.simulated_socket import Endpoint, SimulatedSocket, SocketTable
from box.testing.simulation.simulated_stream import NOBODY, network_error
from box.testing.simulation.trace import Message

_LARGEST: Final = 65507
"""The bytes of the largest UDP datagram over IPv4: 65535 without the headers of IP (20) and UDP (8)."""
_BUFFER: Final = 212992
"""The bytes that may wait to be read, as by default on Linux (`net.core.rmem_default`)."""
_QUEUE: Final = 11
"""The number of datagrams that may wait in a unix socket: one more than `net.unix.max_dgram_qlen` of Linux, 10."""
_PEEK: Final = int(socket.MSG_PEEK)
_OUT_OF_BAND: Final = int(socket.MSG_OOB)


class Datagram(NamedTuple):
    """A message and the address of its sender."""

    data: bytes
    source: Endpoint


class DatagramSocket(SimulatedSocket):
    """A UDP or unix datagram socket; see the module's table."""

    def __init__(self, table: SocketTable, family: int, protocol: int) -> None:
        super().__init__(table, family, int(socket.SOCK_DGRAM), protocol)
        self._peer: Endpoint | None = None
        self._waiting: deque[Datagram] = deque()
        self._size = 0
        self._blocked: list[DatagramSocket] = []
        """Unix sockets that got EAGAIN and wait for room in this one."""
        self._is_read_shut = self._is_write_shut = False

    @property
    def _port_kind(self) -> str:
        return UDP

    def _own_level(self) -> int:
        return -1 if self.is_unix else int(socket.IPPROTO_UDP)

    def _check_place(self, endpoint: Endpoint) -> None:
        """Accept every place: a port of datagrams has no listeners that could conflict."""

    # -- readiness

    def _is_readable(self) -> bool:
        return bool(self._waiting) or self._is_read_shut or bool(self.error)

    def _is_writable(self) -> bool:
        if self.is_unix and self._peer is not None and not self._is_write_shut:
            owners = self._network.places.owners(self._place_at(self._peer, self._host.name))
            return not (owners and isinstance(owners[0], DatagramSocket) and owners[0].is_full)
        return True

    @property
    def is_full(self) -> bool:
        """True if a unix socket accepts no more datagrams."""
        return len(self._waiting) >= _QUEUE

    # -- addresses

    def connect(self, address: Any, /) -> None:
        """Set the address that `send` uses and that datagrams are accepted from."""
        self.check_open()
        endpoint = self._endpoint(address)
        if self.is_unix:
            self._receiver_at(endpoint)
            self._peer = endpoint
            return
        self._target(endpoint)
        self._bind_anywhere()
        if is_wildcard(endpoint[0]):
            endpoint = self._loopback, endpoint[1]
        self._peer = endpoint
        self.own = self._source(endpoint)

    def getpeername(self) -> Any:
        self.check_open()
        if self._peer is None:
            raise network_error(errno.ENOTCONN)
        return self._shown(self._peer)

    def listen(self, backlog: int, /) -> None:
        """Fail, because datagram sockets have no connections.

        Raises:
            OSError: EOPNOTSUPP, always.
        """
        self.check_open()
        raise network_error(errno.EOPNOTSUPP)

    def accept(self) -> tuple[SimulatedSocket, Any]:
        """Fail, because datagram sockets have no connections.

        Raises:
            OSError: EOPNOTSUPP, always.
        """
        self.check_open()
        raise network_error(errno.EOPNOTSUPP)

    # -- sending

    def send(self, data: bytes, flags: int, /) -> int:
        self.check_open()
        if self._peer is None:
            raise network_error(errno.ENOTCONN if self.is_unix else errno.EDESTADDRREQ)
        return self._send_to(self._peer, data)

    def sendto(self, data: bytes, flags: int, address: Any, /) -> int:
        self.check_open()
        return self._send_to(self._endpoint(address), data)

    def _send_to(self, endpoint: Endpoint, data: bytes) -> int:
        if error := self.take_error():
            raise network_error(error)
        if self._is_write_shut:
            raise network_error(errno.EPIPE)
        if self.is_unix:
            self._deliver_locally(endpoint, data)
        else:
            self._transmit(endpoint, data)
        return len(data)

    def _receiver_at(self, endpoint: Endpoint) -> DatagramSocket:
        """Return the unix socket that is bound to a path.

        Raises:
            OSError: ENOENT, ECONNREFUSED, or EPROTOTYPE for a stream socket.
        """
        places, place = self._network.places, self._place_at(endpoint, self._host.name)
        owners = places.owners(place)
        if not owners:
            raise network_error(errno.ECONNREFUSED if places.is_left(place) else errno.ENOENT)
        if not isinstance(owners[0], DatagramSocket):
            raise network_error(errno.EPROTOTYPE)
        return owners[0]

    def _deliver_locally(self, endpoint: Endpoint, data: bytes) -> None:
        receiver = self._receiver_at(endpoint)
        if receiver.is_full:
            if self not in receiver._blocked:
                receiver._blocked.append(self)
            raise network_error(errno.EAGAIN)
        receiver.receive(Datagram(data, self.own or ("", 0)))

    def _transmit(self, endpoint: Endpoint, data: bytes) -> None:
        if len(data) > _LARGEST:
            raise network_error(errno.EMSGSIZE)
        if not endpoint[1]:
            raise network_error(errno.EINVAL)
        target = self._target(endpoint)
        if is_wildcard(endpoint[0]):
            endpoint = self._loopback, endpoint[1]
        self._bind_anywhere()
        network, loop = self._network, self._table.loop
        seconds = network.delay(self._host.name, target)
        if network.bandwidth is not None:
            seconds += len(data) / network.bandwidth
        is_corrupt = network.chance(network.corruption)
        datagram = Datagram(data, self._source(endpoint))
        now = loop.time()
        loop.call_at(now + seconds, self._arrive, endpoint, target, datagram, now, is_corrupt, context=NOBODY)

    def _arrive(self, endpoint: Endpoint, target: str, datagram: Datagram, sent: float, is_corrupt: bool) -> None:
        network = self._network
        is_there = not is_corrupt and not network.is_cut(self._host.name, target)
        if network.trace is not None and network.trace.keeps_messages:
            arrived = self._table.loop.time() if is_there else None
            text = f"{len(datagram.data)} bytes (UDP)"
            network.trace.add_message(Message(sent, self._host.name, arrived, target, text))
        if not is_there:
            return
        place = SocketPlace(target, UDP, endpoint[1])
        for owner in network.places.owners(place):
            if isinstance(owner, DatagramSocket) and owner._takes(self.family, endpoint, datagram.source):
                owner.receive(datagram)
                return
        if not network.is_cut(target, self._host.name):
            delay = network.delay(target, self._host.name)
            self._table.loop.call_later(delay, self._refused, endpoint, context=NOBODY)

    def _takes(self, family: int, endpoint: Endpoint, source: Endpoint) -> bool:
        """Return True if this socket accepts a datagram for an address of its host."""
        own = self.own
        if own is None or self.family != family or (self._peer is not None and self._peer != source):
            return False
        return is_wildcard(own[0]) or own[0] == endpoint[0]

    def _refused(self, endpoint: Endpoint) -> None:
        """Record ECONNREFUSED, because no socket is bound to the port."""
        if not self.is_closed and self._peer == endpoint:
            self.error = errno.ECONNREFUSED
            self.changed()

    # -- receiving

    def receive(self, datagram: Datagram) -> None:
        """Store a datagram until the program reads it, or drop it if the buffer is full."""
        if self._size + len(datagram.data) <= _BUFFER or self.is_unix:
            self._waiting.append(datagram)
            self._size += len(datagram.data)
            self.changed()

    def recv(self, size: int, flags: int, /) -> bytes:
        return self.recvfrom(size, flags)[0]

    def recvfrom(self, size: int, flags: int, /) -> tuple[bytes, Any]:
        self.check_open()
        if flags & _OUT_OF_BAND:
            raise network_error(errno.EOPNOTSUPP)
        if error := self.take_error():
            raise network_error(error)
        if not self._waiting:
            if self._is_read_shut:
                return b"", None
            raise network_error(errno.EAGAIN)
        datagram = self._waiting[0]
        if not flags & _PEEK:
            self._waiting.popleft()
            self._size -= len(datagram.data)
            blocked, self._blocked = self._blocked, []
            for sender in blocked:
                sender.changed()
        address = self._shown(datagram.source) if datagram.source[0] else None
        return datagram.data[:size], address

    # -- the end

    def shutdown(self, how: int, /) -> None:
        self.check_open()
        if how not in (socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR):
            raise network_error(errno.EINVAL)
        if self._peer is None and not self.is_unix:
            raise network_error(errno.ENOTCONN)
        self._is_write_shut |= how != socket.SHUT_RD
        self._is_read_shut |= how != socket.SHUT_WR
        self.changed()

    def _end(self) -> None:
        self._waiting.clear()
        blocked, self._blocked = self._blocked, []
        for sender in blocked:
            sender.changed()
