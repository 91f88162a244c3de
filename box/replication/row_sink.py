"""Applies the transactions that appliers receive, in the order of each origin.

`applied` is the vclock of everything handed to the journal, a little ahead of the journal's own vclock. It shows which
rows are known already when two peers send the same change. A transaction of an origin starts only after the one before
it was handed to the journal (the origin's latch). ROLLBACK and PROMOTE hold the latch until they are written, because
they may change the owner of the limbo; a CONFIRM mostly need not (`box.txn.incoming_confirms`).

Most transactions need no wait: `apply_now` runs them without a task switch, `apply` runs the others
(`box.replication.row_executor`). Plain changes that follow each other are applied together by a faster path
(`apply_run`).

When the journal fails, `applied` is reset to the written rows and every applier stops with the error.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from box.eager import first_step
from box.errinj import ErrorInjections
from box.errors import BoxError, ErrorCode, client_error
from box.log import Log
from box.replication.elections import Elections
from box.replication.local import LocalInstance, ReplicationOptions
from box.replication.row_executor import RowExecutor, is_large
from box.session import Context
from box.txn.transaction import Transaction
from box.waiters import Waiters
from box.wire.change_run import ChangeRun
from box.wire.constants import PROMOTION_TYPES, SYNCHRO_TYPES, Flag, RequestType
from box.wire.messages import decode_synchro, is_claim
from box.wire.row import Row, nop_of
from box.wire.vclock import VCLOCK_MAX, VClock

if TYPE_CHECKING:
    from box.schema.schema import Schema
    from box.txn.dml import Dml
    from box.txn.lifecycle import TransactionManager
    from box.txn.synchro import LimboDriver


_CONFIRM_PAUSE: Final = 0.01
"""Seconds until a written CONFIRM is acknowledged, unless a transaction is written earlier: no sender waits for it."""


def _ignore(*_: object) -> None:
    """Do nothing: the callback until another one is set."""


def _belongs_to_limbo(rows: list[Row]) -> bool:
    """Return whether the rows are a transaction that waits in the limbo, a CONFIRM or a ROLLBACK."""
    kind = rows[0].type
    is_decision = kind in SYNCHRO_TYPES - PROMOTION_TYPES
    return is_decision or bool(rows[-1].flags & Flag.WAIT_SYNC)


class RowSink:
    """The receiver of all appliers' transactions.

    `on_written` is called for every transaction written to the journal, `on_failure` with the error of a failed write.
    """

    def __init__(
        self,
        instance: LocalInstance,
        options: ReplicationOptions,
        elections: Elections,
        *,
        schema: Schema,
        txns: TransactionManager,
        dml: Dml,
        synchro: LimboDriver,
        log: Log,
        errinj: ErrorInjections,
    ) -> None:
        self._instance = instance
        self._elections = elections
        self._txns = txns
        self._dml = dml
        self._synchro = synchro
        self._errinj = errinj
        self.on_written: Callable[[], None] = _ignore
        self.on_failure: Callable[[BoxError], None] = _ignore
        self._latches = [asyncio.Lock() for _ in range(VCLOCK_MAX)]
        self._synchro_tasks: dict[asyncio.Task[bool], asyncio.Future[None]] = {}
        self._telling: asyncio.TimerHandle | None = None
        self._failures = 0
        self._executor = RowExecutor(
            options,
            schema=schema,
            txns=txns,
            dml=dml,
            synchro=synchro,
            log=log,
            commit=self._commit,
            without_outdated=self._without_outdated,
            failures=lambda: self._failures,
        )
        self.applied = VClock()
        self._under_way: list[tuple[int, int]] = []
        """Origin and last lsn of the transactions that were accepted and are not in `applied` yet."""
        self.progress = Waiters()
        """Woken when a transaction has been handed to the journal."""

    @property
    def coming(self) -> VClock:
        """The vclock of the rows in the log, handed to the log, or waiting for their turn."""
        coming = self._instance.vclock.copy()
        coming.merge_max(self.applied)
        for origin, lsn in self._under_way:
            coming.merge_max({origin: lsn})
        return coming

    def reset(self, vclock: VClock) -> None:
        """Set `applied` to the vclock that recovery or a join has reached."""
        self.applied = vclock.copy()

    async def stop(self) -> None:
        """Cancel the CONFIRM, ROLLBACK and PROMOTE rows that wait for their turn or for the journal."""
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        tasks = list(self._synchro_tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _has(self, row: Row) -> bool:
        """Return whether a row is here already.

        For this instance's own rows the journal's vclock counts too: `applied` does not follow local transactions.
        """
        origin, here = row.replica_id, self._instance
        return row.lsn <= self.applied[origin] or (origin == here.instance_id and row.lsn <= here.vclock[origin])

    def _fresh(self, rows: list[Row]) -> list[Row]:
        """Return the rows of a transaction that are not here yet."""
        if self._has(rows[-1]):
            return []
        return [row for row in rows if not self._has(row)] if self._has(rows[0]) else rows

    def _without_outdated(self, rows: list[Row]) -> list[Row]:
        """Return the rows, or NOPs in their place if the transaction was rolled back everywhere.

        With elections this holds for synchronous transactions of an instance that still come after another one has
        taken over the limbo in a later term.
        """
        if not self._elections.is_outdated(rows[0].replica_id) or not _belongs_to_limbo(rows):
            return rows
        if self.contradicts(rows):
            return rows  # applying them is an error: their author has diverged
        if is_claim(rows[0]) and (claim := decode_synchro(rows[0]).claim) and self._elections.is_new_claim(claim):
            return rows
        return [nop_of(row) for row in rows]

    def contradicts(self, rows: list[Row]) -> bool:
        """Return whether the rows, not here yet, are a CONFIRM, ROLLBACK or PROMOTE against an earlier decision."""
        first = rows[0]
        return first.type in SYNCHRO_TYPES and not self._has(first) and self._synchro.promotions.contradicts(first)

    # -- many transactions at once --------------------------------------------------------------------

    def apply_run(self, ctx: Context, run: ChangeRun, start: int, stop: int) -> int:
        """Apply the transactions `start` to `stop` of a run, up to the first that needs more than changing indexes.

        Returns the number of that transaction, which needs `apply`, or `stop`.

        Raises:
            ClientError: WAL_IO.
        """
        origin = run.replica_id
        if self._errinj.is_armed or self._latches[origin].locked() or origin == self._instance.instance_id:
            return start
        if run.flags and self._elections.is_outdated(origin):
            return start
        start = bisect_right(run.lsns, self.applied[origin], start, stop)
        if start == stop or not self._synchro.try_enter(origin):
            return start
        try:
            end = self._dml.write_run(ctx, run, start, stop, self._run_ended)
        except BoxError as error:
            self._fail(error)
            raise
        finally:
            self._synchro.leave()
        if end > start:
            self.applied.follow(origin, run.lsns[end - 1])
            if self.progress:
                self.progress.wake()
        return end

    def _run_ended(self, error: BoxError | None) -> None:
        if error is None:
            self._tell_written()
        else:
            self._fail(error)

    # -- transactions without a wait ------------------------------------------------------------------

    def apply_now(self, ctx: Context, rows: list[Row]) -> bool:
        """Apply one transaction without waiting; returns False, with nothing done, if `apply` is needed.

        Raises:
            BoxError: the error of a statement; the transaction is rolled back.
        """
        first = rows[0]
        if is_large(rows) or self._latches[first.replica_id].locked():
            return False
        rows = self._without_outdated(rows)
        if rows[0].type in SYNCHRO_TYPES:
            return self._confirm_now(rows[0])
        rows = self._fresh(rows)
        if not rows:
            return True
        if not self._synchro.try_enter(first.replica_id):
            return False
        try:
            return self._executor.execute_now(ctx, rows)
        finally:
            self._synchro.leave()

    def _confirm_now(self, row: Row) -> bool:
        """Hand a CONFIRM over to the journal; returns False, with nothing done, if it has to wait or is something else.

        Raises:
            BoxError: the error of the journal.
        """
        if self._has(row):
            return True
        try:
            if not self._synchro.confirms.submit(row, self._confirm_ended):
                return False
        except BoxError as error:
            if error.code == ErrorCode.WAL_IO:
                self._fail(error)
            raise
        self._advance(row)
        return True

    def _confirm_ended(self, error: BoxError | None) -> None:
        if error is None:
            self._tell_later()
        else:
            self._fail(error)

    def may_be_void(self, rows: list[Row]) -> bool:
        """Return whether a transaction that is not here yet may be rolled back by the next owner of the limbo."""
        return not self._has(rows[-1]) and _belongs_to_limbo(rows)

    def is_void(self, rows: list[Row]) -> bool:
        """Return whether a transaction that is not here yet was rolled back everywhere; see `_without_outdated`."""
        return not self._has(rows[-1]) and self._without_outdated(rows) is not rows

    def take_void(self, ctx: Context, rows: list[Row]) -> None:
        """Advance the vclock over a transaction that was rolled back everywhere, if it is the next of its origin."""
        if rows[0].lsn == self.applied[rows[0].replica_id] + 1 and self.is_void(rows):
            self.apply_now(ctx, rows)

    # -- transactions that may wait -------------------------------------------------------------------

    async def apply(self, ctx: Context, rows: list[Row]) -> None:
        """Apply one transaction, waiting for its turn and for its triggers.

        Raises:
            BoxError: the error of a statement or of the journal; the transaction is rolled back.
        """
        if self.apply_now(ctx, rows):
            return
        first = rows[0]
        if first.type in SYNCHRO_TYPES:
            if await self._apply_synchro(first):
                return
            rows = [nop_of(first)]
        with self._on_its_way(rows[-1]):
            async with self._latches[first.replica_id]:
                rows = self._fresh(self._without_outdated(rows))
                if rows:
                    await self._executor.execute(ctx, rows)

    @contextmanager
    def _on_its_way(self, row: Row) -> Iterator[None]:
        """Count a row as `coming` during the `with` block."""
        place = row.replica_id, row.lsn
        self._under_way.append(place)
        try:
            yield
        finally:
            self._under_way.remove(place)

    def _commit(self, ctx: Context, txn: Transaction, rows: list[Row]) -> None:
        """Hand a transaction over to the journal.

        Raises:
            ClientError: UNSUPPORTED, a trigger has changed replicated spaces in a remote transaction; INJECTION.
        """
        if len(txn.statements) != len(rows) and txn.is_distributed:
            raise client_error(ErrorCode.UNSUPPORTED, "Replication", "distributed transactions")
        if self._errinj.values["ERRINJ_TXN_COMMIT_ASYNC"]:
            raise client_error(ErrorCode.INJECTION, "txn commit async injection")
        txn.on_wal_write.append(self._on_wal_write)
        txn.on_done(self._on_done)
        self._txns.commit_open(ctx, txn, waits=False)
        self._synchro.note_nops(rows)
        self._advance(rows[-1])

    def _advance(self, row: Row) -> None:
        if row.lsn > self.applied[row.replica_id]:
            self.applied.follow(row.replica_id, row.lsn)
            if self.progress:
                self.progress.wake()

    def _on_wal_write(self, txn: Transaction) -> None:
        self._tell_written()

    def _tell_written(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        self.on_written()

    def _tell_later(self) -> None:
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(_CONFIRM_PAUSE, self._tell_written)

    def _on_done(self, txn: Transaction) -> None:
        """React to a failed journal write; a rollback by the limbo is none, because its rows are written."""
        if txn.error is not None and txn.error.code == ErrorCode.WAL_IO:
            self._fail(txn.error)

    def _fail(self, error: BoxError) -> None:
        self._failures += 1
        self.applied = self._instance.vclock.copy()
        self.on_failure(error)

    # -- CONFIRM, ROLLBACK, PROMOTE -------------------------------------------------------------------

    async def _apply_synchro(self, row: Row) -> bool:
        """Apply a CONFIRM, ROLLBACK or PROMOTE and wait until it is written; returns False if it has become outdated.

        The row goes to the journal even if its applier is stopped meanwhile: otherwise it could be in the log but not
        in `applied`, and be applied twice. After a failure of the journal it is not written: rows before it may be
        lost, and the log would continue after the gap.
        """
        if self._has(row):
            return True
        failures, loop = self._failures, asyncio.get_running_loop()
        task, result = first_step(loop, self._write_synchro(row, lambda: failures == self._failures))
        if task is None:
            return bool(result)
        task.set_name("applier/synchro")
        ended = self._synchro_tasks[task] = loop.create_future()
        task.add_done_callback(self._synchro_done)
        await ended
        return task.result()

    def _synchro_done(self, task: asyncio.Task[bool]) -> None:
        """End the wait for a task. Reads its error, which `_fail` has handled, so that asyncio does not log it."""
        ended = self._synchro_tasks.pop(task)
        if not task.cancelled():
            task.exception()
        if not ended.done():
            ended.set_result(None)

    async def _write_synchro(self, row: Row, is_next: Callable[[], bool]) -> bool:
        with self._on_its_way(row):
            return await self._write_synchro_next(row, is_next)

    async def _write_synchro_next(self, row: Row, is_next: Callable[[], bool]) -> bool:
        async with self._latches[row.replica_id]:
            if self._has(row):
                return True
            if self._without_outdated([row])[0] is not row:
                return False
            try:
                await self._synchro.apply(row, is_next)
            except BoxError as error:
                if error.code == ErrorCode.WAL_IO:
                    self._fail(error)
                raise
            self._advance(row)
            if row.type == RequestType.CONFIRM and not is_claim(row):
                self._tell_later()
            else:
                self._tell_written()
            return True
