"""The fast path of a usual change, autocommitted or in a transaction: it only changes the indexes.

It serves replicated memtx spaces without triggers, sequences or versions of tuples: nothing but the indexes takes part
in a statement. So an autocommitted change needs no transaction object; if it has to wait in the limbo, it waits there
itself. Effects, errors and their order are those of the general path (`box.txn.general`). `Dml.store` chooses the path,
and records the change if a transaction is open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from box.data.update import check_operations, updated, upserted
from box.errors import BoxError
from box.index.duplicate_key import duplicate_key
from box.txn.exchange import Changed, exchange, keys_of
from box.txn.storage import changed_key
from box.txn.transaction import NO_LSN, WAIT_SYNC, WAIT_SYNC_AND_ACK, Commit, LimboEntry, TxnState
from box.wire.change import DELETE, INSERT, REPLACE, UPDATE, UPSERT, Request
from box.wire.entry import OwnRow

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.schema.space import Space
    from box.txn.pending import Outcome
    from box.txn.synchro import LimboDriver
    from box.txn.write_plan import WritePlan
    from box.wire.entry import JournalEntry, JournalSink
    from box.wire.row import Row


def insert(plan: WritePlan, space: Space, raw: bytes, fields: list[Any] | None = None) -> Changed:
    """Insert a tuple, whose fields may be given. Raises DuplicateKeyError, and the errors of the format."""
    fields = plan.validate(raw) if fields is None else plan.validate_fields(raw, fields)
    # Here and below the usual size costs two comparisons and no call; `check_size` raises, or finds the memory.
    if (size := len(raw)) > plan.max_size or size > plan.memory.room:
        plan.check_size(raw)
    key = plan.key_of(fields)
    if plan.has_one_index:
        if not plan.add(key, raw):
            present: Any = plan.find(key)
            raise duplicate_key(space.index(0), space.name, present, raw)
        return None, raw
    old = plan.find(key)
    if old is not None:
        raise duplicate_key(space.index(0), space.name, old, raw)
    plan.exchange_all(space, None, key, raw, fields)
    return None, raw


def replace(plan: WritePlan, space: Space, raw: bytes, fields: list[Any] | None = None) -> Changed:
    """Insert a tuple, whose fields may be given, or replace the one with its primary key. Raises as `insert`."""
    fields = plan.validate(raw) if fields is None else plan.validate_fields(raw, fields)
    if (size := len(raw)) > plan.max_size or size > plan.memory.room:
        plan.check_size(raw)
    key = plan.key_of(fields)
    if plan.has_one_index:
        return plan.replace(key, raw), raw
    old = plan.find(key)
    plan.exchange_all(space, old, key, raw, fields)
    return old, raw


def _update(plan: WritePlan, space: Space, request: Request, _fields: None = None) -> Changed:
    key = plan.parse(request.key, True)
    old = plan.find(key)
    if old is None:
        return None, None
    new, fields = updated(old, request.ops, plan.format, request.index_base)
    fields = plan.validate(new) if fields is None else plan.validate_fields(new, fields)
    put_changed(plan, space, old, new, key, fields)
    return old, new


def _upsert(plan: WritePlan, space: Space, request: Request, _fields: None = None) -> Changed:
    raw, ops = request.tuple, request.ops
    fields = plan.validate(raw)
    key = plan.key_of(fields)
    old = plan.find(key)
    if old is None:
        check_operations(ops, fmt=plan.format, index_base=request.index_base)
        if (size := len(raw)) > plan.max_size or size > plan.memory.room:
            plan.check_size(raw)
        if plan.has_one_index:
            plan.put(key, raw)
        else:
            plan.exchange_all(space, None, key, raw, fields)
        return None, raw
    new, changed = upserted(old, ops, plan.format, request.index_base, plan.ignore)
    fields = plan.validate(new) if changed is None else plan.validate_fields(new, changed)
    if plan.key_of(fields) != key:
        plan.ignore(changed_key(space.index(0), space))
        return None, None
    put_changed(plan, space, old, new, key, fields)
    return old, new


def _delete(plan: WritePlan, space: Space, request: Request, _fields: None = None) -> Changed:
    key = plan.parse(request.key, True)
    old = plan.find(key)
    if old is None:
        return None, None
    remove(plan, space, key, old)
    return old, None


def remove(plan: WritePlan, space: Space, key: SortKey, old: bytes) -> None:
    """Remove the tuple `old`, which has the primary key `key`."""
    if plan.has_one_index:
        plan.remove(key)
    else:
        plan.remove_all(space, key, old)


def put_changed(plan: WritePlan, space: Space, old: bytes, new: bytes, key: SortKey, fields: list[Any]) -> None:
    """Replace `old` by `new`, whose decoded fields are given; both must have the primary key `key`.

    Raises:
        ClientError: CANT_UPDATE_PRIMARY_KEY, TUPLE_FOUND or MEMTX_MAX_TUPLE_SIZE; nothing is changed.
    """
    if (size := len(new)) > plan.max_size or size > plan.memory.room:
        plan.check_size(new)
    new_key = plan.key_of(fields)
    if new_key != key:
        primary, present = space.index(0), plan.find(new_key)
        raise changed_key(primary, space) if present is None else duplicate_key(primary, space.name, present, new)
    if plan.has_one_index:
        plan.replace(key, new)
    else:
        plan.exchange_all(space, old, key, new, fields)


CHANGES: Final[dict[int, Callable[..., Changed]]] = {
    INSERT: insert,
    REPLACE: replace,
    UPDATE: _update,
    UPSERT: _upsert,
    DELETE: _delete,
}
"""The functions that execute a change by the primary key, by request type.

They take the plan, the space, and a tuple for INSERT and REPLACE, whose decoded fields may follow, or a `Request` for
other types. If one raises an error, nothing is changed, and the general path would raise the same error.
"""


class FastWrite(OwnRow, Commit):  # type: ignore[override]
    """An autocommitted change on the fast path: its transaction, its only statement and its row in one object.

    `body` is the body of the row. It is not used if `rows` are given: the one of a change that comes from the log or
    another instance, or the two of an exchange of tuples by SQL.
    """

    __slots__ = ("_rows", "body", "flags", "kind", "new", "old", "row_lsn", "space")

    def __init__(
        self,
        kind: int,
        body: bytes,
        rows: list[Row] | None,
        space: Space,
        old: bytes | None,
        new: bytes | None,
        result: bytes | None,
    ) -> None:
        self._rows = rows
        self.kind = kind
        self.body: bytes | None = body if rows is None else None  # type: ignore[misc]
        self.flags = 0
        self.row_lsn = 0
        self.error = None
        self.size = 0
        self.on_complete = _written
        self.done = False
        self.result = result
        self._callbacks = None
        self.space = space
        self.old = old
        self.new = new

    def submit(self, journal: JournalSink) -> Outcome:
        """Hand the change to the journal. Returns the result, or this object while the outcome is unknown.

        Raises:
            DiskWriteError: WAL_IO.
        """
        try:
            journal.submit(self)
        except BoxError:
            self.withdraw()
            raise
        if not self.done:
            return self
        if self.error is not None:
            raise self.error
        return self.result

    def withdraw(self) -> None:
        """Undo the change, because the journal has not accepted it."""
        undo(self.space, self.old, self.new)


class HeldChange(LimboEntry):
    """A change on the fast path that waits in the limbo."""

    if not TYPE_CHECKING:
        __slots__ = ()

    new: bytes | None
    old: bytes | None
    space: Space

    @property
    def outcome(self) -> TxnState | None:
        if not self.done:
            return None
        return TxnState.COMMITTED if self.error is None else TxnState.ABORTED

    def take_back(self, error: BoxError) -> None:
        """Undo the change after a failure. No later change of the same tuple may remain."""
        if self.done:
            return
        undo(self.space, self.old, self.new)
        self.error = error
        self.finish()


class HeldWrite(FastWrite, HeldChange):  # type: ignore[override]
    """A `FastWrite` that may wait in the limbo: with `wait_ack` for a quorum, otherwise for earlier entries."""

    __slots__ = ("_synchro", "lsn", "since", "wait_ack", "wait_sync", "waits", "written")

    def __init__(
        self,
        kind: int,
        body: bytes,
        row: Row | None,
        space: Space,
        old: bytes | None,
        new: bytes | None,
        result: bytes | None,
        synchro: LimboDriver,
    ) -> None:
        FastWrite.__init__(self, kind, body, None if row is None else [row], space, old, new, result)
        self.on_complete = _held_written
        self._synchro = synchro
        self.lsn = NO_LSN
        self.since = None
        self.wait_ack = space.is_sync
        self.wait_sync = False
        self.waits = True
        self.written = False

    def submit(self, journal: JournalSink) -> Outcome:
        """Submit the change to the journal by way of the limbo.

        Raises:
            ClientError: the errors of `FastWrite.submit`; SYNC_ROLLBACK, UNCOMMITTED_FOREIGN_SYNC_TXNS, READONLY.
        """
        synchro, rows = self._synchro, self._rows
        origin_id = 0 if rows is None else rows[0].replica_id
        if not synchro.limbo.push(origin_id, self):
            try:
                synchro.append(origin_id, self)
            except BoxError:
                self.withdraw()
                raise
        self.wait_sync = True
        flags = WAIT_SYNC_AND_ACK if self.wait_ack else WAIT_SYNC
        if rows is None:
            self.flags = flags
        else:
            rows[0].flags |= flags
        return FastWrite.submit(self, journal)

    def withdraw(self) -> None:
        """Undo the change, because the limbo or the journal has not accepted it."""
        if self.wait_sync:
            self._synchro.abort(self)
        undo(self.space, self.old, self.new)

    @property
    def origin_id(self) -> int:
        return 0 if self._rows is None else self._rows[0].replica_id

    @property
    def place(self) -> tuple[int, int]:
        lsn = self.lsn_in_log
        return lsn, lsn

    @staticmethod
    def complete_together(entries: list[HeldWrite]) -> None:  # type: ignore[override]
        """Complete entries that the journal has written together; the limbo is asked once."""
        synchro, first, last = entries[0]._synchro, 0, 0
        now = synchro.now()
        decided = []
        for entry in entries:
            entry.written = True
            if entry.wait_sync:
                last = entry.row_lsn or entry.rows[0].lsn
                first = first or last
                if entry.wait_ack:
                    entry.lsn = last
                entry.since = now
            elif not entry.done:
                decided.append(entry)
        if last:
            synchro.has_written(first, last)
        for entry in decided:
            entry.finish()

    def end(self) -> None:
        """Complete this entry alone, after its write has ended."""
        self.written = self.error is None
        if self.error is not None:
            if self.wait_sync:
                self._synchro.abort(self)
            self.take_back(self.error)
        elif self.wait_sync:
            self._synchro.written(self, self.lsn_in_log)
        elif not self.done:
            self.finish()


def _written(entry: JournalEntry) -> None:
    if TYPE_CHECKING:
        assert isinstance(entry, FastWrite)
    if entry.error is not None:
        undo(entry.space, entry.old, entry.new)
    entry.finish()


def _held_written(entry: JournalEntry) -> None:
    assert isinstance(entry, HeldWrite)
    entry.end()


def undo(space: Space, old: bytes | None, new: bytes | None) -> None:
    """Undo a change: put the tuple before it back into the indexes."""
    if old is not None or new is not None:
        exchange(space, new, old, [] if old is None else keys_of(space, old))
