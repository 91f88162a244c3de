"""Bodies of replication requests and rows."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgpack
import pytest

from box.errors import BoxError
from box.wire.ballot import Ballot
from box.wire.constants import RequestType
from box.wire.messages import (
    SUBSCRIBE_KEYS,
    Claim,
    Promotions,
    RaftRequest,
    SynchroRequest,
    ack_row,
    after_row,
    decode_after,
    decode_promotions,
    decode_raft,
    decode_replication,
    decode_synchro,
    decode_vclock,
    fetch_snapshot_row,
    heartbeat_row,
    is_claim,
    join_row,
    raft_row,
    register_row,
    subscribe_response_row,
    subscribe_row,
    synchro_row,
    vclock_row,
)
from box.wire.row import Row, decode_row, encode_row
from box.wire.vclock import VClock

CLUSTER = UUID("11111111-2222-3333-4444-555555555555")
INSTANCE = UUID("7170b4c0-a72c-4a07-8e55-3c7c9f1b2f3a")
CLOCK = VClock({2: 7, 0: 4, 1: 300})


def unpacked(row: Row) -> Any:
    return msgpack.unpackb(row.body, strict_map_key=False)


def test_subscribe() -> None:
    """SUBSCRIBE leaves vclock component 0 out, and the filter if it is empty."""
    row = subscribe_row(CLUSTER, INSTANCE, CLOCK, anon=True, id_filter=frozenset({3, 1}))
    assert list(unpacked(row).items()) == [
        (0x25, str(CLUSTER)),
        (0x24, str(INSTANCE)),
        (0x26, {1: 300, 2: 7}),
        (0x06, 0x020801),
        (0x50, True),
        (0x51, [1, 3]),
    ]
    request = decode_replication(decode_row(encode_row(row)))
    assert (request.replicaset_uuid, request.instance_uuid, request.vclock) == (
        CLUSTER,
        INSTANCE,
        VClock({1: 300, 2: 7}),
    )
    assert (request.version_id, request.anon, request.id_filter) == (0x020801, True, frozenset({1, 3}))
    assert 0x51 not in unpacked(subscribe_row(CLUSTER, INSTANCE, CLOCK))


def test_subscriptions_ignore_the_uuid_of_the_replica_set() -> None:
    """Even a malformed one, as in Tarantool; with the keys of all messages it is an error."""
    row = subscribe_row(CLUSTER, INSTANCE, CLOCK)
    row.body = row.body.replace(str(CLUSTER).encode(), b"?" * len(str(CLUSTER)))
    request = decode_replication(row, SUBSCRIBE_KEYS)
    assert (request.replicaset_uuid, request.instance_uuid) == (None, INSTANCE)
    with pytest.raises(BoxError, match="UUID"):
        decode_replication(row)


def test_a_list_of_instances_to_fetch() -> None:
    """A list of instances to fetch from has Lunabox's own key; an empty list means all, and is not sent."""
    row = subscribe_row(CLUSTER, INSTANCE, CLOCK, fetch=[INSTANCE, CLUSTER])
    assert unpacked(row)[0x7F] == sorted([str(INSTANCE), str(CLUSTER)])
    assert decode_replication(row).fetch == {INSTANCE, CLUSTER}
    assert 0x7F not in unpacked(subscribe_row(CLUSTER, INSTANCE, CLOCK))
    assert decode_replication(Row(RequestType.SUBSCRIBE, body=msgpack.packb({0x7F: []}))).fetch is None


def test_an_acknowledgement_tells_the_term() -> None:
    """An acknowledgement has the term, under Lunabox's own key; without elections it has Tarantool's keys alone."""
    assert unpacked(ack_row(CLOCK, 7)) == {0x26: {1: 300, 2: 7}, 0x7C: 7}
    assert decode_replication(ack_row(CLOCK, 7)).term == 7
    assert encode_row(ack_row(CLOCK, 0)) == encode_row(vclock_row(CLOCK))
    assert decode_replication(ack_row(CLOCK, 0)).term == 0
    with pytest.raises(BoxError, match="invalid TERM"):
        decode_replication(Row(RequestType.OK, body=msgpack.packb({0x7C: "1"})))


def test_a_position_before_rows() -> None:
    assert decode_after(after_row(VClock({3: 1, 1: 300}))) == VClock({1: 300, 3: 1})
    assert decode_after(heartbeat_row(1, 1.0)) is None
    assert decode_after(vclock_row(CLOCK)) is None
    with pytest.raises(BoxError, match="invalid VCLOCK"):
        decode_after(Row(RequestType.OK, body=msgpack.packb({0x7E: [1]})))


def test_other_requests() -> None:
    assert unpacked(join_row(INSTANCE)) == {0x24: str(INSTANCE), 0x06: 0x020801}
    assert unpacked(register_row(INSTANCE, CLOCK)) == {0x24: str(INSTANCE), 0x26: {1: 300, 2: 7}}
    assert decode_replication(fetch_snapshot_row()).version_id == 0x020801
    answer = decode_replication(subscribe_response_row(CLUSTER, CLOCK, sync=5))
    assert (answer.replicaset_uuid, answer.vclock) == (CLUSTER, VClock({1: 300, 2: 7}))
    assert decode_vclock(vclock_row(CLOCK)) == VClock({1: 300, 2: 7})
    assert encode_row(heartbeat_row(1, 1.0)) == bytes.fromhex("83 0000 0201 04cb3ff0000000000000")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({0x24: "short"}, "UUID"),
        ({0x24: 5}, "UUID"),
        ({0x25: "x" * 36}, "UUID"),
        ({0x26: [1]}, "invalid VCLOCK"),
        ({0x26: {1: -1}}, "invalid VCLOCK"),
        ({0x26: {40: 1}}, "invalid VCLOCK"),
        ({0x06: "2.8"}, "invalid VERSION"),
        ({0x50: 1}, "invalid REPLICA_ANON flag"),
        ({0x51: [32]}, "invalid ID_FILTER"),
        ({0x51: 1}, "invalid ID_FILTER"),
        ({0x7F: 1}, "invalid FETCH list"),
        ({0x7F: [str(INSTANCE)] * 32}, "invalid FETCH list"),
        ({0x7F: ["short"]}, "UUID"),
        ([], "request body"),
    ],
)
def test_refused_bodies(body: Any, text: str) -> None:
    with pytest.raises(BoxError, match=f"Invalid MsgPack - {text}"):
        decode_replication(Row(RequestType.SUBSCRIBE, body=msgpack.packb(body)))


def test_missing_body() -> None:
    with pytest.raises(BoxError, match="Invalid MsgPack - request body"):
        decode_replication(Row(RequestType.SUBSCRIBE))


@pytest.mark.parametrize(
    ("request_", "body"),
    [
        (SynchroRequest(RequestType.CONFIRM, 1, 300), "82 0201 03cd012c"),
        (SynchroRequest(RequestType.ROLLBACK, 1, 5), "82 0201 0305"),
        (SynchroRequest(RequestType.PROMOTE, 2, 5, 7), "83 0202 0305 5307"),
    ],
)
def test_synchro(request_: SynchroRequest, body: str) -> None:
    row = synchro_row(request_)
    assert row.body == bytes.fromhex(body)
    row.replica_id = 3
    decoded = decode_synchro(row)
    assert (decoded.type, decoded.replica_id, decoded.lsn, decoded.term) == (
        request_.type,
        request_.replica_id,
        request_.lsn,
        request_.term,
    )
    assert decoded.origin_id == 3
    with pytest.raises(BoxError, match="request body"):
        decode_synchro(Row(RequestType.CONFIRM, body=msgpack.packb({3: "x"})))


def test_a_claim() -> None:
    """A claim uses keys of other requests: Tarantool 2.8.1 skips those, and refuses unknown ones."""
    row = synchro_row(SynchroRequest(RequestType.CONFIRM, 2, 4, claim=Claim(7, 3, 9)))
    assert unpacked(row) == {2: 2, 3: 4, 0x12: 7, 0x10: 3, 0x13: 9}
    assert decode_synchro(row).claim == Claim(7, 3, 9)
    assert is_claim(row)
    assert not is_claim(synchro_row(SynchroRequest(RequestType.CONFIRM, 2, 4)))
    for broken in ({0x12: 7, 0x10: 3, 0x13: -1}, {0x12: 7, 0x10: 3, 0x14: 9}, {0x12: "x", 0x10: 3, 0x13: 9}):
        with pytest.raises(BoxError, match="request body"):
            decode_synchro(Row(RequestType.CONFIRM, body=msgpack.packb({2: 2, 3: 4, **broken})))


def test_raft_tells_the_term_of_the_log() -> None:
    request = RaftRequest(5, 2, 2, VClock({1: 9}), (), 4, Claim(4, 3, 9))
    assert unpacked(raft_row(request)) == {0: 5, 1: 2, 2: 2, 3: {1: 9}, 0x7A: 4, 0x79: [4, 3, 9]}
    assert decode_raft(raft_row(request)) == request


def test_demote_of_newer_versions() -> None:
    """DEMOTE rows, and PROMOTE rows with the vclock of what is confirmed, have 2.11's bytes."""
    demote = Row(RequestType.DEMOTE, replica_id=3, lsn=8, body=bytes.fromhex("83 0202 0306 5303"))
    assert decode_synchro(demote) == SynchroRequest(RequestType.PROMOTE, 2, 6, 3, 3, is_demotion=True)
    promote = Row(RequestType.PROMOTE, replica_id=3, lsn=9, body=bytes.fromhex("84 0200 0300 5304 26 81 01 05"))
    assert decode_synchro(promote) == SynchroRequest(RequestType.PROMOTE, 0, 0, 4, 3)
    raft = Row(RequestType.RAFT, group_id=1, body=msgpack.packb({0: 5, 1: 2, 2: 1, 4: 2, 5: True}))
    assert decode_raft(raft) == RaftRequest(5, 2, 1)


def test_raft() -> None:
    """A raft row is local to its instance; zeros are left out, the term never is."""
    row = raft_row(RaftRequest(5))
    assert (row.group_id, unpacked(row)) == (1, {0: 5})
    whole = RaftRequest(5, 2, 3, VClock({1: 9}))
    assert unpacked(raft_row(whole)) == {0: 5, 1: 2, 2: 3, 3: {1: 9}}
    assert decode_raft(raft_row(whole)) == whole
    assert decode_promotions(raft_row(whole)) is None
    for broken in (Row(RequestType.RAFT, group_id=1), Row(RequestType.RAFT, body=raft_row(whole).body)):
        with pytest.raises(BoxError, match="malformed raft request"):
            decode_raft(broken)
    for body in ({0: "x"}, {3: 5}, []):
        with pytest.raises(BoxError, match="raft body"):
            decode_raft(Row(RequestType.RAFT, group_id=1, body=msgpack.packb(body)))


def test_promotions_without_an_effect_in_a_raft_message() -> None:
    """Void promotions in a raft message have a key that others skip; without any it is left out."""
    request = RaftRequest(9, 2, 3, void_promotions=((1, 31), (3, 7)))
    row = raft_row(request)
    assert unpacked(row) == {0: 9, 1: 2, 2: 3, 0x7B: [[1, 31], [3, 7]]}
    assert decode_raft(row) == request
    for broken in (5, [5], [[1]], [[1, "x"]], [[1, -1]], {"x": 1}):
        with pytest.raises(BoxError, match="raft body"):
            decode_raft(Row(RequestType.RAFT, group_id=1, body=msgpack.packb({0: 9, 0x7B: broken})))


def test_promotions_in_the_raft_row_of_a_snapshot() -> None:
    """Promotions in a snapshot's raft row have a key that others skip."""
    promotions = Promotions(2, {1: 7, 2: 9}, (2, 31), {1: (5, 8)}, {2: 30}, {1: [(3, 4), (5, 8)]})
    row = raft_row(RaftRequest(9, 2), promotions)
    assert unpacked(row) == {0: 9, 1: 2, 0x7D: [2, {1: 7, 2: 9}, [2, 31], {1: [5, 8]}, {2: 30}, {1: [[3, 4], [5, 8]]}]}
    assert decode_promotions(row) == promotions
    earlier = Row(RequestType.RAFT, group_id=1, body=msgpack.packb({0: 9, 0x7D: [2, {2: 9}, [2, 31], {}]}))
    assert decode_promotions(earlier) == Promotions(2, {2: 9}, (2, 31), {})
    assert decode_raft(row) == RaftRequest(9, 2)
    for broken in (
        5,
        [],
        [2, {}, [1], {}],
        [2, {1: "x"}, [0, 0], {}],
        [2, [], [0, 0], {}],
        [2, {}, [0, 0], {1: 5}],
        [2, {}, [0, 0], {}, 5],
        [2, {}, [0, 0], {}, {}, 5],
        [2, {}, [0, 0], {}, {}, {1: [5]}],
        [2, {}, [0, 0], {}, {}, {1: [[5, -1]]}],
        [2, {}, [0, 0], {}, {}, {-1: []}],
    ):
        with pytest.raises(BoxError, match="raft body"):
            decode_promotions(Row(RequestType.RAFT, group_id=1, body=msgpack.packb({0: 9, 0x7D: broken})))


def test_ballot() -> None:
    ballot = Ballot(True, False, True, VClock({0: 1, 1: 5}), VClock({1: 2}))
    assert msgpack.unpackb(ballot.encode(), strict_map_key=False) == {
        0x29: {1: True, 4: False, 5: True, 2: {1: 5}, 3: {1: 2}}
    }
    assert Ballot.decode(ballot.encode()) == Ballot(True, False, True, VClock({1: 5}), VClock({1: 2}))
    assert Ballot.decode(b"\x80") == Ballot()
    for body in ({0x29: 1}, {0x29: {1: 1}}, {0x29: {2: []}}, []):
        with pytest.raises(BoxError, match="packet body"):
            Ballot.decode(msgpack.packb(body))
