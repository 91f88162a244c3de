"""The surroundings of an applier: what it asks of the instance that it runs in, and of Tarantool's last words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from box.log import Log
from box.replication.elections import Elections
from box.replication.fetch_once import FetchList
from box.replication.local import LocalInstance, ReplicationOptions
from box.waiters import Waiters
from box.wire.change_run import ChangeRun
from box.wire.row import Row
from box.wire.vclock import VClock

if TYPE_CHECKING:
    from box.errinj import ErrorInjections
    from box.net.network import Network
    from box.session import Context


class TransactionSink(Protocol):
    """Takes transactions."""

    applied: VClock
    """Everything that was handed to the journal."""
    progress: Waiters
    """Woken by each transaction."""

    def apply_now(self, ctx: Context, rows: list[Row]) -> bool:
        """Apply a transaction if that needs no wait; otherwise False, and nothing has happened."""

    def apply_run(self, ctx: Context, run: ChangeRun, start: int, stop: int) -> int:
        """Apply transactions of one row each from number `start` on, as far as that needs no wait and nothing special;
        the number of the first that is left."""

    async def apply(self, ctx: Context, rows: list[Row]) -> None: ...

    def may_be_void(self, rows: list[Row]) -> bool:
        """Whether a transaction that is not here waits in the limbo, or decides about such ones."""

    def is_void(self, rows: list[Row]) -> bool:
        """Whether a transaction was rolled back everywhere."""

    def take_void(self, ctx: Context, rows: list[Row]) -> None:
        """Such a one, from somebody who does not lead."""


class AppliedJournal(Protocol):
    """The journal as appliers see it: a queue that may be full."""

    @property
    def queue_size(self) -> int: ...

    @property
    def queue_max_size(self) -> int: ...

    async def wait_for_space(self) -> None: ...

    async def sync(self) -> object:
        """Return when what was applied so far is written."""


class ApplierHost(Protocol):
    """Everything that the appliers of an instance share."""

    loop: asyncio.AbstractEventLoop
    network: Network
    instance: LocalInstance
    options: ReplicationOptions
    elections: Elections
    log: Log
    errinj: ErrorInjections

    @property
    def sink(self) -> TransactionSink: ...

    @property
    def journal(self) -> AppliedJournal | None:
        """None before the instance has started."""

    @property
    def is_orphan(self) -> bool: ...

    def fetch_list(self, source: UUID | None) -> FetchList | None:
        """The part of Tarantool's rows that is fetched from it; None for all."""

    def ask_everything(self, source: UUID | None, reason: str) -> None:
        """A part of Tarantool's rows was not enough."""

    @property
    def now(self) -> Callable[[], float]:
        """Seconds since the epoch."""

    def applier_context(self) -> Context: ...

    async def close_context(self, ctx: Context) -> None: ...


def journal_of(host: ApplierHost) -> AppliedJournal:
    """The journal of an instance that has started."""
    if host.journal is None:
        raise AssertionError("the instance has not started")
    return host.journal


class UpstreamTimes:
    """Moments at which the peer was heard of.

    `lag`: seconds from the origin's write of the last row to its arrival here, infinite before.
    """

    __slots__ = ("_loop", "lag", "last_row_time")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.lag = float("inf")
        self.last_row_time = loop.time()

    def touch(self) -> None:
        """The peer has said something."""
        self.last_row_time = self._loop.time()


def silence(options: ReplicationOptions) -> float:
    """Seconds without a row after which a peer that sends rows counts as gone."""
    return options.timeout * 4


def patience(options: ReplicationOptions) -> float:
    """Seconds that a peer may take for an answer before it sends rows: it may be busy with other things then."""
    return max(silence(options), options.connect_timeout)
