"""Synchronous transactions between real nodes: quorum, timeout, changes of the owner, restarts.

Tests with concurrent events run several times, with other work on the loop in between, so that orders vary.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from box.errors import BoxError, ErrorCode
from box.replication.state import ApplierState
from box.txn.transaction import Commit
from test.support import until

from .cluster import Cluster, Member, cluster, equal, fails

SYNC = 600
ROUNDS, BUSY_ROUNDS = 8, 4
"""`make soak SOAK=repeats` runs the tests themselves again and again."""


async def sync_mesh(running: Cluster, count: int, **options: Any) -> list[Member]:
    """Start a full mesh with a synchronous space."""
    settings: dict[str, Any] = {"replication_synchro_quorum": count, "replication_synchro_timeout": 1000} | options
    members = await running.mesh(count, **settings)
    await members[0].make_space(SYNC, "sync", is_sync=True)
    await equal(members)
    return members


async def set_quorum(member: Member, quorum: int) -> None:
    await member.node.configure({"replication_synchro_quorum": quorum})


async def all_have(members: list[Member], keys: list[int]) -> None:
    await until(lambda: all(member.keys(SYNC) == keys for member in members), f"keys {keys} everywhere")


async def settled(members: list[Member], keys: list[int]) -> None:
    """Wait until all members have these keys, an empty limbo and equal vclocks."""
    await all_have(members, keys)
    await equal(members, SYNC)
    await until(lambda: all(member.node.limbo.is_empty for member in members), "empty limbos")


async def begin(owner: Member, others: list[Member], key: int) -> Commit:
    """Begin a synchronous transaction without a quorum, and wait until it is in all journals."""
    lsn = owner.node.state.vclock[owner.id] + 1
    commit = owner.begin_put([key], space=SYNC)
    assert commit is not None
    await until(lambda: all(member.node.state.vclock[owner.id] >= lsn for member in (owner, *others)), "the write")
    assert not commit.done
    return commit


def repeat(scenario: Callable[[Cluster], Coroutine[Any, Any, None]], rounds: int, *, busy: bool = False) -> None:
    """Run a scenario several times; `busy` runs other work on the loop, so that wake-ups come in other orders."""

    def work() -> None:
        sum(range(5_000))
        # A loop that never sleeps starves the journals' threads, for seconds sometimes: whoever waits for the
        # interpreter's lock asks for it only when it was not released for 5 ms, and every turn releases it briefly.
        time.sleep(0.00001)

    async def burn() -> None:
        while True:
            work()
            await asyncio.sleep(0)

    async def main() -> None:
        burner = asyncio.ensure_future(burn()) if busy else None
        try:
            async with cluster() as running:
                await scenario(running)
        finally:
            if burner is not None:
                burner.cancel()
                await asyncio.gather(burner, return_exceptions=True)

    for _ in range(rounds):
        asyncio.run(main())


def test_quorum() -> None:
    """A commit returns when a quorum of instances has the transaction."""

    async def scenario(running: Cluster) -> None:
        one, two, three = members = await sync_mesh(running, 3)
        await one.put([1], space=SYNC)
        await settled(members, [1])
        await three.replicate()
        commit = one.begin_put([2], space=SYNC)
        await until(lambda: two.keys(SYNC) == [1, 2])
        assert commit is not None
        assert not commit.done
        await set_quorum(one, 2)
        await commit.wait()
        await three.replicate(one, two)
        await settled(members, [1, 2])

    repeat(scenario, 1)


def test_timeout_rolls_back_everywhere() -> None:
    async def scenario(running: Cluster) -> None:
        one, two = members = await sync_mesh(running, 2, replication_synchro_quorum=3)
        await one.node.configure({"replication_synchro_timeout": 0.05})
        first = one.begin_put([1], space=SYNC)
        second = one.begin_put([1, "async"])
        assert first is not None
        assert second is not None
        error = await fails(first.wait())
        assert error.code == ErrorCode.SYNC_QUORUM_TIMEOUT
        assert error.message == "Quorum collection for a synchronous transaction is timed out"
        error = await fails(second.wait())
        assert error.code == ErrorCode.SYNC_ROLLBACK
        await settled(members, [])
        assert one.keys() == two.keys() == []
        await set_quorum(one, 2)
        await one.put([2], space=SYNC)
        await settled(members, [2])

    repeat(scenario, 3)


def test_asynchronous_transactions_wait_behind_synchronous_ones() -> None:
    async def scenario(running: Cluster) -> None:
        one, two = members = await sync_mesh(running, 2, replication_synchro_quorum=3)
        first = one.begin_put([1], space=SYNC)
        behind = one.begin_put([1, "async"])
        await until(lambda: two.keys() == [1])
        assert first is not None
        assert behind is not None
        assert not first.done
        assert not behind.done
        await set_quorum(one, 2)
        await first.wait()
        await behind.wait()
        await settled(members, [1])

    repeat(scenario, 1)


def test_others_are_read_only_while_the_limbo_is_foreign() -> None:
    async def scenario(running: Cluster) -> None:
        one, two = members = await sync_mesh(running, 2, replication_synchro_quorum=3)
        commit = await begin(one, [two], 1)
        assert two.node.mode.is_read_only
        with pytest.raises(BoxError, match="read-only"):
            await two.put([2], space=SYNC)
        await set_quorum(one, 2)
        await commit.wait()
        await until(lambda: not two.node.mode.is_read_only)
        await set_quorum(two, 2)
        await two.put([2], space=SYNC)
        assert two.node.limbo.owner_id == two.id
        await until(lambda: not one.node.mode.is_read_only)
        await one.put([3], space=SYNC)
        await settled(members, [1, 2, 3])

    repeat(scenario, 3)


@pytest.mark.parametrize("busy", [False, True])
def test_a_delayed_confirm_and_a_new_owner(busy: bool) -> None:
    """A transaction of a new owner waits until the CONFIRM of the former one, which a journal holds up, is written."""

    async def scenario(running: Cluster) -> None:
        one, slow, fast = members = await sync_mesh(running, 3, replication_synchro_quorum=4)
        commit = await begin(one, [slow, fast], 1)
        slow.inject("WAL_DELAY_COUNTDOWN", 0)
        await set_quorum(one, 3)
        await commit.wait()
        await until(lambda: slow.injected("WAL_DELAY"), "the delay")
        await until(lambda: fast.has_rows_of(one))
        await set_quorum(fast, 2)
        await fast.put([2], space=SYNC)
        assert slow.node.limbo.owner_id == one.id
        assert len(slow.node.limbo) == 1
        slow.inject("WAL_DELAY", False)
        await settled(members, [1, 2])
        assert slow.node.limbo.owner_id == fast.id
        for member in members:
            for source in members:
                await until(lambda m=member, s=source: m is s or m.follows(s))  # type: ignore[misc]

    repeat(scenario, BUSY_ROUNDS if busy else ROUNDS, busy=busy)


@pytest.mark.parametrize("busy", [False, True])
def test_a_promotion_while_a_confirm_is_written(busy: bool) -> None:
    """A promotion while another instance writes a CONFIRM leads to equal data, whichever row comes first."""

    async def scenario(running: Cluster) -> None:
        one, two, three = members = await sync_mesh(running, 3, replication_synchro_quorum=4)
        await two.node.configure({"replication_synchro_timeout": 0.01, "replication_synchro_quorum": 2})
        commit = await begin(one, [two, three], 1)
        one.inject("WAL_DELAY_COUNTDOWN", 0)
        await set_quorum(one, 3)
        await until(lambda: one.injected("WAL_DELAY"), "the delay")
        promoting = asyncio.ensure_future(two.node.synchro.promote())
        await until(lambda: promoting.done() or three.node.limbo.owner_id == two.id)
        await promoting
        await two.node.configure({"replication_synchro_timeout": 1000})
        written = asyncio.ensure_future(two.put([2], space=SYNC))
        await until(lambda: three.keys(SYNC) == [1, 2])
        one.inject("WAL_DELAY", False)
        async with asyncio.timeout(10):
            await commit.wait()
            await written
        await settled(members, [1, 2])
        assert {member.node.limbo.owner_id for member in members} == {two.id}

    repeat(scenario, BUSY_ROUNDS if busy else ROUNDS, busy=busy)


def test_a_late_confirm_reaches_an_owner_that_waits_for_its_quorum() -> None:
    """A new owner confirms its transaction though the former owner's confirmed LSNs are greater."""

    async def scenario(running: Cluster) -> None:
        one, two, three = members = await sync_mesh(running, 3, replication_synchro_quorum=4)
        await two.node.configure({"replication_synchro_timeout": 0.01, "replication_synchro_quorum": 2})
        commit = await begin(one, [two, three], 1)
        one.inject("WAL_DELAY_COUNTDOWN", 0)
        await set_quorum(one, 3)
        await until(lambda: one.injected("WAL_DELAY"), "the delay")
        await two.node.synchro.promote()
        await two.node.configure({"replication_synchro_timeout": 1000, "replication_synchro_quorum": 4})
        waiting = await begin(two, [three], 2)
        one.inject("WAL_DELAY", False)
        await commit.wait()
        await until(lambda: two.has_rows_of(one), "the late confirm")
        await set_quorum(two, 2)
        await until(lambda: waiting.done, "the confirm of the new owner")
        await settled(members, [1, 2])

    repeat(scenario, 3)


def test_promotion_rolls_back_what_it_did_not_have() -> None:
    """A promotion rolls back the former owner's transactions that the new owner lacks."""

    async def scenario(running: Cluster) -> None:
        one, two, three = members = await sync_mesh(running, 3, replication_synchro_quorum=4)
        first = await begin(one, [two, three], 1)
        await two.replicate(three)
        await three.replicate(two)
        second = one.begin_put([2], space=SYNC)
        assert second is not None
        for member in (two, three):
            await member.node.configure({"replication_synchro_timeout": 0.01, "replication_synchro_quorum": 2})
        await two.node.synchro.promote()
        await fails(second.wait())
        await first.wait()
        await all_have(members, [1])
        assert one.node.limbo.owner_id == two.id
        await until(lambda: all(member.node.limbo.is_empty for member in members), "empty limbos")

    repeat(scenario, 3)


def test_a_confirm_that_cannot_be_written_is_tried_again() -> None:
    """A CONFIRM that cannot be written (WAL_IO, WAL_WRITE) is tried again, and its transaction waits in the limbo."""

    async def scenario(running: Cluster, injection: str) -> None:
        one, two = members = await sync_mesh(running, 2, replication_synchro_quorum=3)
        commit = await begin(one, [two], 1)
        one.inject(injection, True)
        await set_quorum(one, 2)
        await until(lambda: "could not write a synchronous request" in one.log)
        assert not commit.done
        assert len(one.node.limbo) == 1
        one.inject(injection, False)
        await commit.wait()
        await settled(members, [1])

    for injection in ("WAL_IO", "WAL_WRITE"):
        repeat(lambda running, name=injection: scenario(running, name), 1)  # type: ignore[misc]


def test_a_confirm_that_a_replica_cannot_write() -> None:
    """A replica that cannot write a CONFIRM stops its applier and keeps its limbo; after a new subscription the CONFIRM
    comes again.
    """

    async def scenario(running: Cluster, injection: str) -> None:
        one, two = members = await sync_mesh(running, 2, replication_synchro_quorum=3)
        commit = await begin(one, [two], 1)
        two.inject(injection, True)
        await set_quorum(one, 2)
        await commit.wait()
        applier = two.applier(one)
        await until(lambda: applier.state is ApplierState.STOPPED)
        assert applier.error is not None
        assert applier.error.code == ErrorCode.WAL_IO
        assert len(two.node.limbo) == 1
        two.inject(injection, False)
        await two.replicate()
        await two.replicate(*members)
        await settled(members, [1])

    for injection in ("WAL_IO", "WAL_WRITE"):
        repeat(lambda running, name=injection: scenario(running, name), 2)  # type: ignore[misc]


def test_a_confirm_does_not_overtake_a_transaction_that_is_lost() -> None:
    """A CONFIRM that follows a transaction whose write fails is not written: it would hide that the
    transaction lacks.
    """

    async def scenario(running: Cluster) -> None:
        one, two = members = await sync_mesh(running, 2, replication_synchro_quorum=1)
        two.inject("WAL_DELAY", True)
        await one.put([1], space=SYNC)
        before = two.node.state.vclock.copy()
        confirms = two.node.synchro.confirms
        await until(lambda: confirms.count == 1, "a confirm on its way")
        two.inject("WAL_WRITE", True)
        two.inject("WAL_DELAY", False)
        await until(lambda: two.applier(one).state is ApplierState.STOPPED, "the failure")
        two.inject("WAL_WRITE", False)
        await until(lambda: confirms.count == 0, "the end of the confirm")
        assert two.node.state.vclock == before
        await two.replicate()
        await two.replicate(*members)
        await settled(members, [1])

    repeat(scenario, 2)


def test_a_confirm_that_waits_does_not_overtake_a_transaction_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CONFIRM that waits for its turn is not written if the transaction before it is lost meanwhile."""

    async def scenario(running: Cluster) -> None:
        one, two = members = await sync_mesh(running, 2, replication_synchro_quorum=1)
        two.inject("WAL_DELAY", True)
        assert two.node.synchro.try_enter(2)
        with monkeypatch.context() as patched:
            patched.setattr(two.node.synchro.confirms, "submit", lambda row, on_end: False)
            await one.put([1], space=SYNC)
            before = two.node.state.vclock.copy()
            sink = two.node.replication.sink
            await until(lambda: two.node.synchro.latch._queue, "a waiting confirm")
            two.inject("WAL_WRITE", True)
            two.inject("WAL_DELAY", False)
            await until(lambda: two.applier(one).state is ApplierState.STOPPED, "the failure")
            two.inject("WAL_WRITE", False)
            two.node.synchro.leave()
            await until(lambda: not sink._synchro_tasks, "the end of the confirm")
        assert two.node.state.vclock == before
        await two.replicate()
        await two.replicate(*members)
        await settled(members, [1])

    repeat(scenario, 2)


def test_an_applier_that_is_stopped_while_a_confirm_is_written() -> None:
    """A CONFIRM under way when its applier stops is written, and applied once."""

    async def scenario(running: Cluster) -> None:
        one, two = members = await sync_mesh(running, 2, replication_synchro_quorum=3)
        commit = await begin(one, [two], 1)
        two.inject("WAL_DELAY_COUNTDOWN", 0)
        await set_quorum(one, 2)
        await commit.wait()
        await until(lambda: two.injected("WAL_DELAY"))
        await two.node.configure({"replication_sync_timeout": 0.02})
        await two.replicate()
        await two.replicate(*members)
        two.inject("WAL_DELAY", False)
        await settled(members, [1])
        await until(lambda: two.follows(one))

    repeat(scenario, 5)


def test_versions_stay_invisible_until_the_confirm_is_written() -> None:
    """With `memtx_use_mvcc_engine` readers see a synchronous transaction only when it is confirmed."""

    async def scenario(running: Cluster) -> None:
        one, two = members = await sync_mesh(running, 2, replication_synchro_quorum=3, memtx_use_mvcc_engine=True)
        commit = await begin(one, [two], 1)
        assert one.keys(SYNC) == two.keys(SYNC) == []
        two.inject("WAL_DELAY_COUNTDOWN", 0)
        await set_quorum(one, 2)
        await commit.wait()
        assert one.keys(SYNC) == [1]
        await until(lambda: two.injected("WAL_DELAY"))
        assert two.keys(SYNC) == []
        two.inject("WAL_DELAY", False)
        await settled(members, [1])

    repeat(scenario, 3)


def test_restart_of_the_owner_with_unconfirmed_transactions() -> None:
    """After a restart unconfirmed transactions wait in the limbo until a quorum has them or the owner is promoted."""

    async def scenario(running: Cluster, *, promotes: bool) -> None:
        one, two, three = members = await sync_mesh(running, 3, replication_synchro_quorum=4)
        await begin(one, [two, three], 1)
        await one.restart(replication_synchro_timeout=0.2 if promotes else 1000)
        assert len(one.node.limbo) == 1
        assert one.node.limbo.owner_id == one.id
        await until(lambda: two.follows(one) and three.follows(one))
        await set_quorum(one, 3 if promotes else 2)
        if promotes:
            await one.node.synchro.promote()
        await settled(members, [1])
        await one.node.configure({"replication_synchro_timeout": 1000})
        await one.put([2], space=SYNC)
        await settled(members, [1, 2])

    for promotes in (False, True):
        repeat(lambda running, flag=promotes: scenario(running, promotes=flag), 2)  # type: ignore[misc]


def test_restart_of_a_replica_with_unconfirmed_transactions() -> None:
    async def scenario(running: Cluster) -> None:
        one, two = members = await sync_mesh(running, 2, replication_synchro_quorum=3)
        commit = await begin(one, [two], 1)
        await two.restart()
        assert len(two.node.limbo) == 1
        assert two.node.mode.is_read_only
        await set_quorum(one, 2)
        await commit.wait()
        await settled(members, [1])

    repeat(scenario, 2)


def test_a_join_waits_for_the_limbo() -> None:
    """A join waits until the limbo is empty; if transactions are rolled back meanwhile, it is refused."""

    async def scenario(running: Cluster) -> None:
        (one,) = await sync_mesh(running, 1, replication_synchro_quorum=2)
        commit = one.begin_put([1], space=SYNC)
        assert commit is not None
        two = running.member()
        starting = asyncio.ensure_future(two.start(one))
        await until(lambda: "joining replica" in one.log)
        assert not commit.done
        await set_quorum(one, 1)
        await commit.wait()
        await starting
        await settled([one, two], [1])

    repeat(scenario, 2)


def test_clearing_a_dead_owners_queue() -> None:
    """`box.ctl.clear_synchro_queue` works on a replica whose master is gone, and the master follows when it is back."""

    async def scenario(running: Cluster) -> None:
        one, two = members = await sync_mesh(running, 2, replication_synchro_quorum=3)
        await begin(one, [two], 1)
        await one.stop()
        await two.node.configure({"replication_synchro_timeout": 0.01, "replication_synchro_quorum": 1})
        await two.node.synchro.promote()
        assert (two.keys(SYNC), two.node.limbo.owner_id) == ([1], two.id)
        await two.put([2], space=SYNC)
        await one.start()
        await settled(members, [1, 2])

    repeat(scenario, 2)
