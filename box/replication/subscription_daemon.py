"""The subscription daemon: asks each peer for its part of the rows (`replication_fetch_once`, RFC 3294).

`box.replication.fetch_once` assigns the origins to the peers. The daemon assigns them anew when an applier changes its
state, a member comes or goes, a leader is elected or the option changes, and every `replication_timeout`, because
acknowledgements show which rows a peer has. Appliers whose part has changed subscribe again: at once if rows would be
missing, a little later if another peer sends these rows as well.

```
option off        no lists: every peer sends everything
option on         the list of the assignment; none if it contains every member
an orphan         its own rows from every peer as well: it may have lost some
held too long     the peer whose rows were held is asked for everything, for a while
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final
from uuid import UUID

from box.log import Log
from box.replication.applier import Applier
from box.replication.fetch_once import Assignment, FetchList, FetchSource, affected, assign
from box.replication.local import LocalInstance, ReplicationOptions
from box.replication.replicaset import ReplicaSet

_SETTLING: Final = 0.05
"""Seconds before a list is shortened: several peers often change their states shortly after each other."""
_FULL_TIMEOUTS: Final = 10
"""Units of `replication_timeout` for which a peer is asked for everything after its part could not be applied."""


class SubscriptionDaemon:
    """The subscription daemon of one instance. `leader_id` returns the elected leader's id, 0 if there is none."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        instance: LocalInstance,
        options: ReplicationOptions,
        replicaset: ReplicaSet,
        *,
        leader_id: Callable[[], int],
        log: Log,
    ) -> None:
        self._loop = loop
        self._instance = instance
        self._options = options
        self._replicaset = replicaset
        self._leader_id = leader_id
        self._log = log
        self._wanted: Assignment = {}
        self._full_until: dict[UUID, float] = {}
        self._is_due = False
        self._changed_at = loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False

    # -- questions of the appliers ---------------------------------------------------------------------

    def list_for(self, source: UUID | None, *, is_orphan: bool) -> FetchList | None:
        """Return the list of origins to fetch from a peer now; None for everything."""
        if not self._options.fetches_once or source is None:
            return None
        self._decide()
        members, own_id = self._members, self._instance.instance_id
        wanted = self._wanted.get(source, frozenset())
        if wanted >= members.keys():
            return None
        uuids = {members[replica_id] for replica_id in wanted}
        left_out = members.keys() - wanted
        if is_orphan:
            uuids.add(self._instance.instance_uuid)
        elif own_id:
            left_out |= {own_id}
        return FetchList(wanted, frozenset(uuids), frozenset(left_out))

    def fetches(self, applier: Applier) -> list[int] | None:
        """Return the sorted ids whose rows an applier fetches (`upstream.fetches`); None if the option is off."""
        if not self._options.fetches_once or not applier.is_subscribed:
            return None
        return sorted(self._members if applier.asked is None else applier.asked & self._members.keys())

    def ask_everything(self, source: UUID | None, reason: str) -> None:
        """Ask a peer for everything for a while, because its part of the rows cannot be applied alone."""
        if source is not None:
            self._full_until[source] = self._loop.time() + _FULL_TIMEOUTS * self._options.timeout
            self._log.warn(f"{reason}: asking {source} for everything")
            self.look_soon()

    # -- assigning ------------------------------------------------------------------------------------

    @property
    def _members(self) -> dict[int, UUID]:
        """Return the UUIDs, by id, of all members in `_cluster` except this instance."""
        own = self._instance.instance_uuid
        replicas = self._replicaset.registered
        return {replica.id: replica.uuid for replica in replicas if replica.uuid is not None and replica.uuid != own}

    def look_soon(self) -> None:
        """Schedule one look at the subscriptions after any number of changes."""
        self._changed_at = self._loop.time()
        if not self._is_due and not self._is_stopped:
            self._is_due = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._is_due = False
        if self._is_stopped:
            return
        subscribed = {a.uuid: a for a in self._replicaset.appliers if a.is_subscribed and a.uuid is not None}
        if not self._options.fetches_once:
            for applier in subscribed.values():
                if applier.asked is not None:
                    applier.resubscribe()
            return
        self._decide()
        members = self._members
        asked = {uuid: applier.asked for uuid, applier in subscribed.items()}
        delay = self._options.timeout
        for uuid in affected(members.keys(), self._wanted, asked):
            ids, wanted = asked[uuid], self._wanted.get(uuid, frozenset())
            lacks = ids is not None and bool(wanted - ids)
            if lacks or self._loop.time() >= self._changed_at + _SETTLING:
                subscribed[uuid].resubscribe()
            else:
                delay = min(delay, _SETTLING)
        self._look_after(delay)

    def _look_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._look)

    def _decide(self) -> None:
        now = self._loop.time()
        self._full_until = {uuid: end for uuid, end in self._full_until.items() if end > now}
        sources = [self._source(a) for a in self._replicaset.appliers if a.is_connected and not a.is_self]
        here = self._instance.vclock
        self._wanted = assign(self._members, filter(None, sources), here, self._wanted, self._leader_id())

    def _source(self, applier: Applier) -> FetchSource | None:
        uuid = applier.uuid
        if uuid is None:
            return None
        replica = self._replicaset.by_uuid.get(uuid)
        vclock = applier.known_vclock()
        if replica is not None and replica.relay is not None and replica.relay.is_following:
            vclock.merge_max(replica.relay.vclock)
        return FetchSource(uuid, 0 if replica is None else replica.id, vclock, uuid in self._full_until)

    def stop(self) -> None:
        """Stop the daemon."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
