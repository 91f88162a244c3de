"""Changing data: insert, replace, update, upsert, delete, with everything that has a say in them.

```
read-only?  ->  transaction  ->  access  ->  statement  ->  sequence  ->  before_replace triggers
            ->  indexes      ->  journal row  ->  on_replace triggers  ->  system trigger (DDL)  ->  commit
```

An error undoes the statement, and without an open transaction the implicit one as well. The synchronous methods
never wait: spaces with user triggers, which may, go through `execute`. Outside a transaction a change starts its
commit; if that is not complete on return, it is in `ctx.pending` (see `box.session`).

The usual request takes a short cut with the same effects, see `box.txn.quick`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from box.data.codec import unpack
from box.data.update import apply_update, apply_upsert, check_operations
from box.errors import ErrorCode, client_error, unsupported
from box.schema.access import Privilege
from box.schema.sequence_fill import fill_sequence
from box.schema.space import NOTHING, Space
from box.txn.quick import DELETE, INSERT, REPLACE, UPDATE, UPSERT, WRITE_PRIVILEGES, QuickWriter
from box.txn.storage import Mode
from box.wire.change import Request, decode_request
from box.wire.constants import GROUP_DEFAULT, GROUP_LOCAL, RequestType
from box.wire.row import Row

if TYPE_CHECKING:
    from box.index import Index
    from box.schema.schema import Schema
    from box.session import Context
    from box.txn.lifecycle import TransactionManager
    from box.txn.transaction import Statement, Transaction


class Dml(QuickWriter):
    """All requests of one node. `check_writable` raises READONLY while replicated spaces must not change."""

    def __init__(
        self,
        schema: Schema,
        txns: TransactionManager,
        *,
        check_writable: Callable[[], None],
        max_tuple_size: int = 1048576,
    ) -> None:
        super().__init__(txns, check_writable, max_tuple_size)
        self._schema = schema
        schema.read_tuples = txns.storage.read_view
        schema.on_alter_space.append(self._space_altered)

    def _space_altered(self, space: Space) -> None:
        self._plans.pop(space.id, None)
        self._storage.space_altered(space)

    # -- requests

    def insert(self, ctx: Context, space: Space, raw: bytes) -> bytes:
        """Add a tuple and return it (with the sequence's value where a nil was).

        READONLY, ACCESS_DENIED, TUPLE_NOT_ARRAY, FIELD_TYPE, FIELD_MISSING, EXACT_FIELD_COUNT, TUPLE_FOUND, ...
        """
        plan = self.quick_plan(ctx, space, INSERT)
        if plan is not None:
            return self.quick_store(ctx, space, plan, raw, INSERT)
        return self.store(ctx, space, raw, INSERT)

    def replace(self, ctx: Context, space: Space, raw: bytes) -> bytes:
        """Add a tuple or replace the one with the same primary key; returns the new one. Errors as `insert`."""
        plan = self.quick_plan(ctx, space, REPLACE)
        if plan is not None:
            return self.quick_store(ctx, space, plan, raw, REPLACE)
        return self.store(ctx, space, raw, REPLACE)

    def store(self, ctx: Context, space: Space, raw: bytes, request_type: int) -> bytes:
        """Insert or replace without a plan. Errors as `insert`; the space has no user triggers."""
        stored = self.run(ctx, space, Request(request_type, space.id, tuple=raw))
        assert stored is not None
        return stored

    def update(
        self, ctx: Context, space: Space, iid: int, key: list[Any], ops: list[Any], index_base: int = 1
    ) -> bytes | None:
        """Change the tuple with a full unique key; None if there is none. CANT_UPDATE_PRIMARY_KEY, ..."""
        plan = None if iid else self.quick_plan(ctx, space, UPDATE)
        if plan is not None:
            return self._quick_update(ctx, space, plan, key, ops, index_base)
        request = Request(UPDATE, space.id, index_id=iid, key=key, ops=ops, index_base=index_base)
        return self.run(ctx, space, request)

    def upsert(self, ctx: Context, space: Space, raw: bytes, ops: list[Any], index_base: int = 1) -> None:
        """Insert a tuple, or change the one with the same primary key."""
        plan = self.quick_plan(ctx, space, UPSERT)
        if plan is not None:
            self._quick_upsert(ctx, space, plan, raw, ops, index_base)
        else:
            self.run(ctx, space, Request(UPSERT, space.id, tuple=raw, ops=ops, index_base=index_base))

    def delete(self, ctx: Context, space: Space, iid: int, key: list[Any]) -> bytes | None:
        """Remove the tuple with a full unique key and return it; None if there is none."""
        plan = None if iid else self.quick_plan(ctx, space, DELETE)
        if plan is not None:
            return self._quick_delete(ctx, space, plan, key)
        return self.run(ctx, space, Request(DELETE, space.id, index_id=iid, key=key))

    async def execute(self, ctx: Context, op: str, space: Space, *args: Any) -> bytes | None:
        """The same by name - insert, replace, update, upsert, delete - for spaces with triggers that may wait."""
        return await self.run_waiting(ctx, space, _request(op, space, *args))

    # -- the whole way

    def run(self, ctx: Context, space: Space, request: Request) -> bytes | None:
        """Execute a request that came from a user; the space has no user triggers."""
        if not (space.is_temporary or space.is_local):
            self._check_writable()
        return self.run_unchecked(ctx, space, request)

    def run_unchecked(self, ctx: Context, space: Space, request: Request) -> bytes | None:
        """The same for requests from the log and from other instances, which a read-only instance takes as well."""
        if space.has_triggers:
            raise AssertionError(f"{space!r} has triggers: use the waiting form")
        txn, autocommit = self._enter(ctx, request)
        try:
            statement = self._begin(ctx, txn, space, request)
            try:
                result = self._apply(ctx, txn, space, statement, request)
                self._finish(ctx, txn, space, statement, request)
            except BaseException:
                self.txns.cancel_statement(txn)
                raise
        except BaseException:
            if autocommit:
                self.txns.rollback_open(ctx, txn)
            raise
        if autocommit:
            self.txns.commit(ctx)
        return result

    async def run_waiting(
        self, ctx: Context, space: Space, request: Request, *, check_writable: bool = True
    ) -> bytes | None:
        """Execute a request with the user's triggers."""
        if check_writable and not (space.is_temporary or space.is_local):
            self._check_writable()
        txn, autocommit = self._enter(ctx, request)
        try:
            statement = self._begin(ctx, txn, space, request)
            try:
                await self._before_replace(ctx, txn, space, statement, request)
                result = self._apply(ctx, txn, space, statement, request)
                self._add_row(space, statement, request)
                await self._on_replace(ctx, txn, space, statement)
                self._run_system_trigger(ctx, txn, space, statement)
                txn.nesting.pop()
            except BaseException:
                self.txns.cancel_statement(txn)
                raise
        except BaseException:
            if autocommit:
                self.txns.rollback_open(ctx, txn)
            raise
        if autocommit:
            self.txns.commit(ctx)
        return result

    async def apply_row(self, ctx: Context, row: Row) -> None:
        """Execute a row of an applier inside the transaction that is open; its origin, lsn and flags stay.

        A read-only instance does so as well. NO_SUCH_SPACE, INVALID_MSGPACK, MISSING_REQUEST_FIELD, and what the
        request itself raises.
        """
        if row.type == RequestType.NOP:
            self.run_nop(ctx, row)
            return
        request = decode_request(row)
        space = self._schema.space(request.space_id)
        if space.has_triggers:
            await self.run_waiting(ctx, space, request, check_writable=False)
        else:
            self.run_unchecked(ctx, space, request)

    def run_nop(self, ctx: Context, row: Row) -> None:
        """A row without effect, which only moves the vclock. A transaction is open."""
        txn = ctx.txn
        assert txn is not None
        statement = self.txns.begin_statement(txn, None, RequestType.NOP)
        statement.row = row
        txn.nesting.pop()

    def _enter(self, ctx: Context, request: Request) -> tuple[Transaction, bool]:
        self.counters[request.type] += 1
        if ctx.txn is None:
            return self.txns.begin(ctx), True
        return ctx.txn, False

    def _begin(self, ctx: Context, txn: Transaction, space: Space, request: Request) -> Statement:
        if WRITE_PRIVILEGES & ~ctx.credentials.universal:
            space.check_access(ctx.credentials, Privilege.W)
        statement = self.txns.begin_statement(txn, space, request.type)
        statement.requires_old = request.type != RequestType.REPLACE or space.has_triggers
        try:
            if space.sequence is not None and request.type in (INSERT, REPLACE):
                self._fill_sequence(ctx, space, request)
        except BaseException:
            self.txns.cancel_statement(txn)
            raise
        return statement

    def _fill_sequence(self, ctx: Context, space: Space, request: Request) -> None:
        filled = fill_sequence(space, ctx.credentials, request.tuple)
        if filled is not request.tuple:
            request.tuple = filled
            request.refresh_row()

    def _finish(self, ctx: Context, txn: Transaction, space: Space, statement: Statement, request: Request) -> None:
        self._add_row(space, statement, request)
        self._run_system_trigger(ctx, txn, space, statement)
        txn.nesting.pop()

    def _add_row(self, space: Space, statement: Statement, request: Request) -> None:
        if space.is_temporary:
            return
        row = request.row
        if row is None:
            row = Row(request.type, body=request.body())
        row.group_id = GROUP_LOCAL if space.is_local else GROUP_DEFAULT
        statement.row = row

    def _run_system_trigger(self, ctx: Context, txn: Transaction, space: Space, statement: Statement) -> None:
        if space.system_trigger is None or (statement.old is None and statement.new is None):
            return
        with self._storage.alteration(txn):
            space.system_trigger(ctx, txn, statement)

    # -- changing the indexes

    def _apply(
        self, ctx: Context, txn: Transaction, space: Space, statement: Statement, request: Request
    ) -> bytes | None:
        if request.type == RequestType.NOP:
            return None
        if not space.is_plain:
            return self._apply_elsewhere(ctx, space, statement, request)
        if request.type in (INSERT, REPLACE):
            mode = Mode.INSERT if request.type == INSERT else Mode.REPLACE
            self._store_tuple(txn, space, statement, request.tuple, mode)
            return statement.new
        if request.type == UPSERT:
            self._upsert(txn, space, statement, request)
            return None
        old = self._find_old(txn, space, request)
        if old is None:
            return None
        if request.type == UPDATE:
            new = apply_update(old, request.ops, fmt=space.format, index_base=request.index_base)
            self._store_tuple(txn, space, statement, new, Mode.UPDATE, old)
        else:
            self._storage.drop(txn, space, statement, old)
        if request.index_id:
            self._bind_to_primary(space, request, old if statement.new is None else statement.new)
        return old if statement.new is None else statement.new

    def _store_tuple(
        self,
        txn: Transaction,
        space: Space,
        statement: Statement,
        raw: bytes,
        mode: Mode,
        old: bytes | None = None,
    ) -> None:
        plan = self._plan(space)
        fields = plan.validate(raw)
        plan.check_size(raw)
        self._storage.store(txn, space, statement, raw, fields, mode, old)

    def _find_old(self, txn: Transaction, space: Space, request: Request) -> bytes | None:
        """The tuple that an update or delete is about, by a full key of a unique index."""
        index = _unique_index(space, request.index_id)
        return self._storage.find(txn, index, index.key_def.parse(request.key, True))

    def _bind_to_primary(self, space: Space, request: Request, found: bytes) -> None:
        """Other instances find the tuple by its primary key: theirs may lag behind in the secondary one."""
        request.key = space.index(0).key_def.extract_values(unpack(found))
        request.index_id = 0
        request.refresh_row()

    def _upsert(self, txn: Transaction, space: Space, statement: Statement, request: Request) -> None:
        raw, ops = request.tuple, request.ops
        fields = space.format.validate(raw)
        primary = _unique_index(space, 0)
        key = primary.key_of(fields)
        old = self._storage.find(txn, primary, key)
        if old is None:
            check_operations(ops, fmt=space.format, index_base=request.index_base)
            self._store_tuple(txn, space, statement, raw, Mode.INSERT)
            return
        new = apply_upsert(old, ops, fmt=space.format, index_base=request.index_base)
        if primary.key_of(space.format.validate(new)) != key:
            return  # the peer logs CANT_UPDATE_PRIMARY_KEY and leaves the tuple alone
        self._store_tuple(txn, space, statement, new, Mode.UPDATE, old)

    def _apply_elsewhere(self, ctx: Context, space: Space, statement: Statement, request: Request) -> bytes | None:
        """Engines that keep no tuples."""
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

    # -- user triggers

    async def _before_replace(
        self, ctx: Context, txn: Transaction, space: Space, statement: Statement, request: Request
    ) -> None:
        """Let the triggers see the change and put another outcome in its place."""
        if not (space.before_replace and space.run_triggers):
            return
        preview = self._preview(txn, space, request)
        if preview is None:
            return
        old, new = preview
        outcome = new
        op = RequestType(request.type).name
        for trigger in list(space.before_replace):
            returned = await trigger.call(ctx, old, outcome, space.name, op)
            _check_not_yielded(txn)
            if returned is None or isinstance(returned, bytes):
                outcome = returned
            elif returned is not NOTHING:
                raise AssertionError(f"a trigger returned {returned!r}")
        if outcome == new:
            return
        if old is not None and outcome is not None:
            _check_same_primary_key(space, old, outcome)
        if outcome == old:
            request.become(RequestType.NOP)
        elif outcome is not None:
            request.become(RequestType.REPLACE, tuple=outcome)
        else:
            assert old is not None
            request.become(DELETE, key=space.index(0).key_def.extract_values(unpack(old)))

    def _preview(self, txn: Transaction, space: Space, request: Request) -> tuple[bytes | None, bytes | None] | None:
        """The tuples before and after a request, without doing it; None: it would not change anything."""
        if request.type in (UPDATE, DELETE):
            old = self._find_old(txn, space, request)
            if old is None:
                return None
            if request.type == DELETE:
                return old, None
            return old, apply_update(old, request.ops, fmt=space.format, index_base=request.index_base)
        raw = request.tuple
        old = None
        if space.primary is not None:
            key_def = space.primary.key_def
            old = self._storage.find(txn, space.primary, key_def.parse(key_def.extract_values(_fields(raw)), True))
        if request.type != UPSERT:
            return old, raw
        if old is None:
            check_operations(request.ops, fmt=space.format, index_base=request.index_base)
            return None, raw
        return old, apply_upsert(old, request.ops, fmt=space.format, index_base=request.index_base)

    async def _on_replace(self, ctx: Context, txn: Transaction, space: Space, statement: Statement) -> None:
        if not space.run_triggers or (statement.old is None and statement.new is None):
            return
        op = RequestType(statement.type).name
        for trigger in list(space.on_replace):
            await trigger.call(ctx, statement.old, statement.new, space.name, op)
            _check_not_yielded(txn)


def _check_not_yielded(txn: Transaction) -> None:
    """A trigger that waited has cost the transaction all its changes, unless versions protect it."""
    if txn.aborted_by_yield:
        raise client_error(ErrorCode.TRANSACTION_YIELD)


def _check_same_primary_key(space: Space, old: bytes, new: bytes) -> None:
    primary = space.primary
    if primary is not None and primary.key_of(unpack(old)) != primary.key_of(space.format.validate(new)):
        raise client_error(ErrorCode.CANT_UPDATE_PRIMARY_KEY, primary.name, space.name)


def _fields(raw: bytes) -> list[Any]:
    fields = unpack(raw)
    if type(fields) is not list:
        raise client_error(ErrorCode.TUPLE_NOT_ARRAY)
    return fields


def _unique_index(space: Space, iid: int) -> Index:
    index = space.index(iid)
    if not index.is_unique:
        raise client_error(ErrorCode.MORE_THAN_ONE_TUPLE)
    return index


def _request(op: str, space: Space, *args: Any) -> Request:
    """The request of a method's name and its arguments after the space."""
    if op in ("insert", "replace"):
        return Request(INSERT if op == "insert" else REPLACE, space.id, tuple=args[0])
    if op == "delete":
        return Request(DELETE, space.id, index_id=args[0], key=args[1])
    index_base = args[3] if op == "update" and len(args) > 3 else args[2] if op == "upsert" and len(args) > 2 else 1
    if op == "update":
        return Request(UPDATE, space.id, index_id=args[0], key=args[1], ops=args[2], index_base=index_base)
    if op == "upsert":
        return Request(UPSERT, space.id, tuple=args[0], ops=args[1], index_base=index_base)
    raise AssertionError(f"no such request: {op}")
