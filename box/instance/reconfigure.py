"""Applying options: all of them at the start, those that changed later, each with what can still go wrong.

A change is applied option by option in the order of the registry. One that fails keeps its old value and ends the
call; those before it stay changed, as with the peer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from box.errors import ErrorCode, client_error, unsupported
from box.log import log_level

if TYPE_CHECKING:
    from box.instance.node import Instance

Setter = Callable[[Any], Awaitable[None] | None]


class Reconfiguration:
    """Changes of options of a running instance: the effect of each."""

    def __init__(self, node: Instance) -> None:
        self._node = node
        self._setters: dict[str, Setter] = {
            "checkpoint_count": self._set_checkpoint_count,
            "checkpoint_interval": self._set_checkpoint_interval,
            "checkpoint_wal_threshold": self._set_checkpoint_threshold,
            "election_mode": self._set_election_mode,
            "listen": self._set_listen,
            "log_format": self._set_log_format,
            "log_level": self._set_log_level,
            "memtx_max_tuple_size": self._set_max_tuple_size,
            "net_msg_max": self._set_net_msg_max,
            "read_only": self._set_read_only,
            "replication": self._set_replication,
            "replication_connect_quorum": self._set_connect_quorum,
            "replication_synchro_quorum": self._set_synchro_quorum,
            "replication_synchro_timeout": self._set_synchro_timeout,
            "instance_uuid": self._set_instance_uuid,
            "replicaset_uuid": self._set_replicaset_uuid,
            "replication_anon": self._set_replication_anon,
            "wal_cleanup_delay": self._set_cleanup_delay,
            "wal_queue_max_size": self._set_queue_size,
        }

    async def change(self, options: Mapping[str, Any]) -> None:
        """`box.cfg` on a running node. CFG, RELOAD_CFG."""
        config = self._node.config
        for name, value in config.changes(options, self._node.log.warn):
            config.check_change(name, value)
            old = config.values[name]
            config.values[name] = value
            try:
                await self._apply(name, value)
            except BaseException:
                config.values[name] = old
                raise
            self.log_option(name, value)

    async def _apply(self, name: str, value: Any) -> None:
        setter = self._setters.get(name)
        if setter is None:
            return
        outcome = setter(value)
        if outcome is not None:
            await outcome

    def apply_initial(self) -> None:
        """Before the start: what the start itself needs. UNSUPPORTED for what this node does not do."""
        values = self._node.config.values
        self._set_election_mode(values["election_mode"])
        for name, text in (("hot_standby", "hot standby"), ("background", "background mode")):
            if values[name]:
                raise unsupported("Lunabox", text)
        self._set_synchro_timeout(values["replication_synchro_timeout"])
        self._set_max_tuple_size(values["memtx_max_tuple_size"])

    def log_option(self, name: str, value: Any) -> None:
        text = json.dumps(value, separators=(",", ":")) if name != "replication" else json.dumps(_masked(value))
        self._node.log.info(f"set '{name}' configuration option to {text}")

    # -- one option each ------------------------------------------------------------------------

    async def _set_listen(self, value: str | None) -> None:
        await self._node.listen(value)

    def _set_log_level(self, value: int | str) -> None:
        self._node.log.level = log_level(value)

    def _set_log_format(self, value: str) -> None:
        self._node.log.format = value

    def _set_net_msg_max(self, value: int) -> None:
        if value < 2:
            raise client_error(ErrorCode.CFG, "net_msg_max", "minimal value is 2")
        if self._node.iproto is not None:
            self._node.iproto.set_limit(value)

    def _set_read_only(self, value: bool) -> None:
        self._node.on_ro_change()

    async def _set_replication(self, value: list[str] | None) -> None:
        await self._node.replication.sources.reconfigure()

    def _set_connect_quorum(self, value: int | None) -> None:
        self._node.replication.sources.check_sync_quorum()

    def _set_synchro_quorum(self, value: int | str) -> None:
        self._node.update_synchro_quorum()

    def _set_synchro_timeout(self, value: float) -> None:
        self._node.synchro.set_timeout(float(value))

    def _set_max_tuple_size(self, value: float) -> None:
        self._node.dml.max_tuple_size = int(min(value, sys.maxsize))

    def _set_checkpoint_count(self, value: int) -> None:
        self._node.checkpoints.set_count(int(value))

    def _set_checkpoint_interval(self, value: float) -> None:
        self._node.checkpoints.reschedule()

    def _set_checkpoint_threshold(self, value: float) -> None:
        self._node.checkpoints.set_threshold(value)

    def _set_cleanup_delay(self, value: float) -> None:
        self._node.checkpoints.collector.set_cleanup_delay(float(value))

    def _set_queue_size(self, value: float) -> None:
        self._node.set_queue_size(value)

    @staticmethod
    def _set_election_mode(value: str) -> None:
        if value != "off":
            raise unsupported("Lunabox", "automatic leader election")

    def _set_instance_uuid(self, value: str | None) -> None:
        if value is not None and value != str(self._node.instance_uuid):
            raise client_error(ErrorCode.RELOAD_CFG, "instance_uuid")

    def _set_replicaset_uuid(self, value: str | None) -> None:
        if value is not None and value != str(self._node.replicaset_uuid):
            raise client_error(ErrorCode.RELOAD_CFG, "replicaset_uuid")

    async def _set_replication_anon(self, value: bool) -> None:
        if value:
            text = "cannot be turned on after bootstrap has finished"
            raise client_error(ErrorCode.CFG, "replication_anon", text)
        await self._node.replication.sources.register_self()


def _masked(sources: list[str] | None) -> list[str] | None:
    """Addresses without passwords, for the log."""
    if sources is None:
        return None
    masked = []
    for source in sources:
        login, at, address = source.rpartition("@")
        masked.append(login.split(":", 1)[0] + at + address)
    return masked
