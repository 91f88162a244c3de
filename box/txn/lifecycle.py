"""The transaction manager: begin, commit, rollback, savepoints, and the way through journal and limbo.

```
commit        prepare (MVCC conflicts, order)  ->  rows  ->  limbo entry if needed  ->  journal
written       without a limbo entry: committed; with one: the limbo decides
write failed  undone, WAL_IO; the journal fails the newest entry first, so undoing is always exact
```

Everything up to the journal's queue happens without a switch of fibers. So changes of the indexes, entries of the limbo
and rows of the log have one order. No outcome is reported before it is in the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from math import isnan
from typing import TYPE_CHECKING, Final

from box.errors import BoxError, ErrorCode, client_error
from box.slices import SlicedWork
from box.txn.fast_path import FastWrite, HeldChange
from box.txn.gathered import forget_gathered, gather
from box.txn.isolation import Isolation, checked_level
from box.txn.staged_undo import UNDONE_STATEMENTS
from box.txn.transaction import (
    NO_LSN,
    SUB_STMT_MAX,
    WAIT_SYNC,
    WAIT_SYNC_AND_ACK,
    LimboEntry,
    OpenStatement,
    Savepoint,
    Statement,
    Transaction,
    TransactionHook,
    TxnState,
    applied_as,
)
from box.wire.constants import GROUP_DEFAULT, GROUP_LOCAL, RequestType
from box.wire.row import Row

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task

    from box.schema.space import Space
    from box.schema.storage_engine import Engine
    from box.session import Context
    from box.txn.storage import TupleStorage
    from box.txn.synchro import LimboDriver
    from box.wire.entry import JournalEntry, JournalSink

_MANY_STATEMENTS: Final = 4096
"""The number of statements from which on those of an ended transaction are freed in slices."""


class TransactionManager:
    """Begins and ends all transactions of one node. The node replaces `journal` when recovery ends."""

    def __init__(
        self, journal: JournalSink, storage: TupleStorage, synchro: LimboDriver, loop: AbstractEventLoop
    ) -> None:
        self.journal = journal
        self.storage = storage
        self.synchro = synchro
        self.work = SlicedWork(loop)
        """Deferred work for large transactions: merging changes, folding versions, freeing statements."""
        storage.add_work = self.work.add
        storage.definitions.end = self._end_in_conflict
        self.commits = SlicedWork(loop)
        """Commits that wait until the storage is ready for them (`TupleStorage.make_ready`)."""
        self._loop = loop
        self.default_timeout: float | None = None
        """The default time limit of users' transactions in seconds, counted from the first yield; None for no limit."""
        self.default_isolation = Isolation.BEST_EFFORT
        self.on_refused: Callable[[BoxError], None] = lambda error: None
        """Called with an error that is both raised and logged, as Tarantool does it with a few errors."""
        self._next_id = 0
        self._last_psn = 0
        self._hook_tasks: set[Task[None]] = set()
        synchro.on_committed = self._confirmed
        synchro.on_rolled_back = self._rolled_back
        synchro.prepare_rollback = self.prepare_rollback

    def refused(self, error: BoxError) -> BoxError:
        """Report an error to `on_refused`, and return it."""
        self.on_refused(error)
        return error

    # -- begin, commit, rollback

    def begin(self, ctx: Context) -> Transaction:
        """Open a transaction.

        Raises:
            TransactionError: ACTIVE_TRANSACTION.
        """
        if ctx.txn is not None:
            raise client_error(ErrorCode.ACTIVE_TRANSACTION)
        self._next_id += 1
        ctx.txn = txn = Transaction(self._next_id, ctx, self._on_written)
        return txn

    def begin_limited(self, ctx: Context, timeout: float | None = None, isolation: int = 0) -> Transaction:
        """Open a transaction of a user. `timeout` is in seconds, None for the default; `isolation` is the number of a
        level (`box.txn.isolation`).

        Raises:
            TransactionError: ACTIVE_TRANSACTION.
            IllegalParams: the isolation level does not exist.
            UnsupportedError: the isolation level is not supported.
        """
        if ctx.txn is not None:
            raise client_error(ErrorCode.ACTIVE_TRANSACTION)
        level = self.default_isolation
        if isolation:
            level = checked_level(isolation, level, has_versions=self.storage.allows_yield)
        # A yield shares such a transaction, and so does a commit that the log does not complete at once.
        is_lone = level is not Isolation.READ_CONFIRMED and self._is_quiet
        txn = self.begin(ctx)
        txn.is_lone = is_lone
        txn.isolation = level
        if level is Isolation.READ_CONFIRMED:
            self.storage.may_go_to_view(txn)
        limit = self.default_timeout if timeout is None else timeout
        # As in Tarantool, a transaction with a timeout of NaN has no limit.
        txn.timeout = None if limit is None or isnan(limit) else limit
        return txn

    def begin_lone(self, ctx: Context) -> Transaction:
        """Open a transaction whose caller calls `share` before any other line of execution runs.

        Until then no other reader can see its changes, so they need no versions and take as long as without MVCC.

        Raises:
            TransactionError: ACTIVE_TRANSACTION.
        """
        txn = self.begin(ctx)
        txn.is_lone = self._is_quiet
        return txn

    @property
    def _is_quiet(self) -> bool:
        """True if tuples may have versions, but none has, and no commit waits in the limbo."""
        return self.storage.allows_yield and not self.storage.has_versions and self.synchro.limbo.is_empty

    def share(self, txn: Transaction) -> None:
        """Give the changes of a lone transaction versions, because others may look at the tuples from now on."""
        if txn.is_lone:
            self.storage.make_versions(txn)

    def commit(self, ctx: Context, *, is_written_now: bool = False) -> Transaction | None:
        """Commit the open transaction, if there is one, without waiting.

        `is_written_now`: the caller flushes the journal before any other task runs, so a lone transaction stays alone.
        Returns the transaction if its outcome is not known yet, and None if the commit is complete.

        Raises:
            TransactionError: COMMIT_IN_SUB_STMT, the transaction stays open. After a rollback: TRANSACTION_CONFLICT,
                TRANSACTION_YIELD, TRANSACTION_TIMEOUT, SYNC_ROLLBACK or UNCOMMITTED_FOREIGN_SYNC_TXNS.
            DiskWriteError: WAL_IO; the transaction is rolled back.
            BoxError: `before_commit` raised it; the transaction is rolled back.
        """
        txn = ctx.txn
        if txn is None:
            return None
        if txn.nesting:
            raise client_error(ErrorCode.COMMIT_IN_SUB_STMT)
        if txn.is_lone and not (is_written_now or self.journal.is_void):
            self.share(txn)
        if txn.before_commit is not None:
            self._check_before_commit(ctx, txn, txn.before_commit)
        steps = self.storage.make_ready(txn)
        if steps is not None:
            _leave(ctx, txn)
            self.commits.add(partial(self._commit_ready, txn, steps))
            return txn
        self.commit_open(ctx, txn)
        return None if txn.done else txn

    def _check_before_commit(self, ctx: Context, txn: Transaction, check: Callable[[], None]) -> None:
        try:
            check()
        except BoxError:
            self.rollback_open(ctx, txn)
            raise

    def _commit_ready(self, txn: Transaction, steps: Iterator[None]) -> bool:
        """Take one step to make the storage ready, or commit if none is left; returns True if there are more.

        The commit follows the last step in the same turn, so that no other task comes in between.
        """
        for _ in steps:
            return True
        with suppress(BoxError):  # waiters get the error from the transaction
            self._commit(txn, True)
        return False

    def commit_open(self, ctx: Context, txn: Transaction, *, waits: bool = True) -> None:
        """Commit a transaction: hand it to the limbo, if needed, and to the journal.

        `waits`: a caller on this instance waits for the outcome, so the limbo's timeout counts. Appliers and recovery
        do not wait: transactions of other instances stay in the limbo until their owner decides.

        Raises:
            ClientError: as `commit`; the transaction is rolled back.
        """
        _leave(ctx, txn)
        self._commit(txn, waits)

    def _commit(self, txn: Transaction, waits: bool) -> None:
        if txn.is_fast and txn.statements and self.journal.is_void and self.synchro.limbo.is_empty:
            self._commit_counted(txn)
            return
        try:
            self._prepare(txn)
            if txn.gathered != len(txn.statements) or txn.leaves_rows_out:
                gather(txn)
            rows = txn.rows
            if not txn.has_own_rows:
                _put_in_order(rows)
            if rows:
                self._enter_limbo(txn, rows, waits)
        except BoxError as error:
            self._fail(txn, error)
            raise
        if not rows:
            self._succeed(txn)
            return
        try:
            self.journal.submit(txn)
        except BoxError as error:
            self._fail_write(txn, error)
            raise
        if txn.done and txn.error is not None:  # a journal that writes at once has failed already
            raise txn.error

    def _commit_counted(self, txn: Transaction) -> None:
        """Commit a transaction of the fast path while the journal keeps no rows: its rows are only counted."""
        try:
            self._prepare(txn)
            self.journal.pass_rows(len(txn.statements))
        except BoxError as error:
            self._fail(txn, error)
            raise
        for hook in txn.on_wal_write:
            hook(txn)
        self._succeed(txn)

    def rollback(self, ctx: Context) -> None:
        """Roll back the open transaction, if there is one.

        Raises:
            TransactionError: ROLLBACK_IN_SUB_STMT.
        """
        txn = ctx.txn
        if txn is None:
            return
        if txn.nesting:
            raise client_error(ErrorCode.ROLLBACK_IN_SUB_STMT)
        self.rollback_open(ctx, txn)

    def rollback_open(self, ctx: Context, txn: Transaction) -> None:
        """Roll back a transaction at any level of nesting, because its fiber has ended or a statement has failed."""
        txn.nesting.clear()
        _leave(ctx, txn)
        self._fail(txn, None)

    def fiber_stopped(self, ctx: Context) -> None:
        """Roll back the transaction that an ended fiber has left open, if any."""
        if ctx.txn is not None:
            self.rollback_open(ctx, ctx.txn)

    def is_in_txn(self, ctx: Context) -> bool:
        """Return True from the begin of a transaction until its commit or rollback starts."""
        return ctx.txn is not None

    def on_yield(self, ctx: Context) -> None:
        """Abort the open transaction of a fiber that is about to wait, unless the transaction may yield.

        Its commit will fail with TRANSACTION_YIELD. With MVCC the time of a limited transaction begins to count.
        """
        txn = ctx.txn
        if txn is None:
            return
        if txn.is_lone:
            self.share(txn)
        if not txn.may_yield:
            txn.aborted_by_yield = True
            txn.yields += 1
            self.hide_doomed(ctx)
        elif txn.timeout is not None and txn.timer is None:
            txn.timer = self._loop.call_later(txn.timeout, self._time_is_over, txn)

    def hide_doomed(self, ctx: Context) -> None:
        """Undo what a transaction that has been aborted by a yield has changed since; the caller gives its turn away.

        As in Tarantool, the fiber goes on until its commit fails, but others must not see the changes.
        """
        txn = ctx.txn
        if txn is not None and txn.aborted_by_yield:
            self.undo_to(txn, 0)
            txn.nesting = [0] * len(txn.nesting)

    def _time_is_over(self, txn: Transaction) -> None:
        """Undo the changes of an open transaction whose time is over; its next statement or commit will fail."""
        if txn.ctx is None or txn.state in (TxnState.TIMED_OUT, TxnState.ABORTED):
            return
        if not txn.nesting:  # a trigger that waits now belongs to an open statement, which is undone at the end
            self._take_back(txn)
        txn.state = TxnState.TIMED_OUT
        txn.engine = None  # the next statement binds the engine again, and then finds the state TIMED_OUT

    def _end_in_conflict(self, txn: Transaction) -> None:
        """Undo the changes of an open transaction. Its next statement or commit raises TRANSACTION_CONFLICT."""
        self._take_back(txn)
        txn.state = TxnState.CONFLICTED

    def _take_back(self, txn: Transaction) -> None:
        """Undo all changes of a transaction that stays open, and executes no further statement.

        Those of a large one are invisible at once, and leave the indexes some in each turn.
        """
        if self.storage.undo_whole(txn):
            txn.is_taken_back, txn.statements = True, []
            forget_gathered(txn)
            self.storage.forget_writes(txn)
        else:
            self.undo_to(txn, 0)

    # -- savepoints

    def savepoint(self, ctx: Context) -> Savepoint:
        """Return a savepoint at the current place of the open transaction.

        Raises:
            TransactionError: NO_TRANSACTION.
        """
        if ctx.txn is None:
            raise client_error(ErrorCode.NO_TRANSACTION)
        return Savepoint(ctx.txn)

    def rollback_to_savepoint(self, ctx: Context, savepoint: Savepoint) -> None:
        """Undo the statements after a savepoint.

        Raises:
            TransactionError: NO_TRANSACTION or NO_SUCH_SAVEPOINT.
        """
        txn = ctx.txn
        if txn is None:
            raise client_error(ErrorCode.NO_TRANSACTION)
        if not savepoint.is_valid_in(txn):
            raise client_error(ErrorCode.NO_SUCH_SAVEPOINT)
        self.undo_to(txn, savepoint.length)

    # -- statements

    def begin_statement(self, txn: Transaction, space: Space | None, request_type: int) -> OpenStatement:
        """Open a statement, possibly in a trigger of another one.

        Raises:
            TransactionError: SUB_STMT_MAX, TRANSACTION_CONFLICT or CROSS_ENGINE_TRANSACTION.
        """
        if len(txn.nesting) > SUB_STMT_MAX:
            raise client_error(ErrorCode.SUB_STMT_MAX)
        txn.check_alive()
        if txn.is_lone:
            self.share(txn)
        if space is not None:
            if self.storage.definitions.owner is not None:
                self.storage.definitions.make_way(txn, space)
            self.use_engine(txn, space)
        txn.is_fast = False
        statement = OpenStatement(space, request_type)
        txn.nesting.append(len(txn.statements))
        txn.statements.append(statement)
        return statement

    def use_engine(self, txn: Transaction, space: Space) -> None:
        """Bind the transaction to the space's engine; the first statement and the first read do so.

        Raises:
            TransactionError: CROSS_ENGINE_TRANSACTION or TRANSACTION_TIMEOUT.
        """
        if txn.engine is None:
            if txn.state is TxnState.TIMED_OUT:
                raise client_error(ErrorCode.TRANSACTION_TIMEOUT)
            if space.engine.is_transactional:
                txn.engine = txn.bound = space.engine
                txn.may_yield = space.engine.allows_yield
        elif txn.engine is not space.engine and space.engine.is_transactional:
            raise client_error(ErrorCode.CROSS_ENGINE_TRANSACTION)

    def reads_as_others(self, txn: Transaction, memtx: Engine) -> bool:
        """Bind the open transaction to memtx at its first read. Returns True if its reads need no check.

        They need none if every read returns exactly what the indexes hold. Only for nodes without versions of tuples.
        """
        if txn.engine is None and txn.state is TxnState.INPROGRESS:
            txn.engine = txn.bound = memtx
            txn.may_yield = False
        return txn.engine is memtx and txn.timeout is None

    def cancel_statement(self, txn: Transaction) -> None:
        """Undo the innermost open statement and those of its triggers, unless all is rolled back already."""
        if txn.nesting:
            self.undo_to(txn, txn.nesting.pop())

    def undo_to(self, txn: Transaction, length: int) -> None:
        """Undo statements, newest first, until `length` are left."""
        undone = txn.statements[length:]
        del txn.statements[length:]
        if txn.gathered > length:
            forget_gathered(txn)
        self._undo_all(txn, undone)

    def _undo_all(self, txn: Transaction, statements: list[Statement]) -> None:
        """Undo statements, newest change first.

        A statement in a before_replace trigger has changed the indexes before the outer one, so the order of statements
        differs.
        """
        for statement in sorted(statements, key=applied_as, reverse=True):
            self._undo(txn, statement)

    def _undo(self, txn: Transaction, statement: Statement) -> None:
        if statement.applied:
            assert statement.space is not None
            statement.space.engine.undo(txn, statement)
            statement.applied = 0
        if isinstance(statement, OpenStatement):
            statement.run_rollback_hooks()
            statement.on_commit = []

    # -- the way of a commit

    def _prepare(self, txn: Transaction) -> None:
        """Check that a transaction may commit, and give it its place in the order of commits."""
        if txn.aborted_by_yield:
            raise self.refused(client_error(ErrorCode.TRANSACTION_YIELD))
        if txn.state is TxnState.TIMED_OUT:
            raise client_error(ErrorCode.TRANSACTION_TIMEOUT)
        if txn.state is TxnState.CONFLICTED or (txn.state is TxnState.IN_READ_VIEW and txn.statements):
            raise client_error(ErrorCode.TRANSACTION_CONFLICT)
        self._last_psn += 1
        txn.psn = self._last_psn
        (txn.bound or self.storage).prepare(txn)
        txn.state = TxnState.PREPARED

    def _enter_limbo(self, txn: Transaction, rows: list[Row], waits: bool) -> None:
        """Decide whether the commit has to wait in the limbo, and queue it if so."""
        is_synchronous = False
        for space in txn.spaces:
            if space.is_sync:
                is_synchronous = True
        if not is_synchronous and self.synchro.limbo.is_empty:
            return
        if txn.force_async or all(row.type == RequestType.NOP for row in rows):
            return
        txn.wait_ack = is_synchronous
        txn.waits = waits
        self.synchro.append(rows[0].replica_id, txn)
        txn.wait_sync = True
        # Rows of another instance have their lsns already, by which the limbo finds the entry; own ones get them when
        # they are written.
        if is_synchronous and not waits:
            txn.lsn = next((row.lsn for row in reversed(rows) if row.replica_id), NO_LSN)
        rows[-1].flags |= WAIT_SYNC_AND_ACK if txn.wait_ack else WAIT_SYNC

    def _on_written(self, entry: JournalEntry) -> None:
        """Continue a commit that the journal has written or failed; after a failure later ones are undone already."""
        assert isinstance(entry, Transaction)
        if entry.error is not None:
            self._fail_write(entry, entry.error)
            return
        entry.written = True
        for hook in entry.on_wal_write:
            hook(entry)
        if entry.wait_sync:
            self.synchro.written(entry, entry.rows[-1].lsn)
        else:
            self._succeed(entry)

    def prepare_rollback(self, entries: Sequence[JournalEntry | LimboEntry]) -> Iterator[None]:
        """Prepare to undo entries, given oldest first: their write has failed, or the limbo rolls them back.

        Each step of the iterator is a turn of the loop, and nothing commits meanwhile. Afterwards the turn that undoes
        the entries, newest first, is short.
        """
        self.storage.forget_undos()
        large = [
            number
            for number, entry in enumerate(entries)
            if isinstance(entry, Transaction) and len(entry.statements) >= UNDONE_STATEMENTS
        ]
        if large:
            between = entries[large[0] : large[-1] + 1]
            undone = [entry for entry in between if isinstance(entry, (Transaction, FastWrite, HeldChange))]
            if len(undone) == len(between):  # runs of rows from another instance cannot be prepared
                yield from self.storage.prepare_undo(undone)

    def _confirmed(self, commits: list[LimboEntry]) -> None:
        for commit in commits:
            if isinstance(commit, Transaction):
                self._succeed(commit)
            else:
                commit.finish()

    def _rolled_back(self, commit: LimboEntry, error: BoxError) -> None:
        if isinstance(commit, Transaction):
            self._fail(commit, error)
        else:
            assert isinstance(commit, HeldChange)
            commit.take_back(error)

    def _fail_write(self, txn: Transaction, error: BoxError) -> None:
        if txn.wait_sync:
            self.synchro.abort(txn)
        self._fail(txn, error)

    def _succeed(self, txn: Transaction) -> None:
        txn.state = TxnState.COMMITTED
        (txn.bound or self.storage).commit(txn)
        for statement in txn.hooked:
            for hook in statement.on_commit:
                hook()
        self._finish(txn, txn.on_commit)

    def _fail(self, txn: Transaction, error: BoxError | None) -> None:
        txn.state = TxnState.ABORTED
        if not self.storage.undo_whole(txn):
            self._undo_all(txn, txn.statements)
        (txn.bound or self.storage).forget(txn)
        txn.error = error
        self._finish(txn, txn.on_rollback[::-1])

    def _finish(self, txn: Transaction, hooks: list[TransactionHook]) -> None:
        """Run the triggers of an ended transaction to their ends, then report its outcome."""
        if not hooks:
            txn.finish()
            if len(txn.statements) >= _MANY_STATEMENTS:
                self.work.let_go(txn.statements)
                self.work.let_go(txn.rows)
            return
        waiting = [outcome for hook in hooks if (outcome := self._call(hook, txn)) is not None]
        if not waiting:
            txn.finish()
            return
        task = self._loop.create_task(_run_all(waiting, txn.finish))
        self._hook_tasks.add(task)
        task.add_done_callback(self._hook_tasks.discard)

    def _call(self, hook: TransactionHook, txn: Transaction) -> Awaitable[None] | None:
        """Call a trigger; an error is only logged, because the outcome is decided already."""
        try:
            return hook(txn.statements)
        except Exception as error:
            self._loop.call_exception_handler({"message": f"a trigger of {txn!r} failed", "exception": error})
            return None


def _leave(ctx: Context, txn: Transaction) -> None:
    """Detach an ended transaction from its context, and stop its time limit."""
    ctx.txn = txn.ctx = None
    if txn.timer is not None:
        txn.timer.cancel()
        txn.timer = None


async def _run_all(waiting: list[Awaitable[None]], then: Callable[[], None]) -> None:
    """Wait for all triggers, then call `then`."""
    try:
        for outcome in waiting:
            await outcome
    finally:
        then()


def _put_in_order(rows: list[Row]) -> None:
    """Sort the rows of a journal entry: those of other instances first, then those made here.

    If the last row is local to this instance and others are not, a NOP is appended to close the transaction for
    replicas.
    """
    if len(rows) > 1:
        for row in rows:
            row.is_commit = False
        rows.sort(key=_is_own)
        if rows[-1].group_id == GROUP_LOCAL and not all(map(_is_local, rows)):
            rows.append(Row(RequestType.NOP, group_id=GROUP_DEFAULT))
        rows[-1].is_commit = True


def _is_own(row: Row) -> bool:
    return row.replica_id == 0


def _is_local(row: Row) -> bool:
    return row.replica_id == 0 and row.group_id == GROUP_LOCAL
