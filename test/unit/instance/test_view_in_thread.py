"""Views that another thread reads while the loop runs."""

from __future__ import annotations

import asyncio
import errno

import pytest

from box.index.view import ListView
from box.instance.view_in_thread import ViewInThread

DEADLINE = 20
TUPLES = [b"%d" % number for number in range(100)]


def read_all(view: ViewInThread) -> list[bytes]:
    found = []
    while part := view.fetch(7):
        found += part
    return found


def test_another_thread_reads() -> None:
    """The thread gets all tuples in order; asking again after the end gives the end."""

    async def main() -> None:
        view = ViewInThread(asyncio.get_running_loop(), ListView(TUPLES))
        assert await asyncio.to_thread(read_all, view) == TUPLES
        assert await asyncio.to_thread(view.fetch, 7) == []
        view.close()

    asyncio.run(asyncio.wait_for(main(), DEADLINE))


def test_the_loops_own_thread_reads() -> None:
    """The loop's own thread can read, as in a simulation, which has one thread."""

    async def main() -> None:
        view = ViewInThread(asyncio.get_running_loop(), ListView(TUPLES))
        assert read_all(view) == TUPLES
        view.close()
        with pytest.raises(OSError, match="given up"):
            view.fetch(7)

    asyncio.run(asyncio.wait_for(main(), DEADLINE))


def test_a_closed_view_is_an_error_to_its_reader() -> None:
    """Reading a closed view raises: an end would look like a complete read."""

    async def main() -> None:
        view = ViewInThread(asyncio.get_running_loop(), ListView(TUPLES))
        assert len(await asyncio.to_thread(view.fetch, 7)) == 7
        view.close()
        with pytest.raises(OSError, match="given up") as caught:
            await asyncio.to_thread(read_all, view)
        assert caught.value.errno == errno.ECANCELED

    asyncio.run(asyncio.wait_for(main(), DEADLINE))
