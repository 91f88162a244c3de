"""The general path of a change, with everything that can take part in it.

```
transaction  ->  access  ->  statement  ->  sequence  ->  foreign keys to the space  ->  before_replace triggers
             ->  engine  ->  journal row  ->  on_replace triggers  ->  system trigger (DDL)  ->  commit
```

An error undoes the statement, and the implicit transaction if no other one is open. Only user triggers and DDL over
many tuples ever wait; without them the coroutine ends in its first step.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from box.data.codec import unpack
from box.eager import run_through
from box.schema.access import Privilege
from box.schema.ids import SpaceId
from box.schema.sequence_fill import fill_sequence
from box.txn import triggers
from box.txn.rule_writes import check_removal
from box.txn.transaction import TxnState
from box.wire.change import INSERT, NOP, REPLACE, Request
from box.wire.constants import GROUP_DEFAULT, GROUP_LOCAL
from box.wire.row import Row

if TYPE_CHECKING:
    from box.schema.space import Space
    from box.session import Context
    from box.txn.lifecycle import TransactionManager
    from box.txn.pending import Outcome
    from box.txn.transaction import OpenStatement, Statement, Transaction


class GeneralWrite:
    """Executes requests on the general path; see the table at the top of the module."""

    def __init__(self, txns: TransactionManager) -> None:
        self._txns = txns
        self._storage = txns.storage

    async def run(self, ctx: Context, space: Space, request: Request) -> Outcome:
        """Execute a request in the open transaction, or in one of its own.

        Returns the tuple that was stored or removed, or the `Pending` commit of its own transaction.

        Raises:
            BoxError: as `Dml.write`; the statement is undone.
        """
        txn, txns = ctx.txn, self._txns
        is_alone = txn is None
        if txn is None:
            txn = txns.begin(ctx)
        yields = txn.yields
        try:
            statement = self._begin(ctx, txn, space, request)
            try:
                if space.referrers and request.row is None:
                    check_removal(ctx, space, request, self._storage)
                if space.has_triggers:
                    await triggers.before_replace(ctx, txn, space, request, self._storage)
                result = None if request.type == NOP else space.engine.change(ctx, space, statement, request)
                if txn.statements[-1] is not statement:
                    _follow_nested(txn, space, statement)
                if space.checks and statement.new is not None and request.row is None:
                    _check(space, statement.new)
                _add_row(space, statement, request)
                if space.has_triggers:
                    await triggers.on_replace(ctx, txn, space, statement)
                if space.system_trigger is not None:
                    await self._run_system_trigger(ctx, txn, space, statement)
                txn.nesting.pop()
            except BaseException:
                txns.cancel_statement(txn)
                raise
        except BaseException:
            if is_alone and txn.state is not TxnState.ABORTED:
                txns.rollback_open(ctx, txn)
            elif txn.yields != yields:
                txns.hide_doomed(ctx)
            raise
        commit = txns.commit(ctx) if is_alone else None
        if txn.yields != yields:  # a fiber that has waited for this statement goes on in a later turn
            txns.hide_doomed(ctx)
        if commit is None:
            return result
        commit.result = result
        return commit

    def _begin(self, ctx: Context, txn: Transaction, space: Space, request: Request) -> OpenStatement:
        """Check access, open a statement and let the space's sequence fill its field."""
        space.check_access(ctx.credentials, Privilege.W)
        statement = self._txns.begin_statement(txn, space, request.type)
        statement.requires_old = request.type != REPLACE or space.has_triggers
        try:
            if space.sequence is not None and request.type in (INSERT, REPLACE):
                filled = fill_sequence(space, ctx.credentials, request.tuple)
                if filled is not request.tuple:
                    request.tuple = filled
                    request.refresh_row(space.id)
        except BaseException:
            self._txns.cancel_statement(txn)
            raise
        return statement

    async def _run_system_trigger(self, ctx: Context, txn: Transaction, space: Space, statement: OpenStatement) -> None:
        """Run the system trigger of a statement that has changed a row of a system space."""
        if space.system_trigger is None or (statement.old is None and statement.new is None):
            return
        storage = self._storage
        txn.hooked.append(statement)
        with storage.alteration(txn):
            work = space.system_trigger(ctx.credentials, txn, statement)
        if work is not None:
            shows_others = not storage.allows_yield or storage.definitions.owner is txn
            if len(txn.statements) > 1 and shows_others:
                finish = run_through(work)  # waiting here would show the transaction's earlier statements to others
            else:
                finish = await self._wait_for(txn, statement, work)
            with storage.alteration(txn):
                finish()
        if storage.allows_yield and space.id != SpaceId.SEQUENCE_DATA:
            storage.definitions.own(txn)

    async def _wait_for(
        self, txn: Transaction, statement: Statement, work: Coroutine[Any, Any, Callable[[], None]]
    ) -> Callable[[], None]:
        """Wait for the work of a system trigger, such as an index build. Returns the function that completes the
        change.

        As in Tarantool, others see the row of the system space meanwhile.

        Raises:
            TransactionConflictError: TRANSACTION_CONFLICT.
        """
        may_yield, txn.may_yield = txn.may_yield, True
        self._storage.waiting[statement] = None
        try:
            finish = await work
        finally:
            self._storage.waiting.pop(statement, None)
            txn.may_yield = may_yield
        txn.check_alive()
        return finish


def _follow_nested(txn: Transaction, space: Space, statement: Statement) -> None:
    """Put a statement behind those that its before_replace triggers have made, if these have changed the same space.

    The log has the statements in this order, and a start must find what is in memory.
    """
    place = txn.nesting[-1]
    nested = txn.statements[place + 1 :]
    if any(other.space is space or (other.space is not None and other.space.is_system) for other in nested):
        txn.statements[place:] = [*nested, statement]


def _check(space: Space, new: bytes) -> None:
    """Check the SQL check constraints of a space; rows of the log and of other instances are checked already.

    Raises:
        ClientError: CK_CONSTRAINT_FAILED.
    """
    fields = unpack(new)
    for check in space.checks.values():
        check.check(fields)


def _add_row(space: Space, statement: Statement, request: Request) -> None:
    """Give a statement its journal row, unless the space is temporary."""
    if space.is_temporary:
        return
    row = request.row
    if row is None:
        row = Row(request.type, body=request.body(space.id))
    row.group_id = GROUP_LOCAL if space.is_local else GROUP_DEFAULT
    statement.row = row
