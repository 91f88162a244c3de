"""The engine `memtx`: tuples in indexes in memory, changed and read by the node's `TupleStorage`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, cast

from box.data.codec import unpack
from box.data.update import apply_update, apply_upsert, check_operations
from box.errors import BoxError, unsupported
from box.index import Entry, Index, IndexDef, create_index
from box.index.memory import MemoryQuota
from box.schema.memtx_rules import check_memtx_index
from box.schema.storage_engine import Engine, EngineTransaction, IndexRules, TupleChange
from box.txn.rule_writes import validated
from box.txn.space_load import SpaceLoad
from box.txn.storage import Mode, TupleStorage, changed_key, unique_index
from box.txn.write_plan import MAX_TUPLE_SIZE, Planner
from box.wire.change import INSERT, REPLACE, UPDATE, UPSERT, Request

if TYPE_CHECKING:
    from box.data.keydef import KeyDef
    from box.index.view import TupleView
    from box.schema.function import Function
    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.session import Context
    from box.txn.transaction import Statement, Transaction


class MemtxEngine(Engine):
    """An engine with all kinds of indexes."""

    name: ClassVar[str] = "memtx"
    is_transactional: ClassVar[bool] = True
    index_rules: ClassVar[IndexRules | None] = staticmethod(check_memtx_index)

    def __init__(self) -> None:
        self.hash_slots = False
        """True if HASH indexes that are made from now on have Tarantool's order."""
        self._storage = TupleStorage()
        self._planner = Planner(MAX_TUPLE_SIZE, MemoryQuota(), has_versions=False)

    def use(self, storage: TupleStorage, planner: Planner) -> None:
        """Keep tuples in this storage from now on, and check them by the plans of this planner."""
        self._storage = storage
        self._planner = planner

    @property
    def allows_yield(self) -> bool:
        return self._storage.allows_yield

    # -- definition

    def make_index(self, schema: Schema, space: Space, definition: IndexDef, primary: KeyDef | None) -> Index:
        """Make an empty index. A functional index is disabled while its function does not exist."""
        function = schema.functions.get(definition.opts.get("func", 0))
        key_function = SpaceFunction(schema, function, space.id) if function is not None else None
        index = create_index(
            definition,
            primary,
            space_name=space.name,
            engine=self.name,
            function=key_function,
            hash_slots=self.hash_slots,
        )
        if definition.iid == 0:
            index.memory = MemoryQuota()  # its own quota until the index is installed in the space
        return index

    def installed(self, space: Space) -> None:
        """Compute the memory of the space's tuples again, because its indexes have been replaced."""
        if space.primary is not None:
            space.primary.weigh(space.indexes.values())

    def exchanged(self, schema: Schema, former: Index | None, primary: Index | None) -> None:
        """Charge the node's quota for the new index instead of the former one."""
        if former is not None:
            former.use_memory(MemoryQuota())
        if primary is not None:
            primary.use_memory(schema.memory)

    # -- transaction

    def change(self, ctx: Context, space: Space, change: TupleChange, request: Request) -> bytes | None:
        """Change all indexes as a request says."""
        txn, statement, kind = ctx.txn, cast("Statement", change), request.type
        assert txn is not None
        if kind in (INSERT, REPLACE):
            self._store(ctx, space, statement, request, request.tuple, Mode.INSERT if kind == INSERT else Mode.REPLACE)
            return statement.new
        if kind == UPSERT:
            self._upsert(ctx, space, statement, request)
            return None
        old = self._storage.find_by(txn, space, request.index_id, request.key)
        if old is None:
            return None
        if kind == UPDATE:
            new = apply_update(old, request.ops, fmt=space.format, index_base=request.index_base)
            self._store(ctx, space, statement, request, new, Mode.UPDATE, old)
        else:
            self._storage.drop(txn, space, statement, old)
        found = old if statement.new is None else statement.new
        if request.index_id:
            _bind_to_primary(space, request, found)
        return found

    def _store(
        self,
        ctx: Context,
        space: Space,
        statement: Statement,
        request: Request,
        raw: bytes,
        mode: Mode,
        old: bytes | None = None,
    ) -> None:
        """Check a tuple by the plan of its space, and put it into all indexes."""
        plan = self._planner.plan(space)
        fields = plan.validate(raw) if not space.rules else validated(ctx, space, request, raw)
        plan.check_size(raw)
        assert ctx.txn is not None
        self._storage.store(ctx.txn, space, statement, raw, fields, mode, old)

    def _upsert(self, ctx: Context, space: Space, statement: Statement, request: Request) -> None:
        """Insert the tuple of an UPSERT, or apply its operations to the present tuple."""
        raw, ops, txn = request.tuple, request.ops, ctx.txn
        fields = validated(ctx, space, request, raw)
        primary = unique_index(space, 0)
        key = primary.key_of(fields)
        old = self._storage.find(txn, primary, key)
        if old is None:
            check_operations(ops, fmt=space.format, index_base=request.index_base)
            self._store(ctx, space, statement, request, raw, Mode.INSERT)
            return
        ignore = self._planner.on_ignored
        new = apply_upsert(old, ops, fmt=space.format, index_base=request.index_base, on_error=ignore)
        if primary.key_of(space.format.validate(new)) != key:
            ignore(changed_key(primary, space))
            return
        self._store(ctx, space, statement, request, new, Mode.UPDATE, old)

    def undo(self, txn: EngineTransaction, change: TupleChange) -> None:
        """Undo a change: restore the old tuple in the indexes, or remove the version that the change added (MVCC)."""
        self._storage.undo(cast("Transaction", txn), cast("Statement", change))

    def prepare(self, txn: EngineTransaction) -> None:
        """Give the transaction its place among the commits, and abort others whose reads it makes wrong (MVCC only)."""
        self._storage.prepare(txn)  # type: ignore[arg-type]  # always a Transaction

    def commit(self, txn: EngineTransaction) -> None:
        """Make the changes of the transaction the committed state, and drop versions without a reader (MVCC only)."""
        self._storage.commit(txn)  # type: ignore[arg-type]  # always a Transaction

    def forget(self, txn: EngineTransaction) -> None:
        """Drop what is known of the reads and writes of an ended transaction (MVCC only)."""
        self._storage.forget(txn)  # type: ignore[arg-type]  # always a Transaction

    # -- reading

    def source(self, index: Index) -> Index | None:
        """Return the index itself."""
        return index

    def find(self, ctx: Context, space: Space, index: Index, key: list[Any]) -> bytes | None:
        """Return the tuple with a full key, as the transaction sees it, or None."""
        return self._storage.find(ctx.txn, index, index.key_def.parse(key, True))

    def rows(self, ctx: Context, space: Space, index: Index, iterator: int, key: list[Any]) -> Iterator[bytes]:
        """Iterate over the tuples that the iterator visits. A step sees changes that were made since the last one."""
        return self._storage.scan(ctx.txn, index, iterator, key)

    def select(
        self, ctx: Context, space: Space, index: Index, iterator: int, key: list[Any], offset: int, limit: int
    ) -> list[bytes]:
        """Return up to `limit` tuples that the iterator visits, without the first `offset` of them."""
        return self._storage.select(ctx.txn, index, iterator, key, offset, limit)

    def count(self, ctx: Context, space: Space, index: Index, iterator: int, key: list[Any]) -> int:
        """Return the number of tuples that the iterator would visit."""
        return self._storage.count(ctx.txn, index, iterator, key)

    def least(self, ctx: Context, space: Space, index: Index, key: list[Any]) -> bytes | None:
        """Return the first tuple whose key begins with `key`, as the transaction sees it, or None."""
        return self._storage.least(ctx.txn, index, key)

    def greatest(self, ctx: Context, space: Space, index: Index, key: list[Any]) -> bytes | None:
        """Return the last tuple whose key begins with `key`, as the transaction sees it, or None."""
        return self._storage.greatest(ctx.txn, index, key)

    def random(self, ctx: Context, index: Index, seed: int) -> bytes | None:
        """Return a tuple chosen by `seed`, or None. Equal seeds and contents of the index give equal tuples."""
        return self._storage.random(ctx.txn, index, seed)

    def size(self, ctx: Context, index: Index) -> int:
        """Return the number of tuples as the transaction sees them."""
        return self._storage.size(ctx.txn, index)

    def view_of(self, ctx: Context, space: Space, index: Index, iterator: int, key: list[Any]) -> TupleView:
        """Open a view of the index without copying its entries."""
        return self._storage.view_of(index, index.cursor(iterator, key))

    def value_of(self, entry: Entry | None) -> bytes | None:
        """Return the tuple of an index entry; if it has versions, the newest that is committed or on its way there."""
        return self._storage.value_of(entry)

    def tuples(self, space: Space) -> Iterable[bytes]:
        """Return all tuples, without those of open transactions where tuples have versions."""
        return self._storage.read_view(space)

    # -- checkpoint, join, recovery

    def open_view(self, space: Space) -> TupleView:
        """Open a view of the primary index without copying its entries."""
        return self._storage.open_view(space)

    def load(self, space: Space) -> SpaceLoad:
        """Return a load, which builds the primary index of sorted tuples and the other indexes at the end."""
        return SpaceLoad(space)


class SpaceFunction:
    """A stored function that makes index keys of the tuples of one space."""

    def __init__(self, schema: Schema, function: Function, space_id: int) -> None:
        self.function = function
        self.is_multikey = function.definition.is_multikey
        self._schema = schema
        self._space_id = space_id

    def __call__(self, raw: bytes) -> list[Any] | BoxError:
        """Return the values that the function returns for a tuple, or the error if they cannot be in a tuple.

        Raises:
            UnsupportedError: nothing in this instance runs functions.
            BoxError: the function raised it.
        """
        call = self._schema.call_function
        if call is None:
            raise unsupported("A node without Lua", "functional indexes")
        return call(self.function, raw, self._space_id)

    def many(self, tuples: list[bytes]) -> list[list[Any]]:
        """Return the values for tuples up to the first one for which the function fails, or up to any other."""
        call = self._schema.call_function_for
        return [] if call is None else call(self.function, tuples, self._space_id)


def _bind_to_primary(space: Space, request: Request, found: bytes) -> None:
    """Rewrite a request by a secondary key as one by the primary key.

    Another instance may find a different tuple by the secondary key, because its other rows lag behind.
    """
    request.key = space.index(0).key_def.extract_values(unpack(found))
    request.index_id = 0
    request.refresh_row(space.id)
