"""Applying the transactions that appliers receive, in the order of each origin.

`applied` is the vclock of everything handed to the journal, a little ahead of the journal's own. It tells which rows
have been seen already when the same change comes by two ways. A transaction of an origin starts only when the one
before it was handed over (the origin's latch); CONFIRM, ROLLBACK and PROMOTE keep the latch until they are written,
because the limbo may change hands by them.

When the journal fails, `applied` falls back to what is written and every applier stops with the error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from box.errors import BoxError, ErrorCode, client_error
from box.iproto.constants import SYNCHRO_TYPES, RequestType
from box.iproto.row import Row
from box.replication.replicaset import ReplicaSet
from box.replication.vclock import VClock
from box.txn.context import Context
from box.txn.transaction import Transaction

if TYPE_CHECKING:
    from box.node import Node


class RowSink:
    """One for the node. `on_written` is told of every transaction in the journal, `on_failure` of a failed write."""

    def __init__(
        self,
        node: Node,
        replicaset: ReplicaSet,
        on_written: Callable[[], None],
        on_failure: Callable[[BoxError], None],
    ) -> None:
        self._node = node
        self._replicaset = replicaset
        self._on_written = on_written
        self._on_failure = on_failure
        self.applied = VClock()

    def reset(self, vclock: VClock) -> None:
        """Start from what recovery or a join has brought."""
        self.applied = vclock.copy()

    async def apply(self, ctx: Context, rows: list[Row]) -> None:
        """Apply one transaction. Raises what its statements raise; the transaction is rolled back then."""
        first, last = rows[0], rows[-1]
        replica = self._replicaset.by_id.get(first.replica_id)
        async with replica.order if replica is not None else self._replicaset.order:
            if self.applied[last.replica_id] >= last.lsn:
                return
            rows = [row for row in rows if row.lsn > self.applied[row.replica_id]]
            if first.type in SYNCHRO_TYPES:
                await self._apply_synchro(first)
            else:
                await self._apply_transaction(ctx, rows)
            if last.lsn > self.applied[last.replica_id]:
                self.applied.follow(last.replica_id, last.lsn)

    async def _apply_synchro(self, row: Row) -> None:
        try:
            await self._node.synchro.apply(row)
        except BoxError as error:
            self._fail(error)
            raise
        self._on_written()

    async def _apply_transaction(self, ctx: Context, rows: list[Row]) -> None:
        node = self._node
        if not node.synchro.try_enter():
            await node.synchro.enter()
        try:
            txn = node.txns.begin(ctx)
            try:
                for row in rows:
                    await self._apply_row(ctx, txn, row)
                if txn.is_distributed:
                    raise client_error(ErrorCode.UNSUPPORTED, "Replication", "distributed transactions")
            except BoxError:
                node.txns.rollback_open(ctx, txn)
                raise
            txn.on_wal_write.append(self._on_wal_write)
            node.txns.commit_open(ctx, txn, waits=False)
            txn.on_done(self._on_done)
        finally:
            node.synchro.leave()

    async def _apply_row(self, ctx: Context, txn: Transaction, row: Row) -> None:
        try:
            await self._node.dml.apply_row(ctx, row)
        except BoxError as error:
            if error.code != ErrorCode.TUPLE_FOUND or not self._node.config["replication_skip_conflict"]:
                raise
            nop = Row(
                RequestType.NOP, row.replica_id, row.lsn, row.tm, tsn=row.tsn, is_commit=row.is_commit, flags=row.flags
            )
            await self._node.dml.apply_row(ctx, nop)

    def _on_wal_write(self, txn: Transaction) -> None:
        self._on_written()

    def _on_done(self, txn: Transaction) -> None:
        """A rollback that the limbo has decided is no failure of the journal: the rows are written."""
        if txn.error is not None and txn.error.code == ErrorCode.WAL_IO:
            self._fail(txn.error)

    def _fail(self, error: BoxError) -> None:
        self.applied = self._node.vclock.copy()
        self._on_failure(error)

    # -- while joining, before the journal is open ----------------------------------------------------

    async def apply_final_join(self, ctx: Context, rows: list[Row]) -> None:
        """A transaction of a final join; the journal's stand-in completes it at once."""
        if rows[0].type in SYNCHRO_TYPES:
            await self._node.synchro.apply(rows[0])
        else:
            await self._apply_transaction(ctx, rows)
        last = rows[-1]
        if last.lsn > self.applied[last.replica_id]:
            self.applied.follow(last.replica_id, last.lsn)
