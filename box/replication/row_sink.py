"""Applying the transactions that appliers receive, in the order of each origin.

`applied` is the vclock of everything handed to the journal, a little ahead of the journal's own. It tells which rows
have been seen already when the same change comes by two ways. A transaction of an origin starts only when the one
before it was handed over (the origin's latch); CONFIRM, ROLLBACK and PROMOTE keep the latch until they are written,
because the limbo may change hands by them.

Most transactions need no wait at all: `apply_now` runs those without a task switch, `apply` takes the others, large
ones among them, which are executed in slices (`box.txn.staged`; with versions of tuples in an open transaction). Usual
changes that follow each other take a short way together (`apply_run`).

When the journal fails, `applied` falls back to what is written and every applier stops with the error.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from box.eager import first_step
from box.errinj import ErrorInjections
from box.errors import BoxError, ErrorCode, client_error
from box.log import Log
from box.replication.elections import Elections
from box.replication.local import LocalInstance, ReplicationOptions
from box.session import Context
from box.txn.pending import completed
from box.txn.staged import STAGED_ROWS, StagedTransaction
from box.txn.transaction import Transaction, TxnState
from box.waiters import Waiters
from box.wire.change import decode_row, request_text
from box.wire.change_run import ChangeRun
from box.wire.constants import SYNCHRO_TYPES, Flag, RequestType
from box.wire.row import Row
from box.wire.vclock import VCLOCK_MAX, VClock

if TYPE_CHECKING:
    from box.schema.schema import Schema
    from box.txn.dml import Dml
    from box.txn.lifecycle import TransactionManager
    from box.txn.synchro import LimboDriver


_CONFIRM_PAUSE: Final = 0.01
"""Seconds until others are told of a written CONFIRM, if no transaction is written before: nobody waits for that."""
_SLICE_ROWS: Final = 32
"""Rows with versions that are executed in a slice: a millisecond or two."""
_MANY_ROWS: Final = 16
"""Rows of a transaction from which on they are executed together."""


def _ignore(*_: object) -> None:
    """Nobody wants to hear of it."""


def _nop(row: Row) -> Row:
    """A row in the place of another one, without effect."""
    return Row(RequestType.NOP, row.replica_id, row.lsn, row.tm, tsn=row.tsn, is_commit=row.is_commit)


def _belongs_to_limbo(rows: list[Row]) -> bool:
    """A transaction that waits in the limbo, or a decision about such ones."""
    kind = rows[0].type
    is_decision = kind in SYNCHRO_TYPES and kind != RequestType.PROMOTE
    return is_decision or bool(rows[-1].flags & Flag.WAIT_SYNC)


class RowSink:
    """One for the instance. `on_written` is told of every transaction in the journal, `on_failure` of a failed one."""

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
        self._options = options
        self._elections = elections
        self._schema = schema
        self._txns = txns
        self._dml = dml
        self._synchro = synchro
        self._log = log
        self._errinj = errinj
        self.on_written: Callable[[], None] = _ignore
        self.on_failure: Callable[[BoxError], None] = _ignore
        self._latches = [asyncio.Lock() for _ in range(VCLOCK_MAX)]
        self._synchro_tasks: dict[asyncio.Task[bool], asyncio.Future[None]] = {}
        self._telling: asyncio.TimerHandle | None = None
        self._failures = 0
        self._large = asyncio.Lock()
        """Held while a large transaction is executed in slices."""
        self.applied = VClock()
        self.progress = Waiters()
        """Woken when a transaction has been handed to the journal."""

    def reset(self, vclock: VClock) -> None:
        """Start from what recovery or a join has brought."""
        self.applied = vclock.copy()

    async def stop(self) -> None:
        """Give up what still waits for its turn or for the journal."""
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        tasks = list(self._synchro_tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _has(self, row: Row) -> bool:
        """Rows that this instance has written itself are known by the journal only."""
        origin, here = row.replica_id, self._instance
        return row.lsn <= self.applied[origin] or (origin == here.instance_id and row.lsn <= here.vclock[origin])

    def _fresh(self, rows: list[Row]) -> list[Row]:
        """The rows of a transaction that are not here yet."""
        if self._has(rows[-1]):
            return []
        return [row for row in rows if not self._has(row)] if self._has(rows[0]) else rows

    def _without_outdated(self, rows: list[Row]) -> list[Row]:
        """With elections, what an instance still sends of its synchronous transactions after another one has taken over
        in a later term was rolled back everywhere: such rows only move the vclock."""
        if not self._elections.is_outdated(rows[0].replica_id) or not _belongs_to_limbo(rows):
            return rows
        return [_nop(row) for row in rows]

    # -- many transactions at once --------------------------------------------------------------------

    def apply_run(self, ctx: Context, run: ChangeRun, start: int, stop: int) -> int:
        """Apply transactions of a run from number `start` on, as far as nothing but the indexes has a say; gives the
        number of the first that needs `apply`. WAL_IO."""
        origin = run.replica_id
        if self._errinj.is_armed or self._latches[origin].locked() or origin == self._instance.instance_id:
            return start
        if run.flags and self._elections.is_outdated(origin):
            return start
        start = bisect_right(run.lsns, self.applied[origin], start, stop)
        if start == stop or not self._synchro.try_enter():
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
        """Apply one transaction if nothing has to be waited for; False: use `apply`. Raises as `apply` does."""
        first = rows[0]
        if len(rows) >= STAGED_ROWS or self._latches[first.replica_id].locked():
            return False
        rows = self._without_outdated(rows)
        if rows[0].type in SYNCHRO_TYPES:
            return False
        rows = self._fresh(rows)
        if not rows:
            return True
        if not self._synchro.try_enter():
            return False
        try:
            return self._execute_now(ctx, rows)
        finally:
            self._synchro.leave()

    def may_be_void(self, rows: list[Row]) -> bool:
        """Whether a transaction that is not here was, or may be, rolled back by who takes over the limbo."""
        return not self._has(rows[-1]) and _belongs_to_limbo(rows)

    def is_void(self, rows: list[Row]) -> bool:
        """Whether a transaction that is not here was rolled back everywhere; see `_without_outdated`."""
        return not self._has(rows[-1]) and self._without_outdated(rows) is not rows

    def take_void(self, ctx: Context, rows: list[Row]) -> None:
        """A transaction without an effect, from somebody who does not lead: it moves the vclock, if it comes next."""
        if rows[0].lsn == self.applied[rows[0].replica_id] + 1 and self.is_void(rows):
            self.apply_now(ctx, rows)

    def _execute_now(self, ctx: Context, rows: list[Row]) -> bool:
        txn = self._txns.begin(ctx)
        try:
            done = self._dml.write_rows(ctx, rows) if len(rows) >= _MANY_ROWS else 0
            for row in rows[done:]:
                if not self._run_row(ctx, row):
                    self._txns.rollback_open(ctx, txn)
                    return False
            self._commit(ctx, txn, rows)
        except BaseException:
            if ctx.txn is txn:
                self._txns.rollback_open(ctx, txn)
            raise
        return True

    def _run_row(self, ctx: Context, row: Row) -> bool:
        """Execute a row; False if a trigger of its space may wait."""
        dml = self._dml
        if row.type == RequestType.NOP:
            dml.run_nop(ctx, row)
            return True
        space_id, request = decode_row(row)
        space = self._schema.space(space_id)
        if space.has_triggers:
            return False
        try:
            dml.write(ctx, space, request)
        except BoxError as error:
            self._skip_conflict(ctx, row, error)
        return True

    # -- transactions that may wait -------------------------------------------------------------------

    async def apply(self, ctx: Context, rows: list[Row]) -> None:
        """Apply one transaction. Raises what its statements raise; the transaction is rolled back then."""
        if self.apply_now(ctx, rows):
            return
        first = rows[0]
        if first.type in SYNCHRO_TYPES:
            if await self._apply_synchro(first):
                return
            rows = [_nop(first)]
        async with self._latches[first.replica_id]:
            rows = self._fresh(self._without_outdated(rows))
            if rows:
                await self._execute(ctx, rows)

    async def _execute(self, ctx: Context, rows: list[Row]) -> None:
        if len(rows) >= STAGED_ROWS:
            if await self._execute_in_slices(ctx, rows):
                return
            rows = self._without_outdated(rows)
        await self._synchro.enter()
        try:
            if len(rows) >= STAGED_ROWS and self._execute_now(ctx, rows):
                return
            txn = self._txns.begin(ctx)
            try:
                for row in rows:
                    await self._run_row_waiting(ctx, row)
                self._commit(ctx, txn, rows)
            except BaseException:
                if ctx.txn is txn:
                    self._txns.rollback_open(ctx, txn)
                raise
        finally:
            self._synchro.leave()

    async def _execute_in_slices(self, ctx: Context, rows: list[Row]) -> bool:
        """Execute a large transaction while others have their turns; nothing is done if it has to be in one go."""
        async with self._large:
            await self._txns.work.wait()
            if self._txns.storage.allows_yield:
                return await self._execute_with_versions(ctx, rows)
            failures, staged = self._failures, self._dml.stage(ctx, rows)
            if staged is None:
                return False
            try:
                while staged.go_on():
                    self._dml.on_busy()
                    await asyncio.sleep(0)
                await self._synchro.enter()
                try:
                    if failures != self._failures:
                        raise client_error(ErrorCode.WAL_IO)  # rows before it may be lost
                    if not staged.is_valid or self._without_outdated(rows) is not rows:
                        return False
                    self._publish(ctx, staged)
                finally:
                    self._synchro.leave()
            finally:
                staged.close()
        return True

    async def _execute_with_versions(self, ctx: Context, rows: list[Row]) -> bool:
        """The same where tuples have versions: the transaction stays open meanwhile, and nobody sees it."""
        failures, counters, txn = self._failures, self._dml.counters, self._txns.begin(ctx)
        counted: list[int] = []
        try:
            for start in range(0, len(rows), _SLICE_ROWS):
                part = rows[start : start + _SLICE_ROWS]
                if txn.state is not TxnState.INPROGRESS or not self._run_slice(ctx, part, counted):
                    return False
                await asyncio.sleep(0)
            await self._synchro.enter()
            try:
                if failures != self._failures:
                    raise client_error(ErrorCode.WAL_IO)  # rows before it may be lost
                if txn.state is not TxnState.INPROGRESS or self._without_outdated(rows) is not rows:
                    return False
                self._commit(ctx, txn, rows)
            finally:
                self._synchro.leave()
        finally:
            if ctx.txn is txn:
                self._txns.rollback_open(ctx, txn)
                for kind in counted:
                    counters[kind] -= 1  # as if never asked for
        return True

    def _run_slice(self, ctx: Context, rows: list[Row], counted: list[int]) -> bool:
        """Execute rows; False where one go has to find out what comes of them."""
        for row in rows:
            if row.type == RequestType.NOP:
                self._dml.run_nop(ctx, row)
                continue
            space_id, request = decode_row(row)
            space = self._schema.spaces.get(space_id)
            if space is None or space.has_triggers or space.system_trigger is not None:
                return False
            counted.append(request.type)
            try:
                self._dml.write(ctx, space, request)
            except BoxError:
                return False
        return True

    def _publish(self, ctx: Context, staged: StagedTransaction) -> None:
        txn = self._txns.begin(ctx)
        try:
            space = staged.statements[0].space
            assert space is not None
            self._txns.use_engine(txn, space)
            staged.publish(txn, self._txns.work)
            self._commit(ctx, txn, staged.rows)
        except BaseException:
            if ctx.txn is txn:
                self._txns.rollback_open(ctx, txn)
            raise

    async def _run_row_waiting(self, ctx: Context, row: Row) -> None:
        try:
            await completed(self._dml.write_row(ctx, row))
        except BoxError as error:
            self._skip_conflict(ctx, row, error)

    def _skip_conflict(self, ctx: Context, row: Row, error: BoxError) -> None:
        """With `replication_skip_conflict`, a row that is here already becomes a NOP; otherwise raise the error."""
        self._log.error(f"error applying row: {request_text(row)}")
        if error.code != ErrorCode.TUPLE_FOUND or not self._options.skips_conflicts:
            raise error
        nop = _nop(row)
        nop.flags = row.flags
        self._dml.run_nop(ctx, nop)

    def _commit(self, ctx: Context, txn: Transaction, rows: list[Row]) -> None:
        """Hand the transaction over to the journal."""
        if len(txn.statements) != len(rows) and txn.is_distributed:
            raise client_error(ErrorCode.UNSUPPORTED, "Replication", "distributed transactions")
        if self._errinj.values["ERRINJ_TXN_COMMIT_ASYNC"]:
            raise client_error(ErrorCode.INJECTION, "txn commit async injection")
        txn.on_wal_write.append(self._on_wal_write)
        txn.on_done(self._on_done)
        self._txns.commit_open(ctx, txn, waits=False)
        self._synchro.void.note_nops(rows)
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
        """A rollback that the limbo has decided is no failure of the journal: the rows are written."""
        if txn.error is not None and txn.error.code == ErrorCode.WAL_IO:
            self._fail(txn.error)

    def _fail(self, error: BoxError) -> None:
        self._failures += 1
        self.applied = self._instance.vclock.copy()
        self.on_failure(error)

    # -- CONFIRM, ROLLBACK, PROMOTE -------------------------------------------------------------------

    async def _apply_synchro(self, row: Row) -> bool:
        """False if the row is outdated when its turn has come.

        It goes on to the journal even if the applier that brought it is stopped meanwhile: otherwise it could be in the
        log without being in `applied`, and be applied again when it comes next time. But not after a failure of the
        journal: rows before it may be lost, and the log would go on behind the gap.
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
        """Errors are known by `_fail`; nobody may be left to take this one."""
        ended = self._synchro_tasks.pop(task)
        if not task.cancelled():
            task.exception()
        if not ended.done():
            ended.set_result(None)

    async def _write_synchro(self, row: Row, is_next: Callable[[], bool]) -> bool:
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
            if row.type == RequestType.CONFIRM:
                self._tell_later()
            else:
                self._tell_written()
            return True
