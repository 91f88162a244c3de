"""The replica set as one instance sees it: its members, their appliers and relays, and the sync quorum.

A member of the set lives in one of three places, by what is known of it:

    known uuid, in _cluster          `by_uuid` and `by_id`; has a relay, and an applier if configured
    known uuid, not in _cluster      `by_uuid` alone: not registered yet, or an anonymous replica
    unknown uuid                     `unconnected`: an applier whose peer has not answered yet

An applier moves its replica between these counters (`sync_state`), which decide whether the instance is an orphan:

    DISCONNECTED -> CONNECTED -> SYNC      and back to DISCONNECTED or LOADING when the applier stops
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from uuid import UUID

from box.errors import ErrorCode, client_error
from box.replication.state import ApplierState, RelayState, SyncState
from box.waiters import Waiters

if TYPE_CHECKING:
    from box.journal.gc import Consumer
    from box.replication.applier import Applier
    from box.replication.relay import Relay

REPLICA_ID_NIL = 0


class Replica:
    """One member. `consumer` keeps the rows that it has not got yet from the garbage collector."""

    __slots__ = ("applier", "consumer", "id", "is_anonymous", "relay", "sync_state", "uuid")

    def __init__(self, uuid: UUID | None) -> None:
        self.uuid = uuid
        self.id = REPLICA_ID_NIL
        self.is_anonymous = False
        self.applier: Applier | None = None
        self.relay: Relay | None = None
        self.consumer: Consumer | None = None
        self.sync_state = SyncState.DISCONNECTED

    @property
    def relay_state(self) -> RelayState:
        return self.relay.state if self.relay is not None else RelayState.OFF

    @property
    def is_forgotten(self) -> bool:
        """Nothing refers to this replica any more."""
        return self.id == REPLICA_ID_NIL and self.applier is None and self.relay_state is not RelayState.FOLLOW

    def __repr__(self) -> str:
        return f"<Replica {self.id} {self.uuid} {self.sync_state.name}>"


class ReplicaSet:
    """Members by uuid and id, and how many of the configured appliers are connected, loading and synchronized."""

    def __init__(self) -> None:
        self.by_uuid: dict[UUID, Replica] = {}
        self.by_id: dict[int, Replica] = {}
        self.unconnected: list[Replica] = []
        self.applier_total = 0
        self._replica_of: dict[Applier, Replica] = {}
        self.on_change: Callable[[], None] = lambda: None
        """Called after every change of a member or an applier's state."""
        self.changes = Waiters()
        """Woken after them as well."""

    # -- membership -----------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Replica]:
        """Every member with a known uuid, by uuid as Tarantool walks them."""
        return iter([self.by_uuid[uuid] for uuid in sorted(self.by_uuid, key=str)])

    @property
    def registered(self) -> list[Replica]:
        """Members with an id, by id."""
        return [self.by_id[replica_id] for replica_id in sorted(self.by_id)]

    def uuids(self) -> dict[int, UUID | None]:
        """Members with an id, as `_cluster` has them."""
        return {replica_id: replica.uuid for replica_id, replica in self.by_id.items()}

    @property
    def anonymous_count(self) -> int:
        return sum(replica.is_anonymous for replica in self.by_uuid.values())

    def member(self, uuid: UUID) -> Replica:
        """The replica with this uuid, made if it is new."""
        replica = self.by_uuid.get(uuid)
        if replica is None:
            replica = self.by_uuid[uuid] = Replica(uuid)
        return replica

    def register(self, replica_id: int, uuid: UUID) -> Replica:
        """A row came into `_cluster`."""
        replica = self.member(uuid)
        replica.id = replica_id
        replica.is_anonymous = False
        self.by_id[replica_id] = replica
        self._changed()
        return replica

    def unregister(self, replica_id: int) -> None:
        """A row left `_cluster`."""
        replica = self.by_id.pop(replica_id, None)
        if replica is None:
            return
        replica.id = REPLICA_ID_NIL
        if replica.consumer is not None:
            replica.consumer.close()
            replica.consumer = None
        self.forget(replica)
        self._changed()

    def forget(self, replica: Replica) -> None:
        """Drop the replica if nothing refers to it."""
        if replica.uuid is not None and replica.is_forgotten:
            self.by_uuid.pop(replica.uuid, None)

    def free_id(self) -> int:
        """The smallest id that `_cluster` does not have."""
        replica_id = 1
        while replica_id in self.by_id:
            replica_id += 1
        return replica_id

    # -- appliers -------------------------------------------------------------------------------

    @property
    def appliers(self) -> list[Applier]:
        replicas = [*self.by_uuid.values(), *self.unconnected]
        return [replica.applier for replica in replicas if replica.applier is not None]

    def detach_appliers(self) -> list[Applier]:
        """Take all appliers away before a new configuration; the caller stops them."""
        old = self.appliers
        for replica in list(self.by_uuid.values()):
            replica.applier = None
            replica.sync_state = SyncState.DISCONNECTED
            self.forget(replica)
        self.unconnected = []
        self._replica_of.clear()
        self.applier_total = 0
        return old

    def check_unique(self, appliers: list[Applier]) -> None:
        """Raise CFG when two sources lead to the same instance."""
        uuids = [applier.uuid for applier in appliers if applier.is_connected]
        if len(uuids) != len(set(uuids)):
            raise client_error(ErrorCode.CFG, "replication", "duplicate connection to the same replica")

    def attach_appliers(self, appliers: list[Applier]) -> None:
        """Put freshly connected (or failed) appliers in place of the old ones."""
        self.applier_total = len(appliers)
        for applier in appliers:
            if applier.uuid is not None and applier.is_connected:
                replica = self.member(applier.uuid)
                replica.sync_state = SyncState.SYNC if applier.is_self else SyncState.CONNECTED
                replica.is_anonymous = replica.id == REPLICA_ID_NIL and applier.ballot.is_anon
            else:
                replica = Replica(None)
                self.unconnected.append(replica)
            replica.applier = applier
            self._replica_of[applier] = replica
        self._changed()

    def on_connect(self, applier: Applier) -> None:
        """The applier knows its peer's uuid (again); it may be another instance than before.

        Raises CFG when that instance has an applier already.
        """
        replica, uuid = self._replica_of.get(applier), applier.uuid
        if replica is None or uuid is None:
            return
        if replica.uuid != uuid:
            replica = self._move(applier, replica, uuid)
        if replica.sync_state in (SyncState.DISCONNECTED, SyncState.LOADING):
            replica.sync_state = SyncState.CONNECTED
        self._changed()

    def _move(self, applier: Applier, old: Replica, uuid: UUID) -> Replica:
        new = self.member(uuid)
        if new.applier is not None:
            raise client_error(ErrorCode.CFG, "replication", "duplicate connection to the same replica")
        new.is_anonymous = new.id == REPLICA_ID_NIL and applier.ballot.is_anon
        new.applier = applier
        self._replica_of[applier] = new
        old.applier, old.sync_state = None, SyncState.DISCONNECTED
        if old.uuid is None:
            self.unconnected.remove(old)
        else:
            self.forget(old)
        return new

    def on_state(self, applier: Applier) -> None:
        """Count the applier after its state has changed."""
        replica = self._replica_of.get(applier)
        if replica is None:
            return
        match applier.state:
            case ApplierState.FOLLOW | ApplierState.OFF:
                # OFF on its own is the connection to itself, which is in sync by definition.
                replica.sync_state = SyncState.SYNC
            case ApplierState.LOADING:
                replica.sync_state = SyncState.LOADING
            case ApplierState.DISCONNECTED | ApplierState.STOPPED:
                replica.sync_state = SyncState.DISCONNECTED
        self._changed()

    def _count(self, *states: SyncState) -> int:
        return sum(replica.applier is not None and replica.sync_state in states for replica in self.by_uuid.values())

    @property
    def synced(self) -> int:
        return self._count(SyncState.SYNC)

    @property
    def connected(self) -> int:
        return self._count(SyncState.CONNECTED, SyncState.SYNC)

    @property
    def loading(self) -> int:
        return self._count(SyncState.LOADING)

    # -- choosing whom to join --------------------------------------------------------------------

    def leader(self) -> Replica | None:
        """The member to bootstrap from: writable by its options first, then loaded, then the latest vclock, then one
        that takes changes now, then the smallest uuid."""
        return self._best(writable_only=True) or self._best(writable_only=False)

    def _best(self, *, writable_only: bool) -> Replica | None:
        best: Replica | None = None
        for replica in self:
            if replica.applier is None or (writable_only and replica.applier.ballot.is_ro):
                continue
            if best is None or self._is_better(replica, best):
                best = replica
        return best

    @staticmethod
    def _is_better(one: Replica, other: Replica) -> bool:
        if one.applier is None or other.applier is None:
            return other.applier is None
        mine, theirs = one.applier.ballot, other.applier.ballot
        if mine.is_loading and not theirs.is_loading:
            return False
        order = mine.vclock.compare(theirs.vclock, ignore_zero=True)
        if order == 0 and mine.is_loading != theirs.is_loading:
            return theirs.is_loading
        if order == 0:
            return str(one.uuid) <= str(other.uuid)
        return order is None or order > 0

    # -- changes ----------------------------------------------------------------------------------

    def _changed(self) -> None:
        self.on_change()
        self.changes.wake()
