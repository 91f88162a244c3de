"""`replication_fetch_once` on real nodes: which sources are asked for whose rows, and the order of rows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import chain, count
from typing import Any

import pytest

from box.replication.fetch_once import FetchList
from box.replication.state import ApplierState
from box.schema.ids import SpaceId
from box.txn.pending import completed
from box.wire.change import Request
from test.support import until

from .cluster import Cluster, Member, Proxy, cluster, equal
from .test_elections import candidates, leader_of


def fetches(member: Member) -> dict[int, list[int] | None]:
    """Return `upstream.fetches` of each member of `box.info.replication`, by id."""
    replication = member.node.replication
    found = {}
    for replica in replication.replicaset.registered:
        if replica.applier is not None and replica.applier.is_subscribed:
            found[replica.id] = replication.sources.daemon.fetches(replica.applier)
    return found


def has_key(member: Member, key: int) -> bool:
    return [key] in [row[:1] for row in member.rows()]


def own_parts(member: Member, members: Iterable[Member]) -> dict[int, list[int]]:
    return {other.id: [other.id] for other in members if other is not member}


async def mesh(running: Cluster, count: int, **options: Any) -> list[Member]:
    """Start a full mesh in which each member fetches only a source's own rows from it."""
    members = await running.mesh(count, replication_fetch_once=True, **options)
    await settled(members)
    return members


async def settled(members: list[Member]) -> None:
    await until(
        lambda: all(fetches(member) == own_parts(member, members) for member in members),
        f"{[fetches(member) for member in members]} settles",
    )


class Load:
    """A task that writes rows with different keys at every member, until it is stopped."""

    def __init__(self, members: list[Member]) -> None:
        self.members = members
        self.written = 0
        self._tasks = [asyncio.ensure_future(self._write(member, number)) for number, member in enumerate(members)]
        self._is_over = False

    async def _write(self, member: Member, number: int) -> None:
        for key in count(number, len(self.members)):
            if self._is_over:
                return
            if member.is_running and not member.node.mode.is_read_only:
                await member.put([key, member.name * 20], operation="replace")
                self.written += 1
            await asyncio.sleep(0.01)

    async def grows(self, more: int = 100) -> None:
        wanted = self.written + more
        await until(lambda: self.written >= wanted)

    async def stop(self) -> None:
        self._is_over = True
        await asyncio.gather(*self._tasks)


def test_each_gives_its_own_rows() -> None:
    """In a full mesh each source is asked for its own rows. Without the option it is asked for all rows, and box.info
    does not mention the option.
    """

    async def main() -> None:
        async with cluster() as running:
            members = await mesh(running, 3)
            load = Load(members)
            await load.grows(300)
            await load.stop()
            await equal(members)
            one = members[0]
            assert "fetching rows of [2] from 2" in one.log
            await one.node.configure({"replication_fetch_once": False})
            await until(lambda: fetches(one) == {2: None, 3: None} and one.applier(members[1]).asked is None)
            await one.node.configure({"replication_fetch_once": True})
            await settled(members)

    asyncio.run(main())


def test_through_the_end_and_the_return_of_each() -> None:
    """Under load the rows of a member that is gone are fetched from others until it returns; none is lost or applied
    twice.
    """

    async def main() -> None:
        async with cluster() as running:
            members = await mesh(running, 4)
            load = Load(members)
            for gone in members:
                await load.grows()
                others = [member for member in members if member is not gone]
                gone_id = gone.id
                await gone.stop()

                def is_covered(others: list[Member] = others, gone_id: int = gone_id) -> bool:
                    parts = [[*chain.from_iterable(part or [] for part in fetches(m).values())] for m in others]
                    return all(part.count(gone_id) == 1 and len(part) == 3 for part in parts)

                await until(is_covered, f"somebody gives the rows of {gone.name}")
                await load.grows()
                await gone.start()
                await settled(members)
            await load.grows()
            await load.stop()
            await equal(members)
            assert len(members[0].keys()) == load.written
            assert all("STOPPED" not in member.log for member in members)

    asyncio.run(main())


async def linked(running: Cluster, **options: Any) -> tuple[list[Member], dict[tuple[int, int], Proxy]]:
    """Start three members that reach each other through a proxy for each direction: `proxies[from, to]`."""
    members = await mesh(running, 3, **options)
    proxies = {}
    for one in range(3):
        for other in range(3):
            if one != other:
                proxies[one, other] = await running.proxy(members[other])
        await members[one].replicate(members[one], *(proxies[one, other] for other in range(3) if one != other))
    await settled(members)
    return members, proxies


def test_rows_come_by_way_of_a_third_one() -> None:
    """Two members that cannot reach each other get each other's rows from a third one."""

    async def main() -> None:
        async with cluster() as running:
            members, proxies = await linked(running)
            one, two, three = members
            load = Load(members)
            for pair in ((0, 1), (1, 0)):
                proxies[pair].refuse = True
                proxies[pair].cut()
            await until(lambda: fetches(one) == {3: [2, 3]} and fetches(two) == {3: [1, 3]})
            await load.grows()
            await load.stop()
            await equal(members)
            for pair in ((0, 1), (1, 0)):
                proxies[pair].refuse = False
            await settled(members)
            await three.put([10**6, "after"])
            await equal(members)

    asyncio.run(main())


def test_rows_do_not_overtake_what_they_build_upon() -> None:
    """A row of a space waits until the creation of the space, which another origin has written, has arrived."""

    async def main() -> None:
        async with cluster() as running:
            members, proxies = await linked(running)
            one, two, three = members
            proxies[2, 0].hold()
            await one.make_space(600, "young")
            await until(lambda: two.has_rows_of(one))
            await two.put([1, "early"], space=600)
            await two.put([1, "behind"])
            await one.put([2, "first"])
            await until(lambda: len(two.keys()) == 2)
            await two.put([2, "second"], operation="replace")
            assert three.keys() == []
            proxies[2, 0].release()
            await equal(members)
            await equal(members, 600)
            assert three.rows() == [[1, "behind"], [2, "second"]]
            assert "asking" not in three.log

    asyncio.run(main())


def test_rows_that_wait_too_long() -> None:
    """After rows have waited too long, their source is asked for everything and none waits; later it is asked for its
    part.
    """

    async def main() -> None:
        async with cluster() as running:
            members, proxies = await linked(running, replication_timeout=0.4)
            one, two, three = members
            proxies[2, 0].hold()
            await one.put([1, "first"])
            await until(lambda: two.keys() == [1])
            await two.put([1, "second"], operation="replace")
            await until(lambda: three.rows() == [[1, "second"]])
            assert f"rows of other origins are missing: asking {two.node.state.instance_uuid}" in three.log
            proxies[2, 0].release()
            await until(lambda: fetches(three) == {1: [1], 2: [1, 2]})
            await settled(members)
            await equal(members)

    asyncio.run(main())


SYNC_SPACE = 700


async def make_sync_space(member: Member) -> None:
    await member.put([SYNC_SPACE, 1, "sync", "memtx", 0, {"is_sync": True}, []], space=SpaceId.SPACE)
    await member.put([SYNC_SPACE, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]], space=SpaceId.INDEX)


@pytest.mark.parametrize("promotes", [False, True])
def test_a_synchronous_row_does_not_overtake_the_confirmation_of_another_origin(promotes: bool) -> None:
    """A synchronous row waits for the CONFIRM of another origin before which it was written."""

    async def main() -> None:
        async with cluster() as running:
            members, proxies = await linked(running)
            one, two, _ = members
            for member in members:
                await member.node.configure({"replication_synchro_quorum": 2, "replication_synchro_timeout": 30})
            await make_sync_space(one)
            await equal(members, SYNC_SPACE)
            proxies[2, 0].hold()
            await one.put([1, "first"], space=SYNC_SPACE)
            await until(lambda: two.has_rows_of(one))
            if promotes:
                await two.node.elections.promote()
            write = asyncio.ensure_future(two.put([1, "second"], space=SYNC_SPACE, operation="replace"))
            await write
            proxies[2, 0].release()
            await equal(members, SYNC_SPACE)
            assert [member.rows(SYNC_SPACE) for member in members] == [[[1, "second"]]] * 3
            assert [len(member.node.limbo) for member in members] == [0, 0, 0]

    asyncio.run(main())


def test_a_new_member_and_one_that_leaves() -> None:
    """Rows of a member that joins are fetched from others, and rows of one that leaves `_cluster` are not lost."""

    async def main() -> None:
        async with cluster() as running:
            members = await mesh(running, 3)
            _, two, three = members
            load = Load(members)
            new = await running.member().start(*members, replication_fetch_once=True)
            await two.replicate(*members, new)
            await new.put([10**6, "of the new one"])
            await until(lambda: all(has_key(member, 10**6) for member in members))
            assert fetches(two)[new.id] == [new.id]
            assert any(new.id in (part or []) for part in fetches(three).values())
            await new.put([10**6 + 1, "last words"])
            await until(lambda: has_key(two, 10**6 + 1))
            new_id = new.id
            await new.stop()
            ctx = two.new_context()
            space = two.node.schema.space(SpaceId.CLUSTER)
            await completed(two.node.dml.write(ctx, space, Request.delete([new_id])))
            await load.grows()
            await load.stop()
            await equal(members)
            assert all(has_key(member, 10**6 + 1) for member in members)
            await settled(members)

    asyncio.run(main())


def test_a_list_that_names_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subscription with an empty list is refused; box.info and the log show the error, and it is tried again."""

    async def main() -> None:
        async with cluster() as running:
            members = await mesh(running, 3)
            one, two, _ = members
            stranger = two.node.state.replicaset_uuid
            applier = one.applier(two)
            with monkeypatch.context() as patched:
                strange = FetchList(frozenset({7}), frozenset({stranger}), frozenset({3}))
                patched.setattr(one.node.replication.sources, "fetch_list", lambda source: strange)
                applier.resubscribe()
                await until(lambda: applier.state is ApplierState.LOADING)
                assert applier.error is not None
                text = f"none of the wanted replicas is registered: {stranger}"
                assert applier.error.message == f"Incorrect value for option 'replication_fetch_once': {text}"
                assert text in one.log
                await two.put([1, "new"])
            await settled(members)
            await equal(members)
            assert one.keys() == [1]

    asyncio.run(main())


async def gives_everything(leader: Member, followers: list[Member]) -> None:
    """Wait until all members follow the leader and have a row of it."""

    def is_asked() -> bool:
        given = [set(fetches(follower).get(leader.id) or ()) for follower in followers]
        others = [{other.id for other in (leader, *followers) if other is not follower} for follower in followers]
        return all(wanted <= found for wanted, found in zip(others, given, strict=True))

    await until(is_asked, "the leader gives everything")
    await leader.put([leader.id, leader.name])
    await until(lambda: all(has_key(follower, leader.id) for follower in followers))


def test_the_elected_leader_gives_everything() -> None:
    """With elections only the leader is asked, for everything; the next leader is asked anew."""

    async def main() -> None:
        async with cluster() as running:
            members = await candidates(running, replication_fetch_once=True)
            for _ in range(2):
                running_ones = [member for member in members if member.is_running]
                leader = await leader_of(running_ones)
                await gives_everything(leader, [member for member in running_ones if member is not leader])
                ids.append(leader.id)
                await leader.stop()
            for member in members:
                if not member.is_running:
                    await member.start()
            await leader_of(members)
            await equal(members)
            assert members[0].keys() == sorted(ids)

    ids: list[int] = []
    asyncio.run(main())


def test_an_anonymous_replica_fetches_every_row_once() -> None:
    async def main() -> None:
        async with cluster() as running:
            members = await mesh(running, 3)
            options = {"replication_anon": True, "read_only": True, "replication_fetch_once": True}
            anonymous = await running.member().start(*members, **options)
            await until(lambda: fetches(anonymous) == {member.id: [member.id] for member in members})
            load = Load(members)
            await load.grows()
            await load.stop()
            await equal([*members, anonymous])

    asyncio.run(main())
