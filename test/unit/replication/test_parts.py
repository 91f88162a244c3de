"""The replica set, row filters, streams and an applier with a scripted master, without a node."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterable
from typing import Any, cast
from uuid import UUID

import pytest

from box.errinj import ErrorInjections
from box.errors import BoxError, ErrorCode
from box.log import Log
from box.net.sockets import SocketNetwork
from box.replication.applier import Applier
from box.replication.local import ReplicationOptions
from box.replication.relay import RowFilter
from box.replication.replicaset import ReplicaSet
from box.replication.state import ApplierState, SyncState
from box.session import Context
from box.waiters import Waiters
from box.wire.ballot import Ballot
from box.wire.constants import GROUP_LOCAL, TYPE_ERROR, RequestType
from box.wire.error import encode_error_body
from box.wire.greeting import encode_greeting
from box.wire.messages import Claim, SynchroRequest, heartbeat_row, subscribe_response_row, synchro_row
from box.wire.row import Row, decode_row, encode_packet
from box.wire.vclock import VClock
from test.support import until

UUIDS = [UUID(int=n) for n in range(1, 6)]


# -- the replica set ----------------------------------------------------------------------------------------


class FakeApplier:
    """An applier with the attributes that the replica set reads."""

    def __init__(self, number: int, *, is_connected: bool = True, ballot: Ballot | None = None) -> None:
        self.uuid = UUIDS[number] if is_connected else None
        self.is_connected = is_connected
        self.is_self = False
        self.state = ApplierState.CONNECTED if is_connected else ApplierState.DISCONNECTED
        self.ballot = ballot or Ballot()


def attach(replicaset: ReplicaSet, *fakes: FakeApplier) -> None:
    appliers = cast(list[Applier], list(fakes))
    replicaset.check_unique(appliers)
    replicaset.attach_appliers(appliers)


def change(replicaset: ReplicaSet, fake: FakeApplier, state: ApplierState) -> None:
    fake.state = state
    replicaset.on_state(cast(Applier, fake))


def test_registration() -> None:
    replicaset = ReplicaSet()
    assert replicaset.free_id() == 1
    for replica_id, uuid in ((1, UUIDS[0]), (3, UUIDS[1])):
        replicaset.register(replica_id, uuid)
    assert replicaset.free_id() == 2
    assert [replica.id for replica in replicaset.registered] == [1, 3]
    replicaset.unregister(1)
    assert UUIDS[0] not in replicaset.by_uuid
    replicaset.unregister(9)
    assert replicaset.free_id() == 1


def test_a_replica_stays_while_it_has_an_applier() -> None:
    replicaset = ReplicaSet()
    fake = FakeApplier(0)
    replicaset.register(1, UUIDS[0])
    attach(replicaset, fake)
    replicaset.unregister(1)
    assert UUIDS[0] in replicaset.by_uuid
    replicaset.detach_appliers()
    assert not replicaset.by_uuid


def test_counters_follow_the_appliers() -> None:
    replicaset = ReplicaSet()
    fakes = [FakeApplier(0), FakeApplier(1), FakeApplier(2, is_connected=False)]
    attach(replicaset, *fakes)
    assert (replicaset.connected, replicaset.synced, replicaset.loading) == (2, 0, 0)
    change(replicaset, fakes[0], ApplierState.FOLLOW)
    change(replicaset, fakes[1], ApplierState.LOADING)
    assert (replicaset.connected, replicaset.synced, replicaset.loading) == (1, 1, 1)
    change(replicaset, fakes[0], ApplierState.DISCONNECTED)
    assert (replicaset.connected, replicaset.synced) == (0, 0)
    fakes[2].uuid, fakes[2].is_connected = UUIDS[2], True
    replicaset.on_connect(cast(Applier, fakes[2]))
    assert replicaset.connected == 1
    assert replicaset.unconnected == []
    assert replicaset.by_uuid[UUIDS[2]].sync_state is SyncState.CONNECTED


def test_duplicates_are_refused() -> None:
    replicaset = ReplicaSet()
    with pytest.raises(BoxError, match="duplicate connection to the same replica"):
        attach(replicaset, FakeApplier(0), FakeApplier(0))
    late = FakeApplier(1, is_connected=False)
    attach(replicaset, FakeApplier(0), late)
    late.uuid = UUIDS[0]
    with pytest.raises(BoxError, match="duplicate connection to the same replica"):
        replicaset.on_connect(cast(Applier, late))


def test_an_applier_whose_peer_is_another_instance_now() -> None:
    replicaset = ReplicaSet()
    fake = FakeApplier(0)
    attach(replicaset, fake)
    fake.uuid = UUIDS[1]
    replicaset.on_connect(cast(Applier, fake))
    assert list(replicaset.by_uuid) == [UUIDS[1]]


@pytest.mark.parametrize(
    ("ballots", "leader"),
    [
        ([Ballot(), Ballot()], 0),  # the smallest uuid
        ([Ballot(vclock=VClock({1: 1})), Ballot(vclock=VClock({1: 2}))], 1),  # the latest vclock
        ([Ballot(), Ballot(is_loading=True, vclock=VClock({1: 9}))], 0),  # one that has loaded
        ([Ballot(is_ro=True, vclock=VClock({1: 9})), Ballot()], 1),  # one that takes changes
        ([Ballot(is_ro=True), Ballot(is_ro=True)], 0),  # better than nobody
        ([Ballot(is_loading=True), Ballot()], 1),  # the elected one of two candidates with the same rows
    ],
)
def test_choice_of_a_leader(ballots: list[Ballot], leader: int) -> None:
    replicaset = ReplicaSet()
    attach(replicaset, *(FakeApplier(number, ballot=ballot) for number, ballot in enumerate(ballots)))
    chosen = replicaset.leader()
    assert chosen is not None
    assert chosen.uuid == UUIDS[leader]


# -- rows -------------------------------------------------------------------------------------------------------


def error_row(error: BoxError) -> Row:
    return Row(TYPE_ERROR | error.code, body=encode_error_body(error))


def row(lsn: int, replica_id: int = 1, **fields: Any) -> Row:
    return Row(RequestType.REPLACE, replica_id, lsn, 1.0, body=b"\x80", **fields)


def selected(row_filter: RowFilter, rows: Iterable[Row]) -> list[tuple[int, int, int]]:
    return [(r.type, r.replica_id, r.lsn) for r in row_filter.select(rows)]


def test_row_filter() -> None:
    """A filter drops local rows, the subscriber's own rows unless it has lost them, and rows of filtered origins."""
    row_filter = RowFilter(2, VClock({2: 5}), frozenset({4}))
    rows = [row(1), row(5, 2), row(6, 2), row(1, 4), row(7, 0, group_id=GROUP_LOCAL), row(2, 3, group_id=GROUP_LOCAL)]
    assert selected(row_filter, rows) == [
        (RequestType.REPLACE, 1, 1),
        (RequestType.REPLACE, 2, 5),
        (RequestType.NOP, 3, 2),
    ]
    assert rows[-1].type == RequestType.REPLACE, "rows are shared and must not change"


@pytest.mark.parametrize(("version_id", "kind"), [(0x020801, RequestType.CONFIRM), (0x020B09, RequestType.NOP)])
def test_later_versions_get_nops_for_claims(version_id: int, kind: RequestType) -> None:
    """Versions from 2.11 get a NOP for a CONFIRM that claims the limbo: they would stop replication if they know
    another owner.
    """
    claim = synchro_row(SynchroRequest(RequestType.CONFIRM, 1, 7, 0, 1, claim=Claim(3, 1, 8)))
    claim.replica_id, claim.lsn = 1, 9
    confirm = synchro_row(SynchroRequest(RequestType.CONFIRM, 1, 8, 0, 1))
    confirm.replica_id, confirm.lsn = 1, 10
    row_filter = RowFilter(2, VClock(), frozenset(), version_id=version_id)
    assert selected(row_filter, [claim, confirm]) == [(kind, 1, 9), (RequestType.CONFIRM, 1, 10)]


def test_a_final_join_brings_own_rows_too() -> None:
    assert len(selected(RowFilter(0, VClock(), frozenset()), [row(5, 2), row(1, 1)])) == 2


# -- an applier before a script -----------------------------------------------------------------------------------


class Script:
    """A master that answers VOTE, and each later request with the next entry of a list."""

    def __init__(self, path: str, answers: list[list[Row]]) -> None:
        self.path = path
        self.answers = answers
        self.requests: list[int] = []
        self.ballot = Ballot(vclock=VClock({1: 3}))

    async def __aenter__(self) -> Script:
        self._server = await asyncio.start_unix_server(self._serve, self.path)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(encode_greeting(UUIDS[0], b"s" * 32))
        try:
            while True:
                prefix = await reader.readexactly(5)
                request = decode_row(await reader.readexactly(int.from_bytes(prefix[1:], "big")))
                if request.type == RequestType.VOTE:
                    writer.write(encode_packet(Row(RequestType.OK, sync=request.sync, body=self.ballot.encode())))
                    continue
                self.requests.append(request.type)
                if request.type != RequestType.OK and self.answers:
                    writer.write(b"".join(map(encode_packet, self.answers.pop(0))))
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


class NoElections:
    """Elections that are off."""

    def hear(self, _source: int) -> None:
        """Do nothing: no election waits for a leader."""

    def is_leader(self, _source: int) -> bool:
        return True

    def check_consistent(self) -> None:
        """Do nothing: no decisions contradict each other."""


class Host:
    """All parts of an instance that an applier needs; it keeps the applied transactions."""

    is_configured = True
    is_ro = False

    def __init__(self) -> None:
        self.values = {
            "replication_timeout": 0.02,
            "replication_connect_timeout": 5.0,
            "replication_sync_lag": 10.0,
            "replication_anon": False,
        }
        self.options = ReplicationOptions(self.values)
        self.log = Log(lambda: 0.0)
        self.log.level = -1  # silence
        self.elections = NoElections()
        self.errinj = ErrorInjections()
        self.instance_uuid = UUIDS[1]
        self.instance_id = 2
        self.replicaset_uuid = UUIDS[4]
        self.vclock = VClock()
        self.is_orphan = False
        self.states: list[ApplierState] = []
        self.applied: list[list[int]] = []
        self.queue_size, self.queue_max_size = 0, 1
        self.progress = Waiters()

    def may_be_void(self, rows: list[Row]) -> bool:
        """Return False: no instance takes over a limbo here."""
        return False

    def contradicts(self, rows: list[Row]) -> bool:
        """Return False: nothing is decided here."""
        return False

    @property
    def loop(self) -> Any:
        return asyncio.get_running_loop()

    @property
    def network(self) -> SocketNetwork:
        return SocketNetwork(self.loop)

    @property
    def journal(self) -> Any:
        return self

    instance = sink = journal

    def now(self) -> float:
        return 1.0

    def applier_context(self) -> Context:
        return cast(Context, None)

    async def close_context(self, ctx: Context) -> None:
        pass

    def apply_now(self, ctx: Context, rows: list[Row]) -> bool:
        self.applied.append([r.lsn for r in rows])
        self.vclock.follow(rows[-1].replica_id, rows[-1].lsn)
        return True

    async def apply(self, ctx: Context, rows: list[Row]) -> None:
        self.apply_now(ctx, rows)

    async def sync(self) -> None:
        self.instance_id = 2

    def fetch_list(self, source: UUID | None) -> None:
        """Return None: everything is fetched."""

    def applier(self, uri: str) -> Applier:
        return Applier(
            cast(Any, self),
            uri,
            on_connect=lambda applier: None,
            on_state=lambda applier: self.states.append(applier.state),
        )


async def follow(tmp_path: Any, answers: list[list[Row]], host: Host, end: ApplierState) -> tuple[Applier, Script]:
    """Run an applier with a scripted master until it is in a state, then stop it."""
    async with Script(f"{tmp_path}/s", answers) as script:
        applier = host.applier(f"unix/:{tmp_path}/s")
        applier.resume()
        await until(lambda: end in host.states, f"{end} after {host.states}")
        await applier.close()
        return applier, script


SUBSCRIBED = subscribe_response_row(UUIDS[4], VClock({1: 3}))
SUBSCRIBED.replica_id = 1


def test_states_of_a_subscription(tmp_path: Any) -> None:
    """An applier is in SYNC until it has all rows that the master had, and applies several rows as one transaction."""
    host = Host()
    rows = [
        heartbeat_row(1, 1.0),
        row(1),
        row(2, tsn=2, is_commit=False),
        row(3, tsn=2),
        heartbeat_row(1, 1.0),
    ]
    applier, script = asyncio.run(follow(tmp_path, [[SUBSCRIBED, *rows]], host, ApplierState.FOLLOW))
    assert [state.name for state in host.states] == [
        *("CONNECT", "CONNECTED", "READY", "SYNC", "FOLLOW", "OFF", "OFF"),
    ]
    assert host.applied == [[1], [2, 3]]
    assert (applier.peer_id, applier.times.lag, applier.uuid) == (1, 0.0, UUIDS[0])
    assert script.requests[0] == RequestType.SUBSCRIBE
    assert applier.ballot.vclock == {1: 3}


@pytest.mark.parametrize(
    ("code", "state", "tries_again"),
    [
        (ErrorCode.LOADING, ApplierState.LOADING, True),
        (ErrorCode.TOO_EARLY_SUBSCRIBE, ApplierState.LOADING, True),
        (ErrorCode.ACCESS_DENIED, ApplierState.LOADING, True),
        (ErrorCode.XLOG_GAP, ApplierState.LOADING, True),
        (ErrorCode.CFG, ApplierState.LOADING, True),
        (ErrorCode.SYSTEM, ApplierState.DISCONNECTED, True),
        (ErrorCode.READONLY, ApplierState.STOPPED, False),
        (ErrorCode.UNKNOWN_REPLICA, ApplierState.STOPPED, False),
    ],
)
def test_what_an_error_does(tmp_path: Any, code: ErrorCode, state: ApplierState, tries_again: bool) -> None:
    host = Host()
    answers = [[error_row(BoxError(code, "because"))], [SUBSCRIBED]]
    end = ApplierState.SYNC if tries_again else state
    applier, _ = asyncio.run(follow(tmp_path, answers, host, end))
    assert state in host.states
    assert (applier.error is None) == tries_again


def test_another_cluster(tmp_path: Any) -> None:
    host = Host()
    applier, _ = asyncio.run(
        follow(tmp_path, [[subscribe_response_row(UUIDS[3], VClock())]], host, ApplierState.STOPPED)
    )
    assert applier.error is not None
    assert applier.error.code == ErrorCode.REPLICASET_UUID_MISMATCH


def test_a_row_of_an_unknown_type(tmp_path: Any) -> None:
    """An applier stops at a row of an unknown type and applies nothing after it."""
    host = Host()
    strange = Row(77, 1, 2, 1.0, body=b"\x80")
    answers = [[SUBSCRIBED, heartbeat_row(1, 1.0), row(1), strange, row(3)]]
    applier, _ = asyncio.run(follow(tmp_path, answers, host, ApplierState.STOPPED))
    assert applier.error is not None
    assert (applier.error.code, applier.error.message) == (ErrorCode.UNKNOWN_REQUEST_TYPE, "Unknown request type 77")
    assert host.applied == [[1]]


def test_an_anonymous_instance_registers_first(tmp_path: Any) -> None:
    host = Host()
    host.instance_id = 0
    _, script = asyncio.run(follow(tmp_path, [[row(1), Row(RequestType.OK)], [SUBSCRIBED]], host, ApplierState.SYNC))
    assert script.requests == [RequestType.REGISTER, RequestType.SUBSCRIBE]
    assert [state.name for state in host.states][3:6] == ["REGISTER", "REGISTERED", "READY"]


def test_a_connection_to_itself(tmp_path: Any) -> None:
    async def main() -> None:
        host = Host()
        host.instance_uuid = UUIDS[0]
        async with Script(f"{tmp_path}/s", []):
            applier = host.applier(f"unix/:{tmp_path}/s")
            applier.start()
            await applier.wait_connected()
            assert (applier.state, applier.is_connected, applier.is_running) == (ApplierState.OFF, True, False)
            await applier.close()

    asyncio.run(main())


def test_an_applier_that_nobody_answers(tmp_path: Any) -> None:
    """An applier without an answer retries, and logs the error once."""

    async def main() -> None:
        host = Host()
        applier = host.applier(f"unix/:{tmp_path}/nobody")
        applier.start()
        await until(lambda: host.states.count(ApplierState.DISCONNECTED) >= 3)
        assert applier.error is not None
        assert applier.error.message == f"connect to unix/:{tmp_path}/nobody, called on fd -1"
        assert applier.error.errno == errno.ENOENT
        await applier.close()
        assert applier.state is ApplierState.OFF

    asyncio.run(main())


# -- options ------------------------------------------------------------------------------------------------------


def test_quorum_of_sources() -> None:
    """By default all sources form the quorum; a greater number counts as all of them."""
    quorums = [ReplicationOptions({"replication_connect_quorum": value}).connect_quorum(3) for value in (None, 2, 31)]
    assert quorums == [3, 2, 3]
