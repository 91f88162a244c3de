"""A simulated network: streams between hosts, and their faults.

```
healthy      bytes arrive in order, each write after a delay of its own; connections may overtake each other
cut          one direction between two hosts is cut. A connection that sends there is either broken (half open: what it
             sends is lost, and it is reset when the way is mended), or its data waits and arrives after that; chance
             decides. New connections succeed after the way is mended
closed       the other end sees the end of the stream after a delay, if the way is not cut
corrupted    a write with a wrong checksum is sent again, later
datagrams    each has its own delay; one that is corrupted or meets a cut is lost
```

Delays are drawn from the network's random source. `latency` is their range in seconds, `bandwidth` the bytes a second
of one direction of a connection (None for no limit), `slow` the additional seconds for some ways.
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
from box.testing.simulation.bound_places import UNIX, BoundPlaces, SocketPlace
from box.testing.simulation.host_names import HostNames
from box.testing.simulation.loop import Process, SimulatedLoop
from box.testing.simulation.simulated_stream import RETRY, Stream, network_error
from box.testing.simulation.trace import Trace

PATIENCE: Final = 120.0
"""The seconds after which an attempt to connect ends with ETIMEDOUT, about as long as on Linux."""

_OWN: Final = frozenset({"", "*", "localhost", "127.0.0.1", "0.0.0.0", "::1", "::"})
"""The hosts in addresses that stand for the process's own host."""


class ServedAddress(NamedTuple):
    """A host, and one of its ports or the path of a unix socket."""

    host: str
    service: str

    def __str__(self) -> str:
        return self.service if self.service.startswith(UNIX_HOST) else f"{self.host}:{self.service}"


class SimulatedNetwork:
    """Connects the hosts of a simulation."""

    def __init__(self, loop: SimulatedLoop, random: Random, trace: Trace | None = None) -> None:
        self.loop = loop
        self.trace = trace
        """Records every message, if it keeps messages."""
        self.latency = (0.0005, 0.01)
        """The least and the greatest time of a message on its way, in seconds."""
        self.bandwidth: float | None = None
        self.corruption = 0.0
        """The share of writes that arrive with a wrong checksum."""
        self.slow: dict[tuple[str, str], float] = {}
        """The additional seconds of a write from one host to another."""
        self.names = HostNames()
        self.places = BoundPlaces()
        self._random = random
        self._hosts: dict[str, SimulatedHost] = {}
        self._listeners: dict[ServedAddress, SimulatedListener] = {}
        self._cut: dict[tuple[str, str], None] = {}
        self._streams: dict[Stream, None] = {}

    def host(self, name: str, process: Process) -> SimulatedHost:
        """Return the network as a new process on a host sees it."""
        self.names.add(name)
        host = self._hosts[name] = SimulatedHost(self, name, process)
        return host

    # -- faults

    def cut(self, source: str, target: str) -> None:
        """Stop everything that `source` sends to `target`; the other direction works on."""
        self._cut[source, target] = None

    def mend(self, source: str, target: str) -> None:
        """Mend a way: connections that lost data are reset, the data of others arrives."""
        self._cut.pop((source, target), None)
        for stream in list(self._streams):
            if (stream.host, stream.peer_host) == (source, target):
                stream.way_is_mended()

    @contextmanager
    def cuts(self, ways: Iterable[tuple[str, str]]) -> Iterator[None]:
        """Cut ways (source, target) within this context."""
        chosen = list(ways)
        for way in chosen:
            self.cut(*way)
        try:
            yield
        finally:
            for way in chosen:
                self.mend(*way)

    def isolate(self, name: str) -> None:
        """Cut a host off from all others, in both directions."""
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
        """Mend all ways, and end additional delays."""
        self.slow.clear()
        for source, target in list(self._cut):
            self.mend(source, target)

    def reset_connections(self, name: str) -> None:
        """Break all connections of a host, as the restart of a switch does."""
        for stream in list(self._streams):
            if name in (stream.host, stream.peer_host):
                stream.reset()

    def is_cut(self, source: str, target: str) -> bool:
        """Return True if nothing that `source` sends arrives at `target`."""
        return (source, target) in self._cut

    def is_refusing(self, source: str, target: str) -> bool:
        """Return True if two hosts cannot make a new connection, because a direction is cut."""
        return self.is_cut(source, target) or self.is_cut(target, source)

    def process_died(self, name: str) -> None:
        """Close the sockets of a dead process, as an operating system does."""
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
        """Return the seconds that one write takes."""
        low, high = self.latency
        delay = low + (high - low) * self._random.random()
        return delay + self.slow.get((source, target), 0.0) if self.slow else delay

    def chance(self, share: float) -> bool:
        """Return True in the given share of cases."""
        return share > 0 and self._random.random() < share

    def register(self, stream: Stream) -> None:
        """Add an open stream, which faults can then affect."""
        self._streams[stream] = None

    def forget(self, stream: Stream) -> None:
        """Remove a stream that has ended."""
        self._streams.pop(stream, None)

    # -- for hosts

    def listen(self, listener: SimulatedListener) -> None:
        """Serve an address.

        Raises:
            OSError: EADDRINUSE if it is served already.
        """
        if listener.served in self._listeners:
            raise network_error(errno.EADDRINUSE)
        self._listeners[listener.served] = listener

    def stop_listening(self, listener: SimulatedListener) -> None:
        """Stop serving the address of a listener."""
        if self._listeners.get(listener.served) is listener:
            del self._listeners[listener.served]

    def is_served(self, served: ServedAddress) -> bool:
        """Return True if an address is served."""
        return served in self._listeners

    def answering(self, host: SimulatedHost, served: ServedAddress, address: str = "") -> SimulatedListener | None:
        """Return the listener for a connection to an address, or None while the way is cut or the listener is full.

        Raises:
            ConnectionRefusedError: the address is not served.
        """
        if self.is_refusing(host.name, served.host):
            return None
        listener = self._listeners.get(served)
        if listener is None or not listener.admits(host, address):
            raise network_error(errno.ECONNREFUSED)
        return None if listener.is_full else listener

    async def connect(self, host: SimulatedHost, served: ServedAddress, factory: ProtocolFactory) -> None:
        """Connect to an address; `factory` makes the protocol. While the way is cut it waits, at most for `PATIENCE`.

        Raises:
            OSError: ECONNREFUSED if the address is not served, ETIMEDOUT after `PATIENCE` seconds.
        """
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
    """The network as one process sees it, a `Network`. An address without a host, or with `localhost`, is its own."""

    def __init__(self, network: SimulatedNetwork, name: str, process: Process) -> None:
        self.name = name
        self.process = process
        self.network = network
        self.on_end: list[Callable[[], None]] = []
        """Called when the process has died, to close what it left open."""

    def _served(self, uri: Uri) -> ServedAddress:
        if uri.unix is not None:
            return ServedAddress(self.name, f"{UNIX_HOST}:{uri.unix}")
        if uri.host is None or uri.host in _OWN:
            return ServedAddress(self.name, str(uri.service))
        return ServedAddress(self.network.names.name_of(uri.host) or uri.host, str(uri.service))

    def remove_socket_file(self, path: str) -> bool:
        """Remove the file of a unix socket. Returns False if there is none."""
        return self.network.places.remove_file(SocketPlace(self.name, UNIX, path))

    async def listen(self, uri: Uri, factory: ProtocolFactory) -> NodeListener:
        """Serve an address.

        Raises:
            OSError: EADDRINUSE if it is served already.
        """
        listener = NodeListener(self.network, self, self._served(uri), factory)
        self.network.listen(listener)
        return listener

    async def connect(self, uri: Uri, factory: ProtocolFactory) -> None:
        """Connect to an address; `factory` makes the protocol.

        Raises:
            OSError: ECONNREFUSED or ETIMEDOUT.
        """
        await self.network.connect(self, self._served(uri), factory)


class SimulatedListener:
    """An address that is served. Subclasses decide what happens to connections."""

    partner: ClassVar[type[Stream]]
    """The class of the calling end, if a node's own protocol connects to here."""
    replaced: ClassVar[None] = None
    """Always None: no file is replaced by a simulated socket."""
    fd: ClassVar[int] = 0
    """Always 0: a simulated socket that listens has no descriptor."""

    def __init__(self, network: SimulatedNetwork, owner: SimulatedHost, served: ServedAddress) -> None:
        self.owner = owner
        self.served = served
        self._network = network

    @property
    def address(self) -> str:
        """The address as logs show it."""
        return str(self.served)

    @property
    def is_full(self) -> bool:
        """True if too many connections wait to be accepted."""
        return False

    def admits(self, caller: SimulatedHost, address: str) -> bool:
        """Return True if this listener takes a connection to an address of its host; an empty one stands for any."""
        return True

    def accept(self, caller: Stream) -> None:
        """Make the other end of a connection."""
        raise NotImplementedError

    def stop_accepting(self) -> bool:
        """Do nothing: no connection is accepted between two turns."""
        return False

    def close(self) -> None:
        """Accept no more connections."""
        self._network.stop_listening(self)


class NodeListener(SimulatedListener):
    """An address that a node's own protocol serves."""

    partner: ClassVar[type[Stream]] = Stream

    def __init__(
        self, network: SimulatedNetwork, owner: SimulatedHost, served: ServedAddress, factory: ProtocolFactory
    ) -> None:
        super().__init__(network, owner, served)
        self._factory = factory

    def accept(self, caller: Stream) -> None:
        caller.make_partner(self.owner, (self.owner.name, 0)).start_later(self._factory)
