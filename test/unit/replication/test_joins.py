"""Joins and followers with triggers, injected failures, anonymous members and short timeouts."""

from __future__ import annotations

import asyncio
import errno
from typing import Any
from unittest.mock import Mock

import pytest

from box.data.codec import pack, unpack
from box.errors import BoxError, ErrorCode
from box.replication.state import ApplierState
from box.schema.ids import SpaceId
from box.wire.constants import RequestType
from box.wire.messages import RaftRequest
from box.wire.row import Row
from lua.bindings.info import InfoBinding, peer_name
from test.support import until

from .cluster import SPACE, cluster, equal, fails


class Trigger:
    """A before_replace trigger that inverts an option of new spaces, or changes nothing."""

    def __init__(self, change: Any = None) -> None:
        self.seen: list[Any] = []
        self._change = change

    async def call(self, ctx: Any, old: bytes | None, new: bytes | None, space_name: str, op: str) -> bytes | None:
        self.seen.append(unpack(new) if new else None)
        return self._change(new) if self._change else new


class Waiting(Trigger):
    async def call(self, ctx: Any, old: bytes | None, new: bytes | None, space_name: str, op: str) -> bytes | None:
        # Longer than a turn of the loop, which triggers of a start get at once: nobody else runs then.
        await asyncio.sleep(0.001)
        return new


def make_local(raw: bytes) -> bytes:
    fields = unpack(raw)
    if fields[0] == SPACE:
        fields[5] = {"group_id": 1}
    return pack(fields)


def test_triggers_of_system_spaces_see_recovery_and_join() -> None:
    """A trigger set by `box.ctl.on_schema_init` changes rows of a snapshot, of the log and of a join."""

    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            replica = running.member()
            triggers = replica.on_schema_init = [Trigger(make_local)]
            await replica.start(master)
            assert replica.node.schema.space(SPACE).is_local
            assert [row[0] for row in triggers[0].seen][-1] == SPACE
            await master.put([600, 1, "later", "memtx", 0, {}, []], space=SpaceId.SPACE)
            await until(lambda: 600 in replica.node.schema.spaces)
            replica.on_schema_init = [Trigger()]
            await replica.restart()
            seen = [row[0] for row in replica.on_schema_init[0].seen]
            assert SPACE in seen, "a row of the snapshot"
            assert seen[-1] == 600, "a row of the log"

    asyncio.run(main())


def test_a_trigger_must_not_wait_during_recovery() -> None:
    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            await master.stop()
            master.on_schema_init = [Waiting()]
            with pytest.raises(BoxError) as caught:
                await master.start()
            assert caught.value.code == ErrorCode.TRANSACTION_YIELD

    asyncio.run(main())


def test_a_trigger_of_the_registration() -> None:
    """The registration of a replica runs triggers of `_cluster`."""

    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            trigger = Trigger()
            master.node.schema.space(SpaceId.CLUSTER).on_replace.append(trigger)
            replica = await running.member().start(master)
            assert trigger.seen == [[2, str(replica.node.state.instance_uuid)]]

    asyncio.run(main())


def test_a_row_twice_in_a_final_join() -> None:
    """A join whose final rows are out of order fails; the error names the row."""

    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            await master.put([1])
            lsn = master.node.state.vclock[1] + 1  # of the registration, which is seen before it is written
            master.inject("REPLICA_JOIN_DELAY", True)
            joining = asyncio.create_task(running.member().start(master))
            await until(lambda: master.node.state.vclock[1] == lsn)
            master.inject("RELAY_BREAK_LSN", lsn + 1)
            await master.put([2])
            master.inject("REPLICA_JOIN_DELAY", False)
            with pytest.raises(BoxError) as caught:
                await joining
            assert caught.value.message == (
                f"LSN for 1 is used twice or COMMIT order is broken: confirmed: {lsn}, new: {lsn}, "
                f"req: {{type: 'INSERT', replica_id: 1, lsn: {lsn}, space_id: 512, index_id: 0, tuple: [2]}}"
            )

    asyncio.run(main())


def test_a_join_amid_synchronous_transactions() -> None:
    """A join may end with synchronous transactions without a decision, which the replica keeps out of its first
    checkpoint.

    It gets them again by SUBSCRIBE. Before, they count for no quorum, and a crash leaves none of them.
    """

    async def main() -> None:
        async with cluster() as running:
            master = await running.master(replication_synchro_quorum=1, replication_synchro_timeout=100)
            await master.make_space(513, "synchronous", is_sync=True)
            await master.put([1], space=513)
            master.inject("REPLICA_JOIN_DELAY", True)
            replica = running.member()
            joining = asyncio.create_task(replica.start(master, replication_synchro_timeout=100))
            await until(lambda: len(master.rows(SpaceId.CLUSTER)) == 2)
            await until(lambda: not master.node.synchro.limbo.entries)
            await master.node.configure({"replication_synchro_quorum": 2})
            commit = master.begin_put([2], space=513)
            assert commit is not None
            kept: list[bool] = []
            commit.on_done(lambda _: kept.append(any(name.endswith(".snap") for name in replica.disk.names("."))))
            master.inject("REPLICA_JOIN_DELAY", False)
            async with asyncio.timeout(30):
                await joining
                await commit.wait()
            assert kept == [True]
            await equal([master, replica], 513)
            assert not [name for name in replica.disk.names(".") if name.endswith(".inprogress")]
            await replica.restart()
            await equal([master, replica], 513)

    asyncio.run(main())


def test_a_final_join_that_sleeps_goes_on_with_the_next_row() -> None:
    """After the sleep of ERRINJ_RELAY_FINAL_SLEEP a final join continues with the next row."""

    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            master.inject("RELAY_FINAL_SLEEP", True)
            replica = running.member()
            joining = asyncio.create_task(replica.start(master))
            await until(lambda: len(master.rows(SpaceId.CLUSTER)) == 2)
            await until(lambda: "final data sent" in master.log)
            assert not joining.done()
            await master.put([1])
            await joining
            await equal([master, replica])

    asyncio.run(main())


def test_a_failed_commit_stops_the_applier() -> None:
    """A commit that fails by ERRINJ_TXN_COMMIT_ASYNC stops the applier."""

    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            replica.inject("TXN_COMMIT_ASYNC", True)
            await master.put([1])
            applier = replica.applier(master)
            await until(lambda: applier.state is ApplierState.STOPPED)
            assert applier.error is not None
            assert applier.error.message == "Error injection 'txn commit async injection'"
            assert replica.keys() == []

    asyncio.run(main())


def test_a_conflict_is_logged_with_its_row() -> None:
    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            await replica.put([1])
            await master.put([1, "other"])
            await until(lambda: replica.applier(master).state is ApplierState.STOPPED)
            row = "{type: 'INSERT', replica_id: 1, lsn: %d, space_id: 512, index_id: 0, tuple: [1, \"other\"]}"
            assert "error applying row: " + row % master.node.state.vclock[1] in replica.log

    asyncio.run(main())


def test_a_replica_without_a_log() -> None:
    """On a replica without a log, rows that are applied together advance its vclock, so that none comes twice."""

    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            replica = await running.member().start(master, wal_mode="none")
            for start in range(1, 301, 100):
                for key in range(start, start + 100):
                    master.begin_put([key])
                await until(lambda start=start: replica.keys() == list(range(1, start + 100)))
                await until(lambda: replica.node.state.vclock[1] == master.node.state.vclock[1])
                await replica.replicate()
                await replica.replicate(master)
            assert replica.only_applier().error is None

    asyncio.run(main())


def test_acknowledgements_of_an_anonymous_replica_count() -> None:
    """All anonymous replicas together count as one member of a quorum, as in 2.8.1."""

    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            replica = await running.member().start(master, replication_anon=True, read_only=True)
            await master.node.configure({"replication_synchro_quorum": 2, "replication_synchro_timeout": 10})
            await master.make_space(600, "sync", is_sync=True)
            await master.put([1], space=600)
            await until(lambda: replica.keys(600) == [1])

    asyncio.run(main())


def test_a_tiny_timeout_lets_a_replica_join() -> None:
    """A tiny `replication_timeout` does not limit a greeting and a join, only the stream of rows."""

    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            await master.put([1])
            proxy = await running.proxy(master, delay=0.002)
            replica = await running.member().start(proxy, replication_timeout=0.00001, replication_sync_timeout=0.01)
            assert replica.keys() == [1]

    asyncio.run(main())


def test_a_follower_that_has_gone() -> None:
    """The error of a relay whose follower is gone has the system's errno."""

    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            member = master.node.replication.replicaset.by_id[replica.id]
            await until(lambda: member.relay is not None and member.relay.is_following)
            await replica.stop()
            await until(lambda: member.relay is not None and member.relay.error is not None)
            assert member.relay is not None
            assert member.relay.error is not None
            assert member.relay.error.errno == errno.EPIPE

    asyncio.run(main())


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("localhost:3301", "localhost:3301"),
        ("user:secret@localhost:3301", "user@localhost:3301"),
        ("/tmp/x.sock", "unix/:/tmp/x.sock"),
        ("user:secret@unix/:/tmp/x.sock", "user@unix/:/tmp/x.sock"),
    ],
)
def test_addresses_as_box_info_shows_them(uri: str, name: str) -> None:
    assert peer_name(uri) == name


def test_box_info_of_an_anonymous_replica() -> None:
    """box.info of an anonymous replica has id 0, and its own rows are local."""

    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            await master.make_space(700, "local", group_id=1)
            replica = await running.member().start(master, replication_anon=True, read_only=True)
            await replica.put([1], space=700)
            await replica.put([2], space=700)
            info = InfoBinding(Mock(), replica.node)
            assert [codec_value(info, name) for name in ("id", "lsn")] == [0, 2]

    asyncio.run(main())


def codec_value(info: InfoBinding, name: str) -> Any:
    return unpack(info.info(name.encode()))


def test_a_join_brings_the_term_and_the_owner_of_the_limbo() -> None:
    """A join brings the term and the owner of the limbo, also if no row of the log has them any more."""

    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            await master.node.elections.promote()
            await master.node.checkpoints.make()
            master.node.elections.raft.recover(RaftRequest(7))
            replica = await running.member().start(master)
            assert replica.node.elections.raft.term == 7
            limbo = replica.node.limbo
            assert (limbo.owner_id, limbo.greatest_term) == (master.id, master.node.limbo.greatest_term)
            await replica.restart()
            assert replica.node.elections.raft.term == 7

    asyncio.run(main())


@pytest.mark.parametrize("kind", [RequestType.INSERT, RequestType.CONFIRM])
def test_strange_rows_in_the_metadata(kind: RequestType, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            rows = [Row(RequestType.JOIN_META), Row(kind, body=b"\x80"), Row(RequestType.JOIN_SNAPSHOT)]
            monkeypatch.setattr(master.node.elections, "metadata", lambda: rows)
            error = await fails(running.member().start(master))
            assert (error.code, error.message) == (ErrorCode.UNKNOWN_REQUEST_TYPE, f"Unknown request type {kind}")

    asyncio.run(main())
