"""A simulated network: streams between hosts, with everything that happens to them.

```
healthy      bytes arrive in order, each write after a delay of its own; connections overtake each other
cut          one direction between two hosts is cut. Of a connection that sends there, chance decides: either it is
             broken (half open: what it sends is lost, it is reset when the way works again), or what it sends waits
             and arrives after that. New connections come about when the way works again
closed       the other side sees the end of the stream after a delay, if the way works
corrupted    a write whose checksum is wrong comes once more, later
```

Delays come from the network's random source: `latency` is the range in seconds, `bandwidth` bytes a second of one
direction of one connection (None: no bound), `slow` more seconds for some ways.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from collections.abc import Callable
from contextvars import Context
from random import Random
from typing import Any, Final

from box.net.network import ProtocolFactory
from box.net.uri import Uri
from box.testing.simulation.loop import Process, SimulatedLoop
from box.testing.simulation.trace import Message, Trace

HIGH_WATER: Final = 64 * 1024
"""Bytes on their way above which a protocol is asked to pause writing."""
_RETRY: Final = 0.2
"""Seconds until a block with a wrong checksum comes once more, and between two attempts to connect over a way that is
cut."""
_PATIENCE: Final = 120.0
"""Seconds of attempts to connect."""

_NOBODY: Final = Context()
"""The context of what no process does: bytes on their way."""


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class SimulatedNetwork:
    """Connects the hosts of a simulation."""

    def __init__(self, loop: SimulatedLoop, random: Random, trace: Trace | None = None) -> None:
        self.loop = loop
        self.trace = trace
        """Is told of every message if it keeps them."""
        self.latency = (0.0005, 0.01)
        self.bandwidth: float | None = None
        self.corruption = 0.0
        """The share of writes that arrive with a wrong checksum."""
        self.slow: dict[tuple[str, str], float] = {}
        """Seconds that a write from one host to another takes besides the latency."""
        self._random = random
        self._hosts: dict[str, SimulatedHost] = {}
        self._listeners: dict[str, SimulatedListener] = {}
        self._cut: dict[tuple[str, str], None] = {}
        self._streams: dict[_Stream, None] = {}

    def host(self, name: str, process: Process) -> SimulatedHost:
        """The host on which a process runs, from now on."""
        host = self._hosts[name] = SimulatedHost(self, name, process)
        return host

    # -- faults

    def cut(self, source: str, target: str) -> None:
        """Nothing that `source` sends arrives at `target`; the other direction stays."""
        self._cut[source, target] = None

    def mend(self, source: str, target: str) -> None:
        """The way works again; connections that lost something are reset, those that waited go on."""
        self._cut.pop((source, target), None)
        for stream in list(self._streams):
            if (stream.host, stream.peer_host) == (source, target):
                stream.way_is_mended()

    def isolate(self, name: str) -> None:
        """Cut a host off from all others, both ways."""
        for other in self._hosts:
            if other != name:
                self.cut(name, other)
                self.cut(other, name)

    def rejoin(self, name: str) -> None:
        """Mend all ways from and to a host."""
        for source, target in list(self._cut):
            if name in (source, target):
                self.mend(source, target)

    def heal(self) -> None:
        """Mend every way, and slow ones are quick again."""
        self.slow.clear()
        for source, target in list(self._cut):
            self.mend(source, target)

    def reset_connections(self, name: str) -> None:
        """Break all connections of a host, as a restarted switch does."""
        for stream in list(self._streams):
            if name in (stream.host, stream.peer_host):
                stream.reset()

    def is_cut(self, source: str, target: str) -> bool:
        """Whether what `source` sends does not arrive at `target`."""
        return (source, target) in self._cut

    def is_refusing(self, source: str, target: str) -> bool:
        """Whether two hosts cannot agree on a new connection."""
        return self.is_cut(source, target) or self.is_cut(target, source)

    def process_died(self, name: str) -> None:
        """The operating system of a dead process closes its sockets."""
        for address in [address for address, listener in self._listeners.items() if listener.owner.name == name]:
            del self._listeners[address]
        for stream in list(self._streams):
            if stream.host == name:
                stream.vanish()

    # -- for streams

    def delay(self, source: str, target: str) -> float:
        """Seconds that one write needs."""
        low, high = self.latency
        delay = low + (high - low) * self._random.random()
        return delay + self.slow.get((source, target), 0.0) if self.slow else delay

    def chance(self, share: float) -> bool:
        """Whether something happens that does so in this share of cases."""
        return share > 0 and self._random.random() < share

    def register(self, stream: _Stream) -> None:
        """Remember an open stream."""
        self._streams[stream] = None

    def forget(self, stream: _Stream) -> None:
        """A stream has ended."""
        self._streams.pop(stream, None)

    # -- for hosts

    def listen(self, listener: SimulatedListener) -> None:
        """Serve an address. OSError (EADDRINUSE) if somebody does already."""
        if listener.address in self._listeners:
            raise _os_error(errno.EADDRINUSE)
        self._listeners[listener.address] = listener

    def stop_listening(self, listener: SimulatedListener) -> None:
        """Nobody is served there any more."""
        if self._listeners.get(listener.address) is listener:
            del self._listeners[listener.address]

    async def connect(self, host: SimulatedHost, address: str, factory: ProtocolFactory) -> None:
        """A connection. ConnectionRefusedError if nobody listens; over a way that is cut it takes until it works."""
        target = address.rpartition(":")[0]
        deadline = self.loop.time() + _PATIENCE
        await asyncio.sleep(self.delay(host.name, target) + self.delay(target, host.name))
        while self.is_refusing(host.name, target):
            if self.loop.time() > deadline:
                raise _os_error(errno.ETIMEDOUT)
            await asyncio.sleep(_RETRY)
        listener = self._listeners.get(address)
        if listener is None:
            raise _os_error(errno.ECONNREFUSED)
        ours, theirs = _Stream(self, host, target, address), _Stream(self, listener.owner, host.name, host.name)
        ours.join(theirs)
        theirs.start_later(listener.factory)
        ours.start(factory)


class SimulatedHost:
    """The network as one process sees it: a `Network`. An address without a host, or `localhost`, is its own."""

    def __init__(self, network: SimulatedNetwork, name: str, process: Process) -> None:
        self.name = name
        self.process = process
        self._network = network

    def _address(self, uri: Uri) -> str:
        host = self.name if uri.host in (None, "", "*", "localhost", "127.0.0.1", "0.0.0.0") else uri.host
        return f"{host}:{uri.service}"

    async def listen(self, uri: Uri, factory: ProtocolFactory) -> SimulatedListener:
        """Serve an address. OSError if it is taken."""
        listener = SimulatedListener(self._network, self, self._address(uri), factory)
        self._network.listen(listener)
        return listener

    async def connect(self, uri: Uri, factory: ProtocolFactory) -> None:
        """Connect to an address; `factory` makes the protocol. OSError."""
        await self._network.connect(self, self._address(uri), factory)


class SimulatedListener:
    """An address that is served."""

    def __init__(self, network: SimulatedNetwork, owner: SimulatedHost, address: str, factory: ProtocolFactory) -> None:
        self.owner = owner
        self.address = address
        self.factory = factory
        self._network = network

    def close(self) -> None:
        """Accept no more connections."""
        self._network.stop_listening(self)


class _SocketFace:
    """Answers the questions about the socket behind a transport."""

    def __init__(self, own: str, peer: str) -> None:
        self._own = own
        self._peer = peer

    def fileno(self) -> int:
        return 1

    def getsockname(self) -> tuple[str, int]:
        return self._own, 0

    def getpeername(self) -> tuple[str, int]:
        return self._peer, 0


class _Stream(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: SimulatedNetwork, owner: SimulatedHost, peer_host: str, peer_name: str) -> None:
        super().__init__()
        self.host = owner.name
        self.peer_host = peer_host
        self._network = network
        self._loop = network.loop
        self._process = owner.process
        self._extra_info = {"peername": (peer_name, 0), "socket": _SocketFace(owner.name, peer_name)}
        self._peer: _Stream | None = None
        self._protocol: asyncio.BaseProtocol | None = None
        self._last_arrival = 0.0
        self._is_closing = False
        self._is_reading = True
        self._is_broken = False
        """Something of what this end sent was lost."""
        self._waiting: deque[bytes | None] = deque()
        """Writes that wait for the way to be mended; None for the end."""
        self._unread: deque[bytes] = deque()
        self._end_is_here = False
        self._in_flight = 0
        self._is_full = False

    def join(self, peer: _Stream) -> None:
        """Make two ends one connection."""
        self._peer, peer._peer = peer, self
        for end in (self, peer):
            self._network.register(end)

    def start(self, factory: ProtocolFactory) -> None:
        """Make the protocol, in the name of the process that runs."""
        if self._is_closing:
            raise _os_error(errno.ECONNRESET)
        self._protocol = factory()
        self._protocol.connection_made(self)
        self._read_on()

    def start_later(self, factory: ProtocolFactory) -> None:
        """Make the protocol when the process that owns this end runs."""

        def accept() -> None:
            if not self._is_closing:
                self.start(factory)

        self._soon(accept)

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
            seconds += _RETRY
        now = self._loop.time()
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
        """The limit is `HIGH_WATER`."""

    def close(self) -> None:
        """Everything that was written arrives, then the end."""
        if self._is_closing:
            return
        self._is_closing = True
        self._soon(self._lose, None)
        self._send_end_later()

    def abort(self) -> None:
        self.reset()

    # -- the way

    def _soon(self, call: Callable[..., object], *arguments: Any) -> None:
        """Call in the name of the owner."""
        self._loop.call_soon(call, *arguments, context=self._process.context())

    def _at(self, when: float, call: Callable[..., object], *arguments: Any) -> None:
        """Deliveries are nobody's callbacks: a process may be halted or dead when its bytes arrive elsewhere."""
        self._loop.call_at(when, call, *arguments, context=_NOBODY)

    def _arrive(self, data: bytes, sent: float) -> None:
        self._in_flight -= len(data)
        if self._is_full:
            self._soon(self._update_fullness)
        is_there = self._pass_cut(data)
        trace = self._network.trace
        if trace is not None and trace.keeps_messages:
            arrived = self._loop.time() if is_there else None
            trace.add_message(Message(sent, self.host, arrived, self.peer_host, f"{len(data)} bytes"))
        if is_there:
            self._hand_over(data)

    def _hand_over(self, data: bytes) -> None:
        peer = self._peer
        if peer is not None and not peer._is_closing:
            peer._unread.append(data)
            process = peer._process
            if process.gate is None:
                process.mark()
                process.run(peer._read_on)
            else:
                peer._soon(peer._read_on)

    def _pass_cut(self, data: bytes | None) -> bool:
        """Whether a write, or the end (None), comes through. Otherwise it is lost or waits."""
        if self._is_broken:
            return False
        if self._waiting:
            self._waiting.append(data)
            return False
        if not self._network.is_cut(self.host, self.peer_host):
            return True
        if self._network.chance(0.5):
            self._is_broken = True
        else:
            self._waiting.append(data)
        return False

    def way_is_mended(self) -> None:
        """Go on after a cut; see the module's text."""
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
        """Hand over what has arrived."""
        while self._unread and self._can_read():
            self._feed(self._unread.popleft())
        if self._end_is_here and not self._unread and self._can_read():
            self._is_closing = True
            self._network.forget(self)
            self._lose(None)

    def _can_read(self) -> bool:
        return self._protocol is not None and self._is_reading and not self._is_closing

    def _feed(self, data: bytes) -> None:
        protocol = self._protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            buffer = memoryview(protocol.get_buffer(len(data)))
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            buffer.release()
            if size < len(data):
                self._unread.appendleft(data[size:])
            protocol.buffer_updated(size)
        else:
            assert isinstance(protocol, asyncio.Protocol)
            protocol.data_received(data)

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
        """Both ends learn at once that the connection is broken."""
        for end in (self, self._peer):
            if end is not None:
                self._network.forget(end)
                if not end._is_closing:
                    end._is_closing = True
                    end._soon(end._lose, _os_error(errno.ECONNRESET))

    def vanish(self) -> None:
        """The owner died: the other end learns it as it learns the end of a stream."""
        if not self._is_closing:
            self._is_closing = True
            self._send_end_later()
        self._protocol = None
