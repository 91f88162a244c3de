"""Stream sockets (SOCK_STREAM) of a simulated process: TCP and unix.

```
fresh         bound or not
connecting    until a listener answers; ETIMEDOUT after the network's patience
connected     `socket_stream.py`; a `connect` that asks for the result succeeds once
failed        to connect: the next `connect` raises the error, unless that was read before; the one after it tries again
listening     connections wait to be accepted
shut          a socket that no longer listens
```

As with a real operating system, this continues while the process is halted: connections are made and bytes taken, up to
the limits of the buffers.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, ClassVar, Final

from box.testing.simulation.bound_places import TCP, SocketPlace
from box.testing.simulation.host_names import is_loopback, is_wildcard
from box.testing.simulation.simulated_network import PATIENCE, ServedAddress, SimulatedHost, SimulatedListener
from box.testing.simulation.simulated_socket import Endpoint, SimulatedSocket, SocketTable
from box.testing.simulation.simulated_stream import NOBODY, RETRY, Stream, network_error
from box.testing.simulation.socket_stream import CountedStream, LocalSocketStream, LocalWays, SocketStream

_BACKLOG_MOST: Final = 4096
"""The largest backlog: `net.core.somaxconn` of Linux."""
_PEEK: Final = int(socket.MSG_PEEK)
_OUT_OF_BAND: Final = int(socket.MSG_OOB)


class StreamState(Enum):
    """The state of a stream socket; see the module's table."""

    FRESH = auto()
    CONNECTING = auto()
    CONNECTED = auto()
    FAILED = auto()
    LISTENING = auto()
    SHUT = auto()


class AcceptQueue(SimulatedListener):
    """A listening socket, as the network sees it."""

    partner: ClassVar[type[Stream]] = CountedStream

    def __init__(
        self, owner: SimulatedHost, served: ServedAddress, own: Endpoint, backlog: int, on_change: Callable[[], None]
    ) -> None:
        super().__init__(owner.network, owner, served)
        self.backlog = backlog
        self.waiting: deque[SocketStream] = deque()
        self._own = own
        self._on_change = on_change

    @property
    def is_full(self) -> bool:
        """True if more connections wait than the backlog says; Linux accepts one more as well."""
        return len(self.waiting) > self.backlog

    def admits(self, caller: SimulatedHost, address: str) -> bool:
        """Return True if the socket is bound to the called address.

        A call by a node's own protocol has an empty address.
        """
        own = self._own[0]
        if not address:
            return not is_loopback(own) or caller is self.owner
        is_reached = own == "::" or (":" in own) == (":" in address)
        return is_reached and (is_wildcard(own) or own == address)

    def accept(self, caller: Stream) -> None:
        """Make the end of the connection that the program will accept."""
        kind = LocalSocketStream if isinstance(caller, LocalSocketStream) else SocketStream
        own, peer = caller.peer_address, caller.own_address
        if not isinstance(caller, SocketStream):
            own, peer = self._node_called(caller.host)
        end = kind(caller.ways, self.owner, caller.host, own, peer)
        caller.join(end)
        self.waiting.append(end)
        self._on_change()

    def _node_called(self, host: str) -> tuple[Endpoint, Endpoint]:
        """Return both addresses of a connection that a node's own protocol makes, first that of this side."""
        path, port = self._own
        if self.served.service == str(self.served):
            return (path, 0), ("", 0)
        names, places = self._network.names, self._network.places
        family = socket.AF_INET6 if ":" in path else socket.AF_INET
        if is_wildcard(path):
            path = names.address(self.owner.name, family)
        theirs = path if is_loopback(path) else names.address(host, family)
        return (path, port), (theirs, places.free_port(host, TCP))

    def close(self) -> None:
        """Stop listening, and reset connections that were not accepted."""
        super().close()
        while self.waiting:
            self.waiting.popleft().end(abruptly=True)


class StreamSocket(SimulatedSocket):
    """A TCP or unix stream socket; see the module's table."""

    def __init__(self, table: SocketTable, family: int, protocol: int) -> None:
        super().__init__(table, family, int(socket.SOCK_STREAM), protocol)
        self._state = StreamState.FRESH
        self._stream: SocketStream | None = None
        self._queue: AcceptQueue | None = None
        self._local = LocalWays(table.loop)
        self._deadline = 0.0
        self._is_to_ask = False
        """True if the socket is connected, and the program has not learned it yet by a second `connect`."""

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, {self._state.name.lower()}>"

    @property
    def _port_kind(self) -> str:
        return TCP

    def _own_level(self) -> int:
        return -1 if self.is_unix else int(socket.IPPROTO_TCP)

    def _check_place(self, endpoint: Endpoint) -> None:
        if self._network.is_served(self._served_at(endpoint, self._host.name)):
            raise network_error(errno.EADDRINUSE)

    # -- readiness

    def _is_readable(self) -> bool:
        match self._state:
            case StreamState.CONNECTED:
                return self._connected.is_readable
            case StreamState.LISTENING:
                return self._queue is not None and bool(self._queue.waiting)
        return self._state is not StreamState.CONNECTING

    def _is_writable(self) -> bool:
        if self._state is StreamState.CONNECTED:
            return self._connected.is_writable
        return self._state not in (StreamState.CONNECTING, StreamState.LISTENING)

    @property
    def _connected(self) -> SocketStream:
        """The connection.

        Raises:
            OSError: ENOTCONN if there is none.
        """
        if self._stream is None:
            raise network_error(errno.ENOTCONN)
        return self._stream

    # -- servers

    def listen(self, backlog: int, /) -> None:
        self.check_open()
        backlog = min(backlog if backlog >= 0 else _BACKLOG_MOST, _BACKLOG_MOST)
        if self._queue is not None:
            self._queue.backlog = backlog
            return
        if self._state not in (StreamState.FRESH, StreamState.SHUT) or (self.is_unix and self.own is None):
            raise network_error(errno.EINVAL)
        self._bind_anywhere()
        assert self.own is not None
        queue = AcceptQueue(self._host, self._served_at(self.own, self._host.name), self.own, backlog, self.changed)
        self._network.listen(queue)
        self._queue, self._state = queue, StreamState.LISTENING

    def _is_listening(self) -> bool:
        return self._queue is not None

    def accept(self) -> tuple[SimulatedSocket, Any]:
        self.check_open()
        if self._queue is None:
            raise network_error(errno.EINVAL)
        if not self._queue.waiting:
            raise network_error(errno.EAGAIN)
        stream = self._queue.waiting.popleft()
        accepted = StreamSocket(self._table, self.family, self.proto)
        accepted._adopt(stream)
        return accepted, self._shown(stream.peer_address)

    def _adopt(self, stream: SocketStream) -> None:
        self._stream, self._state = stream, StreamState.CONNECTED
        self.own = stream.own_address
        stream.on_change = self.changed

    # -- clients

    def connect(self, address: Any, /) -> None:
        self.check_open()
        match self._state:
            case StreamState.CONNECTING:
                raise network_error(errno.EALREADY)
            case StreamState.CONNECTED:
                if not self._is_to_ask:
                    raise network_error(errno.EISCONN)
                self._is_to_ask = False
                return
            case StreamState.LISTENING:
                raise network_error(errno.EINVAL if self.is_unix else errno.EISCONN)
            case StreamState.FAILED:
                self._state = StreamState.FRESH
                raise network_error(self.take_error() or errno.ECONNABORTED)
        endpoint = self._endpoint(address)
        target = self._target(endpoint)
        if self.is_unix:
            self._connect_locally(endpoint)
            return
        self._bind_anywhere()
        if is_wildcard(endpoint[0]):
            endpoint = self._loopback, endpoint[1]
        loop, network = self._table.loop, self._network
        self._state = StreamState.CONNECTING
        self._deadline = loop.time() + PATIENCE
        delay = network.delay(self._host.name, target) + network.delay(target, self._host.name)
        loop.call_later(delay, self._try_to_connect, endpoint, target, context=NOBODY)
        raise network_error(errno.EINPROGRESS)

    def _connect_locally(self, endpoint: Endpoint) -> None:
        place, name = self._place_at(endpoint, self._host.name), self._host.name
        served = self._served_at(endpoint, name)
        if not self._network.is_served(served):
            self._fail_locally(place)
        listener = self._network.answering(self._host, served)
        if listener is None:
            raise network_error(errno.EAGAIN)
        stream = LocalSocketStream(self._local, self._host, name, self.own or ("", 0), endpoint)
        listener.accept(stream)
        self._adopt(stream)

    def _fail_locally(self, place: SocketPlace) -> None:
        """Report that no socket listens at a path.

        Raises:
            OSError: ENOENT, ECONNREFUSED, or EPROTOTYPE for a datagram socket.
        """
        places = self._network.places
        owners = places.owners(place)
        if owners and owners[0].type != self.type:
            raise network_error(errno.EPROTOTYPE)
        raise network_error(errno.ECONNREFUSED if owners or places.is_left(place) else errno.ENOENT)

    def _try_to_connect(self, endpoint: Endpoint, target: str) -> None:
        """Connect if a listener answers, else try again later; this runs outside the process, which may be halted."""
        if self.is_closed or self._state is not StreamState.CONNECTING:
            return
        network, loop = self._network, self._table.loop
        try:
            listener = network.answering(self._host, self._served_at(endpoint, target), endpoint[0])
        except OSError as error:
            self._fail(error.errno or errno.ECONNREFUSED)
            return
        if listener is not None:
            stream = SocketStream(network, self._host, target, self._source(endpoint), endpoint)
            listener.accept(stream)
            self._adopt(stream)
            self._is_to_ask = True
            self.changed()
        elif loop.time() > self._deadline:
            self._fail(errno.ETIMEDOUT)
        else:
            loop.call_later(RETRY, self._try_to_connect, endpoint, target, context=NOBODY)

    def _fail(self, number: int) -> None:
        self._state, self.error = StreamState.FAILED, number
        self.changed()

    def getpeername(self) -> Any:
        self.check_open()
        stream = self._connected
        if stream.is_finished and not self.is_unix:
            raise network_error(errno.ENOTCONN)
        return self._shown(stream.peer_address)

    # -- data

    def take_error(self) -> int:
        error = super().take_error()
        return error or (self._stream.take_error() if self._stream is not None else 0)

    def recv(self, size: int, flags: int, /) -> bytes:
        self.check_open()
        if flags & _OUT_OF_BAND:
            raise network_error(errno.EINVAL)
        if self._state is StreamState.CONNECTED:
            return self._connected.receive(size, peeks=bool(flags & _PEEK))
        self._raise_error()
        if self._state is StreamState.CONNECTING:
            raise network_error(errno.EAGAIN)
        if self._state is StreamState.FAILED:
            return b""
        raise network_error(errno.EINVAL if self.is_unix else errno.ENOTCONN)

    def _raise_error(self) -> None:
        if error := self.take_error():
            raise network_error(error)

    def send(self, data: bytes, flags: int, /) -> int:
        self.check_open()
        if self._state is StreamState.CONNECTED:
            return self._connected.send(data)
        self._raise_error()
        if self._state is StreamState.CONNECTING:
            raise network_error(errno.EAGAIN)
        raise network_error(errno.ENOTCONN if self.is_unix else errno.EPIPE)

    def recvfrom(self, size: int, flags: int, /) -> tuple[bytes, Any]:
        """Receive data. The address is None, because a stream does not name its sender."""
        return self.recv(size, flags), None

    def sendto(self, data: bytes, flags: int, address: Any, /) -> int:
        """Send data. TCP ignores the address.

        Raises:
            OSError: EISCONN or EOPNOTSUPP for a unix socket, which takes no address.
        """
        if self.is_unix:
            self.check_open()
            raise network_error(errno.EISCONN if self._stream is not None else errno.EOPNOTSUPP)
        return self.send(data, flags)

    def shutdown(self, how: int, /) -> None:
        self.check_open()
        if how not in (socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR):
            raise network_error(errno.EINVAL)
        if self._queue is not None:
            self._stop_listening(how)
            return
        if self.is_unix and self._stream is None:
            return
        stream = self._connected
        if stream.is_finished and not self.is_unix:
            raise network_error(errno.ENOTCONN)
        if how != socket.SHUT_RD:
            stream.shut_writing()
        if how != socket.SHUT_WR:
            stream.shut_reading()

    def _stop_listening(self, how: int) -> None:
        """Stop listening if reading is shut; shutting only writing has no effect."""
        if how != socket.SHUT_WR and self._queue is not None:
            self._queue.close()
            self._queue, self._state = None, StreamState.SHUT
            self.changed()

    def _end(self) -> None:
        if self._queue is not None:
            self._queue.close()
        if self._stream is not None:
            self._stream.end(abruptly=not self.is_unix and self._lingers_not())

    def _lingers_not(self) -> bool:
        """Return True if SO_LINGER with a time of 0 asks to discard unsent data on close."""
        value = self._options.get((int(socket.SOL_SOCKET), int(socket.SO_LINGER)))
        return isinstance(value, bytes) and struct.unpack("ii", value[:8]) == (1, 0)
