"""The states of appliers and relays, named as the replication documents name them.

applier   OFF -> CONNECT -> CONNECTED -> [AUTH] -> READY -> SYNC -> FOLLOW
                 bootstrap:  READY -> INITIAL_JOIN -> FINAL_JOIN -> JOINED -> READY
                 anonymous:  READY -> FETCH_SNAPSHOT -> FETCHED_SNAPSHOT -> READY
                 registered: READY -> REGISTER -> REGISTERED -> READY
          any -> LOADING | DISCONNECTED (tries again) | STOPPED (an error that only a person resolves) | OFF
relay     OFF -> FOLLOW -> STOPPED
"""

from __future__ import annotations

from enum import Enum, auto


class ApplierState(Enum):
    """States of an applier; `box.info.replication[i].upstream.status` is the name in lower case."""

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
    """States of a relay; `box.info.replication[i].downstream.status`."""

    OFF = auto()
    FOLLOW = auto()
    STOPPED = auto()

    @property
    def status(self) -> str:
        return self.name.lower()


class SyncState(Enum):
    """States of a replica's applier as the sync quorum counts them."""

    DISCONNECTED = auto()
    LOADING = auto()
    CONNECTED = auto()
    SYNC = auto()
