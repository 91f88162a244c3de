"""Applies options: all at the start, and each one that changes later, with the errors that are still possible.

Changes are applied one by one in the order of the registry. One that fails keeps its old value and ends the call;
earlier ones stay, as in Tarantool.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from box.errors import ErrorCode, client_error
from box.instance.checkpoint import Checkpoints
from box.instance.config import Config
from box.instance.feedback import first_pause
from box.instance.instance_state import InstanceState
from box.instance.journal_opening import JournalOpening
from box.instance.membership import Membership
from box.instance.mode import ReadOnlyReason
from box.instance.option_checks import int32
from box.instance.option_registry import OPTIONS, START_ORDER
from box.instance.resources import Resources
from box.iproto.server import IprotoServer
from box.log import Log, log_level
from box.replication.elections import ElectionMode, Elections
from box.replication.local import ReplicationOptions
from box.replication.silence import tolerated_silence
from box.replication.sources import Sources
from box.sql.prepared import PreparedStatements
from box.txn.dml import Dml
from box.txn.isolation import Isolation, level_of
from box.txn.synchro import LimboDriver

Setter = Callable[[Any], Awaitable[None] | None]
"""Applies the new value of an option. If the option may be set at any time, it is also called before the start."""

AT_START = (
    "read_only",
    "net_msg_max",
    "readahead",
    "memtx_max_tuple_size",
    "memtx_memory",
    "replication_synchro_quorum",
    "replication_synchro_timeout",
    "txn_isolation",
    "txn_timeout",
)
"""The options that take effect before the start begins; all others are read when they are needed."""


FOR_ELECTIONS = ("election_timeout", "election_mode")


def make_setters(
    config: Config,
    log: Log,
    state: InstanceState,
    *,
    dml: Dml,
    synchro: LimboDriver,
    journal: JournalOpening,
    checkpoints: Checkpoints,
    sources: Sources,
    iproto: IprotoServer,
    membership: Membership,
    elections: Elections,
    prepared: PreparedStatements,
) -> dict[str, Setter]:
    """Make the setters of options that a part must be told about; parts read all other options themselves."""

    def set_read_only(value: bool) -> None:
        state.mode.set(ReadOnlyReason.CONFIG, value)

    def set_max_tuple_size(value: float) -> None:
        # Tarantool keeps 32 bits: a negative number is a huge one without a sign.
        size = int32(value)
        dml.max_tuple_size = size if size >= 0 else sys.maxsize

    async def set_listen(value: str | None) -> None:
        await asyncio.sleep(0)  # other fibers run, as they do while Tarantool asks its network thread
        await iproto.listen(value)

    async def set_message_limit(value: int) -> None:
        await asyncio.sleep(0)
        iproto.set_limit(value)

    def set_memory(value: float) -> None:
        dml.memory_limit = int(value)

    def set_sql_cache_size(value: float) -> None:
        prepared.set_limit(int32(value))

    def set_txn_timeout(value: float | None) -> None:
        dml.txns.default_timeout = None if value is None else float(value)

    def set_txn_isolation(value: str | float | None) -> None:
        dml.txns.default_isolation = (None if value is None else level_of(value)) or Isolation.BEST_EFFORT

    def set_log_level(value: int | str) -> None:
        log.level = log_level(value)
        log.debug(f"log: level set to {value if isinstance(value, int) else log.level}")

    def set_log_format(value: str) -> None:
        log.format = value
        log.debug(f"log: format set to '{value}'")

    def set_instance_uuid(value: str | None) -> None:
        if value is not None and value != str(state.instance_uuid):
            raise client_error(ErrorCode.RELOAD_CFG, "instance_uuid")

    def set_replicaset_uuid(value: str | None) -> None:
        if value is not None and value != str(state.replicaset_uuid):
            raise client_error(ErrorCode.RELOAD_CFG, "replicaset_uuid")

    async def set_replication_anon(value: bool) -> None:
        if value:
            text = "cannot be turned on after bootstrap has finished"
            raise client_error(ErrorCode.CFG, "replication_anon", text)
        await sources.register_self()

    def set_election_mode(value: str) -> None:
        if value != ElectionMode.OFF and config["replication_anon"]:
            text = "the value may only be set to 'off' when 'replication_anon' is set to true"
            raise client_error(ErrorCode.CFG, "election_mode", text)
        elections.set_mode(value)

    def set_election_timeouts() -> None:
        elections.set_timeouts(
            election=float(config["election_timeout"]), death=tolerated_silence(ReplicationOptions(config))
        )

    return {
        "checkpoint_count": lambda count: checkpoints.set_count(int(count)),
        "checkpoint_interval": lambda _: checkpoints.reschedule(),
        "checkpoint_wal_threshold": checkpoints.set_threshold,
        "election_mode": set_election_mode,
        "election_timeout": lambda _: set_election_timeouts(),
        "instance_uuid": set_instance_uuid,
        "listen": set_listen,
        "log_format": set_log_format,
        "log_level": set_log_level,
        "memtx_max_tuple_size": set_max_tuple_size,
        "memtx_memory": set_memory,
        "net_msg_max": set_message_limit,
        "read_only": set_read_only,
        "readahead": iproto.set_readahead,
        "replicaset_uuid": set_replicaset_uuid,
        "sql_cache_size": set_sql_cache_size,
        "txn_isolation": set_txn_isolation,
        "txn_timeout": set_txn_timeout,
        "replication": lambda _: sources.reconfigure(),
        "replication_anon": set_replication_anon,
        "replication_connect_quorum": lambda _: sources.check_sync_quorum(),
        "replication_fetch_once": lambda _: sources.daemon.look_soon(),
        "replication_timeout": lambda _: set_election_timeouts(),
        "replication_synchro_quorum": lambda _: membership.update_quorum(),
        "replication_synchro_timeout": lambda seconds: synchro.set_timeout(float(seconds)),
        "wal_cleanup_delay": lambda seconds: checkpoints.collector.set_cleanup_delay(float(seconds)),
        "wal_queue_max_size": journal.set_queue_size,
        "too_long_threshold": journal.set_too_long_threshold,
    }


class Reconfiguration:
    """Applies `box.cfg` through the setters of the parts."""

    def __init__(self, resources: Resources, setters: Mapping[str, Setter]) -> None:
        self._config = resources.config
        self._log = resources.log
        self._setters = setters

    async def change(self, options: Mapping[str, Any]) -> None:
        """Change options of a running instance.

        Raises:
            ConfigError: CFG, or RELOAD_CFG.
        """
        config = self._config
        for name, value in config.changes(options, self._log.warn):
            config.check_change(name, value)
            old = config.values[name]
            config.values[name] = value
            try:
                await self._apply(name, value)
            except BaseException:
                config.values[name] = old
                raise
            self._log_option(name, value)

    async def _apply(self, name: str, value: Any) -> None:
        setter = self._setters.get(name)
        if setter is None:
            return
        outcome = setter(value)
        if outcome is not None:
            await outcome

    async def apply_initial(self) -> None:
        """Apply the options that the start itself needs, before it.

        Raises:
            UnsupportedError: an option has a value that this node does not support.
        """
        self._check_slabs()
        for name in AT_START:
            await self._apply(name, self._config[name])

    async def start_elections(self) -> None:
        """Apply the election options after the start, when the id is known and the log is open; the mode last."""
        for name in FOR_ELECTIONS:
            await self._apply(name, self._config[name])

    def _check_slabs(self) -> None:
        """Log a factor of the slab allocator that Tarantool would not take as it is."""
        factor = self._config["slab_alloc_factor"]
        if factor > 2:
            self._log.error("Alloc factor must be less than or equal to 2.0. It will be reduced to 2.0")
        elif factor <= 1:
            self._log.error("Alloc factor must be greater than 1.0. It will be increased to 1.001")

    async def log_initial(self) -> None:
        """Log, after the start, the options that may change and differ from their defaults. Tarantool counts those
        of the log as different. Other tasks have a turn where Tarantool's fibers have one.
        """
        config = self._config
        pause = first_pause(config.values)
        for name in START_ORDER:
            if name == pause:
                await asyncio.sleep(0)
            value = config[name]
            if name in ("log_format", "log_level"):
                await self._apply(name, value)
            if value is not None and (value != OPTIONS[name].default or name in ("log_format", "log_level")):
                self._log_option(name, value)

    def _log_option(self, name: str, value: Any) -> None:
        shown = _masked(value) if name == "replication" else value
        self._log.info(f"set '{name}' configuration option to {_json_text(shown)}")


def _json_text(value: Any) -> str:
    """Return a value as Tarantool's JSON encoder writes it."""
    if isinstance(value, float):
        is_integer = value.is_integer() and -(2.0**63) <= value < 2.0**64
        return str(int(value)) if is_integer else f"{value:.14g}"
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).replace("/", "\\/")


def _masked(sources: list[str] | None) -> list[str] | None:
    """Return addresses without their passwords, for the log."""
    if sources is None:
        return None
    masked = []
    for source in sources:
        login, at, address = source.rpartition("@")
        masked.append(login.split(":", 1)[0] + at + address)
    return masked
