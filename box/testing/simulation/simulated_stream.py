"""A stream of a simulated network: one end of a connection, as an asyncio transport.

The text of `simulated_network.py` lists what can happen to streams.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any, ClassVar, Final, Protocol

from box.net.network import ProtocolFactory
from box.testing.simulation.loop import Process, SimulatedLoop
from box.testing.simulation.trace import Message, Trace

HIGH_WATER: Final = 64 * 1024
"""The bytes on their way above which the protocol is asked to pause writing: asyncio's default."""
RETRY: Final = 0.2
"""The seconds until a write with a wrong checksum is sent again, and between two attempts to connect over a cut way.

It is the shortest time after which TCP on Linux sends again.
"""

NOBODY: Final = Context()
"""The context of events that belong to no process, such as the arrival of bytes."""


def network_error(number: int) -> OSError:
    """Return the OSError of a call that has failed with an errno."""
    return OSError(number, os.strerror(number))


class Ways(Protocol):
    """The ways between hosts, and their faults: a `SimulatedNetwork`."""

    @property
    def loop(self) -> SimulatedLoop: ...

    @property
    def trace(self) -> Trace | None: ...

    @property
    def bandwidth(self) -> float | None: ...

    @property
    def corruption(self) -> float: ...

    def delay(self, source: str, target: str) -> float:
        """Return the seconds that one write takes."""

    def chance(self, share: float) -> bool:
        """Return True in the given share of cases."""

    def is_cut(self, source: str, target: str) -> bool:
        """Return True if nothing that `source` sends arrives at `target`."""

    def register(self, stream: Stream) -> None:
        """Add an open stream, which faults can then affect."""

    def forget(self, stream: Stream) -> None:
        """Remove a stream that has ended."""


class Host(Protocol):
    """The name of a host, and the process that owns a stream."""

    @property
    def name(self) -> str: ...

    @property
    def process(self) -> Process: ...


class SocketFace:
    """Answers questions about the socket of a transport."""

    def __init__(self, own: tuple[str, int], peer: tuple[str, int]) -> None:
        self._own = own
        self._peer = peer

    def fileno(self) -> int:
        return 1

    def getsockname(self) -> tuple[str, int]:
        return self._own

    def getpeername(self) -> tuple[str, int]:
        return self._peer


class Stream(asyncio.Transport):
    """One end of a connection of a node's own protocol. `own` and `peer` are the addresses of both ends."""

    partner: ClassVar[type[Stream]]
    """The class of the other end, if that is a node's own."""

    def __init__(self, network: Ways, owner: Host, peer_host: str, own: tuple[str, int], peer: tuple[str, int]) -> None:
        super().__init__()
        self.host = owner.name
        self.peer_host = peer_host
        self.own_address = own
        self.peer_address = peer
        self._network = network
        self._loop = network.loop
        self._process = owner.process
        self._extra_info = {"peername": peer, "socket": SocketFace(own, peer)}
        self._peer: Stream | None = None
        self._protocol: asyncio.BaseProtocol | None = None
        self._last_arrival = 0.0
        self._is_closing = False
        self._is_reading = True
        self._is_broken = False
        """True if something that this end sent was lost."""
        self._waiting: deque[bytes | None] = deque()
        """Writes that wait until the way is mended; None stands for the end of the stream."""
        self._unread: deque[bytes] = deque()
        self._end_is_here = False
        self._in_flight = 0
        self._is_full = False

    def make_partner(self, owner: Host, own: tuple[str, int]) -> Stream:
        """Make the other end of the connection, for a node's own protocol."""
        partner = self.partner(self._network, owner, self.host, own, self.own_address)
        self.join(partner)
        return partner

    def join(self, peer: Stream) -> None:
        """Connect two ends, so that each is the other's peer."""
        self._peer, peer._peer = peer, self
        for end in (self, peer):
            self._network.register(end)

    def start(self, factory: ProtocolFactory) -> None:
        """Make the protocol, in the context of the running process."""
        if self._is_closing:
            raise network_error(errno.ECONNRESET)
        self._protocol = factory()
        self._protocol.connection_made(self)
        self._read_on()

    def start_later(self, factory: ProtocolFactory) -> None:
        """Make the protocol in the context of the process that owns this end."""

        def accept() -> None:
            if not self._is_closing:
                self.start(factory)

        self._soon(accept)

    @property
    def ways(self) -> Ways:
        """The ways that the stream's data takes."""
        return self._network

    # -- asyncio.Transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._extra_info.get(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return self._is_reading and not self._is_closing

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._soon(self._read_on)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or not data:
            return
        block = bytes(data)
        network = self._network
        seconds = network.delay(self.host, self.peer_host)
        if network.bandwidth is not None:
            seconds += len(block) / network.bandwidth
        if network.chance(network.corruption):
            seconds += RETRY
        now = self._loop.time()
        # Later than the block before, by whatever little, because a stream keeps the order.
        self._last_arrival = max(self._last_arrival + 1e-9, now + seconds)
        self._in_flight += len(block)
        self._update_fullness()
        self._at(self._last_arrival, self._arrive, block, now)

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        self.close()

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self._in_flight

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: the limit is always `HIGH_WATER`."""

    def close(self) -> None:
        """Close this end. What was written arrives first, then the end of the stream."""
        if self._is_closing:
            return
        self._is_closing = True
        self._soon(self._lose, None)
        self._send_end_later()

    def abort(self) -> None:
        self.reset()

    # -- the way

    def _soon(self, call: Callable[..., object], *arguments: Any) -> None:
        """Call a function in the next turn of the loop, in the context of the process that owns the socket."""
        self._loop.call_soon(call, *arguments, context=self._process.context())

    def _at(self, when: float, call: Callable[..., object], *arguments: Any) -> None:
        """Call a function at a time, in no process's context: data arrives even if its sender is halted or dead."""
        self._loop.call_at(when, call, *arguments, context=NOBODY)

    def _arrive(self, data: bytes, sent: float) -> None:
        self._leave(len(data))
        is_there = self._pass_cut(data)
        trace = self._network.trace
        if trace is not None and trace.keeps_messages:
            self._tell(trace, data, sent, is_there)
        if is_there:
            self._hand_over(data)

    def _leave(self, size: int) -> None:
        """Count bytes that are no longer on their way."""
        self._in_flight -= size
        if self._is_full:
            self._soon(self._update_fullness)

    def _tell(self, trace: Trace, data: bytes, sent: float, is_there: bool) -> None:
        arrived = self._loop.time() if is_there else None
        trace.add_message(Message(sent, self.host, arrived, self.peer_host, f"{len(data)} bytes"))

    def _hand_over(self, data: bytes) -> None:
        peer = self._peer
        if peer is not None and not peer._is_closing:
            peer._receive(data)

    def _receive(self, data: bytes) -> None:
        self._unread.append(data)
        process = self._process
        if process.gate is None:
            process.mark()
            process.run(self._read_on)
        else:
            self._soon(self._read_on)

    def _pass_cut(self, data: bytes | None) -> bool:
        """Return True if a write, or the end of the stream (None), passes the way. Otherwise it is lost or waits."""
        if self._is_broken:
            return False
        if self._waiting:
            self._waiting.append(data)
            return False
        if not self._network.is_cut(self.host, self.peer_host):
            return True
        if self._network.chance(0.5):  # a cut either resets a connection or only silences it
            self._is_broken = True
        else:
            self._waiting.append(data)
        return False

    def way_is_mended(self) -> None:
        """Reset the connection if data was lost, else deliver what waited."""
        if self._is_broken:
            self.reset()
            return
        waiting, self._waiting = self._waiting, deque()
        for data in waiting:
            if data is None:
                self._send_end()
            else:
                self._hand_over(data)

    def _send_end_later(self) -> None:
        at = max(self._last_arrival + 1e-9, self._loop.time() + self._network.delay(self.host, self.peer_host))
        self._at(at, self._send_end)

    def _send_end(self) -> None:
        if not self._pass_cut(None):
            return
        self._network.forget(self)
        peer = self._peer
        if peer is not None and not peer._is_closing:
            peer._end_is_here = True
            peer._soon(peer._read_on)

    def _read_on(self) -> None:
        """Pass what has arrived to the protocol."""
        while self._unread and self._can_read():
            self._feed(self._unread.popleft())
        if self._end_is_here and not self._unread and self._can_read():
            self._take_end()

    def _take_end(self) -> None:
        self._is_closing = True
        self._network.forget(self)
        self._lose(None)

    def _can_read(self) -> bool:
        return self._protocol is not None and self._is_reading and not self._is_closing

    def _feed(self, data: bytes) -> int:
        """Pass data to the protocol, and return the number of bytes that it took."""
        protocol = self._protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            buffer = memoryview(protocol.get_buffer(len(data)))
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            buffer.release()
            if size < len(data):
                self._unread.appendleft(data[size:])
            protocol.buffer_updated(size)
            return size
        assert isinstance(protocol, asyncio.Protocol)
        protocol.data_received(data)
        return len(data)

    def _lose(self, error: Exception | None) -> None:
        if self._protocol is not None:
            protocol, self._protocol = self._protocol, None
            protocol.connection_lost(error)

    def _update_fullness(self) -> None:
        if self._protocol is None:
            return
        if self._in_flight > HIGH_WATER and not self._is_full:
            self._is_full = True
            self._protocol.pause_writing()
        elif self._in_flight <= HIGH_WATER // 2 and self._is_full:
            self._is_full = False
            self._protocol.resume_writing()

    # -- the end

    def reset(self) -> None:
        """Break the connection; both ends learn it at once."""
        for end in (self, self._peer):
            if end is not None:
                end._break()

    def _break(self) -> None:
        self._network.forget(self)
        if not self._is_closing:
            self._is_closing = True
            self._soon(self._lose, network_error(errno.ECONNRESET))

    def vanish(self) -> None:
        """End the stream of a dead process; the other end sees the end of the stream."""
        if not self._is_closing:
            self._is_closing = True
            self._send_end_later()
        self._protocol = None


Stream.partner = Stream
