"""Turns of connections, and limits for what clients make a server keep."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from box.iproto import turns
from box.iproto.input import InputBuffer
from box.iproto.turns import Turns
from box.rate_limit import RateLimit


class Loop:
    """A loop whose callbacks run when the test says so."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        callbacks, self.soon = self.soon, []
        for callback in callbacks:
            callback()


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Worker:
    """A connection with so many seconds of work, which does it in steps and queues again until it is done."""

    def __init__(self, queue: Turns, clock: Clock, work: float, step: float = 0.0001) -> None:
        self.queue, self.clock, self.work, self.step = queue, clock, work, step
        self.turns: list[float] = []

    def take_turn(self, deadline: float) -> None:
        begin = self.clock.now
        while self.work > 0 and self.clock.now < deadline:
            self.clock.now += self.step
            self.work -= self.step
        self.turns.append(self.clock.now - begin)
        if self.work > 0:
            self.queue.add(self)


def queue_of() -> tuple[Turns, Loop, Clock]:
    loop, clock = Loop(), Clock()
    queue = Turns(loop, clock)  # type: ignore[arg-type]
    queue.is_alone = False
    return queue, loop, clock


def test_a_round_ends_and_goes_on_with_the_next() -> None:
    """The connection that has waited longest is next; a turn takes at most a round and the last step."""
    queue, loop, clock = queue_of()
    workers = [Worker(queue, clock, work=0.002) for _ in range(20)]
    for worker in workers:
        queue.add(worker)
    longest = 0.0
    while loop.soon:
        begin = clock.now
        loop.turn()
        longest = max(longest, clock.now - begin)
        if all(worker.work > 0 for worker in workers):
            counts = [len(worker.turns) for worker in workers]
            assert max(counts) - min(counts) <= 1
    assert longest <= turns._ROUND + 0.00011
    assert all(worker.work <= 0 for worker in workers)


def test_each_gets_one_turn_in_a_round() -> None:
    """Connections that queue again wait for the next round, even if this one has time left."""
    queue, loop, clock = queue_of()
    quick = Worker(queue, clock, work=0.0)

    class Again(Worker):
        def take_turn(self, deadline: float) -> None:
            super().take_turn(deadline)
            self.queue.add(self)

    again = Again(queue, clock, work=0.0)
    queue.add(again)
    queue.add(quick)
    loop.turn()
    assert (len(again.turns), len(quick.turns)) == (1, 1)
    loop.turn()
    assert len(again.turns) == 2


def test_a_failing_turn_does_not_stop_the_others() -> None:
    queue, loop, clock = queue_of()

    class Failing:
        def take_turn(self, deadline: float) -> None:
            raise ZeroDivisionError

    worker = Worker(queue, clock, work=0.0)
    queue.add(Failing())
    queue.add(worker)
    with pytest.raises(ZeroDivisionError):
        loop.turn()
    loop.turn()
    assert len(worker.turns) == 1
    assert not loop.soon


def test_reads_are_short_while_others_wait() -> None:
    """With one connection a read gets a long turn, with a queue a short one."""
    queue, _, clock = queue_of()
    usual = queue.begin() - clock.now
    queue.is_alone = True
    assert queue.begin() - clock.now > usual
    queue.is_alone = False
    queue.add(Worker(queue, clock, work=1.0))
    assert queue.begin() - clock.now < usual


def test_messages_are_limited() -> None:
    """Ten messages pass in five seconds; the next that passes has the number of those dropped."""
    limit = RateLimit()
    assert [limit.take(1.0) for _ in range(12)] == [0] * 10 + [None] * 2
    assert limit.take(5.9) is None
    assert [limit.take(6.0), limit.take(6.1)] == [3, 0]


def test_reads_are_as_large_as_readahead() -> None:
    """A read takes at most `readahead` bytes, unless a packet needs more."""
    buffer = InputBuffer(16320)
    assert [len(buffer.view(missing)) for missing in (-5, 0, 16320, 16321, 2**31)] == [16320] * 3 + [262144] * 2
    buffer.view(0)[:3] = b"abc"
    assert buffer.take(2) == b"ab"
    buffer.resize(128)
    assert [len(buffer.view(missing)) for missing in (0, 129)] == [128, 262144]
    buffer.resize(2**31 - 1)
    assert len(buffer.view(0)) == len(buffer.view(2**31)) == 16 * 1024 * 1024
