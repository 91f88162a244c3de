"""The states of appliers and relays, with the names that `box.info.replication` shows.

applier   see the table of `box.replication.applier_machine`
relay     OFF -> FOLLOW -> STOPPED
"""

from __future__ import annotations

from enum import Enum, auto


class ApplierState(Enum):
    """The state of an applier; `box.info.replication[i].upstream.status` is the name in lower case."""

    OFF = auto()
    CONNECT = auto()
    CONNECTED = auto()
    AUTH = auto()
    READY = auto()
    INITIAL_JOIN = auto()
    FINAL_JOIN = auto()
    JOINED = auto()
    SYNC = auto()
    FOLLOW = auto()
    STOPPED = auto()
    DISCONNECTED = auto()
    LOADING = auto()
    FETCH_SNAPSHOT = auto()
    FETCHED_SNAPSHOT = auto()
    REGISTER = auto()
    REGISTERED = auto()

    @property
    def status(self) -> str:
        return self.name.lower()


class RelayState(Enum):
    """The state of a relay; `box.info.replication[i].downstream.status` is the name in lower case."""

    OFF = auto()
    FOLLOW = auto()
    STOPPED = auto()

    @property
    def status(self) -> str:
        return self.name.lower()


class SyncState(Enum):
    """The state of a replica's applier as the sync quorum counts it."""

    DISCONNECTED = auto()
    LOADING = auto()
    CONNECTED = auto()
    SYNC = auto()
