"""Bodies of the rows that replication exchanges. Requests and answers share their keys, so one decoder reads all of
them.

```
JOIN            { 0x24 instance uuid, 0x06 version }
FETCH_SNAPSHOT  { 0x06 version } or no body
REGISTER        { 0x24 instance uuid, 0x26 vclock }
SUBSCRIBE       { 0x25 cluster uuid, 0x24 instance uuid, 0x26 vclock, 0x06 version, 0x50 anon, 0x51 [ids to leave out],
                  0x7f [uuids whose rows are wanted] }
its answer      { 0x26 vclock, 0x25 cluster uuid }
positions       { 0x26 vclock }                        answers of JOIN, acknowledgements of an applier
after           { 0x7e vclock }                        a heartbeat: these rows come before what follows
CONFIRM, ROLLBACK   { 0x02 limbo owner, 0x03 lsn }     PROMOTE has { 0x53 term } too
   a claim      a CONFIRM that confirms nothing new, with { 0x12 term, 0x10 limbo owner, 0x13 lsn } too   see `Claim`
   PROMOTE      flag 0x80 in its header: without effect                                     see `SynchroRequest`
RAFT            { 0 term, 1 vote, 2 state, 3 vclock }  group local; a zero is left out, the term never is
   of a leader or candidate  0x7a term of its log, 0x7b [[id, lsn], ...]                   see `RaftRequest`
   in a snapshot  0x79 [term, limbo owner, lsn], 0x7a and 0x7b as above
                  0x7d [owner, { id: term }, [id, lsn], { id: [first lsn, last lsn] }, ...]  see `Promotions`
```

UUIDs are MP_STR of 36 characters, vclocks maps without component 0. Source: `xrow.c` of the 2.8 line, except for the
keys 0x79 to 0x7f, the flag 0x80 and claims, which are our own. In a CONFIRM Tarantool 2.8.1 refuses a number that is no
key of its own, and its module `xlog` a string, but it skips what is a number in other requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgpack

from box.data.marks import FIXMAP
from box.errors import BoxError, ErrorCode, client_error
from box.wire.constants import GROUP_LOCAL, SYNCHRO_TYPES, Flag, Key, OwnKey, RaftKey, RequestType
from box.wire.row import Row
from box.wire.tarantool_version import VERSION_ID
from box.wire.vclock import VCLOCK_MAX, VClock

_UUID_LENGTH = 36
"""The only length that Tarantool accepts: 32 digits and four hyphens. Python's UUID would take other forms, too."""
_KEPT_ACKS = 64
"""The number of encoded and of decoded acknowledgements that are cached: a few for each instance of a replica set."""


def _invalid(what: str) -> BoxError:
    return client_error(ErrorCode.INVALID_MSGPACK, what)


def _map_of(row: Row, what: str = "request body") -> dict[Any, Any]:
    try:
        value = msgpack.unpackb(row.body, strict_map_key=False, unicode_errors="surrogateescape")
    except (ValueError, TypeError, msgpack.exceptions.UnpackException):
        # TypeError is raised for a map that has a container as a key.
        value = None
    if not isinstance(value, dict):
        raise _invalid(what)
    return value


def _pack(fields: Mapping[Any, Any]) -> bytes:
    packed: bytes = msgpack.packb({int(key): value for key, value in fields.items()})
    return packed


def _vclock_map(vclock: VClock) -> dict[int, int]:
    return dict(sorted(vclock.without_zero().items()))


def _uuid(value: Any) -> UUID:
    if isinstance(value, str) and len(value) == _UUID_LENGTH:
        try:
            return UUID(value)
        except ValueError:
            pass
    raise _invalid("UUID")


def _uint(value: Any, what: str) -> int:
    if type(value) is not int or value < 0:
        raise _invalid(what)
    return value


# -- positions and heartbeats ---------------------------------------------------------------------------------


def vclock_row(vclock: VClock, sync: int = 0) -> Row:
    """Make a row that tells a position: the start of a join's stage, or an applier's acknowledgement."""
    return Row(RequestType.OK, sync=sync, body=_pack({Key.VCLOCK: _vclock_map(vclock)}))


def ack_row(vclock: VClock, term: int) -> Row:
    """Make an applier's acknowledgement. With the term 0 (no elections so far) the term is omitted."""
    return Row(RequestType.OK, body=_ack_body(tuple(vclock.items()), term))


@lru_cache(_KEPT_ACKS)
def _ack_body(components: tuple[tuple[int, int], ...], term: int) -> bytes:
    """Encode an acknowledgement; cached, because all sources get equal ones, and repeat them while nothing is
    written.
    """
    fields: dict[int, Any] = {Key.VCLOCK: _vclock_map(VClock(components))}
    if term:
        fields[OwnKey.TERM] = term
    return _pack(fields)


def decode_ack(row: Row) -> tuple[VClock, int]:
    """Decode an acknowledgement: its vclock, empty if it has none, and its term, 0 if it has none.

    Raises:
        ClientError: INVALID_MSGPACK.
    """
    vclock, term = _decode_ack_body(row.body)
    return vclock.copy(), term


@lru_cache(_KEPT_ACKS)
def _decode_ack_body(body: bytes) -> tuple[VClock, int]:
    """Decode the body of an acknowledgement; cached, because a replica that receives nothing repeats its last one."""
    ack = decode_replication(Row(RequestType.OK, body=body))
    return ack.vclock or VClock(), ack.term


def heartbeat_row(replica_id: int, tm: float, sync: int = 0) -> Row:
    """Make a heartbeat of a relay that has nothing else to send: its id and time, without a body."""
    return Row(RequestType.OK, replica_id=replica_id, tm=tm, sync=sync)


def decode_vclock(row: Row) -> VClock:
    """Decode the vclock of a position row; empty when the row has none."""
    return decode_replication(row).vclock or VClock()


def after_row(vclock: Mapping[int, int]) -> Row:
    """Make a heartbeat that tells which rows precede the next one, for a subscriber that gets those from others."""
    return Row(RequestType.OK, body=_pack({OwnKey.AFTER: dict(sorted(vclock.items()))}))


def decode_after(row: Row) -> VClock | None:
    """Decode the rows that precede the next one from a heartbeat, or return None if it does not tell.

    Raises:
        ClientError: INVALID_MSGPACK.
    """
    if not row.body:
        return None
    value = _map_of(row).get(OwnKey.AFTER)
    return None if value is None else VClock.from_map(value)


# -- join, register, subscribe --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReplicationRequest:
    """The body of a JOIN, REGISTER, FETCH_SNAPSHOT or SUBSCRIBE, or of an answer to one; None is an absent key.

    `version_id` is 0 if the sender does not tell it. `id_filter` names the replicas whose rows are not wanted. `fetch`
    names the instances whose rows are wanted; None means all of them. `term` is the latest term known to an
    acknowledging instance, or 0 if the instance does not tell.
    """

    replicaset_uuid: UUID | None = None
    instance_uuid: UUID | None = None
    vclock: VClock | None = None
    version_id: int = 0
    anon: bool = False
    id_filter: frozenset[int] = frozenset()
    fetch: frozenset[UUID] | None = None
    term: int = 0


JOIN_KEYS = frozenset({Key.INSTANCE_UUID, Key.SERVER_VERSION})
REGISTER_KEYS = frozenset({Key.INSTANCE_UUID, Key.VCLOCK})
SUBSCRIBE_KEYS = frozenset(
    {Key.INSTANCE_UUID, Key.VCLOCK, Key.SERVER_VERSION, Key.REPLICA_ANON, Key.ID_FILTER, OwnKey.FETCH}
)
"""Without the UUID of the replica set: the replica compares it with the one in the answer."""


def decode_replication(row: Row, keys: frozenset[int] | None = None) -> ReplicationRequest:
    """Decode the body of a replication request or answer. With `keys` all other keys are ignored, as in Tarantool.

    Raises:
        ClientError: INVALID_MSGPACK.
    """
    body = _map_of(row)
    if keys is not None:
        body = {key: value for key, value in body.items() if key in keys}
    parts: dict[str, Any] = {}
    if Key.CLUSTER_UUID in body:
        parts["replicaset_uuid"] = _uuid(body[Key.CLUSTER_UUID])
    if Key.INSTANCE_UUID in body:
        parts["instance_uuid"] = _uuid(body[Key.INSTANCE_UUID])
    if Key.VCLOCK in body:
        parts["vclock"] = VClock.from_map(body[Key.VCLOCK])
    if Key.SERVER_VERSION in body:
        parts["version_id"] = _uint(body[Key.SERVER_VERSION], "invalid VERSION")
    if Key.REPLICA_ANON in body:
        parts["anon"] = body[Key.REPLICA_ANON]
        if type(parts["anon"]) is not bool:
            raise _invalid("invalid REPLICA_ANON flag")
    if Key.ID_FILTER in body:
        parts["id_filter"] = _id_filter(body[Key.ID_FILTER])
    if OwnKey.FETCH in body:
        parts["fetch"] = _fetch_list(body[OwnKey.FETCH])
    if OwnKey.TERM in body:
        parts["term"] = _uint(body[OwnKey.TERM], "invalid TERM")
    return ReplicationRequest(**parts)


def _id_filter(value: Any) -> frozenset[int]:
    if not isinstance(value, list) or any(type(i) is not int or not 0 <= i < VCLOCK_MAX for i in value):
        raise _invalid("invalid ID_FILTER")
    return frozenset(value)


def _fetch_list(value: Any) -> frozenset[UUID] | None:
    """Decode the list of wanted instances; None for an empty list, which asks for all rows."""
    if not isinstance(value, list) or len(value) >= VCLOCK_MAX:
        raise _invalid("invalid FETCH list")
    return frozenset(_uuid(item) for item in value) or None


def join_row(instance_uuid: UUID, version_id: int = VERSION_ID) -> Row:
    """Make a request for a join: all data of a master, and an id in its replica set.

    With a version the master sends metadata, too.
    """
    return Row(RequestType.JOIN, body=_pack({Key.INSTANCE_UUID: str(instance_uuid), Key.SERVER_VERSION: version_id}))


def fetch_snapshot_row(version_id: int = VERSION_ID) -> Row:
    """Make a request for the data alone, for the join of an anonymous replica."""
    return Row(RequestType.FETCH_SNAPSHOT, body=_pack({Key.SERVER_VERSION: version_id}))


def register_row(instance_uuid: UUID, vclock: VClock) -> Row:
    """Make a request for an id, from an anonymous replica or one whose join broke off."""
    return Row(
        RequestType.REGISTER, body=_pack({Key.INSTANCE_UUID: str(instance_uuid), Key.VCLOCK: _vclock_map(vclock)})
    )


def subscribe_row(
    replicaset_uuid: UUID,
    instance_uuid: UUID,
    vclock: VClock,
    *,
    anon: bool = False,
    id_filter: frozenset[int] = frozenset(),
    version_id: int = VERSION_ID,
    fetch: Iterable[UUID] = (),
) -> Row:
    """Make a request for all rows after `vclock`, present and future ones.

    A non-empty `fetch` limits it to the rows of those instances.
    """
    fields: dict[int, Any] = {
        Key.CLUSTER_UUID: str(replicaset_uuid),
        Key.INSTANCE_UUID: str(instance_uuid),
        Key.VCLOCK: _vclock_map(vclock),
        Key.SERVER_VERSION: version_id,
        Key.REPLICA_ANON: anon,
    }
    if id_filter:
        fields[Key.ID_FILTER] = sorted(id_filter)
    if uuids := sorted(map(str, fetch)):
        fields[OwnKey.FETCH] = uuids
    return Row(RequestType.SUBSCRIBE, body=_pack(fields))


def subscribe_response_row(replicaset_uuid: UUID, vclock: VClock, sync: int = 0) -> Row:
    """Make the master's answer to SUBSCRIBE: its replica set and its position."""
    fields = {Key.VCLOCK: _vclock_map(vclock), Key.CLUSTER_UUID: str(replicaset_uuid)}
    return Row(RequestType.OK, sync=sync, body=_pack(fields))


def vote_row() -> Row:
    """Make a request for an instance's ballot."""
    return Row(RequestType.VOTE)


# -- synchronous replication ----------------------------------------------------------------------------------


class Claim(NamedTuple):
    """The decision that a leader is about to write as its PROMOTE of `term`: the rows of `owner_id` are confirmed up to
    `lsn`, and those after it rolled back."""

    term: int
    owner_id: int
    lsn: int


@dataclass(frozen=True, slots=True)
class SynchroRequest:
    """A decision about synchronous transactions: CONFIRM, ROLLBACK or PROMOTE.

    CONFIRM confirms everything up to `lsn` of the limbo's owner `replica_id`; ROLLBACK undoes everything from `lsn` on.
    PROMOTE confirms up to `lsn`, undoes the rest, and hands the limbo to its writer in `term`. `origin_id` is the
    instance that wrote the row; it is the row's replica id, not part of the body. `is_void` is a flag of the row and
    marks a PROMOTE without effect. A CONFIRM with a `claim` decides nothing; its `lsn` is confirmed already. A DEMOTE
    of Tarantool 2.10 and later is a PROMOTE (its `type` too) after which nobody owns the limbo.
    """

    type: int
    replica_id: int
    lsn: int
    term: int = 0
    origin_id: int = 0
    is_void: bool = False
    claim: Claim | None = None
    is_demotion: bool = False


_CLAIM: Final = (Key.LIMIT, Key.SPACE_ID, Key.OFFSET)
"""The keys of a claim's fields, in their order."""
_MAP_OF_A_CLAIM: Final = bytes((FIXMAP | (2 + len(_CLAIM)),))
"""The first byte of a claim's body: a map of owner, lsn and the claim's fields, more than any other CONFIRM has."""


def is_claim(row: Row) -> bool:
    """Return whether a row is a claim."""
    return row.type == RequestType.CONFIRM and row.body.startswith(_MAP_OF_A_CLAIM)


def synchro_row(request: SynchroRequest) -> Row:
    """Make the row of a limbo request; the journal assigns its lsn and replica id."""
    fields = {Key.REPLICA_ID: request.replica_id, Key.LSN: request.lsn}
    if request.type == RequestType.PROMOTE:
        fields[Key.TERM] = request.term
    if request.claim is not None:
        fields |= dict(zip(_CLAIM, request.claim, strict=True))
    return Row(request.type, body=_pack(fields))


def owner_row(owner_id: int, confirmed_lsn: int, term: int) -> Row:
    """Make the PROMOTE row that tells the limbo's state in a join, and in snapshots of Tarantool 2.10 and later."""
    row = synchro_row(SynchroRequest(RequestType.PROMOTE, owner_id, confirmed_lsn, term))
    row.replica_id = owner_id
    return row


def decode_synchro(row: Row) -> SynchroRequest:
    """Decode a CONFIRM, ROLLBACK, PROMOTE or DEMOTE row.

    Raises:
        ClientError: INVALID_MSGPACK (`request body`).
    """
    if row.type not in SYNCHRO_TYPES:
        raise AssertionError(f"row type {row.type} is no limbo request")
    body = _map_of(row)
    owner, lsn, term = (_uint(body.get(key, 0), "request body") for key in (Key.REPLICA_ID, Key.LSN, Key.TERM))
    is_void = row.type == RequestType.PROMOTE and bool(row.flags & Flag.VOID)
    claim = _claim([body.get(key) for key in _CLAIM], "request body") if is_claim(row) else None
    if row.type == RequestType.DEMOTE:
        return SynchroRequest(RequestType.PROMOTE, owner, lsn, term, row.replica_id, is_demotion=True)
    return SynchroRequest(row.type, owner, lsn, term, row.replica_id, is_void, claim)


def _claim(told: Any, what: str) -> Claim | None:
    if told is None:
        return None
    try:
        term, owner_id, lsn = told
    except (TypeError, ValueError):
        raise _invalid(what) from None
    return Claim(_uint(term, what), _uint(owner_id, what), _uint(lsn, what))


@dataclass(frozen=True, slots=True)
class RaftRequest:
    """The election state of an instance: `vote` is a replica id; `state` is 1 follower, 2 candidate or 3 leader.

    `vclock` accompanies a candidate's request for votes. `void_promotions` are the origins and lsns of the instance's
    PROMOTE rows that have no effect there. `log_term` is the term of the newest claim or promotion in its log, 0 if
    the instance does not tell or know it. A snapshot also has the `claim` that binds the next leader, if there is one.
    """

    term: int
    vote: int = 0
    state: int = 0
    vclock: VClock | None = None
    void_promotions: tuple[tuple[int, int], ...] = ()
    log_term: int = 0
    claim: Claim | None = None


@dataclass(frozen=True, slots=True)
class Promotions:
    """The promotions known to an instance.

    They are the limbo's owner, the last term of each promoted instance, origin and lsn of the latest PROMOTE row, and,
    by origin, the first and last of its newest rows if they are void, the lsn up to which its rows are confirmed, and
    the ranges (first, last) of its rows that have no effect here.
    """

    owner_id: int
    terms: Mapping[int, int]
    latest: tuple[int, int]
    void: Mapping[int, tuple[int, int]]
    confirmed: Mapping[int, int] = field(default_factory=dict)
    without_effect: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict)


def raft_row(request: RaftRequest, promotions: Promotions | None = None) -> Row:
    """Make the row of a raft message, which is local to the instance in its log but also travels on connections.

    In a snapshot it may carry `promotions`.
    """
    fields: dict[int, Any] = {RaftKey.TERM: request.term}
    if request.vote:
        fields[RaftKey.VOTE] = request.vote
    if request.state:
        fields[RaftKey.STATE] = request.state
    if request.vclock is not None:
        fields[RaftKey.VCLOCK] = _vclock_map(request.vclock)
    if request.log_term:
        fields[OwnKey.LOG_TERM] = request.log_term
    if request.claim is not None:
        fields[OwnKey.CLAIM] = request.claim
    if request.void_promotions:
        fields[OwnKey.VOID_PROMOTIONS] = request.void_promotions
    if promotions is not None:
        known = promotions
        places = {origin_id: list(ranges) for origin_id, ranges in known.without_effect.items()}
        kept = [known.owner_id, dict(known.terms), known.latest, dict(known.void), dict(known.confirmed), places]
        fields[OwnKey.PROMOTIONS] = kept
    return Row(RequestType.RAFT, group_id=GROUP_LOCAL, body=_pack(fields))


def decode_raft(row: Row) -> RaftRequest:
    """Decode a RAFT row.

    Raises:
        ClientError: INVALID_MSGPACK (`malformed raft request`, `raft body`).
    """
    if not row.body or row.group_id != GROUP_LOCAL:
        raise _invalid("malformed raft request")
    body = _map_of(row, "raft body")
    term, vote, state = (_uint(body.get(key, 0), "raft body") for key in (RaftKey.TERM, RaftKey.VOTE, RaftKey.STATE))
    vclock = VClock.from_map(body[RaftKey.VCLOCK], "raft body") if RaftKey.VCLOCK in body else None
    void_promotions = _void_promotions(body.get(OwnKey.VOID_PROMOTIONS, []))
    log_term = _uint(body.get(OwnKey.LOG_TERM, 0), "raft body")
    claim = _claim(body.get(OwnKey.CLAIM), "raft body")
    return RaftRequest(term, vote, state, vclock, void_promotions, log_term, claim)


def _void_promotions(told: Any) -> tuple[tuple[int, int], ...]:
    try:
        return tuple((_uint(origin_id, "raft body"), _uint(lsn, "raft body")) for origin_id, lsn in told)
    except (TypeError, ValueError):
        raise _invalid("raft body") from None


def decode_promotions(row: Row) -> Promotions | None:
    """Decode the promotions that a RAFT row carries, or return None.

    Raises:
        ClientError: INVALID_MSGPACK (`raft body`).
    """
    kept = _map_of(row, "raft body").get(OwnKey.PROMOTIONS)
    if kept is None:
        return None
    try:
        owner_id, terms, (origin_id, lsn), void, *newer = kept
        confirmed = newer[0] if newer else {}
        told = newer[1] if len(newer) > 1 else {}
        places = {origin: [(first, last) for first, last in found] for origin, found in told.items()}
        ranges = {origin: (first, last) for origin, (first, last) in void.items()}
        pairs = chain(terms.items(), confirmed.items(), ranges.values(), [(origin, 0) for origin in places])
        pairs = chain(pairs, chain.from_iterable(places.values()))
        numbers = [owner_id, origin_id, lsn, *ranges, *chain.from_iterable(pairs)]
    except (TypeError, ValueError, AttributeError):
        raise _invalid("raft body") from None
    for number in numbers:
        _uint(number, "raft body")
    return Promotions(owner_id, terms, (origin_id, lsn), ranges, confirmed, places)
