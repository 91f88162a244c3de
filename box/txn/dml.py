"""The one entrance for changes of data: consoles, clients, embedding programs, appliers and recovery use it.

```
Dml.store, Dml.write     by the space's plan:
   general               triggers, sequences, DDL: box.txn.general             ->  done, a pending commit, or a trigger
                                                                                   that waits
   fast                  checks mode and rights, changes the indexes: box.txn.fast_path
      in a transaction   adds a statement; under MVCC: box.txn.versioned_plan  ->  done
      no log             counts the change                                     ->  done
      held               waits in the limbo: HeldWrite                         ->  done, or a pending commit
      otherwise          writes to the log: FastWrite                          ->  done, or a pending commit
Dml.store_now            as store; where tuples have versions, writes the commit at once if the log allows that
Dml.store_alone          many tuples of one space without a log, as one transaction: box.txn.fast_run
Dml.write_run            many changes of another instance as one journal entry: box.txn.fast_run
Dml.write_rows           many changes in an open transaction
```

Reads are in `box.txn.reads`.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from box.eager import Suspended, run_through
from box.errors import BoxError, ErrorCode, client_error
from box.index.untracked import untrack
from box.schema.access import Privilege
from box.schema.sequence_fill import may_fill
from box.txn.deferred_indexes import DeferredIndexes
from box.txn.dictionary_load import DictionaryLoad
from box.txn.engines import memtx_of
from box.txn.fast_path import CHANGES, FastWrite, HeldWrite, undo
from box.txn.fast_run import (
    STORED_AT_ONCE,
    Change,
    RunWrite,
    SpaceSource,
    add_statements,
    change_rows,
    store_alone,
    store_tuples,
)
from box.txn.gathered import gather, leave_rows_out
from box.txn.general import GeneralWrite
from box.txn.log_fold import LogFold
from box.txn.pending import Outcome, WaitingWrite, completed
from box.txn.point_writes import ROWS_MAX, PointWriter
from box.txn.reads import Reader
from box.txn.staged import StagedTransaction
from box.txn.transaction import OpenStatement, Statement, TxnState
from box.txn.transaction_writes import RowWriter, TransactionWriter, store_in, writer_in
from box.txn.write_plan import MAX_TUPLE_SIZE, Planner, WritePlan
from box.wire.change import INSERT, REPLACE, UPSERT, Request, decode_row
from box.wire.change_run import ChangeRun
from box.wire.constants import GROUP_DEFAULT, TYPE_STAT_MAX, RequestType
from box.wire.row import Row

if TYPE_CHECKING:
    from box.log import Log
    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.session import Context
    from box.txn.lifecycle import TransactionManager
    from box.txn.transaction import Transaction

_WRITE: Final = int(Privilege.W | Privilege.U)
"""The privileges that let a user write to every space without a check of the space."""
_READ_AND_WRITE: Final = _WRITE | int(Privilege.R)
"""The privileges that let a user read and write every space without a check of the space."""
_GATHERED_AT_ONCE: Final = 1024
"""The number of statements after which a growing transaction gathers what its commit needs.

A commit has to gather the rest, which is less than this number, or less than twice as many in a transaction of another
instance: about a millisecond for each 1024.
"""
_HELD_AT_ONCE: Final = 50
"""The number of synchronous changes after which those made so far are sent to the other instances."""


class Dml:
    """All changes of one node, and its `reads`. `counters` are of requests by their type, for `box.stat()`."""

    def __init__(
        self,
        schema: Schema,
        txns: TransactionManager,
        *,
        loop: AbstractEventLoop,
        counters: list[int] | None = None,
    ) -> None:
        self.txns = txns
        self.counters = [0] * TYPE_STAT_MAX if counters is None else counters
        self.reads = Reader(txns, self.counters)
        self.sql_reads = Reader(txns, [0] * TYPE_STAT_MAX)
        """Reads by statements of SQL: as in Tarantool, they do not count as SELECT."""
        self.is_read_only = False
        """True if the instance is in read-only mode; the limbo may forbid changes in addition."""
        self.on_busy: Callable[[], None] = lambda: None
        """Called after every `_GATHERED_AT_ONCE` statements of a transaction, which may all run in one turn of the
        loop.
        """
        self.on_many_held: Callable[[], None] = lambda: None
        """Called after every `_HELD_AT_ONCE` synchronous changes, so that other instances receive them while more are
        made.
        """
        self.is_alone = False
        """True if the caller writes the commit of each change to the log before any other task runs."""
        self._held = 0
        """The number of synchronous changes since the last call of `on_many_held`."""
        self._schema = schema
        self._loop = loop
        self._limbo = txns.synchro.limbo
        self._planner = Planner(MAX_TUPLE_SIZE, schema.memory, has_versions=txns.storage.allows_yield)
        self._general = GeneralWrite(txns)
        self._dictionary = DictionaryLoad(schema, txns.storage, self._planner)
        self._waiting: dict[WaitingWrite, None] = {}
        self.has_versions = has_versions = txns.storage.allows_yield
        """True if tuples may have versions (`memtx_use_mvcc_engine`)."""
        self.store_now = self._store_now if has_versions else self.store
        """As `store`. Where tuples have versions, the commit is written at once if the log allows that.

        A change that nobody can see before it is in the log needs no version. With versions it takes much longer than
        its own `write` system call. Callers get an ended `Pending` for what was written at once.
        """
        self.commit_now = self._commit_now if has_versions else txns.commit
        """As `TransactionManager.commit`, with the same difference as `store_now`."""
        self.memtx = memtx_of(schema.engines)
        """The engine that keeps tuples in memory."""
        self.memtx.use(txns.storage, self._planner)
        schema.on_alter_spaces.append(self._spaces_altered)
        schema.on_views = lambda: txns.storage.definitions.make_way(None, None)
        self._forget_plans()

    # -- limits

    @property
    def max_tuple_size(self) -> int:
        """`memtx_max_tuple_size` in bytes."""
        return self._planner.max_tuple_size

    @max_tuple_size.setter
    def max_tuple_size(self, size: int) -> None:
        self._planner.max_tuple_size = size
        self._forget_plans()

    @property
    def memory_limit(self) -> int:
        """`memtx_memory` in bytes."""
        return self._schema.memory.limit

    @memory_limit.setter
    def memory_limit(self, size: int) -> None:
        self._schema.memory.set_limit(size)

    def report_ignored(self, report: Callable[[BoxError], None]) -> None:
        """Call `report` with each error that an upsert ignores."""
        self._planner.on_ignored = report

    def deferred_indexes(self, log: Log) -> DeferredIndexes:
        """Return an object that leaves out secondary indexes while a log is read."""
        return DeferredIndexes(self._planner, log)

    def log_fold(self) -> LogFold:
        """Return an object that executes runs of the log."""
        return LogFold(self._planner, self.counters)

    def set_memory(self, has_memory: bool) -> None:
        """Set the error injection ERRINJ_TUPLE_ALLOC: without memory no tuple can be stored."""
        self._planner.has_memory = has_memory
        self._forget_plans()

    def _forget_plans(self) -> None:
        for space in self._schema.spaces.values():
            space.write_plan = None

    def _spaces_altered(self, spaces: list[Space]) -> None:
        for space in spaces:
            space.write_plan = None
            self.txns.storage.space_altered(space)

    # -- changes

    def write(self, ctx: Context, space: Space, request: Request) -> Outcome:
        """Execute a request in the open transaction of `ctx`, or in a transaction of its own, which is committed.

        Returns the tuple that was stored or removed; None for an upsert and if there is no such tuple; a `Pending` if a
        trigger waits or the commit is not complete. `ctx` is busy until a write that waits for a trigger has ended. A
        read-only instance accepts requests with a `row`, which come from the log or from another instance.

        Raises:
            ClientError: READONLY, ACCESS_DENIED, TUPLE_NOT_ARRAY, FIELD_TYPE, FIELD_MISSING, EXACT_FIELD_COUNT,
                TUPLE_FOUND, CANT_UPDATE_PRIMARY_KEY, MORE_THAN_ONE_TUPLE, EXACT_MATCH, KEY_PART_TYPE,
                MEMTX_MAX_TUPLE_SIZE, WAL_IO, or the error of an update operation.
            BoxError: the error of a trigger.
        """
        return self.store(ctx, space, request.type, request.tuple, request)

    def store(
        self, ctx: Context, space: Space, kind: int, raw: bytes, request: Request | None = None, fields: Any = None
    ) -> Outcome:
        """Insert or replace the tuple `raw`, as `write` does. `request` is None for a plain request of a user, which is
        described by `kind` and `raw` alone; `fields` is the list of its decoded fields, if the caller has it.
        """
        plan: WritePlan = space.write_plan or self._planner.plan(space)
        txn, held = ctx.txn, self._limbo.entries
        if (
            not (plan.is_usual or (self._is_quiet(plan) if txn is None else plan.is_versioned))
            or space.on_replace
            or space.before_replace
            or (txn is not None and txn.nesting)
            or (request is not None and request.index_id)
        ):
            return self._write_generally(ctx, space, Request(kind, raw) if request is None else request)
        row = None if request is None else request.row
        if row is None and (self.is_read_only or (held and self._limbo.is_foreign)):
            raise self.txns.refused(client_error(ErrorCode.READONLY))
        self.counters[kind] += 1
        if ctx.credentials.universal & _WRITE != _WRITE:
            space.check_access(ctx.credentials, Privilege.W)
        argument: Any = raw if kind <= REPLACE else request
        is_held = plan.is_sync or held
        if txn is not None:
            if is_held:
                txn.is_fast = False
            return store_in(self.txns, txn, space, plan, kind, argument, fields, request, self._record)
        old, new = CHANGES[kind](plan, space, argument, fields)
        result = None if kind == UPSERT else old if new is None else new
        journal = self.txns.journal
        if journal.is_void and not is_held:
            try:
                journal.pass_rows(1)
            except BoxError:
                undo(space, old, new)
                raise
            return result
        body, rows = b"", None
        if row is not None:
            row.group_id = GROUP_DEFAULT
            rows = [row]
        else:
            body = space.tuple_prefix + raw if kind <= REPLACE or request is None else request.body(space.id)
        if not is_held:
            return FastWrite(kind, body, rows, space, old, new, result).submit(journal)
        outcome = HeldWrite(kind, body, row, space, old, new, result, self.txns.synchro).submit(journal)
        self._held += 1
        if self._held == _HELD_AT_ONCE:
            self._held = 0
            self.on_many_held()
        return outcome

    def point_writer(self, ctx: Context, space: Space) -> RowWriter | None:
        """Return a writer of single rows for this turn of the loop; None if changes of the space have to go through
        `store` or `write`, or if the user may not read and write it.
        """
        plan: WritePlan = space.write_plan or self._planner.plan(space)
        txn = ctx.txn
        if not (plan.is_usual or (self._is_quiet(plan, ROWS_MAX) if txn is None else plan.is_versioned)):
            return None
        if not self._takes_rows(ctx, space, plan):
            return None
        if txn is None:
            return PointWriter(plan, space, self.txns.journal, self.counters)
        return writer_in(txn, space, plan, self.txns, self.counters, self._record)

    def row_writer(self, ctx: Context, space: Space) -> TransactionWriter | None:
        """Return a writer of rows in the open transaction, as `point_writer` does, also for a space with a sequence or
        check constraints.
        """
        plan, txn = self._planner.plan(space), ctx.txn
        if txn is None or not (plan.is_usual or plan.is_versioned or plan.is_filled):
            return None
        if not self._takes_rows(ctx, space, plan) or not may_fill(space, ctx.credentials):
            return None
        if txn.engine is None and txn.state is TxnState.INPROGRESS:
            self.txns.use_engine(txn, space)
        return writer_in(txn, space, plan, self.txns, self.counters, self._record)

    def _takes_rows(self, ctx: Context, space: Space, plan: WritePlan) -> bool:
        """Return whether all but the plan lets changes of a space take the fast path, and the user may read and write
        it.
        """
        if space.on_replace or space.before_replace or plan.is_sync or self._limbo.entries or self.is_read_only:
            return False
        if _READ_AND_WRITE & ~ctx.credentials.universal:
            try:
                space.check_access(ctx.credentials, Privilege.W)
                space.check_access(ctx.credentials, Privilege.R)
            except BoxError:
                return False
        return True

    def store_alone(self, ctx: Context, space: Space, kind: int, raws: list[bytes]) -> bool:
        """Insert or replace many tuples as a transaction of its own. Returns False, having done nothing, unless only
        the indexes take part and no log keeps rows: nothing needs statements then. Raises as `store`.
        """
        plan, journal = self._planner.plan(space), self.txns.journal
        if ctx.txn is not None or not journal.is_void or not self._takes_rows(ctx, space, plan):
            return False
        if not plan.is_usual and (space.is_followed or not self._is_quiet(plan)):
            return False
        store_alone(plan, space, kind, raws, journal.pass_rows, self.on_busy, self.counters)
        return True

    def store_all(self, ctx: Context, space: Space, kind: int, raws: list[bytes], *, commits: bool = False) -> None:
        """Insert or replace many tuples in a space without triggers, in the open transaction. `kind` is INSERT or
        REPLACE. `commits`: the caller has just begun the transaction, and commits it before any other task runs.
        """
        plan, txn, storage = self._planner.plan(space), ctx.txn, self.txns.storage
        assert txn is not None
        is_usual = plan.is_usual
        if commits and self._is_quiet(plan, len(raws)):
            is_usual = txn.is_lone = not space.is_followed
        for raw in raws[:1]:
            self.store(ctx, space, kind, raw)
        if not (plan.is_usual or plan.is_versioned) or txn.nesting or space.has_triggers:
            for raw in raws[1:]:
                self.store(ctx, space, kind, raw)
            return
        counters, record = self.counters, self._record
        if not is_usual:
            for raw in raws[1:]:  # the checks for the first tuple hold for the others, too
                counters[kind] += 1
                record(txn, storage.plan_of(txn, space, plan).run(space, kind, CHANGES[kind], raw))
            return
        for start in range(1, len(raws), STORED_AT_ONCE):
            changes: list[Change] = []
            part = raws[start : start + STORED_AT_ONCE]
            try:
                store_tuples(plan, space, kind, part, changes)
            finally:  # an error undoes what was stored before it with the transaction
                counters[kind] += min(len(changes) + 1, len(part))  # a tuple that was refused counts, too
                self._record_all(txn, kind, changes)

    @property
    def refuses_writes(self) -> bool:
        """True if users' changes outside of a transaction get READONLY before any other check."""
        return self.is_read_only or self._limbo.is_read_only

    def commit(self, ctx: Context) -> Transaction | None:
        """Commit the open transaction as `TransactionManager.commit` does. With `is_alone`, a lone one stays alone."""
        txn = ctx.txn
        if txn is None or not (txn.is_lone and self.is_alone):
            return self.txns.commit(ctx)
        return self.txns.commit(ctx, is_written_now=self.txns.journal.completes_at_once(len(txn.statements)))

    def _store_now(self, ctx: Context, space: Space, kind: int, raw: bytes, request: Request | None = None) -> Outcome:
        journal = self.txns.journal
        if ctx.txn is not None or journal.is_void:
            return self.store(ctx, space, kind, raw, request)
        before, self.is_alone = self.is_alone, True
        try:
            outcome = self.store(ctx, space, kind, raw, request)
        finally:
            self.is_alone = before
        if outcome.__class__ is FastWrite:
            journal.flush()
        return outcome

    def _commit_now(self, ctx: Context) -> Transaction | None:
        txn, journal = ctx.txn, self.txns.journal
        if txn is None or not txn.is_lone or journal.is_void:
            return self.txns.commit(ctx)
        is_written_now = journal.completes_at_once(len(txn.statements))
        commit = self.txns.commit(ctx, is_written_now=is_written_now)
        if is_written_now:
            journal.flush()
        return commit

    def _is_quiet(self, plan: WritePlan, rows: int = 1) -> bool:
        """Return True if tuples may have versions but none has, and none will get one before this change is complete.

        Then no open transaction is concerned, so that the fast path is allowed. `rows` is the number of changes in the
        commit.
        """
        journal = self.txns.journal
        if not (plan.is_versioned and (self.is_alone or journal.is_void)) or plan.is_sync or self._limbo.entries:
            return False
        return not self.txns.storage.has_versions and journal.completes_at_once(rows)

    def _record(self, txn: Transaction, statement: Statement) -> None:
        """Add a change that was made on the fast path to an open transaction."""
        if statement.old is not None or statement.new is not None:
            txn.changes = statement.applied = txn.changes + 1
        statements = txn.statements
        statements.append(statement)
        if not len(statements) % _GATHERED_AT_ONCE:
            self._grows(txn)

    def _record_all(self, txn: Transaction, kind: int, changes: list[Change]) -> None:
        """Add insertions or replaces that were made on the fast path to an open transaction."""
        statements, before, applied = txn.statements, len(txn.statements), txn.changes
        for space, old, new in changes:
            statement = Statement(space, kind, old, new, None, None)
            statement.applied = applied = applied + 1
            statements.append(statement)
        txn.changes = applied
        if before // _GATHERED_AT_ONCE != len(statements) // _GATHERED_AT_ONCE:
            self._grows(txn)

    def _grows(self, txn: Transaction) -> None:
        """Gather what the commit of a growing transaction needs. None of its statements may be open."""
        newest = txn.statements[txn.gathered :]
        if txn.is_fast and self.txns.journal.is_void:
            leave_rows_out(txn)
        else:
            gather(txn)
        self.txns.storage.grows(txn)
        for statement in newest:
            if isinstance(statement, OpenStatement):
                statement.spare()
        untrack([statement for statement in newest if not statement.on_commit and not statement.on_rollback])
        untrack([statement.row for statement in newest if statement.row is not None])
        self.on_busy()

    def write_run(
        self, ctx: Context, run: ChangeRun, start: int, stop: int, on_end: Callable[[BoxError | None], None]
    ) -> int:
        """Execute changes of another instance, each in its own transaction, as far as the fast path can.

        Returns the number of the first change that was not executed. `on_end` is called when the executed ones are in
        the journal or have failed.

        Raises:
            DiskWriteError: WAL_IO, the journal accepts nothing; then nothing is changed.
        """
        journal, limbo, is_sync = self.txns.journal, self._limbo, bool(run.flags)
        if ctx.txn is not None or not journal.takes_runs or ctx.credentials.universal & _WRITE != _WRITE:
            return start
        if limbo.entries if not is_sync else not limbo.takes(run.replica_id):
            return start
        kinds = [head[2] for head in run.heads[start:stop]]
        changes = change_rows(self._schema, self._planner, kinds, run.bodies[start:stop], is_sync)
        if not changes:
            return start
        stop = start + len(changes)
        write = RunWrite(run.part(start, stop), changes, on_end, self.txns.synchro)
        try:
            journal.submit(write)
        except BoxError as error:
            self.counters[kinds[0]] += 1  # the other changes do not count, as if they had not been tried
            write.take_back(error)
            raise
        for kind in kinds[: len(changes)]:
            self.counters[kind] += 1
        return stop

    def _write_generally(self, ctx: Context, space: Space, request: Request) -> Outcome:
        ctx = ctx.lasting
        if request.row is None and self.refuses_writes and not (space.is_temporary or space.is_local):
            raise self.txns.refused(client_error(ErrorCode.READONLY))
        self.counters[request.type] += 1
        work = self._general.run(ctx, space, request)
        try:
            waited_for = work.send(None)
        except StopIteration as end:
            outcome: Outcome = end.value
            txn = ctx.txn
            if txn is not None and not txn.nesting and len(txn.statements) - txn.gathered >= _GATHERED_AT_ONCE:
                self._grows(txn)
            return outcome
        waiting = WaitingWrite(self._loop, work, waited_for)
        self._waiting[waiting] = None
        waiting.on_done(self._waiting.pop)
        return waiting

    async def stop(self) -> None:
        """Cancel the writes whose triggers wait, and drop the work that is left over."""
        for waiting in list(self._waiting):
            await waiting.stop()
        self.txns.commits.stop()
        self.txns.work.stop()

    async def execute(self, ctx: Context, space: Space, request: Request) -> bytes | None:
        """Execute a request as `write` does, and wait for its result.

        Raises:
            BoxError: as `write`, or the error of the commit.
        """
        return await completed(self.write(ctx, space, request))

    def write_at_once(self, ctx: Context, space: Space, request: Request) -> None:
        """Execute a row of the log or of a snapshot during a start, when commits are complete at once.

        Triggers that the user has set on system spaces already (`box.ctl.on_schema_init`) run, but must not wait.
        Changes of the dictionary give no turn to other tasks.

        Raises:
            TransactionYieldError: a trigger waits.
            BoxError: as `write`.
        """
        if not space.has_triggers and space.system_trigger is None:
            self.write(ctx, space, request)
            return
        self.counters[request.type] += 1
        try:
            run_through(self._general.run(ctx, space, request))
        except Suspended:
            raise client_error(ErrorCode.TRANSACTION_YIELD) from None

    def load_dictionary(self, ctx: Context, space: Space, tuples: list[bytes]) -> None:
        """Insert tuples of a snapshot into a system space, as `write_at_once` does.

        Raises:
            BoxError: the error of the first tuple that cannot be inserted.
        """
        if self._dictionary.takes(space):
            self.counters[INSERT] += len(tuples)
            self._dictionary.add(ctx.credentials, space, tuples)
            return
        for raw in tuples:
            # With a row the write is allowed even if the instance is read-only.
            row = Row(RequestType.INSERT, body=space.tuple_prefix + raw)
            self.write_at_once(ctx, space, Request(INSERT, raw, row=row))

    def write_row(self, ctx: Context, row: Row) -> Outcome:
        """Execute a row of the log or of another instance in the open transaction; its origin, lsn and flags stay.

        Raises:
            ClientError: NO_SUCH_SPACE, INVALID_MSGPACK or MISSING_REQUEST_FIELD.
            BoxError: as `write`.
        """
        if row.type == RequestType.NOP:
            self.run_nop(ctx, row)
            return None
        space_id, request = decode_row(row)
        return self.write(ctx, self._schema.space(space_id), request)

    def write_rows(self, ctx: Context, rows: list[Row]) -> int:
        """Execute rows of another instance in the open transaction as far as the fast path can.

        The transaction has no statement yet. Returns the number of executed rows; `write_row` executes the next one or
        raises its error.
        """
        if ctx.credentials.universal & _WRITE != _WRITE:
            return 0
        done = 0
        while done < len(rows):
            part = rows[done : done + _GATHERED_AT_ONCE]
            changes = self.load_changes(self._schema, [row.type for row in part], [row.body for row in part])
            self._add_changes(ctx, changes, part)
            done += len(changes)
            if len(changes) < len(part):
                break
            self.on_busy()
        return done

    def load_changes(
        self, spaces: SpaceSource, kinds: list[int], bodies: list[bytes], is_sync: bool | None = None
    ) -> list[Change]:
        """Execute changes that are in a log already, as far as the fast path can, outside of any transaction.

        `is_sync` tells whether the changed spaces must be synchronous or asynchronous; None allows both.
        """
        changes = change_rows(spaces, self._planner, kinds, bodies, is_sync)
        done = kinds[: len(changes)]
        for kind in set(done):
            self.counters[kind] += done.count(kind)
        return changes

    def take_changes(self, ctx: Context, changes: list[Change], rows: list[Row]) -> None:
        """Add changes to the open transaction as its statements. They are in the indexes already, and the first of
        `rows` describe them.
        """
        self._add_changes(ctx, changes, rows)
        txn = ctx.txn
        if txn is not None and len(txn.statements) - txn.gathered >= _GATHERED_AT_ONCE:
            self._grows(txn)

    def _add_changes(self, ctx: Context, changes: list[Change], rows: list[Row]) -> None:
        txn = ctx.txn
        assert txn is not None
        if changes and txn.engine is None:
            self.txns.use_engine(txn, changes[0][0])
        txn.is_fast = False
        txn.changes = add_statements(txn.statements, changes, rows, txn.changes)

    def stage(self, ctx: Context, rows: list[Row]) -> StagedTransaction | None:
        """Begin to execute the rows of a large transaction of another instance in slices; see `box.txn.staged`.

        The caller waits for `txns.work` first. Returns None if the rows have to be executed in one go.
        """
        if ctx.credentials.universal & _WRITE != _WRITE or self.txns.storage.allows_yield:
            return None
        return StagedTransaction(self._schema, self._planner, rows, self.counters)

    def run_nop(self, ctx: Context, row: Row) -> None:
        """Add a row without an effect to the open transaction; it only advances the vclock."""
        txn = ctx.txn
        assert txn is not None
        statement = self.txns.begin_statement(txn, None, RequestType.NOP)
        statement.row = row
        txn.nesting.pop()
