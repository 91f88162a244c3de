"""Loads rows of a snapshot (a file's or another instance's) and of the log into the spaces.

Rows of system spaces run their triggers (`box.txn.dictionary_load`), because they define what follows. Tuples of other
spaces go to their engine: into the primary index (`box.txn.space_load`), whose order a snapshot has. Secondary indexes
are built after the snapshot, or after the log, one slice in every turn of the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from box.data.marks import FIXMAP
from box.errors import BoxError
from box.journal.plain_runs import PlainRun
from box.journal.rows import decode_tuples
from box.schema.ids import is_system_id
from box.txn.deferred_indexes import DeferredIndexes, defines
from box.txn.space_load import SpaceLoad
from box.wire.change import INSERT, Request, decode_row
from box.wire.constants import DML_TYPES, PROMOTION_TYPES, SYNCHRO_TYPES, Flag, Key, RequestType
from box.wire.entry import JournalEntry
from box.wire.messages import decode_synchro, owner_row
from box.wire.row import Row
from box.wire.tuple_run import TupleRun

if TYPE_CHECKING:
    from box.log import Log
    from box.replication.elections import Elections
    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.schema.storage_engine import TupleLoad
    from box.session import Context
    from box.txn.dml import Dml
    from box.txn.fast_run import Change
    from box.txn.lifecycle import TransactionManager
    from box.txn.synchro import LimboDriver


ROWS_A_TURN: Final = 64
"""The number of rows of the log that are executed without giving way, which takes one or two milliseconds."""
_ROWS_A_RUN: Final = 256
"""The number of rows of plain transactions that are executed together and without giving way."""
_PLAIN_SIZE: Final = 1024
"""The greatest number of rows of a plain transaction that is executed without giving way, in two or three ms."""
_INSERT_HEADER: Final = bytes((FIXMAP | 1, Key.REQUEST_TYPE, RequestType.INSERT))
"""A header with nothing but its type, as a row of a snapshot has it on a connection."""


class SnapshotLoader:
    """Loads a snapshot: add runs of tuples in the order of the file, then finish. `ctx` belongs to the user admin."""

    def __init__(self, schema: Schema, dml: Dml, ctx: Context, log: Log) -> None:
        self._schema = schema
        self._dml = dml
        self._ctx = ctx
        self._log = log
        self._loads: dict[int, TupleLoad] = {}

    def add(self, space_id: int, tuples: list[bytes]) -> None:
        """Add tuples of one space.

        Raises:
            NoSuchSpaceError: the space is not defined.
            BoxError: the space's format or trigger refuses a tuple.
        """
        space = self._schema.space(space_id)
        if is_system_id(space_id):
            self._dml.load_dictionary(self._ctx, space, tuples)
        else:
            load = self._loads.get(space_id) or space.engine.load(space)
            if load is not None:
                self._loads[space_id] = load
                load.add(tuples)

    def add_run(self, run: TupleRun, *, force: bool = False) -> None:
        """Add a run of tuples. With `force`, a wrong tuple of a user's space is logged and skipped."""
        if force and not is_system_id(run.space_id):
            self._add_one_by_one(run)
        else:
            self.add(run.space_id, run.tuples)

    def _add_one_by_one(self, run: TupleRun) -> None:
        """Add tuples one by one with all indexes enabled: slow, but it finds every wrong tuple and every repeated
        key.
        """
        for raw in run.tuples:
            try:
                space = self._schema.space(run.space_id)
                self._insert(space, raw)
            except BoxError as error:
                self._log.error(f"can't apply row: {error.message}")

    def _insert(self, space: Space, raw: bytes) -> None:
        """Insert a tuple as the row of the snapshot, because the instance may be read-only."""
        row = Row(RequestType.INSERT, body=space.tuple_prefix + raw)
        txns, ctx = self._dml.txns, self._ctx
        txn = txns.begin(ctx)
        txn.force_async = True  # a tuple in a snapshot is confirmed
        try:
            self._dml.write_at_once(ctx, space, Request(INSERT, raw, row=row))
        except BoxError:
            txns.rollback_open(ctx, txn)
            raise
        txns.commit_open(ctx, txn, waits=False)

    def add_rows(self, rows: Iterable[Row]) -> None:
        """Add rows that another instance sends."""
        block = b"".join([_INSERT_HEADER + row.body for row in rows if row.type == RequestType.INSERT])
        for run in decode_tuples(block)[0]:
            self.add_run(run)

    @contextmanager
    def joining(self) -> Iterator[None]:
        """Allow the instance's own record in `_cluster` to change while rows come from another instance."""
        self._schema.is_joining = True
        try:
            yield
        finally:
            self._schema.is_joining = False

    def finishing(self, leave_out: Callable[[SpaceLoad], bool] = lambda load: False) -> Iterator[None]:
        """Finish in steps, after everything was added.

        Secondary indexes of a space are built by someone else if `leave_out` returns True.

        Raises:
            DuplicateKeyError: TUPLE_FOUND, two tuples have the same key.
        """
        while self._loads:
            load = self._loads.pop(next(iter(self._loads)))
            if not isinstance(load, SpaceLoad):
                yield from load.steps(self._log)
                continue
            yield from load.primary_steps()
            if not leave_out(load):
                yield from load.secondary_steps(self._log, has_changed=False)

    async def finish(self) -> None:
        """Finish, one step in every turn of the loop. Raises the errors of `finishing`."""
        for _ in self.finishing():
            await asyncio.sleep(0)


class LogLoader:
    """Executes the transactions of the log. `ctx` belongs to the user admin.

    The changes are on disk already, so each transaction is complete at once, unless it waits in the limbo.
    """

    def __init__(
        self,
        schema: Schema,
        dml: Dml,
        txns: TransactionManager,
        synchro: LimboDriver,
        elections: Elections,
        ctx: Context,
    ) -> None:
        self._schema = schema
        self._dml = dml
        self._txns = txns
        self._synchro = synchro
        self._elections = elections
        self._ctx = ctx
        self._deferred: DeferredIndexes | None = None
        self._fold = dml.log_fold()
        self._begun: list[Change] = []
        """Changes of the next transaction that `add_run` has made already."""
        self._promotions: set[tuple[int, int]] = set()
        """The origin and the lsn of each PROMOTE row so far."""
        self._ends: dict[int, int] = {}
        """The lsn of the newest row of each origin since the first PROMOTE row."""

    def defer_indexes(self, log: Log) -> None:
        """Leave out secondary indexes from now on where that is possible; `finish` fills them."""
        self._deferred = self._dml.deferred_indexes(log)

    def leave_out(self, load: SpaceLoad) -> bool:
        """Leave out the secondary indexes of a space loaded from the snapshot, if that is possible."""
        return self._deferred is not None and self._deferred.leave_out(load)

    async def finish(self, give_way: Callable[[], Awaitable[None]]) -> None:
        """Build the secondary indexes, which the load of the log has left out so far.

        Raises:
            DuplicateKeyError: TUPLE_FOUND, a key is repeated.
        """
        for _ in () if self._deferred is None else self._deferred.filling():
            await give_way()

    async def build_indexes(self, give_way: Callable[[], Awaitable[None]]) -> None:
        """Build what `defer_indexes` has left out, and leave out no more.

        Secondary indexes with slots are rearranged if Tarantool builds these at the end of the log: without
        `force_recovery` and MVCC.

        Raises:
            DuplicateKeyError: TUPLE_FOUND, a key is repeated.
        """
        await self.finish(give_way)
        self._fold.forget()
        deferred, self._deferred = self._deferred, None
        if deferred is not None and not self._txns.storage.allows_yield:
            for space in self._schema.spaces.values():
                deferred.rearrange(space)

    def space(self, space_id: int) -> Space:
        """Return a space for a change by its primary key, with its secondary indexes left out where that is possible.

        Raises:
            NoSuchSpaceError: NO_SUCH_SPACE.
        """
        space = self._schema.space(space_id)
        if self._deferred is not None and not is_system_id(space_id):
            self._deferred.needs_all(space, 0)
        return space

    def add_run(self, run: PlainRun, first: int) -> int:
        """Execute whole transactions from the row `first` on, about a millisecond of them.

        Returns the number of the first row that was not executed. If this is `first`, its transaction has to be the
        next one that `add` gets, which then raises the error of a wrong request.
        """
        if self._begun or self._synchro.limbo.entries:
            return first
        stop = run.end_of_last(first + _ROWS_A_RUN)
        if stop <= first:
            stop = run.end_of(first)
            if stop - first > _PLAIN_SIZE:
                return first
        end = self._fold.execute(self, run, first, stop)
        if end == first:
            changes = self._dml.load_changes(self, run.kinds[first:stop], run.bodies(first, stop), is_sync=False)
            end = max(first, run.end_of_last(first + len(changes)))
            self._begun = changes[end - first :]
        if end > first:
            newest = run.row(end - 1)
            if self._promotions:
                self._ends[newest.replica_id] = newest.lsn
            self._txns.journal.submit(JournalEntry([newest], _ignore))
        return end

    def add_state(self, row: Row) -> None:
        """Restore term and vote, or the limbo's owner, from a row of a snapshot.

        Tarantool 2.10 and later has both rows. The first one of a snapshot of Lunabox knows more about the owner.
        """
        if row.type == RequestType.RAFT:
            self._elections.recover(row)
            return
        request = decode_synchro(row)
        if request.term > self._synchro.limbo.greatest_term:
            self._synchro.recover(owner_row(request.replica_id, request.lsn, request.term))

    async def add(self, rows: list[Row], give_way: Callable[[], Awaitable[None]]) -> None:
        """Execute one transaction; `give_way` is called now and then. If a request fails its error is raised, and all
        is undone.
        """
        if rows[0].type in SYNCHRO_TYPES:
            if rows[0].type != RequestType.CONFIRM:
                await self.finish(give_way)
            self._synchro.recover(rows[0])
            if rows[0].type in PROMOTION_TYPES:
                self._promotions.add((rows[0].replica_id, rows[0].lsn))
            self._ends[rows[0].replica_id] = rows[0].lsn
            return
        if rows[0].type == RequestType.RAFT:
            self._elections.recover(rows[0])
            return
        txn = self._txns.begin(self._ctx)
        try:
            changes, self._begun = self._begun, []
            self._dml.take_changes(self._ctx, changes, rows)
            for start in range(len(changes), len(rows), ROWS_A_TURN):
                if start:
                    await give_way()
                part = rows[start : start + ROWS_A_TURN]
                changes = self._dml.load_changes(self, [row.type for row in part], [row.body for row in part])
                self._dml.take_changes(self._ctx, changes, part)
                for row in part[len(changes) :]:
                    await self._run(row, give_way)
        except BoxError as error:
            try:
                await self.finish(_stay)
            except BoxError:
                raise error from None
            self._txns.rollback_open(self._ctx, txn)
            raise
        self._txns.commit_open(self._ctx, txn, waits=False)
        self._synchro.note_nops(rows)
        if self._promotions:
            self._ends[rows[-1].replica_id] = rows[-1].lsn
            if rows[-1].flags & Flag.WAIT_SYNC:
                self._synchro.promotions.note_recovered(rows[-1].replica_id, self._promotions, self._ends)

    async def _run(self, row: Row, give_way: Callable[[], Awaitable[None]]) -> None:
        if row.type == RequestType.NOP:
            self._dml.run_nop(self._ctx, row)
        elif row.type in DML_TYPES:
            space_id, request = decode_row(row)
            space = self._schema.space(space_id)
            if self._deferred is not None and self._needs_all(self._deferred, space, request):
                await self.finish(give_way)
            if space.system_trigger is None or space.has_triggers:
                self._dml.write_at_once(self._ctx, space, request)
            else:
                await self._dml.execute(self._ctx, space, request)

    def _needs_all(self, deferred: DeferredIndexes, space: Space, request: Request) -> bool:
        """Return whether a change needs the indexes that were left out."""
        if is_system_id(space.id):
            return len(deferred) != 0 and (defines(space.id) or space.has_triggers)
        return deferred.needs_all(space, request.index_id)


def _ignore(entry: JournalEntry) -> None:
    """Do nothing: changes that `add_run` makes are complete at once."""


async def _stay() -> None:
    """Return at once, without a turn for other tasks."""
