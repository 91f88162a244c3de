"""`replication_promote_quorum`: a promotion asks a quorum first, so that no acknowledged transaction is undone."""

from __future__ import annotations

import asyncio

import pytest

from box.errors import ErrorCode
from box.schema.ids import SpaceId
from test.support import until

from .cluster import Cluster, Member, cluster, equal, fails

SPACE = 700


async def three(running: Cluster, *, asks: bool) -> list[Member]:
    """Start a full mesh of three members with a quorum of two and a synchronous space."""
    members = await running.mesh(3)
    for member in members:
        await member.node.configure(
            {
                "replication_synchro_quorum": 2,
                "replication_synchro_timeout": 30,
                "replication_promote_quorum": asks,
            }
        )
    one = members[0]
    await one.put([SPACE, 1, "sync", "memtx", 0, {"is_sync": True}, []], space=SpaceId.SPACE)
    await one.put([SPACE, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]], space=SpaceId.INDEX)
    await equal(members, SPACE)
    return members


def test_a_promotion_waits_for_the_rows_of_a_quorum() -> None:
    """A promotion waits for the rows that a quorum has acknowledged, though the instance's own limbo is empty."""

    async def main() -> None:
        async with cluster() as running:
            members = await three(running, asks=True)
            one, two, late = members
            for member in (one, two):
                member.inject("RELAY_SEND_DELAY", True)
            await one.put([0, "to block the relays"])
            write = asyncio.ensure_future(one.put([1, "written"], space=SPACE))
            await until(lambda: len(one.node.limbo) == 1)
            promotion = asyncio.ensure_future(late.node.elections.promote())
            await asyncio.sleep(0.05)
            assert not promotion.done()
            assert not len(late.node.limbo)
            for member in (one, two):
                member.inject("RELAY_SEND_DELAY", False)
            await promotion
            await write
            await equal(members, SPACE)
            assert [member.rows(SPACE) for member in members] == [[[1, "written"]]] * 3
            assert late.node.limbo.owner_id == late.id

    asyncio.run(main())


def test_without_a_quorum_nothing_is_promoted() -> None:
    """Without a quorum of answers a promotion fails with their number; it succeeds when the members are back."""

    async def main() -> None:
        async with cluster() as running:
            members = await three(running, asks=True)
            one, two, late = members
            await late.node.configure({"replication_synchro_timeout": 0.3})
            await one.stop()
            await two.stop()
            error = await fails(late.node.elections.promote())
            assert error.code == ErrorCode.QUORUM_WAIT
            assert error.message == ("Couldn't wait for quorum 2: timeout after 0.30 seconds, collected 1 vclocks")
            assert late.node.limbo.owner_id != late.id
            await two.start()
            await late.node.configure({"replication_synchro_timeout": 30})
            await late.node.elections.promote()
            assert late.node.limbo.owner_id == late.id

    asyncio.run(main())


def test_rows_that_do_not_come() -> None:
    async def main() -> None:
        async with cluster() as running:
            members = await three(running, asks=True)
            one, two, late = members
            await late.node.configure({"replication_synchro_timeout": 0.3})
            for member in (one, two):
                member.inject("RELAY_SEND_DELAY", True)
            await one.put([0, "to block the relays"])
            await one.put([1, "kept back"])
            await late.applier(two).stop()
            error = await fails(late.node.elections.promote())
            assert error.code == ErrorCode.QUORUM_WAIT
            assert "timeout after 0.30 seconds, rows up to {" in error.message
            for member in (one, two):
                member.inject("RELAY_SEND_DELAY", False)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("members", "quorum", "size"), [(3, 2, 2), (5, 3, 3), (4, 3, 3), (4, 2, 3), (5, 2, 4), (3, 1, 3)]
)
def test_any_quorum_of_acknowledgements_is_met(members: int, quorum: int, size: int) -> None:
    """Each quorum of a promotion meets each quorum of acknowledgements: the smaller one is, the larger is the other."""

    async def main() -> None:
        async with cluster() as running:
            node = (await running.master()).node
            for number in range(2, members + 1):
                await running.members[0].put([number, str(node.resources.random_uuid())], space=SpaceId.CLUSTER)
            node.limbo.quorum = quorum
            assert node.replication.promotion.size == size

    asyncio.run(main())
