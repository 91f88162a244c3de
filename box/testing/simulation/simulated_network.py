"""A simulated network: streams between hosts, with everything that happens to them.

```
healthy      bytes arrive in order, each write after a delay of its own; connections overtake each other
cut          one direction between two hosts is cut. Of a connection that sends there, chance decides: either it is
             broken (half open: what it sends is lost, it is reset when the way works again), or what it sends waits
             and arrives after that. New connections come about when the way works again
closed       the other side sees the end of the stream after a delay, if the way works
corrupted    a write whose checksum is wrong comes once more, later
datagrams    each takes a delay of its own; one that is corrupted, or meets a cut, is lost
```

Delays come from the network's random source: `latency` is the range in seconds, `bandwidth` bytes a second of one
direction of one connection (None: no bound), `slow` more seconds for some ways.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import ClassVar, Final, NamedTuple

from box.net.network import ProtocolFactory
from box.net.uri import UNIX_HOST, Uri
from box.testing.simulation.bound_places import BoundPlaces
from box.testing.simulation.host_names import HostNames
from box.testing.simulation.loop import Process, SimulatedLoop
from box.testing.simulation.simulated_stream import RETRY, Stream, network_error
from box.testing.simulation.trace import Trace

PATIENCE: Final = 120.0
"""Seconds of attempts to connect."""

_OWN: Final = frozenset({"", "*", "localhost", "127.0.0.1", "0.0.0.0", "::1", "::"})
"""Hosts of addresses that mean the process's own."""


class ServedAddress(NamedTuple):
    """A host, and a port of it or the path of a unix socket."""

    host: str
    service: str

    def __str__(self) -> str:
        return self.service if self.service.startswith(UNIX_HOST) else f"{self.host}:{self.service}"


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
        self.names = HostNames()
        self.places = BoundPlaces()
        self._random = random
        self._hosts: dict[str, SimulatedHost] = {}
        self._listeners: dict[ServedAddress, SimulatedListener] = {}
        self._cut: dict[tuple[str, str], None] = {}
        self._streams: dict[Stream, None] = {}

    def host(self, name: str, process: Process) -> SimulatedHost:
        """The host on which a process runs, from now on."""
        self.names.add(name)
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

    @contextmanager
    def cuts(self, ways: Iterable[tuple[str, str]]) -> Iterator[None]:
        """Cut ways (source, target) for as long as the context takes."""
        chosen = list(ways)
        for way in chosen:
            self.cut(*way)
        try:
            yield
        finally:
            for way in chosen:
                self.mend(*way)

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
        for served in [served for served, listener in self._listeners.items() if listener.owner.name == name]:
            del self._listeners[served]
        host = self._hosts.get(name)
        if host is not None:
            for close in host.on_end:
                close()
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

    def register(self, stream: Stream) -> None:
        """Remember an open stream."""
        self._streams[stream] = None

    def forget(self, stream: Stream) -> None:
        """A stream has ended."""
        self._streams.pop(stream, None)

    # -- for hosts

    def listen(self, listener: SimulatedListener) -> None:
        """Serve an address. OSError (EADDRINUSE) if somebody does already."""
        if listener.served in self._listeners:
            raise network_error(errno.EADDRINUSE)
        self._listeners[listener.served] = listener

    def stop_listening(self, listener: SimulatedListener) -> None:
        """Nobody is served there any more."""
        if self._listeners.get(listener.served) is listener:
            del self._listeners[listener.served]

    def is_served(self, served: ServedAddress) -> bool:
        """Whether somebody listens there."""
        return served in self._listeners

    def answering(self, host: SimulatedHost, served: ServedAddress, address: str = "") -> SimulatedListener | None:
        """The listener that a connection to `address` meets, None as long as the way is cut or nobody accepts.
        ConnectionRefusedError if nobody listens."""
        if self.is_refusing(host.name, served.host):
            return None
        listener = self._listeners.get(served)
        if listener is None or not listener.admits(host, address):
            raise network_error(errno.ECONNREFUSED)
        return None if listener.is_full else listener

    async def connect(self, host: SimulatedHost, served: ServedAddress, factory: ProtocolFactory) -> None:
        """A connection. ConnectionRefusedError if nobody listens; over a way that is cut it takes until it works."""
        target = served.host
        deadline = self.loop.time() + PATIENCE
        await asyncio.sleep(self.delay(host.name, target) + self.delay(target, host.name))
        while (listener := self.answering(host, served)) is None:
            if self.loop.time() > deadline:
                raise network_error(errno.ETIMEDOUT)
            await asyncio.sleep(RETRY)
        ours = listener.partner(self, host, target, (host.name, 0), (str(served), 0))
        listener.accept(ours)
        ours.start(factory)


class SimulatedHost:
    """The network as one process sees it: a `Network`. An address without a host, or `localhost`, is its own."""

    def __init__(self, network: SimulatedNetwork, name: str, process: Process) -> None:
        self.name = name
        self.process = process
        self.network = network
        self.on_end: list[Callable[[], None]] = []
        """Called when the process has died, as the operating system closes what it has left open."""

    def _served(self, uri: Uri) -> ServedAddress:
        if uri.unix is not None:
            return ServedAddress(self.name, f"{UNIX_HOST}:{uri.unix}")
        if uri.host is None or uri.host in _OWN:
            return ServedAddress(self.name, str(uri.service))
        return ServedAddress(self.network.names.name_of(uri.host) or uri.host, str(uri.service))

    async def listen(self, uri: Uri, factory: ProtocolFactory) -> NodeListener:
        """Serve an address. OSError if it is taken."""
        listener = NodeListener(self.network, self, self._served(uri), factory)
        self.network.listen(listener)
        return listener

    async def connect(self, uri: Uri, factory: ProtocolFactory) -> None:
        """Connect to an address; `factory` makes the protocol. OSError."""
        await self.network.connect(self, self._served(uri), factory)


class SimulatedListener:
    """An address that is served. Subclasses say what becomes of connections."""

    partner: ClassVar[type[Stream]]
    """The kind of end that a node has of a connection to here."""
    replaced: ClassVar[None] = None
    """There are no files of such sockets."""

    def __init__(self, network: SimulatedNetwork, owner: SimulatedHost, served: ServedAddress) -> None:
        self.owner = owner
        self.served = served
        self._network = network

    @property
    def address(self) -> str:
        """As logs show it."""
        return str(self.served)

    @property
    def is_full(self) -> bool:
        """Whether too many wait to be accepted."""
        return False

    def admits(self, caller: SimulatedHost, address: str) -> bool:
        """Whether a connection to this address of the host, empty for any, is meant for it."""
        return True

    def accept(self, caller: Stream) -> None:
        """Make the other end of a connection."""
        raise NotImplementedError

    def close(self) -> None:
        """Accept no more connections."""
        self._network.stop_listening(self)


class NodeListener(SimulatedListener):
    """An address that is served by a node's own protocol."""

    partner: ClassVar[type[Stream]] = Stream

    def __init__(
        self, network: SimulatedNetwork, owner: SimulatedHost, served: ServedAddress, factory: ProtocolFactory
    ) -> None:
        super().__init__(network, owner, served)
        self._factory = factory

    def accept(self, caller: Stream) -> None:
        caller.make_partner(self.owner, (self.owner.name, 0)).start_later(self._factory)
