"""Replication under failures of the network, the journal and the garbage collector."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import threading
import warnings

from box.errors import ErrorCode
from box.journal.storage import MemoryStorage
from box.replication.state import ApplierState, RelayState
from test.support import until

from .cluster import SPACE, TIMEOUT, Member, cluster, equal, fails


def test_a_broken_connection_is_made_again() -> None:
    """After a connection breaks, the rows that were under way arrive once."""

    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            proxy = await running.proxy(master, fragment=50)
            replica = await running.member().start(proxy)
            for key in range(60):
                master.begin_put([key, "x" * 50])
                if key % 20 == 19:
                    await until(lambda key=key: len(replica.keys()) > key - 19)  # type: ignore[misc]
                    proxy.cut()
            await equal([master, replica])
            assert proxy.connection_count >= 3
            await until(lambda: replica.follows(master))

    asyncio.run(main())


def test_a_slow_network() -> None:
    async def main() -> None:
        async with cluster() as running:
            one, other = await running.mesh(2)
            slow = await running.proxy(one, delay=0.005, fragment=200)
            await other.replicate(slow)
            for key in range(50):
                one.begin_put([key, "one"])
                other.begin_put([1000 + key, "other"])
            await equal([one, other])
            assert len(one.keys()) == 100

    asyncio.run(main())


def test_silence_disconnects_both_sides() -> None:
    """An applier and a relay close a connection without heartbeats after four times `replication_timeout`."""

    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            proxy = await running.proxy(master)
            replica = await running.member().start(proxy)
            applier = replica.only_applier()
            await until(lambda: applier.state is ApplierState.FOLLOW)
            idle_since = asyncio.get_running_loop().time()
            await until(lambda: applier.times.last_row_time > idle_since + 2 * TIMEOUT)
            assert applier.state is ApplierState.FOLLOW
            proxy.hold()
            await until(lambda: applier.error is not None)
            assert applier.error is not None
            assert (applier.error.message, applier.error.errno) == ("timed out", errno.ETIMEDOUT)
            relay = master.node.replication.replicaset.by_id[2].relay
            assert relay is not None
            await until(lambda: relay.state is RelayState.STOPPED)
            assert relay.error is not None
            assert (relay.error.message, relay.error.errno) == ("timed out", errno.ETIMEDOUT)
            proxy.cut()
            proxy.release()
            await master.put([1, "x"])
            await equal([master, replica])

    asyncio.run(main())


def test_acknowledgements_reach_the_relay() -> None:
    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            await master.put([1, "x"])
            relay = master.node.replication.replicaset.by_id[2].relay
            assert relay is not None
            await until(lambda: relay.vclock == master.node.state.vclock)
            assert relay.is_following
            assert repr(relay) == f"<Relay to {replica.node.state.instance_uuid} FOLLOW>"

    asyncio.run(main())


# -- the journal of the replica ------------------------------------------------------------------------


async def _fail_and_resume(injection: str) -> None:
    async with cluster() as running:
        master, replica = await running.pair()
        await until(lambda: replica.follows(master))
        replica.inject(injection, True)
        await master.put([1, "x"])
        applier = replica.only_applier()
        await until(lambda: applier.state is ApplierState.STOPPED)
        assert applier.error is not None
        assert applier.error.code == ErrorCode.WAL_IO
        assert replica.keys() == []
        replica.inject(injection, False)
        await master.put([2, "x"])
        await replica.replicate()
        await replica.replicate(master)
        await equal([master, replica])
        assert replica.keys() == [1, 2]


def test_a_row_that_is_refused_by_the_journal() -> None:
    asyncio.run(_fail_and_resume("WAL_IO"))


def test_a_row_that_cannot_be_written() -> None:
    asyncio.run(_fail_and_resume("WAL_WRITE"))


def test_a_log_that_cannot_be_rotated() -> None:
    """If a log rotation fails, the rows after the first are undone, too."""

    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            await until(lambda: replica.follows(master))
            await replica.node.checkpoints.make()
            replica.inject("WAL_ROTATE", True)
            for key in range(5):
                master.begin_put([key, "x"])
            applier = replica.only_applier()
            await until(lambda: applier.state is ApplierState.STOPPED)
            await until(lambda: replica.keys() == [])
            replica.inject("WAL_ROTATE", False)
            await replica.replicate()
            await replica.replicate(master)
            await equal([master, replica])
            assert replica.keys() == list(range(5))

    asyncio.run(main())


def test_a_failure_stops_all_appliers() -> None:
    async def main() -> None:
        async with cluster() as running:
            members = await running.mesh(3)
            replica = members[2]
            await until(lambda: all(replica.follows(source) for source in members[:2]))
            replica.inject("WAL_IO", True)
            await members[0].put([1, "x"])
            appliers = [replica.applier(source) for source in members[:2]]
            await until(lambda: all(applier.state is ApplierState.STOPPED for applier in appliers))
            replica.inject("WAL_IO", False)
            await replica.replicate()
            await replica.replicate(*members)
            await equal(members)

    asyncio.run(main())


def test_a_failure_while_an_anonymous_replica_registers() -> None:
    """An anonymous replica that registers stops at the first row that it cannot write, and writes none after it.

    These are rows that arrive before the reply to REGISTER.
    """

    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            await master.make_space(SPACE + 1, "slow")
            replica = await running.member().start(master, replication_anon=True, read_only=True)
            await equal([master, replica])
            before = replica.node.state.vclock.copy()
            slow = replica.node.schema.space(SPACE + 1)
            gate, is_reached = asyncio.Event(), asyncio.Event()

            class Waiting:
                async def call(self, ctx: object, old: object, new: object, space: str, operation: str) -> None:
                    is_reached.set()
                    await gate.wait()

            slow.on_replace.append(Waiting())
            master.inject("REPLICA_JOIN_DELAY", True)
            registering = asyncio.ensure_future(replica.node.configure({"replication_anon": False}))
            await until(lambda: 2 in master.node.replication.replicaset.by_id, "the registration")
            await master.put([1])
            await master.put([2], space=SPACE + 1)
            replica.inject("WAL_DELAY", True)
            replica.inject("WAL_WRITE", True)
            master.inject("REPLICA_JOIN_DELAY", False)
            await until(is_reached.is_set, "the last row")
            assert replica.keys() == [1]
            replica.inject("WAL_DELAY", False)
            await until(lambda: replica.keys() == [], "the rollback")
            replica.inject("WAL_WRITE", False)
            gate.set()
            async with asyncio.timeout(10):
                error = await fails(registering)
            assert error.code == ErrorCode.WAL_IO
            assert replica.node.state.vclock == before
            assert (replica.keys(), replica.keys(SPACE + 1), replica.id) == ([], [], 0)

    asyncio.run(main())


def test_a_full_queue_of_the_journal_holds_the_applier() -> None:
    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair(wal_queue_max_size=1000)
            await until(lambda: replica.follows(master))
            replica.inject("WAL_DELAY", True)
            for key in range(100):
                await master.put([key, "x" * 100])
            await until(lambda: bool(replica.node.journal._space_waiters), "the wait for room in the queue")
            assert 0 < len(replica.keys()) < 20
            replica.inject("WAL_DELAY", False)
            await equal([master, replica])

    asyncio.run(main())


# -- garbage ------------------------------------------------------------------------------------------------


def _log_count(member: Member) -> int:
    return sum(name.endswith(".xlog") for name in member.disk.names("."))


def test_rows_are_kept_for_a_replica_that_is_away() -> None:
    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            await until(lambda: replica.follows(master))
            await replica.stop()
            for key in range(4):
                await master.put([key, "x"])
                await master.node.checkpoints.make()
            assert _log_count(master) >= 4
            await replica.start()
            await equal([master, replica])
            await master.put([9, "x"])
            await until(lambda: _log_count(master) <= 3, "removal of what the replica has")

    asyncio.run(main())


def test_a_restarted_master_keeps_rows_until_its_replicas_come() -> None:
    """A restarted master removes no log files until its replicas have subscribed, because it does not know their
    vclocks.
    """

    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            await until(lambda: replica.follows(master))
            await replica.stop()
            await master.put([1, "x"])
            await master.restart(checkpoint_count=1)
            for key in range(2, 5):
                await master.put([key, "x"])
                await master.node.checkpoints.make()
            assert master.node.checkpoints.collector.is_paused
            await replica.start()
            await equal([master, replica])
            await until(lambda: not master.node.checkpoints.collector.is_paused)

    asyncio.run(main())


# -- the wire --------------------------------------------------------------------------------------------------


def test_a_broken_lsn_stops_the_applier() -> None:
    """With ERRINJ_RELAY_BREAK_LSN the replica has seen the LSN already: the row is lost, and nothing else breaks."""

    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            await until(lambda: replica.follows(master))
            master.inject("RELAY_BREAK_LSN", master.node.state.vclock[1] + 1)
            await master.put([1, "x"])
            await master.put([2, "x"])
            await until(lambda: replica.keys() == [2] and replica.node.state.vclock == master.node.state.vclock)

    asyncio.run(main())


def test_delays_of_the_relay() -> None:
    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            await until(lambda: replica.follows(master))
            master.inject("RELAY_SEND_DELAY", True)
            await master.put([1, "x"])
            await until(lambda: bool(master.node.errinj._changes), "the delay of the relay")
            assert replica.keys() == []
            master.inject("RELAY_SEND_DELAY", False)
            await until(lambda: replica.keys() == [1])
            master.inject("RELAY_TIMEOUT", 0.01)
            replica.inject("APPLIER_SLOW_ACK", True)
            for key in range(2, 6):
                master.begin_put([key, "x"])
            await equal([master, replica])

    asyncio.run(main())


def test_no_heartbeat_in_the_middle_of_a_transaction() -> None:
    """A relay that sends slowly pauses longer than the interval of heartbeats, but sends none inside a transaction."""

    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            await until(lambda: replica.follows(master))
            master.inject("RELAY_TIMEOUT", 1.5 * TIMEOUT)
            await master.put([1, "x"], [2, "x"])
            await equal([master, replica])
            assert replica.follows(master)

    asyncio.run(main())


def test_a_relay_faster_than_its_own_node() -> None:
    """A replica may have a row, and subscribe with its vclock, before the origin's loop knows that the
    row is written.
    """

    async def main() -> None:
        async with cluster() as running:
            one, other = await running.mesh(2)
            before = one.node.state.vclock.copy()
            one.inject("RELAY_FASTER_THAN_TX", True)
            commit = one.begin_put([1, "x"])
            assert commit is not None
            await until(lambda: other.keys() == [1])
            assert (one.node.state.vclock, commit.done) == (before, False)
            await other.restart(replication_sync_timeout=0.01)
            back = next(a for a in one.node.replication.replicaset.appliers if not a.is_self)
            await until(lambda: back.state is ApplierState.SYNC)
            relay = one.node.replication.replicaset.by_id[other.id].relay
            assert relay is not None
            await until(lambda: relay.vclock[one.id] > before[one.id])
            assert one.node.state.vclock == before
            one.inject("RELAY_FASTER_THAN_TX", False)
            await commit.wait()
            await until(lambda: one.follows(other))
            await one.put([2, "x"])
            await equal([one, other])
            assert one.keys() == [1, 2]

    asyncio.run(main())


def test_a_node_can_be_stopped_while_its_relay_is_faster() -> None:
    """A node can stop while a relay has sent a row of which its loop does not know yet; the row is on disk."""

    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            master.inject("RELAY_FASTER_THAN_TX", True)
            master.begin_put([1, "x"])
            await until(lambda: replica.keys() == [1])
            await master.restart()
            await equal([master, replica])

    asyncio.run(main())


def _is_refused(replica: Member) -> bool:
    error = replica.only_applier().error
    return error is not None and error.message.endswith("duplicate connection with the same replica UUID")


def test_a_relay_that_takes_its_time_to_end() -> None:
    """While a relay takes long to end, its replica's next subscription is refused as a duplicate."""

    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            await until(lambda: replica.follows(master))
            master.inject("RELAY_EXIT_DELAY", 2)  # longer than a start takes on a busy machine
            await replica.restart(replication_sync_timeout=0.01)
            await until(lambda: _is_refused(replica))
            await until(lambda: replica.follows(master))
            relay = master.node.replication.replicaset.by_id[2].relay
            await replica.stop()
            assert relay is not None
            assert relay.is_following
            await master.stop()

    asyncio.run(main())


def test_a_relay_ends_after_the_delay_of_the_journal() -> None:
    """A relay that ends waits for the journal's write under way, and so does the next subscription of its replica."""

    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            await until(lambda: replica.follows(master))
            master.inject("WAL_DELAY", True)
            master.begin_put([1, "x"])
            await replica.restart(replication_sync_timeout=0.01)
            await until(lambda: _is_refused(replica))
            master.inject("WAL_DELAY", False)
            await until(lambda: replica.follows(master))
            await equal([master, replica])

    asyncio.run(main())


def _has_received_rows(replica: Member) -> bool:
    if not replica.is_running:
        return False
    machines = [applier._machine for applier in replica.node.replication.replicaset.appliers]
    return any(machine.has_received for machine in machines)


def test_a_join_that_breaks_off() -> None:
    """A join that breaks off begins anew under the same UUID, whatever it had received."""

    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            for key in range(200):
                master.begin_put([key, "x" * 100])
            proxy = await running.proxy(master, fragment=1000, delay=0.005)
            replica = running.member()
            starting = asyncio.ensure_future(replica.start(proxy))
            await until(lambda: _has_received_rows(replica))
            proxy.cut()
            proxy.delay = 0
            await until(lambda: "begins anew" in replica.log)
            master.inject("REPLICA_JOIN_DELAY", True)
            await until(lambda: master.log.count("initial data sent.") == 2 and _has_received_rows(replica))
            proxy.cut()
            await until(lambda: replica.log.count("begins anew") == 2)
            master.inject("REPLICA_JOIN_DELAY", False)
            await starting
            await equal([master, replica])
            assert len(replica.keys()) == 200
            assert (replica.id, sorted(master.node.replication.replicaset.by_id)) == (2, [1, 2])

    asyncio.run(main())


def test_a_transaction_in_a_trigger_that_waits() -> None:
    """Triggers of an applied row may yield: rows keep their order, and a stop meanwhile leaves no transaction open."""

    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            await until(lambda: replica.follows(master))
            gate = asyncio.Event()

            class Waiting:
                async def call(self, ctx: object, old: object, new: object, space: str, operation: str) -> None:
                    await gate.wait()

            space = replica.node.schema.space(SPACE)
            space.on_replace.append(Waiting())
            await master.put([1, "x"])
            await master.put([2, "x"])
            await until(lambda: replica.keys() == [1])
            await replica.replicate()
            assert replica.keys() == []
            gate.set()
            await replica.replicate(master)
            await equal([master, replica])
            assert replica.keys() == [1, 2]

    asyncio.run(main())


# -- leave nothing behind --------------------------------------------------------------------------------------


def _descriptors() -> set[str]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
        except OSError:
            continue
    return found


def test_nothing_is_left_behind() -> None:
    """After three nodes have replicated in all directions and closed, no task, thread, descriptor or
    session is left.
    """

    async def main() -> None:
        threads, descriptors = set(threading.enumerate()), _descriptors()
        async with cluster() as running:
            members = await running.mesh(3)
            for number, member in enumerate(members):
                await member.put([number, "x"])
            await equal(members)
            await members[1].restart()
            await members[0].replicate(*members)
            await equal(members)
            nodes = [member.node for member in members]
            for node in nodes:
                appliers = [session for session in node.sessions.by_id.values() if session.type == "applier"]
                assert len(appliers) == len(node.replication.replicaset.appliers)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left
        assert set(threading.enumerate()) == threads
        await until(lambda: _descriptors() == descriptors)
        for node in nodes:
            assert not node.sessions.by_id.keys() - {1} or all(
                session.type == "background" for session in node.sessions.by_id.values()
            )

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())
        gc.collect()


def test_memory_disks_are_independent() -> None:
    """A copy of a disk has what a power failure would leave, and later writes do not change it."""

    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            await master.put([1, "x"])
            copy = master.copy_disk()
            await master.put([2, "x"])
            await master.stop()
            assert isinstance(copy, MemoryStorage)
            master.disk = copy
            await master.start()
            assert master.keys() == [1]

    asyncio.run(main())


def test_a_large_transaction_breaks_no_connection() -> None:
    """An instance that reads, sends or applies a large transaction sends heartbeats meanwhile, so that no connection
    times out.
    """

    async def main() -> None:
        async with cluster() as running:
            # Connections time out after four times that, which a busy machine may take for a turn of another process.
            master, replica = await running.pair(replication_timeout=0.05)
            await master.node.configure({"replication_timeout": 0.05})
            await until(lambda: replica.follows(master))
            before = replica.log.count("subscribed")
            await master.put(*([key, "x"] for key in range(40000)))
            await until(lambda: len(replica.keys()) == 40000)
            assert replica.log.count("subscribed") == before
            assert "timed out" not in replica.log
            assert "timed out" not in master.log

    asyncio.run(main())


def test_a_row_in_the_middle_of_a_turn() -> None:
    """A relay takes a row that was written in the middle of a turn when the turn ends, also if its connection is closed
    or busy.
    """

    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            await until(lambda: replica.follows(master))
            applier = replica.applier(master)
            (relay,) = [r.relay for r in master.node.replication.replicaset if r.relay is not None]
            relay._last_sent -= 10
            heard = applier.times.last_row_time
            relay.tell_alive()
            await until(lambda: applier.times.last_row_time > heard)
            assert applier._subscription is not None
            applier._subscription._last_ack -= 10
            relay.last_row_time = 0
            applier.tell_alive()
            await until(lambda: relay.last_row_time > 0)
            await replica.stop()
            relay._last_sent -= 10
            relay.tell_alive()

    asyncio.run(main())
