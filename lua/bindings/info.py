"""`box.info`, `box.stat`, `box.slab` and `box.runtime`: information about the instance."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from box.data import codec
from box.net.uri import address_of
from box.wire.tarantool_version import PACKAGE_VERSION
from lua.bindings.binding import Binding, exported, guarded, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from box.errors import BoxError
    from box.instance.node import Instance
    from box.replication.applier import Applier
    from box.replication.relay import Relay
    from box.replication.replicaset import Replica
    from lua.runtime import Runtime

_PACKAGE = "Tarantool"
"""The name of the package that this node is compatible with, because scripts compare it."""
_GRANULARITY: Final = 8
"""The step in bytes between the sizes of tuples that `box.slab.stats()` shows."""


def peer_name(uri: str) -> str:
    """Return the address of a source for `box.info`: `user@unix/:/path`, without the password."""
    login, at, _ = uri.rpartition("@")
    return login.split(":", 1)[0] + at + address_of(uri)


def _with_error(described: dict[str, Any], error: BoxError | None) -> dict[str, Any]:
    if error is not None:
        described["message"] = error.message
        if error.errno:
            described["system_message"] = os.strerror(error.errno)
    return described


def _names_of_applier(applier: Applier) -> Iterator[str]:
    if applier.is_running:
        yield f"applier/{applier.address}"
        from box.replication.state import ApplierState

        if applier.state in (ApplierState.SYNC, ApplierState.FOLLOW):
            yield f"applierw/{applier.address}"


class InfoBinding(Binding):
    """One method for each field of `box.info`; `box_info(name)` returns the packed value."""

    def __init__(self, runtime: Runtime, node: Instance) -> None:
        super().__init__(runtime, node)
        self._started = node.loop.time()
        self._fields: dict[str, Callable[[], Any]] = {
            "version": lambda: PACKAGE_VERSION,
            "package": lambda: _PACKAGE,
            "id": self._id,
            "uuid": lambda: str(node.state.instance_uuid),
            "lsn": self._lsn,
            "signature": lambda: node.state.vclock.signature,
            "vclock": lambda: dict(node.state.vclock),
            "ro": lambda: node.mode.is_read_only,
            "status": lambda: node.status,
            "uptime": lambda: int(node.loop.time() - self._started) + 1,
            "pid": runtime.machine.identity.process_id,
            "cluster": lambda: {"uuid": str(node.state.replicaset_uuid)},
            "replication": self._replication,
            "replication_anon": self._anonymous,
            "anonymous_count": lambda: node.replication.replicaset.anonymous_count,
            "listen": self._listen,
            "election": self._election,
            "synchro": self._synchro,
            "gc": self._gc,
            "memory": self._memory,
        }

    @guarded("box_info")
    def info(self, name: bytes) -> bytes:
        """Return the packed value of one field."""
        return codec.pack(self._fields[text(name)]())

    @exported("box_fibers")
    def fibers(self) -> bytes:
        """Return the names of the fibers that fetch and send rows, one a line, as Tarantool names them."""
        if not self.node.has_parts:
            return b""
        replicaset = self.node.replication.replicaset
        names = [name for applier in replicaset.appliers for name in _names_of_applier(applier)]
        relays = [replica.relay for replica in replicaset]
        names += [f"relay/{relay.peer}" for relay in relays if relay is not None and relay.is_following]
        return "\n".join(names).encode()

    @guarded("ctl_replication_tree")
    def replication_tree(self) -> bytes:
        """Draw the replication graph as text."""
        from box.replication.picture import replication_tree

        names = ("id", "uuid", "status", "vclock", "replication", "replication_anon")
        return codec.pack(replication_tree({name: self._fields[name]() for name in names}))

    def _id(self) -> int | None:
        """Return the replica id: 0 for an anonymous replica, None for an instance that has no id yet."""
        return self.node.state.instance_id or (0 if self.node.config["replication_anon"] else None)

    def _lsn(self) -> int:
        """Return the lsn of the instance's own rows; an anonymous replica has only local ones."""
        instance_id = self._id()
        return -1 if instance_id is None else self.node.state.vclock[instance_id]

    def _listen(self) -> str | None:
        return self.node.iproto.bound_address

    # Replication

    def _replication(self) -> dict[int, Any]:
        replicaset = self.node.replication.replicaset
        return {replica.id: self._replica(replica) for replica in replicaset.registered}

    def _anonymous(self) -> dict[str, Any]:
        anonymous = (replica for replica in self.node.replication.replicaset if replica.is_anonymous)
        return {str(replica.uuid): self._replica(replica) for replica in anonymous}

    def _replica(self, replica: Replica) -> dict[str, Any]:
        from box.replication.state import ApplierState, RelayState

        described: dict[str, Any] = {
            "id": replica.id,
            "uuid": str(replica.uuid),
            "lsn": self.node.state.vclock[replica.id],
        }
        if replica.applier is not None and replica.applier.state is not ApplierState.OFF:
            described["upstream"] = self._upstream(replica.applier)
        if replica.relay is not None and replica.relay.state is not RelayState.OFF:
            described["downstream"] = self._downstream(replica.relay)
        return described

    def _upstream(self, applier: Applier) -> dict[str, Any]:
        described: dict[str, Any] = {"status": applier.state.status}
        described["lag"] = applier.times.lag
        described["idle"] = self.node.loop.time() - applier.times.last_row_time
        described["peer"] = peer_name(applier.uri)
        fetches = self.node.replication.sources.daemon.fetches(applier)
        if fetches is not None:
            described["fetches"] = fetches
        return _with_error(described, applier.error)

    def _downstream(self, relay: Relay) -> dict[str, Any]:
        from box.replication.state import RelayState

        if relay.state is RelayState.FOLLOW:
            idle = self.node.loop.time() - relay.last_row_time
            return {"status": "follow", "vclock": dict(relay.vclock), "idle": idle}
        return _with_error({"status": "stopped"}, relay.error)

    def _election(self) -> dict[str, Any]:
        raft = self.node.elections.raft
        return {"state": str(self.node.elections.role), "term": raft.term, "vote": raft.vote, "leader": raft.leader_id}

    def _synchro(self) -> dict[str, Any]:
        return self.node.synchro.info()

    # Storage

    def _gc(self) -> dict[str, Any]:
        info: dict[str, Any] = self.node.checkpoints.collector.info()
        return info

    def _memory(self) -> dict[str, int]:
        from box.index.memory import TUPLE_COST

        spaces = [space for space in self.node.schema.spaces.values() if space.is_plain and space.primary is not None]
        data = sum(self.node.dml.reads.bsize(space) + TUPLE_COST * len(space.index(0)) for space in spaces)
        index = sum(index.bsize() for space in spaces for index in space.indexes.values())
        return {"data": data, "index": index, "cache": 0, "tx": 0, "net": 0}

    @exported("box_slab")
    def slab(self) -> bytes:
        """Return {items, used, limit}: the bytes of tuples, of tuples and indexes, and `memtx_memory`."""
        memory = self.node.schema.memory
        return codec.pack({"items": self._memory()["data"], "used": memory.used, "limit": memory.limit})

    @exported("box_slab_classes")
    def slab_classes(self) -> bytes:
        """Return [[size, count], ...]: how many tuples there are of each size in bytes, in ascending order.

        All tuples of a space count with their average size, rounded up to a multiple of 8.
        """
        from box.index.memory import TUPLE_COST

        counts: Counter[int] = Counter()
        for space in self.node.schema.spaces.values():
            if space.is_plain and space.primary is not None and (count := len(space.index(0))):
                average = TUPLE_COST + -(-self.node.dml.reads.bsize(space) // count)
                counts[-(-average // _GRANULARITY) * _GRANULARITY] += count
        return codec.pack([list(pair) for pair in sorted(counts.items())])

    @exported("box_stat")
    def stat(self) -> bytes:
        """Return [[name, {total, rps}], ...] for requests."""
        return codec.pack(list(self.node.stats.show_box().items()))

    @exported("box_stat_net")
    def stat_net(self) -> bytes:
        """Return [[name, {total, rps, current?}], ...] for the network."""
        return codec.pack(list(self.node.stats.show_net().items()))

    @exported("box_stat_reset")
    def stat_reset(self) -> None:
        """Reset all counters."""
        self.node.stats.reset()
