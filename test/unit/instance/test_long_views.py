"""Selects of system views: read in slices of one moment, filtered by the reader's rights."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from box.data.codec import unpack
from box.index import IteratorType, long_read
from box.instance.node import Instance
from box.schema.ids import SpaceId
from box.session import Context
from box.txn import reads
from test.crash.instance import put

SPACES = range(600, 660)
GUEST, READ = 0, 1


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make few tuples count as many."""
    monkeypatch.setattr(reads, "LONG", 40)
    monkeypatch.setattr(reads, "LONG_FILTERED", 40)
    monkeypatch.setattr(long_read, "_FILTERED_SLICE", 7)


async def with_spaces(*, mvcc: bool) -> Instance:
    """Create sixty spaces, of which guest may read every third."""
    instance = Instance()
    await instance.configure({"log": "/dev/null", "memtx_use_mvcc_engine": mvcc})
    await put(instance, SpaceId.SPACE, [[number, 1, f"space {number}", "memtx", 0, {}, []] for number in SPACES])
    await put(instance, SpaceId.PRIV, [[1, GUEST, "space", number, READ] for number in SPACES[::3]])
    return instance


@pytest.mark.parametrize("mvcc", [False, True])
@pytest.mark.parametrize("iterator", [IteratorType.ALL, IteratorType.LE])
@pytest.mark.parametrize(("offset", "limit"), [(0, 2**32 - 1), (5, 2**32 - 1), (3, 40), (1000, 2**32 - 1)])
def test_what_the_reader_may_see(iterator: IteratorType, offset: int, limit: int, mvcc: bool) -> None:
    """A sliced select has the rows of an ordinary one in its order, whatever changes meanwhile."""

    async def run() -> None:
        instance = await with_spaces(mvcc=mvcc)
        select = instance.dml.reads.select
        try:
            for user in ("guest", "admin"):
                credentials = instance.schema.user_by_name(user).credentials
                ctx = Context(instance.sessions.open("binary", credentials))
                view = instance.schema.space(SpaceId.VSPACE)
                arguments: Any = (view, 0, iterator, offset, limit, [])
                expected = select(ctx, *arguments)
                long = instance.dml.reads.begin_long(ctx, *arguments)
                assert long is not None
                rows: list[bytes] = []
                steps, goes_on = 0, True
                while goes_on:
                    goes_on = long.take(rows)
                    steps += 1
                    new = 700 + steps if user == "guest" else 800 + steps
                    await put(instance, SpaceId.SPACE, [[new, 0, f"space {new}", "memtx", 0, {}, []]])
                assert [unpack(row)[2] for row in rows] == [unpack(row)[2] for row in expected]
                assert steps > 2
                assert len(select(ctx, view, 0, 2, 0, 2**32 - 1, [])) > (20 if user == "guest" else 60)
        finally:
            await instance.close()

    asyncio.run(run())


def test_few_rows_are_read_at_once() -> None:
    async def run() -> None:
        instance = await with_spaces(mvcc=False)
        try:
            begin, ctx = instance.dml.reads.begin_long, instance.new_context()
            for space_id, limit in ((SpaceId.VUSER, 1000), (SpaceId.VSPACE, 39), (SpaceId.SESSION_SETTINGS, 1000)):
                assert begin(ctx, instance.schema.space(space_id), 0, IteratorType.ALL, 0, limit, []) is None
        finally:
            await instance.close()

    asyncio.run(run())
