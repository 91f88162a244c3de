"""Transactions on a whole node: the real journal, real system spaces, recovery."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from box.data.codec import pack, unpack
from box.errors import BoxError
from box.instance.node import Instance
from box.journal.storage import MemoryStorage
from box.schema.space import Space
from box.session import Context
from box.txn.pending import Pending, completed
from box.wire.change import REPLACE, Request

from ._world import code


@asynccontextmanager
async def running(disk: MemoryStorage, **options: Any) -> AsyncIterator[Instance]:
    node = Instance(disk=disk)
    await node.configure({"log_level": 1, "wal_mode": "write", **options})
    try:
        yield node
    finally:
        await node.close()


async def create(node: Instance, space_id: int, name: str, **opts: Any) -> Space:
    ctx, schema = node.new_context(), node.schema
    await node.dml.execute(ctx, schema.space(280), Request.insert(pack([space_id, 1, name, "memtx", 0, opts, []])))
    index = [space_id, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]]
    await node.dml.execute(ctx, schema.space(288), Request.insert(pack(index)))
    return schema.space(space_id)


async def replace(node: Instance, ctx: Context, space: Space, *fields: Any) -> None:
    await node.dml.execute(ctx, space, Request.replace(pack(list(fields))))


def rows(node: Instance, space_id: int) -> list[Any]:
    raws = node.dml.reads.select(node.new_context(), node.schema.space(space_id), 0, 2, 0, 100, [])
    return [unpack(raw) for raw in raws]


@pytest.mark.parametrize("mvcc", [False, True])
def test_what_was_acknowledged_is_recovered(mvcc: bool) -> None:
    """Recovery restores committed transactions and no failed one, in memory and on disk."""

    async def body() -> None:
        disk = MemoryStorage()
        async with running(disk, memtx_use_mvcc_engine=mvcc) as node:
            space, quorate = await create(node, 512, "plain"), await create(node, 513, "sync", is_sync=True)
            ctx = node.new_context()
            node.txns.begin(ctx)
            node.dml.write(ctx, space, Request.insert(pack([1, "one"])))
            node.dml.write(ctx, space, Request.update([1], [["=", 2, "uno"]]))
            node.dml.write(ctx, quorate, Request.insert(pack([1])))
            await completed(node.txns.commit(ctx))
            for name in ("ERRINJ_WAL_IO", "ERRINJ_WAL_WRITE"):
                node.errinj.set(name, True)
                for target in (space, quorate):
                    with pytest.raises(BoxError) as failure:
                        await replace(node, ctx, target, 2)
                    assert code(failure.value) == "WAL_IO"
                node.errinj.set(name, False)
            await node.dml.execute(ctx, quorate, Request.replace(pack([3])))
            expected = ([[1, "uno"]], [[1], [3]])
            assert (rows(node, 512), rows(node, 513)) == expected
            assert node.synchro.info()["queue"] == {"len": 0}
        async with running(disk, memtx_use_mvcc_engine=mvcc) as node:
            assert (rows(node, 512), rows(node, 513)) == expected

    asyncio.run(body())


def test_what_is_written_together_is_confirmed_by_one_row() -> None:
    """Synchronous changes that are written together are confirmed by one row, or fail and are undone together."""

    async def body() -> None:
        async with running(MemoryStorage(), replication_synchro_quorum=1) as node:
            plain, quorate = await create(node, 512, "plain"), await create(node, 513, "sync", is_sync=True)
            ctx = node.new_context()

            async def store(*numbers: int) -> list[str]:
                commits = [
                    node.dml.store(ctx, space, REPLACE, pack([number]))
                    for number in numbers
                    for space in (quorate, plain)
                ]
                outcomes = await asyncio.gather(*map(completed, commits), return_exceptions=True)
                return [code(outcome) if isinstance(outcome, BoxError) else "" for outcome in outcomes]

            before = node.state.vclock[1]
            assert await store(*range(10)) == [""] * 20
            assert node.state.vclock[1] == before + 21
            node.errinj.set("ERRINJ_WAL_WRITE", True)
            assert await store(*range(10, 20)) == ["WAL_IO"] * 20
            node.errinj.set("ERRINJ_WAL_WRITE", False)
            assert await store(20) == ["", ""]
            assert rows(node, 512) == rows(node, 513) == [[number] for number in (*range(10), 20)]
            assert node.synchro.info()["queue"] == {"len": 0}

    asyncio.run(body())


@pytest.mark.parametrize("mvcc", [False, True])
def test_unconfirmed_transactions_are_recovered_unconfirmed(mvcc: bool) -> None:
    """Transactions without a quorum wait in the limbo after a restart, until this instance is promoted."""

    async def body() -> None:
        disk = MemoryStorage()
        options: dict[str, Any] = {"memtx_use_mvcc_engine": mvcc, "replication_synchro_timeout": 1000}
        async with running(disk, replication_synchro_quorum=1, **options) as node:
            space = await create(node, 513, "sync", is_sync=True)
            ctx = node.new_context()
            await node.dml.execute(ctx, space, Request.replace(pack([1])))
            node.synchro.set_quorum(2)
            assert isinstance(node.dml.write(ctx, space, Request.replace(pack([2]))), Pending)
            await node.journal.sync()
            assert rows(node, 513) == ([[1]] if mvcc else [[1], [2]])
        async with running(disk, replication_synchro_quorum=2, **options) as node:
            assert node.synchro.info()["queue"] == {"len": 1}
            assert rows(node, 513) == ([[1]] if mvcc else [[1], [2]])
            node.synchro.set_timeout(0.001)
            node.synchro.set_quorum(1)
            await node.synchro.promote()
            assert node.synchro.info()["queue"] == {"len": 0}
            assert rows(node, 513) == [[1], [2]]

    asyncio.run(body())


def test_indexes_built_under_mvcc() -> None:
    """An index built with MVCC has the committed tuples; transactions with changes in the space are aborted."""

    async def body() -> None:
        async with running(MemoryStorage(), memtx_use_mvcc_engine=True) as node:
            space = await create(node, 512, "s")
            ctx, other = node.new_context(), node.new_context()
            await node.dml.execute(ctx, space, Request.insert(pack([1, 10])))
            node.txns.begin(other)
            node.dml.write(other, space, Request.insert(pack([2, 20])))
            index = [512, 1, "sk", "tree", {"unique": False}, [[1, "unsigned"]]]
            await node.dml.execute(ctx, node.schema.space(288), Request.insert(pack(index)))
            assert [unpack(raw) for raw in node.dml.reads.select(ctx, space, 1, 2, 0, 10, [])] == [[1, 10]]
            with pytest.raises(BoxError) as failure:
                node.txns.commit(other)
            assert code(failure.value) == "TRANSACTION_CONFLICT"
            assert rows(node, 512) == [[1, 10]]
            await node.dml.execute(ctx, space, Request.replace(pack([1, 11])))
            assert [unpack(raw) for raw in node.dml.reads.select(ctx, space, 1, 0, 0, 10, [11])] == [[1, 11]]

    asyncio.run(body())
