"""Pauses between reads of a connection: when they are tried and kept, and that no request suffers from them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from box.iproto import pace
from box.iproto.pace import Pace, Pause
from box.wire.constants import RequestType
from box.wire.row import Row

from .serving import RawClient, client, request, run, serving


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


Client = Callable[[Pause], tuple[int, float]]
"""A client: returns the requests of a read and the seconds until it, for the pause before."""


def drive(watched: Pace, clock: Clock, behaviour: Client, seconds: float) -> dict[Pause, float]:
    """Let a client run for some time; return the share of the time with each pause."""
    spent = dict.fromkeys(Pause, 0.0)
    pause, end = Pause.NONE, clock.now + seconds
    while clock.now < end:
        requests, delay = behaviour(pause)
        clock.now += delay
        spent[pause] += delay
        pause = watched.after_read(requests)
    return {pause: time / seconds for pause, time in spent.items()}


def many_in_flight(pause: Pause) -> tuple[int, float]:
    """A client whose requests each wake the server, so that gathering them saves work."""
    return {Pause.NONE: (2, 20e-6), Pause.SHORT: (12, 100e-6), Pause.LONG: (150, 1.1e-3)}[pause]


def fifty_in_flight(pause: Pause) -> tuple[int, float]:
    """A client with at most fifty requests in flight, for which a long pause wastes time."""
    return {Pause.NONE: (2, 20e-6), Pause.SHORT: (12, 100e-6), Pause.LONG: (50, 1.1e-3)}[pause]


def one_by_one(pause: Pause) -> tuple[int, float]:
    """A client that sends one request after each reply, often enough to be measured."""
    return 1, {Pause.NONE: 18e-6, Pause.SHORT: 90e-6, Pause.LONG: 1.02e-3}[pause]


def in_large_writes(pause: Pause) -> tuple[int, float]:
    return 400, 2e-3


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        (many_in_flight, Pause.LONG),
        (fifty_in_flight, Pause.SHORT),
        (one_by_one, Pause.NONE),
        (in_large_writes, Pause.NONE),
    ],
)
def test_the_best_pause_is_kept(clock: Clock, behaviour: Client, expected: Pause) -> None:
    share = drive(Pace(clock.monotonic), clock, behaviour, 10.0)
    assert share[expected] > 0.85


def test_slow_and_large_reads_are_left_alone(clock: Clock) -> None:
    """A client that sends little, or many requests in one write, never gets a pause."""
    for behaviour in (lambda pause: (1, 25e-6), in_large_writes):
        share = drive(Pace(clock.monotonic), clock, behaviour, 3.0)
        assert share[Pause.NONE] == pytest.approx(1.0, abs=1e-3)


def test_an_idle_client_ends_the_pauses(clock: Clock) -> None:
    """After load, a client that sends single requests waits for a few pauses at most."""
    watched = Pace(clock.monotonic)
    while drive(watched, clock, many_in_flight, 0.1)[Pause.LONG] < 1:
        pass
    share = drive(watched, clock, lambda pause: (1, 100e-6 + pace.SECONDS * (pause is Pause.LONG)), 1.0)
    assert share[Pause.LONG] < 0.01


def test_another_client_is_noticed(clock: Clock) -> None:
    """The choice of the pause is made again every second, so that another kind of client is noticed."""
    watched = Pace(clock.monotonic)
    assert drive(watched, clock, many_in_flight, 5.0)[Pause.LONG] > 0.8
    drive(watched, clock, fifty_in_flight, 3.0)
    assert drive(watched, clock, fifty_in_flight, 5.0)[Pause.SHORT] > 0.8


@pytest.mark.parametrize("pause", [Pause.SHORT, Pause.LONG])
def test_requests_between_pauses(monkeypatch: pytest.MonkeyPatch, pause: Pause) -> None:
    """With a pause after every read, each request is answered in order, in pieces of any size."""
    monkeypatch.setattr(Pace, "after_read", lambda self, requests: pause)

    async def scenario() -> None:
        async with serving() as (_, _, address):
            raw = await RawClient.connect(address)
            stream = b"".join(request(RequestType.PING, number) for number in range(1, 201))
            for at in range(0, len(stream), 7):
                raw.send(stream[at : at + 7])
                if at % 5 == 0:
                    await asyncio.sleep(0)
            assert [(await raw.read_row()).sync for _ in range(200)] == list(range(1, 201))
            await raw.close()

    run(scenario())


@pytest.mark.parametrize("pause", [Pause.SHORT, Pause.LONG])
def test_the_end_during_a_pause(monkeypatch: pytest.MonkeyPatch, pause: Pause) -> None:
    """Either side may close the connection during a pause."""
    monkeypatch.setattr(Pace, "after_read", lambda self, requests: pause)

    async def scenario() -> None:
        async with serving() as (_, server, address):
            async with client(address) as first:
                await first.request(Row(RequestType.PING))
            async with client(address) as second:
                await second.request(Row(RequestType.PING))
                await server.close()
                await asyncio.sleep(2 * pace.SECONDS)

    run(scenario())
