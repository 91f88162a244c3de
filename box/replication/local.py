"""The instance as replication sees it that runs in it, and the options of `box.cfg` that it follows."""

from __future__ import annotations

from typing import Any, Protocol
from uuid import UUID

from box.wire.vclock import VClock


class LocalInstance(Protocol):
    """This instance: who it is, where it stands and whether it takes changes."""

    @property
    def instance_uuid(self) -> UUID: ...

    @property
    def instance_id(self) -> int:
        """Its id in `_cluster`, 0 for none."""

    @property
    def replicaset_uuid(self) -> UUID: ...

    @property
    def vclock(self) -> VClock:
        """The rows that are in the journal."""

    @property
    def is_configured(self) -> bool:
        """It has started and serves."""

    @property
    def is_read_only(self) -> bool:
        """Changes are refused, whatever the reason."""

    def set_orphan(self, is_orphan: bool) -> None:
        """Being an orphan has begun or ended."""


class OptionValues(Protocol):
    """`box.cfg`: the value of an option by its name."""

    def __getitem__(self, name: str) -> Any: ...


class ReplicationOptions:
    """The options as they are now, with their types; seconds where they are times."""

    def __init__(self, values: OptionValues) -> None:
        self._values = values

    @property
    def sources(self) -> list[str]:
        """Addresses of the instances whose rows are fetched."""
        return list(self._values["replication"] or ())

    @property
    def is_anonymous(self) -> bool:
        return bool(self._values["replication_anon"])

    @property
    def is_read_only(self) -> bool:
        """The option that the user has set: an orphan is read-only all the same."""
        return bool(self._values["read_only"])

    @property
    def has_journal(self) -> bool:
        """Rows are written somewhere, so that they can be sent later."""
        return bool(self._values["wal_mode"] != "none")

    @property
    def timeout(self) -> float:
        """Between heartbeats and between attempts to connect; a peer that is silent four times as long is gone."""
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
        """The rows of each origin are fetched from one peer only."""
        return bool(self._values["replication_fetch_once"])

    @property
    def promotes_by_quorum(self) -> bool:
        """A promotion asks a quorum for its vclocks first."""
        return bool(self._values["replication_promote_quorum"])

    @property
    def skips_conflicts(self) -> bool:
        return bool(self._values["replication_skip_conflict"])

    def connect_quorum(self, total: int) -> int:
        """The number of sources, of so many, that have to answer, and to be in sync later."""
        quorum = self._values["replication_connect_quorum"]
        return total if quorum is None else min(int(quorum), total)
