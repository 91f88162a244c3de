"""START TRANSACTION, COMMIT, ROLLBACK, and the named savepoints of SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from box.errors import ErrorCode, client_error
from box.sql import sql_nodes
from box.sql.result import Changed
from box.sql.stored_values import execute_error

if TYPE_CHECKING:
    from box.session import Context
    from box.txn.lifecycle import TransactionManager
    from box.txn.transaction import Savepoint, Transaction


class TransactionRunner:
    """Runs these statements in the transaction of the fiber, which Lua's `box.begin` may have opened."""

    def __init__(self, txns: TransactionManager) -> None:
        self._txns = txns
        self._savepoints: dict[Transaction, list[tuple[str, Savepoint]]] = {}

    async def run(self, ctx: Context, statement: sql_nodes.TransactionStep) -> Changed:
        """Run a statement.

        Raises:
            ClientError: ACTIVE_TRANSACTION, SQL_EXECUTE, NO_TRANSACTION, NO_SUCH_SAVEPOINT.
            BoxError: the commit raised it.
        """
        verb = statement.verb
        if verb == "START":
            self._txns.begin(ctx)
        elif verb in ("COMMIT", "ROLLBACK"):
            await self._end(ctx, verb)
        else:
            assert statement.name is not None
            self._use_savepoint(ctx, verb, statement.name)
        return Changed(0)

    async def _end(self, ctx: Context, verb: str) -> None:
        if ctx.txn is None:
            raise execute_error(f"cannot {verb.lower()} - no transaction is active")
        self._savepoints.pop(ctx.txn, None)
        if verb == "ROLLBACK":
            self._txns.rollback(ctx)
            return
        pending = self._txns.commit(ctx)
        if pending is not None:
            await pending.wait()

    def _use_savepoint(self, ctx: Context, verb: str, name: str) -> None:
        if ctx.txn is None:
            raise client_error(ErrorCode.NO_TRANSACTION)
        if verb == "SAVEPOINT":
            self._forget_ended()
            own = self._savepoints.setdefault(ctx.txn, [])
            own[:] = [item for item in own if item[0] != name]
            own.append((name, self._txns.savepoint(ctx)))
            return
        known = self._savepoints.get(ctx.txn, [])
        for number in reversed(range(len(known))):
            if known[number][0] == name and known[number][1].is_valid_in(ctx.txn):
                break
        else:
            raise client_error(ErrorCode.NO_SUCH_SAVEPOINT)
        if verb == "RELEASE":
            del known[number:]
            return
        self._txns.rollback_to_savepoint(ctx, known[number][1])
        del known[number + 1 :]

    def _forget_ended(self) -> None:
        """Drop the savepoints of transactions that have ended without a statement of SQL."""
        for txn in [txn for txn in self._savepoints if txn.ctx is None]:
            del self._savepoints[txn]
