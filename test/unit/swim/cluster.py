"""Members of SWIM clusters in fake time, over a network that may lose, delay and cut."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import count
from random import Random

from box.swim import Address, Member, MemberEvent, Protocol, Status

HOST = 0x7F000001
_DELAY = 0.001
"""The seconds that a packet takes."""


class FakeTimer:
    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeClock:
    """Time that `run` moves, with the timers in it."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, FakeTimer, Callable[[], object]]] = []
        self._numbers = count()

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], object], /) -> FakeTimer:
        timer = FakeTimer()
        heapq.heappush(self._heap, (self.now + delay, next(self._numbers), timer, callback))
        return timer

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self._heap and self._heap[0][0] <= end:
            self.now, _, timer, callback = heapq.heappop(self._heap)
            if not timer.is_cancelled:
                callback()
        self.now = end


class Cluster:
    """Members on one network. `cuts` has pairs of ports between which nothing arrives, `loss` is a probability."""

    def __init__(self, size: int, seed: int = 1, *, meet: bool = True) -> None:
        self.clock = FakeClock()
        self.random = Random(seed)
        self.sockets: dict[int, FakeSocket] = {}
        self.cuts: set[frozenset[int]] = set()
        self.loss = 0.0
        self.problems: list[str] = []
        self.packets = 0
        self.nodes = [self.add(port) for port in range(1, size + 1)]
        if meet:
            for node in self.nodes[1:]:
                node.probe([Address(HOST, 1)])

    def add(self, port: int, uuid: bytes | None = None, generation: int = 0) -> Protocol:
        socket = FakeSocket(self)
        node = Protocol(socket, self.clock, Random(self.random.random()), generation, on_problem=self.problems.append)
        socket.receiver = node.receive
        node.configure(Address(HOST, port), uuid or uuid_of(port), heartbeat_rate=1, ack_timeout=0.5)
        return node

    def run(self, seconds: float) -> None:
        self.clock.run(seconds)

    def until(self, condition: Callable[[], bool], seconds: float = 300) -> float:
        """Run until a condition holds. Returns the seconds that it took."""
        start = self.clock.now
        while not condition():
            assert self.clock.now - start < seconds, "the condition did not come true"
            self.clock.run(0.05)
        return self.clock.now - start

    def are_met(self, size: int) -> bool:
        return all(len(node.members) == size for node in self.nodes)

    def deliver(self, data: bytes, source: int, target: Address) -> None:
        self.packets += 1
        if frozenset((source, target.port)) in self.cuts or self.random.random() < self.loss:
            return
        socket = self.sockets.get(target.port) if target.ip == HOST else None
        if socket is not None and socket.receiver is not None:
            socket.receiver(data)


class FakeSocket:
    """The transport of a member."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.port = 0
        self.receiver: Callable[[bytes], None] | None = None

    def bind(self, address: Address) -> Address:
        self._cluster.sockets.pop(self.port, None)
        self.port = address.port or 1000 + len(self._cluster.sockets)
        self._cluster.sockets[self.port] = self
        return Address(address.ip, self.port)

    def send(self, data: bytes, address: Address) -> bool:
        cluster = self._cluster
        cluster.clock.call_later(_DELAY, lambda: cluster.deliver(data, self.port, address))
        return True

    def close(self) -> None:
        self._cluster.sockets.pop(self.port, None)
        self.receiver = None


def uuid_of(number: int) -> bytes:
    return number.to_bytes(16)


def seen(node: Protocol, number: int) -> Member:
    """Return what a node knows of another."""
    member = node.members.get(uuid_of(number))
    assert member is not None
    return member


def status(node: Protocol, number: int) -> Status | None:
    member = node.members.get(uuid_of(number))
    return None if member is None else member.status


def events_of(node: Protocol) -> Iterator[tuple[Member, MemberEvent]]:
    while (event := node.next_event()) is not None:
        yield event
