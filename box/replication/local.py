"""Interfaces to the local instance and its `box.cfg` options that replication depends on."""

from __future__ import annotations

import math
from typing import Any, Protocol
from uuid import UUID

from box.wire.vclock import VClock


class LocalInstance(Protocol):
    """The local instance: its identity, its vclock and whether it accepts changes."""

    @property
    def instance_uuid(self) -> UUID: ...

    @property
    def instance_id(self) -> int:
        """The id in `_cluster`, 0 if the instance is not registered."""

    @property
    def replicaset_uuid(self) -> UUID: ...

    @property
    def vclock(self) -> VClock:
        """The vclock of the rows that are written to the journal."""

    @property
    def is_configured(self) -> bool:
        """True if the instance has started and serves requests."""

    @property
    def is_read_only(self) -> bool:
        """True if changes are refused for any reason."""

    def set_orphan(self, is_orphan: bool) -> None:
        """Note that the instance has become an orphan or is one no longer."""


class OptionValues(Protocol):
    """`box.cfg`: a mapping from the name of an option to its value."""

    def __getitem__(self, name: str) -> Any: ...


class ReplicationOptions:
    """The current values of the replication options, typed; times are in seconds."""

    def __init__(self, values: OptionValues) -> None:
        self._values = values

    @property
    def sources(self) -> list[str]:
        """The addresses of the instances whose rows are fetched."""
        return list(self._values["replication"] or ())

    @property
    def is_anonymous(self) -> bool:
        return bool(self._values["replication_anon"])

    @property
    def is_read_only(self) -> bool:
        """The option `read_only` itself: an orphan refuses changes whatever its value."""
        return bool(self._values["read_only"])

    @property
    def has_journal(self) -> bool:
        """True if rows are written to a log, so that relays can send them."""
        return bool(self._values["wal_mode"] != "none")

    @property
    def timeout(self) -> float:
        """Seconds between heartbeats and between attempts to connect; a peer silent for four times as long is dead."""
        return float(self._values["replication_timeout"])

    @property
    def connect_timeout(self) -> float:
        return float(self._values["replication_connect_timeout"])

    @property
    def sync_timeout(self) -> float:
        return float(self._values["replication_sync_timeout"])

    @property
    def sync_lag(self) -> float:
        return float(self._values["replication_sync_lag"])

    @property
    def fetches_once(self) -> bool:
        """True if the rows of each origin are fetched from only one peer."""
        return bool(self._values["replication_fetch_once"])

    @property
    def promotes_by_quorum(self) -> bool:
        """True if a promotion first asks a quorum for its vclocks."""
        return bool(self._values["replication_promote_quorum"])

    @property
    def skips_conflicts(self) -> bool:
        return bool(self._values["replication_skip_conflict"])

    def connect_quorum(self, total: int) -> int:
        """Return how many of `total` sources have to answer, and later to be in sync."""
        quorum = self._values["replication_connect_quorum"]
        if quorum is None:
            return total
        return min(int(quorum), total) if math.isfinite(quorum) else 0  # as Tarantool converts infinity
