"""How long the other end of a connection may be silent before this instance gives it up as dead.

Masters and replicas send something at least every `replication_timeout` seconds: rows, or a heartbeat or an
acknowledgement without rows. Silence is counted in units of that option, because a busy instance may be late.

| part | gives up | what happens |
|---|---|---|
| an applier (`Subscription` in `subscription.py`) | a silent master | TimedOut: it disconnects and tries again |
| a relay (`Relay` in `relay.py`) | a silent replica | TimedOut: it closes the connection |
| an applier before the subscription (`applier.py`) | a master that does not answer a request | TimedOut, as above |
| a follower (`Raft` in `raft.py`) | a silent leader | it asks for votes |
"""

from __future__ import annotations

from typing import Final

from box.replication.local import ReplicationOptions

_MISSED_BEATS: Final = 4
"""Tarantool's factor: the time in which four heartbeats are missing."""


def tolerated_silence(options: ReplicationOptions) -> float:
    """Return the seconds without a row after which a subscribed peer is given up."""
    return options.timeout * _MISSED_BEATS


def tolerated_wait(options: ReplicationOptions) -> float:
    """Return the seconds to wait for an answer before a subscription: a peer that starts or joins may be busy."""
    return max(tolerated_silence(options), options.connect_timeout)
