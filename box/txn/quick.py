"""The short cut of the usual change, autocommitted or inside a transaction.

It serves a memtx space that is replicated and asynchronous, without triggers, sequence or versions of tuples, while the
limbo is empty: nothing but its indexes and the journal has a say in the outcome. Effects, errors and their order are
those of the whole way (`box.txn.dml`); what is left out are the `Request`, the nesting of statements and, in
autocommit, `Transaction` and `Statement`. `quick_plan` decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from box.data.codec import pack, unpack
from box.data.update import apply_update, apply_upsert, check_operations
from box.errors import BoxError, ErrorCode, client_error, out_of_memory
from box.schema.access import Privilege
from box.txn.reads import Reader
from box.txn.storage import Mode, duplicate, exchange, keys_of
from box.txn.transaction import Commit, Statement
from box.wire.constants import RequestType
from box.wire.row import Row

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.schema.space import Space
    from box.session import Context
    from box.txn.lifecycle import TransactionManager
    from box.wire.entry import JournalEntry

TUPLE_OVERHEAD: Final = 14
"""Bytes that the peer adds to a tuple's MessagePack: `memtx_max_tuple_size` counts them."""
NO_MEMORY = -1
"""A limit of tuples that none keeps, so that writes need no check of their own for ERRINJ_TUPLE_ALLOC."""
_OFFSET_SIZE: Final = 4
WRITE_PRIVILEGES: Final = int(Privilege.W | Privilege.U)

# Members of an IntEnum are slow to look up and to compare.
INSERT: Final = int(RequestType.INSERT)
REPLACE: Final = int(RequestType.REPLACE)
UPDATE: Final = int(RequestType.UPDATE)
UPSERT: Final = int(RequestType.UPSERT)
DELETE: Final = int(RequestType.DELETE)


class QuickWrite(Commit):
    """A transaction of one statement that took the short cut."""

    __slots__ = ("new", "old", "space")

    def __init__(
        self,
        row: Row,
        space: Space,
        old: bytes | None,
        new: bytes | None,
        on_complete: Callable[[JournalEntry], None],
    ) -> None:
        self.rows = [row]
        self.error = None
        self.size = 0
        self.on_complete = on_complete
        self.done = False
        self._callbacks = None
        self.space = space
        self.old = old
        self.new = new

    def undo(self) -> None:
        """Put the indexes back as they were."""
        _undo(self.space, self.old, self.new)


def _undo(space: Space, old: bytes | None, new: bytes | None) -> None:
    if old is not None or new is not None:
        exchange(space, new, old, [] if old is None else keys_of(space, old))


def _quick_written(entry: JournalEntry) -> None:
    assert isinstance(entry, QuickWrite)
    if entry.error is not None:
        entry.undo()
    entry.finish()


class SpacePlan:
    """Facts about one layout of a space that a change needs."""

    __slots__ = (
        "find",
        "format",
        "has_one_index",
        "indexes",
        "is_quick",
        "key_of",
        "max_size",
        "overhead",
        "parse",
        "put",
        "replace",
        "secondary",
        "space_pair",
        "tuple_prefix",
        "validate",
    )

    def __init__(self, space: Space, max_tuple_size: int, *, quick_allowed: bool) -> None:
        index = space.primary
        self.indexes = space.indexes
        self.format = space.format
        self.overhead = TUPLE_OVERHEAD + _OFFSET_SIZE * _offset_count(space)
        self.max_size = max_tuple_size - self.overhead
        self.validate = space.format.validate
        self.tuple_prefix = space.tuple_prefix
        self.space_pair = space.tuple_prefix[1:-1]
        self.is_quick = (
            quick_allowed
            and index is not None
            and space.is_plain
            and space.system_trigger is None
            and space.sequence is None
            and not (space.is_sync or space.is_local or space.is_temporary or space.definition.opts.view)
        )
        self.has_one_index = len(space.indexes) == 1
        self.secondary = [other for other in space.indexes.values() if other is not index]
        if index is not None:
            self.find = index.find
            self.parse = index.key_def.parse
            self.key_of = index.key_of
            self.replace = index.replace
            self.put = index.put

    def check_size(self, raw: bytes) -> None:
        """MEMTX_MAX_TUPLE_SIZE, OutOfMemory."""
        if len(raw) <= self.max_size:
            return
        size = len(raw) + self.overhead
        if self.max_size == NO_MEMORY - self.overhead:
            raise out_of_memory(size, "slab allocator", "memtx_tuple")
        raise client_error(ErrorCode.MEMTX_MAX_TUPLE_SIZE, size)

    def exchange_all(self, space: Space, old: bytes | None, key: SortKey, new: bytes, fields: list[Any]) -> None:
        """Put `new` in the place of `old`, which has the same primary key, in all of several indexes. TUPLE_FOUND."""
        changes = []
        for index in self.secondary:
            new_key = index.key_of(fields)
            if index.is_unique and (present := index.find(new_key)) is not None and present != old:
                raise duplicate(index, space, present, new)
            changes.append((index, new_key))
        if old is not None:
            old_fields = unpack(old)
            for index, new_key in changes:
                old_key = index.key_of(old_fields)
                if old_key != new_key:
                    index.remove(old_key)
        self.put(key, new)
        for index, new_key in changes:
            index.put(new_key, new)


def _offset_count(space: Space) -> int:
    """How many field offsets the peer stores in a tuple: for key fields that do not simply follow each other."""
    places = set()
    for index in space.indexes.values():
        parts = index.definition.parts
        if all(part.fieldno == number and part.path is None for number, part in enumerate(parts)):
            continue
        places |= {(part.fieldno, part.path) for part in parts if part.fieldno or part.path is not None}
    return len(places)


class QuickWriter(Reader):
    """The quick half of `box.txn.dml.Dml`."""

    def __init__(self, txns: TransactionManager, check_writable: Callable[[], None], max_tuple_size: int) -> None:
        super().__init__(txns)
        self._check_writable = check_writable
        self.is_read_only = False
        """The mode of the instance; whether the limbo allows changes is another question."""
        self._limbo = txns.synchro.limbo
        self._plans: dict[int, SpacePlan] = {}
        self._max_tuple_size = max_tuple_size
        self._has_memory = True
        self._on_quick_written = _quick_written  # one object for all writes

    @property
    def max_tuple_size(self) -> int:
        """`memtx_max_tuple_size`, bytes."""
        return self._max_tuple_size

    @max_tuple_size.setter
    def max_tuple_size(self, size: int) -> None:
        self._max_tuple_size = size
        self._plans.clear()

    def set_memory(self, has_memory: bool) -> None:
        """ERRINJ_TUPLE_ALLOC: while there is no memory, no tuple can be stored."""
        self._has_memory = has_memory
        self._plans.clear()

    def _plan(self, space: Space) -> SpacePlan:
        plan = self._plans.get(space.id)
        if plan is None or plan.indexes is not space.indexes or plan.format is not space.format:
            limit = self._max_tuple_size if self._has_memory else NO_MEMORY
            plan = SpacePlan(space, limit, quick_allowed=not self._is_versioned)
            self._plans[space.id] = plan
        return plan

    def quick_plan(self, ctx: Context, space: Space, request_type: int) -> SpacePlan | None:
        """The plan, if a request may take the short cut. Makes the checks of every change and counts it.

        Without user triggers: who has a plan need not ask for them. READONLY, ACCESS_DENIED, CROSS_ENGINE_TRANSACTION.
        """
        plan = self._plans.get(space.id)
        if plan is None or plan.indexes is not space.indexes or plan.format is not space.format:
            plan = self._plan(space)
        txn = ctx.txn
        if (
            not plan.is_quick
            or space.on_replace
            or space.before_replace
            or (self._limbo.entries if txn is None else txn.nesting)
        ):
            return None
        if self.is_read_only or (txn is not None and self._limbo.is_read_only):
            raise client_error(ErrorCode.READONLY)
        self.counters[request_type] += 1
        if WRITE_PRIVILEGES & ~ctx.credentials.universal:
            space.check_access(ctx.credentials, Privilege.W)
        if txn is not None and txn.engine != space.engine:
            self.txns.use_engine(txn, space)
        return plan

    def quick_store(self, ctx: Context, space: Space, plan: SpacePlan, raw: bytes, request_type: int) -> bytes:
        """Insert or replace, with the plan of the request. Errors as `insert`."""
        fields = plan.validate(raw)
        if len(raw) > plan.max_size:
            plan.check_size(raw)
        if request_type == REPLACE and plan.has_one_index:
            old = plan.replace(plan.key_of(fields), raw)
        else:
            key = plan.key_of(fields)
            old = plan.find(key)
            if old is not None and request_type == INSERT:
                raise duplicate(space.index(0), space, old, raw)
            plan.exchange_all(space, old, key, raw, fields)
        self._record(ctx, space, request_type, old, raw, plan.tuple_prefix + raw)
        return raw

    def _quick_update(
        self, ctx: Context, space: Space, plan: SpacePlan, values: list[Any], ops: list[Any], index_base: int
    ) -> bytes | None:
        """By the primary key."""
        key = plan.parse(values, True)
        old = plan.find(key)
        new = None
        if old is not None:
            new = apply_update(old, ops, fmt=plan.format, index_base=index_base)
            self._exchange(plan, space, old, new, key, plan.validate(new))
        base = b"\x15" + pack(index_base) if index_base else b""
        body = b"%c%b%b\x20%b\x21%b" % (0x84 if base else 0x83, plan.space_pair, base, pack(values), pack(ops))
        self._record(ctx, space, UPDATE, old, new, body)
        return new

    def _quick_upsert(
        self, ctx: Context, space: Space, plan: SpacePlan, raw: bytes, ops: list[Any], index_base: int
    ) -> None:
        fields = plan.validate(raw)
        key = plan.key_of(fields)
        old = plan.find(key)
        new: bytes | None = raw
        if old is None:
            check_operations(ops, fmt=plan.format, index_base=index_base)
            plan.check_size(raw)
            plan.exchange_all(space, None, key, raw, fields)
        else:
            new = apply_upsert(old, ops, fmt=plan.format, index_base=index_base)
            fields = plan.validate(new)
            if plan.key_of(fields) == key:
                self._exchange(plan, space, old, new, key, fields)
            else:
                old = new = None  # the peer logs CANT_UPDATE_PRIMARY_KEY and leaves the tuple alone
        base = b"\x15" + pack(index_base) if index_base else b""
        body = b"%c%b%b\x28%b\x21%b" % (0x84 if base else 0x83, plan.space_pair, base, pack(ops), raw)
        self._record(ctx, space, UPSERT, old, new, body)

    def _exchange(self, plan: SpacePlan, space: Space, old: bytes, new: bytes, key: SortKey, fields: list[Any]) -> None:
        """Put `new`, with these fields, in the place of `old` with the primary key `key`.

        CANT_UPDATE_PRIMARY_KEY, TUPLE_FOUND, MEMTX_MAX_TUPLE_SIZE.
        """
        if len(new) > plan.max_size:
            plan.check_size(new)
        if plan.key_of(fields) != key:
            self._storage.check(None, space, new, fields, Mode.UPDATE, old)  # raises
        if plan.has_one_index:
            plan.put(key, new)
        else:
            plan.exchange_all(space, old, key, new, fields)

    def _quick_delete(self, ctx: Context, space: Space, plan: SpacePlan, values: list[Any]) -> bytes | None:
        """By the primary key."""
        key = plan.parse(values, True)
        old = plan.find(key)
        if old is not None:
            exchange(space, old, None, [])
        self._record(ctx, space, DELETE, old, None, space.key_prefix + pack(values))
        return old

    def _record(
        self, ctx: Context, space: Space, request_type: int, old: bytes | None, new: bytes | None, body: bytes
    ) -> None:
        """The indexes are changed from `old` to `new`: add the statement to the open transaction, or commit it."""
        txn = ctx.txn
        if txn is not None:
            statement = Statement(space, request_type)
            statement.old, statement.new = old, new
            statement.row = Row(request_type, body=body)
            if old is not None or new is not None:
                txn.changes = statement.applied = txn.changes + 1
            txn.statements.append(statement)
            return
        journal = self.txns.journal
        try:
            if journal.is_void:
                journal.pass_row()
                return
            write = QuickWrite(Row(request_type, body=body), space, old, new, self._on_quick_written)
            journal.submit(write)
        except BoxError:
            _undo(space, old, new)
            raise
        if not write.done:
            ctx.pending = write
        elif write.error is not None:
            raise write.error
