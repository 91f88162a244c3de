"""The replica set as one instance sees it: its members, their appliers and relays, and the sync quorum.

A member is in one of three places, depending on what is known of it:

    known uuid, in _cluster          `by_uuid` and `by_id`; may have a relay, and an applier if configured
    known uuid, not in _cluster      only `by_uuid`: not registered yet, or an anonymous replica
    unknown uuid                     `unconnected`: an applier whose peer has not answered yet

The applier's state determines `sync_state`. How many replicas are in which `sync_state` decides whether the instance
is an orphan:

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
    """A member of the replica set, or an anonymous replica.

    `consumer` protects the rows that the member has not received yet from the garbage collector.
    """

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
        """True if nothing refers to this replica any more: no id, no applier and no running relay."""
        return self.id == REPLICA_ID_NIL and self.applier is None and self.relay_state is not RelayState.FOLLOW

    def __repr__(self) -> str:
        return f"<Replica {self.id} {self.uuid} {self.sync_state.name}>"


class ReplicaSet:
    """The members by uuid and id, and the numbers of connected, loading and synchronized appliers."""

    def __init__(self) -> None:
        self.by_uuid: dict[UUID, Replica] = {}
        self.by_id: dict[int, Replica] = {}
        self.unconnected: list[Replica] = []
        self.applier_total = 0
        self._replica_of: dict[Applier, Replica] = {}
        self.on_change: Callable[[], None] = lambda: None
        """Called after every change of a member or of an applier's state."""
        self.changes = Waiters()
        """Woken after every change of a member or of an applier's state, after `on_change`."""

    # -- membership -----------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Replica]:
        """Return the members with a known uuid, ordered by uuid as in Tarantool."""
        return iter([self.by_uuid[uuid] for uuid in sorted(self.by_uuid, key=str)])

    @property
    def registered(self) -> list[Replica]:
        """The members with an id, ordered by id."""
        return [self.by_id[replica_id] for replica_id in sorted(self.by_id)]

    def uuids(self) -> dict[int, UUID | None]:
        """Return the uuids of the members in `_cluster`, by id."""
        return {replica_id: replica.uuid for replica_id, replica in self.by_id.items()}

    @property
    def anonymous_count(self) -> int:
        return sum(replica.is_anonymous for replica in self.by_uuid.values())

    def member(self, uuid: UUID) -> Replica:
        """Return the replica with a uuid, created if it is new."""
        replica = self.by_uuid.get(uuid)
        if replica is None:
            replica = self.by_uuid[uuid] = Replica(uuid)
        return replica

    def register(self, replica_id: int, uuid: UUID) -> Replica:
        """Note a row inserted into `_cluster`, and return its member."""
        replica = self.member(uuid)
        replica.id = replica_id
        replica.is_anonymous = False
        self.by_id[replica_id] = replica
        self._changed()
        return replica

    def unregister(self, replica_id: int) -> None:
        """Note a row deleted from `_cluster`."""
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
        """Remove a replica if nothing refers to it any more."""
        if replica.uuid is not None and replica.is_forgotten:
            self.by_uuid.pop(replica.uuid, None)

    def free_id(self) -> int:
        """Return the smallest id that is not in `_cluster`."""
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
        """Remove and return all appliers before a new configuration; the caller stops them."""
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
        """Check that no two sources lead to the same instance.

        Raises:
            ClientError: CFG.
        """
        uuids = [applier.uuid for applier in appliers if applier.is_connected]
        if len(uuids) != len(set(uuids)):
            raise client_error(ErrorCode.CFG, "replication", "duplicate connection to the same replica")

    def attach_appliers(self, appliers: list[Applier]) -> None:
        """Add the appliers of a new configuration, whether they could connect or not."""
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
        """Note that an applier has connected; its peer may be another instance than before.

        Raises:
            ClientError: CFG, that instance has another applier already.
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
        """Update the `sync_state` of an applier's replica after a change of the applier's state."""
        replica = self._replica_of.get(applier)
        if replica is None:
            return
        match applier.state:
            case ApplierState.FOLLOW | ApplierState.OFF:
                # OFF without being stopped means a connection to this instance itself, which is always in sync.
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
        """Return the member to bootstrap from, or None if no peer has answered.

        Members that are writable by their options come first. Among them a member that refuses changes now does not
        replace an earlier one that accepts them; else the latest vclock wins, then accepting changes, then the smallest
        uuid.
        """
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
