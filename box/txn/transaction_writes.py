"""Changes of single rows in an open transaction by code that has their fields decoded already.

`PointWriter` of `box.txn.point_writes` does the same outside of transactions. A `TransactionWriter`, too, is valid for
one turn of the loop. Effects, errors and rows of the log are those of `Dml.store` and `Dml.write`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from box.data.codec import pack, unpack
from box.data.update import updated
from box.errors import BoxError
from box.schema.sequence_fill import fill_sequence
from box.txn.exchange import Changed
from box.txn.fast_path import CHANGES, insert, put_changed, remove, replace
from box.txn.point_writes import PointWriter
from box.txn.transaction import Statement, TxnState
from box.wire.change import DELETE, INSERT, REPLACE, UPDATE, UPSERT, Request
from box.wire.constants import GROUP_DEFAULT

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.index import Index
    from box.schema.access import Credentials
    from box.schema.space import Space
    from box.txn.lifecycle import TransactionManager
    from box.txn.transaction import Transaction
    from box.txn.write_plan import WritePlan


class TransactionWriter:
    """Changes rows of one space in one transaction: nothing but the indexes, the sequence and the check constraints of
    the space takes part.

    The changes are complete when a method returns; it returns None. Each raises the errors of `Dml.write` that concern
    the row; then nothing is changed. `record` adds a statement to the transaction.
    """

    __slots__ = ("_checks", "_counters", "_is_void", "_plan", "_record", "_space", "_txn", "_txns", "parse")

    def __init__(
        self,
        plan: WritePlan,
        space: Space,
        txn: Transaction,
        txns: TransactionManager,
        counters: list[int],
        record: Callable[[Transaction, Statement], None],
    ) -> None:
        self._plan = plan
        self._space = space
        self._txn = txn
        self._txns = txns
        self._checks = list(space.checks.values())
        self._is_void = txns.journal.is_void
        self._counters = counters
        self._record = record
        self.parse = plan.parse

    def find(self, key: SortKey) -> bytes | None:
        """Return the tuple with this primary key, as the transaction sees it, or None."""
        return self._txns.storage.find(self._txn, self._space.index(0), key)

    def find_in(self, index: Index, key: SortKey) -> bytes | None:
        """Return the tuple with this full key of a unique index, as the transaction sees it, or None."""
        return self._txns.storage.find(self._txn, index, key)

    def remove(self, old: bytes) -> None:
        """Delete the tuple `old`, which the transaction sees."""
        fields, primary = unpack(old), self._space.index(0)
        self.delete(primary.key_def.extract_values(fields), primary.key_of(fields), old)

    def change(self, key: list[Any], operations: list[list[Any]] | None) -> bool:
        """Update the tuple with the primary key `key`, or delete it (`operations` is None). Returns False if there is
        none.
        """
        sort_key = self.parse(key)
        old = self.find(sort_key)
        if old is None:
            return False
        if operations is None:
            self.delete(key, sort_key, old)
        else:
            self.update(key, sort_key, old, operations)
        return True

    def insert(self, raw: bytes, fields: list[Any]) -> None:
        """Insert the tuple `raw`, whose fields are given."""
        self._change(INSERT, None, insert, raw, fields)

    def store(self, credentials: Credentials, raw: bytes, *, is_replace: bool) -> bytes:
        """Insert the tuple `raw`, or replace the one with its primary key, after the space's sequence has filled its
        field. Returns the stored tuple.
        """
        if self._space.sequence is not None:
            raw = fill_sequence(self._space, credentials, raw)
        if is_replace:
            self._change(REPLACE, None, replace, raw)
        else:
            self._change(INSERT, None, insert, raw)
        return raw

    def replace(self, raw: bytes, fields: list[Any], is_new: bool) -> None:
        """Store the tuple `raw`, whose fields are given. Unless `is_new`, it replaces a tuple, and the log gets a
        DELETE and a REPLACE, as Tarantool's SQL writes them.
        """
        if not is_new:
            plan, counters = self._plan, self._counters
            try:  # after these checks the second change cannot fail
                plan.validate_fields(raw, fields)
                plan.check_size(raw)
            except BoxError:
                counters[DELETE] += 1
                counters[REPLACE] += 1
                raise
            key = plan.key_of(fields)
            old = self.find(key)
            assert old is not None
            self.delete(self._space.index(0).key_def.extract_values(fields), key, old)
        self._change(REPLACE, None, replace, raw, fields)

    def update(self, key: list[Any], sort_key: SortKey, old: bytes, operations: list[list[Any]]) -> None:
        """Update the tuple `old`, which has the primary key `key`; operations count fields from 1."""
        request = Request.update(key, operations)
        body = request if self._is_void else request.body(self._space.id)
        self._change(UPDATE, body, _update, sort_key, old, operations)

    def delete(self, key: list[Any], sort_key: SortKey, old: bytes) -> None:
        """Delete the tuple `old`, which has the primary key `key`."""
        self._change(DELETE, self._space.key_prefix + pack(key), _delete, sort_key, old)

    def _change(self, kind: int, body: bytes | Request | None, change: Callable[..., Changed], *args: Any) -> None:
        """Make a change and record it. `body` is that of its row, the request that has it, or None for an INSERT or
        REPLACE.
        """
        self._counters[kind] += 1
        txn, space, storage = self._txn, self._space, self._txns.storage
        if storage.allows_yield:
            statement = storage.plan_of(txn, space, self._plan).run(space, kind, change, *args)
        else:
            statement = Statement(space, kind, *change(self._plan, space, *args))
        statement.body = body
        self._record(txn, statement)
        if self._checks and statement.new is not None:
            self._check(txn, statement.new)

    def _check(self, txn: Transaction, new: bytes) -> None:
        """Check the constraints for the tuple that the last statement has stored; an error undoes the statement."""
        length, fields = len(txn.statements) - 1, unpack(new)
        try:
            for check in self._checks:
                check.check(fields)
        except BaseException:
            self._txns.undo_to(txn, length)
            raise


def store_in(
    txns: TransactionManager,
    txn: Transaction,
    space: Space,
    plan: WritePlan,
    kind: int,
    argument: Any,
    fields: list[Any] | None,
    request: Request | None,
    record: Callable[[Transaction, Statement], None],
) -> bytes | None:
    """Make a change for `Dml.store` as a statement of an open transaction. Returns what `Dml.store` does.

    `argument` and `fields` are those of the function in `CHANGES`, and `record` adds the statement to the transaction.
    """
    if txn.engine is not space.engine:
        txns.use_engine(txn, space)
    if plan.is_usual:
        old, new = CHANGES[kind](plan, space, argument, fields)
        statement = Statement(space, kind, old, new, None, None)
    else:
        if txn.state is not TxnState.INPROGRESS:
            txn.check_alive()
        statement = txns.storage.plan_of(txn, space, plan).run(space, kind, CHANGES[kind], argument, fields)
        old, new = statement.old, statement.new
    if request is not None:
        if (row := request.row) is not None:
            row.group_id, txn.is_fast = GROUP_DEFAULT, False
            statement.row, statement.body = row, b""
        elif kind > REPLACE:
            statement.body = request if txns.journal.is_void else request.body(space.id)
    record(txn, statement)
    return None if kind == UPSERT else old if new is None else new


def writer_in(
    txn: Transaction,
    space: Space,
    plan: WritePlan,
    txns: TransactionManager,
    counters: list[int],
    record: Callable[[Transaction, Statement], None],
) -> TransactionWriter | None:
    """Return a writer for an open transaction; None while a statement is open, or if it uses another engine."""
    if txn.nesting or txn.engine is not space.engine or txn.state is not TxnState.INPROGRESS:
        return None
    return TransactionWriter(plan, space, txn, txns, counters, record)


RowWriter = PointWriter | TransactionWriter
"""A writer of single rows, outside of transactions or in one."""


def _update(plan: WritePlan, space: Space, sort_key: SortKey, old: bytes, operations: list[list[Any]]) -> Changed:
    new, fields = updated(old, operations, plan.format, 1)
    fields = plan.validate(new) if fields is None else plan.validate_fields(new, fields)
    put_changed(plan, space, old, new, sort_key, fields)
    return old, new


def _delete(plan: WritePlan, space: Space, sort_key: SortKey, old: bytes) -> Changed:
    remove(plan, space, sort_key, old)
    return old, None
