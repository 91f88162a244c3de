"""Events by key and their watchers, against the table of the state machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from box.events import Events, EventWatcher, WatcherState


def run(body: Callable[[Events], Any]) -> None:
    async def scenario() -> None:
        await body(Events(asyncio.get_running_loop()))

    asyncio.run(scenario())


class Seen:
    """A watcher that records its events, and acknowledges them at once unless it `is_slow`."""

    def __init__(self, *, is_slow: bool = False) -> None:
        self.values: list[bytes | None] = []
        self.is_slow = is_slow

    def __call__(self, watcher: EventWatcher, value: bytes | None) -> None:
        self.values.append(value)
        if not self.is_slow:
            watcher.acknowledge()


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_watcher_is_told_the_present_value_and_the_newest_after_each_acknowledgement() -> None:
    async def body(events: Events) -> None:
        slow, quick = Seen(is_slow=True), Seen()
        watcher = events.watch(b"k", slow)
        events.watch(b"k", quick)
        assert (watcher.state, slow.values) == (WatcherState.PENDING, [])
        await turns()
        for value in (b"\x01", b"\x02", b"\x03"):
            events.broadcast(b"k", value)
            await turns()
        assert (slow.values, quick.values) == ([None], [None, b"\x01", b"\x02", b"\x03"])
        assert watcher.state is WatcherState.RUNNING
        watcher.acknowledge()
        watcher.acknowledge()
        await turns()
        assert slow.values == [None, b"\x03"]
        watcher.acknowledge()
        assert watcher.state is WatcherState.IDLE
        await turns()
        assert slow.values == [None, b"\x03"]

    run(body)


def test_keys_that_nobody_needs_are_forgotten() -> None:
    async def body(events: Events) -> None:
        watcher = events.watch(b"k", Seen())
        events.broadcast(b"other", b"\x01")
        events.broadcast(b"gone", None)
        assert len(events) == 2
        watcher.unregister()
        watcher.unregister()
        events.broadcast(b"other", None)
        assert (len(events), watcher.key) == (0, None)
        await turns()

    run(body)


def test_an_unregistered_watcher_is_told_nothing_more() -> None:
    async def body(events: Events) -> None:
        seen = Seen(is_slow=True)
        watcher = events.watch(b"k", seen)
        watcher.unregister()
        await turns()
        assert seen.values == []
        watcher = events.watch(b"k", seen)
        await turns()
        events.broadcast(b"k", b"\x01")
        watcher.unregister()
        watcher.acknowledge()
        await turns()
        assert seen.values == [None]

    run(body)


def test_values_that_are_made_when_they_are_asked_for() -> None:
    """Values that are computed on demand are computed only for watchers, which get those that have changed."""

    async def body(events: Events) -> None:
        made: list[int] = []
        value = b"\x01"

        def make() -> bytes:
            made.append(1)
            return value

        events.provide(b"made", make)
        events.changed()
        await turns()
        assert made == []
        seen = Seen()
        watcher = events.watch(b"made", seen)
        events.changed()
        await turns()
        value = b"\x02"
        events.changed()
        events.changed()
        await turns()
        assert seen.values == [b"\x01", b"\x02"]
        watcher.unregister()
        assert (len(events), events.value(b"made"), events.value(b"other")) == (0, b"\x02", None)

    run(body)


def test_many_watchers_are_told_in_several_turns() -> None:
    async def body(events: Events) -> None:
        seen = [Seen() for _ in range(1000)]
        for one in seen:
            events.watch(b"k", one)
        await asyncio.sleep(0)
        assert 0 < sum(map(len, (one.values for one in seen))) < 1000
        await turns(10)
        assert all(one.values == [None] for one in seen)

    run(body)
