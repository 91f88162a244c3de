"""The general way of a change, with everything that can take part in it.

```
transaction  ->  access  ->  statement  ->  sequence  ->  before_replace triggers  ->  indexes
             ->  journal row  ->  on_replace triggers  ->  system trigger (DDL)  ->  commit
```

An error undoes the statement, and the implicit transaction if no other one is open. Only user triggers and DDL over
many tuples ever wait; without them the coroutine ends in its first step.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from box.data.codec import unpack
from box.data.update import apply_update, apply_upsert, check_operations
from box.eager import run_through
from box.errors import ErrorCode, client_error, unsupported
from box.schema.access import Privilege
from box.schema.sequence_fill import fill_sequence
from box.txn import triggers
from box.txn.storage import Mode, unique_index
from box.wire.change import INSERT, NOP, REPLACE, UPDATE, UPSERT, Request
from box.wire.constants import GROUP_DEFAULT, GROUP_LOCAL, RequestType
from box.wire.row import Row

if TYPE_CHECKING:
    from box.schema.space import Space
    from box.session import Context
    from box.txn.lifecycle import TransactionManager
    from box.txn.pending import Outcome
    from box.txn.transaction import OpenStatement, Statement, Transaction
    from box.txn.write_plan import Planner


class GeneralWrite:
    """Executes requests by the general way of the table above."""

    def __init__(self, txns: TransactionManager, planner: Planner) -> None:
        self._txns = txns
        self._storage = txns.storage
        self._planner = planner

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
        try:
            statement = self._begin(ctx, txn, space, request)
            try:
                if space.has_triggers:
                    await triggers.before_replace(ctx, txn, space, request, self._storage)
                result = self._apply(ctx, txn, space, statement, request)
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
            if is_alone:
                txns.rollback_open(ctx, txn)
            raise
        commit = txns.commit(ctx) if is_alone else None
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
        """Run the system trigger of a statement that has changed a tuple."""
        if space.system_trigger is None or (statement.old is None and statement.new is None):
            return
        storage = self._storage
        txn.hooked.append(statement)
        with storage.alteration(txn):
            work = space.system_trigger(ctx.credentials, txn, statement)
        if work is None:
            return
        if len(txn.statements) > 1 and not storage.allows_yield:
            finish = run_through(work)  # a wait would show the transaction's earlier statements to others
        else:
            finish = await self._wait_for(txn, statement, work)
        with storage.alteration(txn):
            finish()

    async def _wait_for(
        self, txn: Transaction, statement: Statement, work: Coroutine[Any, Any, Callable[[], None]]
    ) -> Callable[[], None]:
        """Wait for the work of a system trigger, such as an index build; returns what is to be done then.

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

    # -- changing the indexes

    def _apply(
        self, ctx: Context, txn: Transaction, space: Space, statement: Statement, request: Request
    ) -> bytes | None:
        """Change the indexes as a request says. Returns the result of the request."""
        kind = request.type
        if kind == NOP:
            return None
        if not space.is_plain:
            return _apply_elsewhere(ctx, space, statement, request)
        if kind in (INSERT, REPLACE):
            self._store(txn, space, statement, request.tuple, Mode.INSERT if kind == INSERT else Mode.REPLACE)
            return statement.new
        if kind == UPSERT:
            self._upsert(txn, space, statement, request)
            return None
        old = self._storage.find_by(txn, space, request.index_id, request.key)
        if old is None:
            return None
        if kind == UPDATE:
            new = apply_update(old, request.ops, fmt=space.format, index_base=request.index_base)
            self._store(txn, space, statement, new, Mode.UPDATE, old)
        else:
            self._storage.drop(txn, space, statement, old)
        found = old if statement.new is None else statement.new
        if request.index_id:
            _bind_to_primary(space, request, found)
        return found

    def _store(
        self, txn: Transaction, space: Space, statement: Statement, raw: bytes, mode: Mode, old: bytes | None = None
    ) -> None:
        """Check a tuple by the plan of its space, and put it into all indexes."""
        plan = self._planner.plan(space)
        fields = plan.validate(raw)
        plan.check_size(raw)
        self._storage.store(txn, space, statement, raw, fields, mode, old)

    def _upsert(self, txn: Transaction, space: Space, statement: Statement, request: Request) -> None:
        """Insert the tuple of an UPSERT, or apply its operations to the present tuple."""
        raw, ops = request.tuple, request.ops
        fields = space.format.validate(raw)
        primary = unique_index(space, 0)
        key = primary.key_of(fields)
        old = self._storage.find(txn, primary, key)
        if old is None:
            check_operations(ops, fmt=space.format, index_base=request.index_base)
            self._store(txn, space, statement, raw, Mode.INSERT)
            return
        new = apply_upsert(old, ops, fmt=space.format, index_base=request.index_base)
        if primary.key_of(space.format.validate(new)) != key:
            return  # Tarantool logs CANT_UPDATE_PRIMARY_KEY and does not change the tuple
        self._store(txn, space, statement, new, Mode.UPDATE, old)


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


def _bind_to_primary(space: Space, request: Request, found: bytes) -> None:
    """Rewrite a request by a secondary key as one by the primary key.

    Another instance may find a different tuple by the secondary key, because its other rows lag behind.
    """
    request.key = space.index(0).key_def.extract_values(unpack(found))
    request.index_id = 0
    request.refresh_row(space.id)


def _apply_elsewhere(ctx: Context, space: Space, statement: Statement, request: Request) -> bytes | None:
    """Execute a request on a space whose engine stores no tuples: blackhole, a service or a view.

    Raises:
        ClientError: UNSUPPORTED, VIEW_IS_RO, or the error of the service.
    """
    name = RequestType(request.type).name.lower()
    if space.engine == "blackhole":
        if request.type not in (INSERT, REPLACE):
            raise unsupported("Blackhole", f"{name}()")
        space.format.validate(request.tuple)
        statement.new = request.tuple
        return request.tuple
    service = space.service
    if service is None:
        raise client_error(ErrorCode.VIEW_IS_RO, space.name)
    if request.type != UPDATE:
        raise service.refuse(name)
    old = service.get(ctx.session, request.key)
    if old is None:
        return None
    new = apply_update(old, request.ops, fmt=space.format, index_base=request.index_base)
    return service.update(ctx.session, request.key, new)
