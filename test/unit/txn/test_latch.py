"""The read-write latch."""

from __future__ import annotations

import asyncio

from box.txn.latch import RWLatch


def test_free_latch_needs_no_wait() -> None:
    """Readers share a free latch, and a writer holds it alone."""
    latch = RWLatch()
    assert latch.try_read()
    assert latch.try_read()
    assert not latch.try_write()
    latch.release_read()
    assert not latch.try_write()
    latch.release_read()
    assert latch.try_write()
    assert not latch.try_read()
    assert latch.is_writing
    latch.release_write()
    assert latch.is_free


def test_first_come_first_served() -> None:
    """A waiting writer holds back later readers, which then get the latch together."""

    async def body() -> None:
        latch, notes = RWLatch(), []

        async def read(name: str) -> None:
            await latch.wait_read()
            notes.append(name)

        assert latch.try_read()
        latch.when_writable(lambda: notes.append("w1"))
        readers = [asyncio.ensure_future(read(name)) for name in ("r1", "r2")]
        await asyncio.sleep(0)
        latch.when_writable(lambda: notes.append("w2"))
        assert not latch.try_read()
        latch.release_read()
        assert notes == ["w1"]
        latch.release_write()
        await asyncio.gather(*readers)
        assert notes == ["w1", "r1", "r2"]
        latch.release_read()
        assert notes == ["w1", "r1", "r2"]
        latch.release_read()
        assert notes == ["w1", "r1", "r2", "w2"]
        assert repr(latch) == "<latch writer, 0 waiting>"

    asyncio.run(body())


def test_tasks_and_cancellation() -> None:
    """A cancelled waiter lets the others pass, whether or not it had got the latch."""

    async def body() -> None:
        latch, notes = RWLatch(), []

        async def write(name: str) -> None:
            async with latch.writing():
                notes.append(name)

        async def read(name: str) -> None:
            async with latch.reading():
                notes.append(name)

        assert latch.try_write()
        tasks = [asyncio.ensure_future(task) for task in (write("a"), write("b"), read("c"), read("d"))]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.sleep(0)
        latch.release_write()  # grants b, which is cancelled before it runs
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert notes == ["c", "d"]
        assert latch.is_free

    asyncio.run(body())


def test_cancelled_between_grant_and_run() -> None:
    """A waiter that is cancelled after it got the latch, and before it runs, releases it at once."""

    async def body() -> None:
        latch = RWLatch()
        assert latch.try_write()
        waiter = asyncio.ensure_future(latch.wait_read())
        await asyncio.sleep(0)
        waiter.cancel()
        latch.release_write()
        await asyncio.gather(waiter, return_exceptions=True)
        assert latch.is_free

    asyncio.run(body())


def test_writer_becomes_a_reader() -> None:
    """A writer can become a reader: waiting readers join it, a waiting writer waits for all of them."""

    async def body() -> None:
        latch = RWLatch()
        assert latch.try_write()
        reader, writer = asyncio.ensure_future(latch.wait_read()), asyncio.ensure_future(latch.wait_write())
        await asyncio.sleep(0)
        latch.downgrade()
        await reader
        latch.release_read()
        await asyncio.sleep(0)
        assert not writer.done()
        latch.release_read()
        await writer
        assert latch.is_writing

    asyncio.run(body())
