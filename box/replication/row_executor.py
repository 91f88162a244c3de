"""Executes the transactions of other instances: at once, with waits, or in slices.

```
execute_now    without a task switch, unless a trigger of a space may wait
execute        the others: triggers that wait, and large transactions, in slices (`box.txn.staged`; with MVCC in an
               open transaction, which is invisible to others)
```

`box.replication.row_sink` decides which rows are executed and in which order, and hands them over to the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from box.errors import BoxError, ErrorCode, client_error
from box.log import Log
from box.replication.local import ReplicationOptions
from box.session import Context
from box.txn.pending import completed
from box.txn.staged import STAGED_ROWS, StagedTransaction
from box.txn.transaction import Transaction, TxnState
from box.wire.change import decode_row, request_text
from box.wire.constants import RequestType
from box.wire.row import Row, nop_of

if TYPE_CHECKING:
    from box.schema.schema import Schema
    from box.txn.dml import Dml
    from box.txn.lifecycle import TransactionManager
    from box.txn.synchro import LimboDriver

_SLICE_ROWS: Final = 32
"""Rows that are executed in a slice with MVCC: 1 to 2 ms."""
_MANY_ROWS: Final = 16
"""The rows of a transaction from which on they are executed by one call, which is faster for each row."""


def is_large(rows: list[Row]) -> bool:
    """Return whether a transaction is executed in slices."""
    return len(rows) >= STAGED_ROWS


class RowExecutor:
    """The executor of remote transactions.

    `commit` hands an executed transaction over to the log, `without_outdated` replaces the rows of a transaction that
    was rolled back everywhere, `failures` returns the number of failed writes to the log. The caller of `execute_now`
    holds the limbo's lock.
    """

    def __init__(
        self,
        options: ReplicationOptions,
        *,
        schema: Schema,
        txns: TransactionManager,
        dml: Dml,
        synchro: LimboDriver,
        log: Log,
        commit: Callable[[Context, Transaction, list[Row]], None],
        without_outdated: Callable[[list[Row]], list[Row]],
        failures: Callable[[], int],
    ) -> None:
        self._options = options
        self._schema = schema
        self._txns = txns
        self._dml = dml
        self._synchro = synchro
        self._log = log
        self._commit = commit
        self._without_outdated = without_outdated
        self._failures = failures
        self._large = asyncio.Lock()
        """Held while a large transaction is executed in slices."""

    def execute_now(self, ctx: Context, rows: list[Row]) -> bool:
        """Execute a transaction and hand it over; returns False, with nothing done, if a trigger may wait.

        Raises:
            BoxError: the error of a statement; the transaction is rolled back.
        """
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
        """Execute a row; returns False if a trigger of its space may wait."""
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

    async def execute(self, ctx: Context, rows: list[Row]) -> None:
        """Execute any transaction and hand it over, waiting for triggers and other tasks.

        Raises:
            BoxError: the error of a statement; the transaction is rolled back.
        """
        if is_large(rows):
            if await self._execute_in_slices(ctx, rows):
                return
            rows = self._without_outdated(rows)
        await self._synchro.enter(rows[0].replica_id)
        try:
            if is_large(rows) and self.execute_now(ctx, rows):
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
        """Execute a large transaction in slices; returns False, with nothing done, if it has to run at once."""
        async with self._large:
            await self._txns.work.wait()
            if self._txns.storage.allows_yield:
                return await self._execute_with_versions(ctx, rows)
            failures, staged = self._failures(), self._dml.stage(ctx, rows)
            if staged is None:
                return False
            try:
                while staged.go_on():
                    self._dml.on_busy()
                    await asyncio.sleep(0)
                await self._synchro.enter(rows[0].replica_id)
                try:
                    if failures != self._failures():
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
        """Execute a large transaction in slices under MVCC: it stays open meanwhile and is invisible to others.

        Returns False, with nothing done, if it has to run at once.
        """
        failures, counters, txn = self._failures(), self._dml.counters, self._txns.begin(ctx)
        counted: list[int] = []
        try:
            for start in range(0, len(rows), _SLICE_ROWS):
                part = rows[start : start + _SLICE_ROWS]
                if txn.state is not TxnState.INPROGRESS or not self._run_slice(ctx, part, counted):
                    return False
                await asyncio.sleep(0)
            await self._synchro.enter(rows[0].replica_id)
            try:
                if failures != self._failures():
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
                    counters[kind] -= 1  # `execute` runs these rows again, and counts them then
        return True

    def _run_slice(self, ctx: Context, rows: list[Row], counted: list[int]) -> bool:
        """Execute the rows of a slice; returns False if one fails, has triggers or changes the schema.

        `counted` gets the types of the requests that were counted in the statistics.
        """
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
        """Replace a row that fails by a NOP, if its key exists already and `replication_skip_conflict` is on.

        Raises:
            BoxError: `error`, in all other cases.
        """
        self._log.error(f"error applying row: {request_text(row)}")
        if error.code != ErrorCode.TUPLE_FOUND or not self._options.skips_conflicts:
            raise error
        nop = nop_of(row)
        nop.flags = row.flags
        self._dml.run_nop(ctx, nop)
