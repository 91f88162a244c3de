"""Membership: applies additions and removals of rows in `_cluster` to this instance."""

from __future__ import annotations

from uuid import UUID

from box.instance.instance_state import InstanceState
from box.instance.quorum import synchro_quorum
from box.instance.resources import Resources
from box.replication.setup import Replication
from box.txn.synchro import LimboDriver


class Membership:
    """Keeps this instance's id and the quorum of synchronous transactions in step with the registered replicas."""

    def __init__(
        self, resources: Resources, state: InstanceState, replication: Replication, synchro: LimboDriver
    ) -> None:
        self._config = resources.config
        self._log = resources.log
        self._state = state
        self._replication = replication
        self._synchro = synchro

    def on_cluster_change(self, replica_id: int, uuid: UUID, is_registered: bool) -> None:
        """Handle the registration or removal of an instance."""
        self._replication.on_cluster_change(replica_id, uuid, is_registered)
        self._log.info(f"assigned id {replica_id} to replica {uuid}" if is_registered else f"removed replica {uuid}")
        if uuid == self._state.instance_uuid:
            self._state.set_instance_id(replica_id if is_registered else 0)
        self.update_quorum()

    def update_quorum(self) -> None:
        """Recalculate the quorum: `replication_synchro_quorum` or the number of registered replicas has changed."""
        members = max(1, len(self._replication.replicaset.by_id))
        wanted = self._config["replication_synchro_quorum"]
        quorum = synchro_quorum(wanted, members)
        if isinstance(wanted, str):
            self._log.info(f"update replication_synchro_quorum = {quorum}")
        self._synchro.set_quorum(quorum)
        self._replication.elections.set_quorum(quorum, members)
