"""`box.begin`, `box.commit`, savepoints and transaction triggers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from box.errors import BoxError, ErrorCode, client_error
from lua.bindings.binding import Binding, Outcome, exported, guarded
from lua.fiber import RUNNING_FIBER

if TYPE_CHECKING:
    from box.instance.node import Instance
    from box.txn.transaction import Savepoint, Transaction
    from lua.runtime import Runtime


class TxnBinding(Binding):
    """Transactions of the running fiber. Lua refers to a savepoint by its number in the transaction."""

    is_direct = True

    def __init__(self, runtime: Runtime, node: Instance) -> None:
        super().__init__(runtime, node)
        self._savepoints: dict[int, tuple[Transaction, list[Savepoint]]] = {}
        self._contexts, self._cells = runtime.contexts, runtime.cells

    def _forget_savepoints(self) -> None:
        """Forget the savepoints of transactions that have ended."""
        self._savepoints = {key: entry for key, entry in self._savepoints.items() if not entry[0].done}

    @exported("txn_begin")
    def begin(self, timeout: float | None = None, isolation: float = 0) -> Outcome:
        """Open a transaction, with a timeout in seconds and the number of an isolation level.

        Errors for Lua: ACTIVE_TRANSACTION, one is open; UNSUPPORTED, the level is not offered.
        """
        try:
            ctx = self._contexts.get(self._cells[RUNNING_FIBER]) or self.runtime.ctx
            self.node.txns.begin_limited(ctx, timeout, int(isolation))
        except BoxError as error:
            return self.failure(error)
        return None

    @exported("txn_commit")
    def commit(self) -> Outcome:
        """Commit; does nothing without a transaction."""
        try:
            ctx = self._contexts.get(self._cells[RUNNING_FIBER]) or self.runtime.ctx
            dml = self.node.dml
            has_no_readers = dml.has_versions and self._waits.runs_alone()
            pending = dml.commit_now(ctx) if has_no_readers else self.node.txns.commit(ctx)
        except BoxError as error:
            return self.failure(error)
        return None if pending is None else self.later(pending, None)

    @guarded("txn_rollback")
    def rollback(self) -> Outcome:
        """Roll back, and wait for triggers that wait; does nothing without a transaction."""
        ctx = self.ctx
        txn = ctx.txn
        if txn is None:
            return None
        self.node.txns.rollback(ctx)
        return None if txn.done else self.later(txn, None)

    @exported("txn_on_yield")
    def on_yield(self) -> None:
        """Handle the yield of a fiber with an open transaction."""
        self.node.txns.on_yield(self.runtime.ctx)

    @exported("txn_id")
    def txn_id(self) -> int:
        """Return the open transaction's id, or 0 without one."""
        txn = self.runtime.ctx.txn
        return 0 if txn is None else txn.id

    @guarded("txn_savepoint")
    def savepoint(self) -> Outcome:
        """Set a savepoint. Returns its number.

        Raises:
            TransactionError: NO_TRANSACTION.
        """
        ctx = self.ctx
        savepoint = self.node.txns.savepoint(ctx)
        assert ctx.txn is not None  # savepoint() raises an error without a transaction
        if ctx.txn.id not in self._savepoints:
            self._forget_savepoints()
        _, savepoints = self._savepoints.setdefault(ctx.txn.id, (ctx.txn, []))
        savepoints.append(savepoint)
        return len(savepoints)

    @guarded("txn_rollback_to_savepoint")
    def rollback_to_savepoint(self, txn_id: int, number: int) -> Outcome:
        """Undo the statements after a savepoint.

        Raises:
            TransactionError: NO_SUCH_SAVEPOINT, it belongs to another transaction or was undone itself.
        """
        ctx = self.ctx
        entry = self._savepoints.get(int(txn_id))
        if ctx.txn is None or entry is None or ctx.txn is not entry[0] or not 0 < number <= len(entry[1]):
            raise client_error(ErrorCode.NO_SUCH_SAVEPOINT)
        self.node.txns.rollback_to_savepoint(ctx, entry[1][int(number) - 1])
        return None
