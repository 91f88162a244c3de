"""`box.begin`, `box.commit`, savepoints and transaction triggers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from box.errors import ErrorCode, client_error
from lua.bindings.binding import Binding, Outcome, exported, guarded

if TYPE_CHECKING:
    from box.instance.node import Instance
    from box.txn.transaction import Savepoint, Transaction
    from lua.runtime import Runtime


class TxnBinding(Binding):
    """Transactions of the running fiber. Lua refers to a savepoint by its number within the transaction."""

    is_direct = True

    def __init__(self, runtime: Runtime, node: Instance) -> None:
        super().__init__(runtime, node)
        self._savepoints: dict[int, tuple[Transaction, list[Savepoint]]] = {}

    def _forget_savepoints(self) -> None:
        """Of transactions that are over."""
        self._savepoints = {key: entry for key, entry in self._savepoints.items() if not entry[0].done}

    @guarded("txn_begin")
    def begin(self) -> Outcome:
        """ER_ACTIVE_TRANSACTION if there is one."""
        self.node.txns.begin(self.ctx)
        return None

    @guarded("txn_commit")
    def commit(self) -> Outcome:
        """Nothing happens without a transaction."""
        ctx = self.ctx
        if ctx.txn is None:
            return None
        return self.after(ctx, self.node.txns.commit(ctx), None)

    @guarded("txn_rollback")
    def rollback(self) -> Outcome:
        """Nothing happens without a transaction."""
        ctx = self.ctx
        if ctx.txn is None:
            return None
        self.node.txns.rollback(ctx)
        return None

    @exported("txn_on_yield")
    def on_yield(self) -> None:
        """The fiber with the open transaction is about to give way."""
        self.node.txns.on_yield(self.runtime.ctx)

    @exported("txn_id")
    def txn_id(self) -> int:
        """The open transaction's id, 0 without one."""
        txn = self.runtime.ctx.txn
        return 0 if txn is None else txn.id

    @guarded("txn_savepoint")
    def savepoint(self) -> Outcome:
        """The number of a new savepoint. ER_NO_TRANSACTION."""
        ctx = self.ctx
        savepoint = self.node.txns.savepoint(ctx)
        assert ctx.txn is not None  # savepoint() raises without one
        if ctx.txn.id not in self._savepoints:
            self._forget_savepoints()
        _, savepoints = self._savepoints.setdefault(ctx.txn.id, (ctx.txn, []))
        savepoints.append(savepoint)
        return len(savepoints)

    @guarded("txn_rollback_to_savepoint")
    def rollback_to_savepoint(self, txn_id: int, number: int) -> Outcome:
        """ER_NO_SUCH_SAVEPOINT for one of another transaction."""
        ctx = self.ctx
        entry = self._savepoints.get(int(txn_id))
        if ctx.txn is None or entry is None or ctx.txn is not entry[0] or not 0 < number <= len(entry[1]):
            raise client_error(ErrorCode.NO_SUCH_SAVEPOINT)
        self.node.txns.rollback_to_savepoint(ctx, entry[1][int(number) - 1])
        return None
