"""The subscription daemon: asks each peer for its part of the rows (`replication_fetch_once`, RFC 3294).

`box.replication.fetch_once` decides. The daemon looks again when an applier changes its state, a member comes or goes,
a leader is elected or the option changes, and every `replication_timeout` for what acknowledgements tell of others. It
lets those appliers subscribe anew whose part has changed: at once where rows would be missing, a little later where
others give them now as well.

```
option off        no lists: every peer sends everything
option on         the list of the decision; no list where it has every member in it
an orphan         its own rows, too, of everybody: it may have lost some
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
"""Seconds that a list keeps what others give now, too: states of several peers change together."""
_FULL_TIMEOUTS: Final = 10
"""So many `replication_timeout` a peer is asked for everything when its part alone was not enough."""


class SubscriptionDaemon:
    """One for the instance. `leader_id` tells the elected leader, 0 for none or no elections."""

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

    # -- what appliers ask -----------------------------------------------------------------------------

    def list_for(self, source: UUID | None, *, is_orphan: bool) -> FetchList | None:
        """Give the list to ask a peer for now; None for everything."""
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
        """`box.info.replication[n].upstream.fetches`: ids whose rows the applier fetches; None with the option off."""
        if not self._options.fetches_once or not applier.is_subscribed:
            return None
        return sorted(self._members if applier.asked is None else applier.asked & self._members.keys())

    def ask_everything(self, source: UUID | None, reason: str) -> None:
        """A peer's part of the rows alone cannot be applied."""
        if source is not None:
            self._full_until[source] = self._loop.time() + _FULL_TIMEOUTS * self._options.timeout
            self._log.warn(f"{reason}: asking {source} for everything")
            self.look_soon()

    # -- looking ---------------------------------------------------------------------------------------

    @property
    def _members(self) -> dict[int, UUID]:
        """Of `_cluster`, this instance aside."""
        own = self._instance.instance_uuid
        replicas = self._replicaset.registered
        return {replica.id: replica.uuid for replica in replicas if replica.uuid is not None and replica.uuid != own}

    def look_soon(self) -> None:
        """Something has changed; many things may change at once."""
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
        """Look no more."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
