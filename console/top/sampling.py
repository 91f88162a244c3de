"""Samples of the instances of a replica set, and the edges of its replication graph."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from box.errors import BoxError
from box.net.uri import address_of
from console.remote.nodes import Lost, RemoteNode, dial, reason_of

LIMIT: Final = 200
"""The most spaces and fibers of an instance that are shown, the largest first."""
_TIMEOUT: Final = 5.0
"""The seconds after which an instance is shown as one that does not answer."""


@dataclass(frozen=True, slots=True)
class InstanceSample:
    """The state of an instance at one moment, from `internal/console_state.lua`; empty if there is an `error`."""

    address: str
    taken: float
    state: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""

    @property
    def id(self) -> int | None:
        return self.state.get("id")

    @property
    def requests_per_second(self) -> int:
        return sum(int(counter.get("rps") or 0) for counter in self.state.get("requests", {}).values())

    @property
    def mode(self) -> str:
        return "" if self.error else "ro" if self.state.get("ro") else "rw"


@dataclass(frozen=True, slots=True)
class ReplicationEdge:
    """Rows that flow from one instance to another, which are given by ids.

    `lag` and `idle` are in seconds, `behind` in rows; None if no instance has reported the value.
    """

    source: int
    target: int
    upstream: str | None = None
    downstream: str | None = None
    lag: float | None = None
    idle: float | None = None
    behind: int | None = None
    message: str = ""

    @property
    def is_healthy(self) -> bool:
        return {self.upstream, self.downstream} <= {"follow", "sync", None}


@dataclass(frozen=True, slots=True)
class ClusterSample:
    """The samples of all instances at about the same moment."""

    instances: tuple[InstanceSample, ...]
    taken: float

    @property
    def edges(self) -> list[ReplicationEdge]:
        return edges_of(self.instances)

    def as_json(self) -> dict[str, Any]:
        """Return the sample as plain values, for JSON."""
        return {
            "time": self.taken,
            "instances": [
                {"address": each.address, "error": each.error or None, **each.state} for each in self.instances
            ],
            "edges": [{name: getattr(edge, name) for name in ReplicationEdge.__slots__} for edge in self.edges],
        }


def edges_of(instances: Sequence[InstanceSample]) -> list[ReplicationEdge]:
    """Return the edges, combined from the reports of targets on their sources and of sources on their targets."""
    facts: dict[tuple[int, int], dict[str, Any]] = {}
    for each in instances:
        for replica in each.state.get("replication", ()):
            own, other = each.id, replica.get("id")
            if not own or not other or own == other:
                continue
            if replica.get("upstream"):
                _add_upstream(facts.setdefault((other, own), {}), replica["upstream"])
            if replica.get("downstream"):
                _add_downstream(facts.setdefault((own, other), {}), replica["downstream"], each)
    return [ReplicationEdge(source, target, **known) for (source, target), known in sorted(facts.items())]


def _add_upstream(known: dict[str, Any], side: Mapping[str, Any]) -> None:
    known.update(upstream=side.get("status"), lag=side.get("lag"), idle=side.get("idle"))
    known["message"] = side.get("message") or known.get("message", "")


def _add_downstream(known: dict[str, Any], side: Mapping[str, Any], source: InstanceSample) -> None:
    known["downstream"] = side.get("status")
    known["message"] = known.get("message") or side.get("message") or ""
    reached = side.get("vclock")
    if reached is not None:
        vclock = source.state.get("vclock", {})
        known["behind"] = sum(
            max(0, int(lsn) - int(reached.get(part, 0))) for part, lsn in vclock.items() if part != "0"
        )


class ClusterWatch:
    """Connections to the instances at some addresses, which are restored automatically.

    With `is_timed` the instances measure the times of fibers meanwhile. An instance that did so before continues
    afterwards.
    """

    def __init__(self, addresses: Sequence[str], password: str | None = None, *, is_timed: bool = False) -> None:
        self._addresses = tuple(addresses)
        self._password = password
        self._is_timed = is_timed
        self._nodes: dict[str, RemoteNode] = {}
        self._timed: set[str] = set()

    async def sample(self) -> ClusterSample:
        """Sample all instances at once; one that does not answer has an error."""
        samples = await asyncio.gather(*(self._sample(address) for address in self._addresses))
        return ClusterSample(tuple(samples), time.time())

    async def _sample(self, address: str) -> InstanceSample:
        name = address_of(address)
        try:
            async with asyncio.timeout(_TIMEOUT):
                node = self._nodes.get(address)
                if node is None:
                    node = self._nodes[address] = await dial(address, password=self._password)
                await node.open()
                state = await node.call("console_state", "sample", LIMIT, self._is_timed)
        except (BoxError, Lost, TimeoutError) as error:
            reason = reason_of(error) if isinstance(error, BoxError) else str(error) or "does not answer"
            return InstanceSample(name, time.time(), error=reason)
        if not isinstance(state, dict):
            return InstanceSample(name, time.time(), error="does not tell its state")
        if state.pop("began_timing", None):
            self._timed.add(address)
        return InstanceSample(name, time.time(), _listed(state))

    async def close(self) -> None:
        """Stop the measuring that was begun for this watch, and close the connections."""
        for address in self._timed:
            with suppress(BoxError, Lost, TimeoutError):
                async with asyncio.timeout(_TIMEOUT):
                    await self._nodes[address].call("console_state", "stop_timing")
        for node in self._nodes.values():
            node.close()


def _listed(state: dict[str, Any]) -> dict[str, Any]:
    """Give empty Lua tables, which may be lists or maps, the type that each field needs."""
    for name in ("spaces", "fibers", "replication"):
        state[name] = list(state.get(name) or ())
    for name in ("requests", "net", "vclock"):
        state[name] = dict(state.get(name) or {})
    return state
