"""Interfaces of the instance that appliers run in, and the times at which a peer was last heard."""

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
    """A receiver of transactions: see `box.replication.row_sink.RowSink`."""

    applied: VClock
    """The vclock of all rows that were handed to the journal."""
    progress: Waiters
    """Woken by every transaction that is handed to the journal."""

    def apply_now(self, ctx: Context, rows: list[Row]) -> bool:
        """Apply a transaction without waiting; returns False, with nothing done, if it has to wait."""

    def apply_run(self, ctx: Context, run: ChangeRun, start: int, stop: int) -> int:
        """Apply the one-row transactions `start` to `stop` of a run, up to the first that needs `apply`.

        Returns the number of that transaction, or `stop`.
        """

    async def apply(self, ctx: Context, rows: list[Row]) -> None: ...

    def may_be_void(self, rows: list[Row]) -> bool:
        """Return whether a transaction that is not here yet may be rolled back by the next leader."""

    def contradicts(self, rows: list[Row]) -> bool:
        """Return whether the rows are a CONFIRM, ROLLBACK or PROMOTE that contradicts an earlier decision."""

    def is_void(self, rows: list[Row]) -> bool:
        """Return whether a transaction that is not here yet was rolled back everywhere."""

    def take_void(self, ctx: Context, rows: list[Row]) -> None:
        """Advance the vclock over a transaction that was rolled back everywhere, if it is the next of its origin."""


class AppliedJournal(Protocol):
    """The journal as appliers see it: a queue of limited size."""

    @property
    def queue_size(self) -> int: ...

    @property
    def queue_max_size(self) -> int: ...

    async def wait_for_space(self) -> None: ...

    async def sync(self) -> object:
        """Wait until everything that was applied so far is written."""


class ApplierHost(Protocol):
    """The objects that the appliers of an instance share."""

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
        """The open journal; None before the instance has started."""

    @property
    def is_orphan(self) -> bool: ...

    def fetch_list(self, source: UUID | None) -> FetchList | None:
        """Return the origins whose rows are fetched from a source; None for all."""

    def ask_everything(self, source: UUID | None, reason: str) -> None:
        """Fetch all rows of a source for a while, because a part of them could not be applied."""

    @property
    def now(self) -> Callable[[], float]:
        """The clock: returns seconds since the epoch."""

    def applier_context(self) -> Context: ...

    async def close_context(self, ctx: Context) -> None: ...


def journal_of(host: ApplierHost) -> AppliedJournal:
    """Return the journal of an instance that has started.

    Raises:
        AssertionError: it has not started.
    """
    if host.journal is None:
        raise AssertionError("the instance has not started")
    return host.journal


class UpstreamTimes:
    """The times that `box.info.replication[i].upstream` shows.

    `lag` are the seconds from the origin's write of the last row to its arrival here, infinite before the first row.
    `last_row_time` is the loop's time of the last row.
    """

    __slots__ = ("_loop", "lag", "last_row_time")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.lag = float("inf")
        self.last_row_time = loop.time()

    def touch(self) -> None:
        """Note that something has come from the peer."""
        self.last_row_time = self._loop.time()
