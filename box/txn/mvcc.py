"""Versions of tuples: transactions that may yield and do not see each other (`memtx_use_mvcc_engine`).

An index entry is a tuple's bytes as long as everybody sees the same, and a `Slot` while there are several answers (see
`box.txn.versions`). A statement writes what a key holds after it, a tuple or None, to the slot of every key that it
changes, in every index.

A REPLACE does not care which tuple it replaces, so another one under the same primary key may be prepared, or prepared
and rolled back, while it is in progress. It comes later anyway: its secondary keys follow then, so that it hides the
tuple that it replaces now, in every index.

A transaction's reads are remembered: the tuples, and the places where it found none (single keys, ranges up to
the last key it has read). When a writer is prepared, every other open transaction that has read a value which
the writer replaced, or a place where it put something, goes to a read view just before the writer if it has written
nothing, and is aborted otherwise. Committed writes sink into `base` when no read view needs what is below, and a
slot without writes turns back into the bytes of its base: in slices, when there are many.

Source: the peer's visibility rules (prepared data is visible in transactions, not outside); the version chain per key
instead of per tuple is this node's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final

from box.data.codec import unpack
from box.index import IteratorType
from box.index.untracked import untrack
from box.index.view import open_view
from box.slices import emptying
from box.txn.following import tell_followers
from box.txn.read_set import Range, ReadSet
from box.txn.readers import Readers
from box.txn.storage import TupleStorage, keys_of
from box.txn.transaction import Transaction, TxnState
from box.txn.versions import Slot, Write
from box.txn.write_set import Places, WriteSet

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.index import Cursor, Index
    from box.index.view import TupleView
    from box.schema.space import Space
    from box.txn.staged_undo import OneChange
    from box.txn.transaction import Statement

_MANY: Final = 1024
"""Statements, or slots, that are too many for one turn."""
_MANY_COMPARED: Final = 64
"""Statements that are compared as sets with what others have read, rather than one by one."""
_SLICE: Final = 128
"""So many are folded in a millisecond."""


class MvccStorage(TupleStorage):
    """Indexes with versions."""

    allows_yield: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._readers = Readers()
        self._writes: dict[Statement, list[Write]] = {}
        """Of statements whose outcome is open, or which are not folded yet."""
        self._written: dict[Transaction, WriteSet] = {}
        """Of transactions whose outcome is open."""
        self._undone: dict[Transaction, Places] = {}
        """Of large transactions whose write has failed, and who are about to be told: what they leave if they go."""
        self._slots: dict[Index, dict[Slot, None]] = {}
        self._stale: dict[Slot, None] = {}
        """Slots kept only for read views."""
        self._altering: Transaction | None = None
        """The transaction whose system trigger is running."""

    @property
    def has_versions(self) -> bool:
        return bool(self._readers.by_txn or self._writes or self._slots)

    # -- reading

    def find(self, txn: Transaction | None, index: Index, key: SortKey) -> bytes | None:
        found = self.peek(txn, index, key)
        if txn is not None and txn.state is TxnState.INPROGRESS:
            reads = self._readers.of(txn)
            if found is not None:
                reads.tuples.setdefault(index.definition.space_id, set()).add(found)
            else:
                reads.add_point(index, key)
        return found

    def peek(self, txn: Transaction | None, index: Index, key: SortKey) -> bytes | None:
        found = _visible(index.find(key), txn)
        if found is None or txn is None or txn.state is not TxnState.CONFLICTED:
            return found
        primary = self._changed_primary(txn, index)
        return found if primary is None or _is_row(txn, primary, found) else None

    def scan(self, txn: Transaction | None, index: Index, iterator: int, key: list[Any]) -> Iterator[bytes]:
        entries = index.scan(iterator, key)
        if txn is None or txn.state is not TxnState.INPROGRESS:
            found = _visible_of(entries, txn)
            primary = self._changed_primary(txn, index) if txn and txn.state is TxnState.CONFLICTED else None
            return found if primary is None else filter(partial(_is_row, txn, primary), found)
        place, reads = Range(index, iterator, key), self._readers.of(txn)
        reads.ranges.append(place)
        return _tracked(entries, txn, place, reads.tuples.setdefault(index.definition.space_id, set()))

    def _changed_primary(self, txn: Transaction, index: Index) -> Index | None:
        """For a secondary index of a space that a transaction in conflict has changed: the primary one.

        Such a transaction goes on reading, and under another secondary key there may be what others have made of a row
        meanwhile that it has changed itself: that row is the one which its primary key shows.
        """
        written = self._written.get(txn) if index.iid else None
        if written is None:
            return None
        space_id = index.definition.space_id
        return next(
            (other for other in written.indexes if not other.iid and other.definition.space_id == space_id), None
        )

    def select(
        self, txn: Transaction | None, index: Index, iterator: int, key: list[Any], offset: int, limit: int
    ) -> list[bytes]:
        if txn is None and index not in self._slots:
            return super().select(txn, index, iterator, key, offset, limit)
        return list(islice(self.scan(txn, index, iterator, key), offset, offset + limit))

    def count(self, txn: Transaction | None, index: Index, iterator: int, key: list[Any]) -> int:
        if txn is None and index not in self._slots:
            return super().count(txn, index, iterator, key)
        return sum(1 for _ in self.scan(txn, index, iterator, key))

    def least(self, txn: Transaction | None, index: Index, key: list[Any]) -> bytes | None:
        if txn is None and index not in self._slots:
            return super().least(txn, index, key)
        return next(self.scan(txn, index, IteratorType.EQ if key else IteratorType.GE, key), None)

    def greatest(self, txn: Transaction | None, index: Index, key: list[Any]) -> bytes | None:
        if txn is None and index not in self._slots:
            return super().greatest(txn, index, key)
        return next(self.scan(txn, index, IteratorType.REQ if key else IteratorType.LE, key), None)

    def size(self, txn: Transaction | None, index: Index) -> int:
        if txn is not None and txn.state is TxnState.CONFLICTED:
            return self.count(txn, index, IteratorType.ALL, [])
        hidden = sum(slot.visible(txn) is None for slot in self._slots.get(index, ()))
        return len(index) - hidden

    def random(self, txn: Transaction | None, index: Index, seed: int) -> bytes | None:
        return _visible(index.random(seed), txn)

    def read_view(self, space: Space) -> list[bytes]:
        primary = space.primary
        if primary is None:
            return []
        values = primary.values_list()
        if primary not in self._slots:
            return values
        prepared = (entry.prepared if type(entry) is Slot else entry for entry in values)
        return [value for value in prepared if value is not None]

    def value_of(self, entry: Any) -> bytes | None:
        return entry.prepared if type(entry) is Slot else entry

    def view_of(self, index: Index, cursor: Cursor) -> TupleView:
        return open_view(index, [(slot.key, slot.visible(None)) for slot in self._slots.get(index, ())], cursor)

    def _hidden(self, space: Space, primary: Index) -> Iterator[tuple[SortKey, bytes | None]]:
        for slot in self._slots.get(primary, ()):
            yield slot.key, slot.prepared

    # -- changing

    def _write(self, txn: Transaction, space: Space, statement: Statement, keys: list[SortKey]) -> None:
        new, reads = statement.new, self._readers.of(txn)
        written = self._written.get(txn)
        if written is None:
            written = self._written[txn] = WriteSet()
        if not statement.requires_old:
            written.is_blind = True
        self._writes[statement] = writes = []
        if new is not None:
            for index, key in zip(space.indexes.values(), keys, strict=True):
                if key is not None:
                    writes.append(self._put(txn, statement, index, key, new))
                    if index.is_unique and index.iid:
                        reads.add_point(index, key)
        self._hide_old(txn, statement, space, keys)

    def _hide_old(self, txn: Transaction, statement: Statement, space: Space, keys: list[SortKey]) -> None:
        """The tuple that the statement takes the place of is gone from the keys that the new one does not have."""
        if statement.old is None:
            return
        fields, writes = unpack(statement.old), self._writes[statement]
        for number, index in enumerate(space.indexes.values()):
            key = index.key_of(fields)
            if key is not None and (statement.new is None or keys[number] != key):
                writes.append(self._put(txn, statement, index, key, None))

    def _put(self, txn: Transaction, statement: Statement, index: Index, key: SortKey, value: bytes | None) -> Write:
        slot = index.find(key)
        if type(slot) is Slot:
            self._share(slot, txn)
        else:
            slot = Slot(index, key, slot)
            index.put(key, slot)
            self._slots.setdefault(index, {})[slot] = None
        self._written[txn].indexes[index] = None
        write = Write(slot, txn, statement, value)
        slot.add(write)
        return write

    def _share(self, slot: Slot, txn: Transaction) -> None:
        """A transaction is about to write to a slot; others may have done that."""
        for write in slot.writes:
            if write.txn is not txn:
                self._written[txn].share(slot, write.txn)
                if (other := self._written.get(write.txn)) is not None:
                    other.share(slot, txn)

    def undo(self, txn: Transaction, statement: Statement) -> None:
        writes = self._writes.pop(statement)
        written = self._written[txn]
        if len(txn.statements) < written.gathered:
            written.forget()
        for write in reversed(writes):
            write.slot.remove(write)
            self._fold(write.slot)
        if txn.psn:
            self._refresh_replaces(written, (write.slot for write in writes))

    def prepare_undo(self, commits: Sequence[Transaction | OneChange]) -> Iterator[None]:
        for txn in commits:
            if not isinstance(txn, Transaction) or len(txn.statements) < _MANY_COMPARED:
                continue
            places, statements = Places(), txn.statements
            for start in range(0, len(statements), _SLICE):
                places.add_undone(self._writes_of(statements[start : start + _SLICE]))
                yield
            self._undone[txn] = places

    def forget_undos(self) -> None:
        self._undone.clear()

    def undo_whole(self, txn: Transaction) -> bool:
        written, places = self._written.get(txn), self._undone.pop(txn, None)
        if written is None:
            return False
        if txn.psn:
            self._take_back(txn, written, places)
        if len(txn.statements) < _MANY:
            return False
        # Nobody sees any of it from now on.
        if txn.psn:
            self._refresh_replaces(written, written.shared)
        txn.run_rollback_hooks()
        self._fold_later(txn.statements, self._take_out)
        return True

    def _take_back(self, txn: Transaction, written: WriteSet, places: Places | None) -> None:
        """A prepared transaction is rolled back: whoever has seen it learns of that."""
        self._readers.break_views(txn.psn)
        tell_followers(txn, written.indexes, is_undo=True)
        if not self._readers.has_other(txn):
            if places is not None:
                self._let_go(places)
            return
        if len(txn.statements) < _MANY_COMPARED:
            for slot in self._slots_of(txn):
                self._readers.compare(txn, slot, slot.last_of(txn), slot.below(txn))
            return
        if places is None:
            places = Places()
            places.add_undone(self._writes_of(txn.statements))
        self._readers.compare_places(txn, places, partial(_is_back, txn))
        self._let_go(places)

    def _take_out(self, statement: Statement) -> None:
        """A statement of a transaction that was rolled back."""
        for write in self._writes.pop(statement, ()):
            slot = write.slot
            if write in slot.writes:
                slot.remove(write)
            self._fold(slot)

    def _refresh_replaces(self, written: WriteSet, slots: Iterable[Slot]) -> None:
        """Give replaces in progress another tuple to hide: the one prepared under their primary key has changed."""
        if not any(self._is_blind(rival) for rival in written.rivals):
            return
        for slot in [slot for slot in slots if not slot.index.iid]:
            for write in slot.first_in_progress():
                statement = write.statement
                if write.txn.read_view:  # it never commits, and goes on hiding what it sees
                    continue
                if not statement.requires_old and statement.old != slot.prepared:
                    self._refresh_old(write.txn, statement, slot.prepared)

    def _is_blind(self, txn: Transaction) -> bool:
        """Whether it is in progress and has replaced tuples without asking which."""
        written = self._written.get(txn)
        return written is not None and written.is_blind and not txn.psn and txn.state is not TxnState.ABORTED

    def _refresh_old(self, txn: Transaction, statement: Statement, old: bytes | None) -> None:
        space, writes = statement.space, self._writes[statement]
        assert space is not None
        assert statement.new is not None
        for write in [write for write in writes if write.value is None]:
            writes.remove(write)
            write.slot.remove(write)
            self._fold(write.slot)
        statement.old = old
        self._hide_old(txn, statement, space, keys_of(space, statement.new))

    # -- the life of a transaction

    def grows(self, txn: Transaction) -> None:
        written = self._written.get(txn)
        if written is None:
            return
        statements = txn.statements[written.gathered :]
        writes = list(self._writes_of(statements))
        written.gather(writes, len(txn.statements))
        # The collector would look at all of these again and again, and finds nothing: `_fold` ends the cycles.
        untrack(writes)
        untrack(write.slot for write in writes)
        untrack(write.slot.writes for write in writes)
        untrack(self._writes[statement] for statement in statements if statement in self._writes)

    def _writes_of(self, statements: list[Statement]) -> Iterator[Write]:
        for statement in statements:
            yield from self._writes.get(statement, ())

    def prepare(self, txn: Transaction) -> None:
        self._leave(txn)
        written = self._written.get(txn)
        if written is None:
            return
        tell_followers(txn, written.indexes, is_undo=False)
        if self._readers.has_other(txn):
            self._break_readers(txn, written)
        self._refresh_replaces(written, written.shared)

    def _break_readers(self, txn: Transaction, written: WriteSet) -> None:
        """Others have read what a transaction changes that is being prepared."""
        if len(txn.statements) < _MANY_COMPARED:
            slots: Iterable[Slot] = self._slots_of(txn)
        else:
            written.gather(self._writes_of(txn.statements[written.gathered :]), len(txn.statements))
            self._readers.compare_places(txn, written.places, partial(_is_put, txn))
            slots = [slot for slot in written.shared if slot.has_writes_of(txn)] if written.is_overtaken else ()
        for slot in slots:
            if not self._readers.has_other(txn):
                break
            self._readers.compare(txn, slot, slot.below(txn), slot.last_of(txn))

    def _slots_of(self, txn: Transaction) -> Iterable[Slot]:
        return {write.slot: None for write in self._writes_of(txn.statements)}

    def commit(self, txn: Transaction) -> None:
        written = self._written.pop(txn, None)
        if written is None:
            return
        self._let_go(written.places)
        if len(txn.statements) < _MANY:
            for statement in txn.statements:
                self._fold_writes(statement)
        else:
            self._fold_later(txn.statements, self._fold_writes)

    def _fold_writes(self, statement: Statement) -> None:
        for write in self._writes.pop(statement, ()):
            self._fold(write.slot)

    def forget(self, txn: Transaction) -> None:
        self._leave(txn)
        written = self._written.pop(txn, None)
        if written is not None:
            self._let_go(written.places)

    @contextmanager
    def alteration(self, txn: Transaction) -> Iterator[None]:
        before, self._altering = self._altering, txn
        try:
            yield
        finally:
            self._altering = before

    def space_altered(self, space: Space) -> None:
        """The space has other indexes now: whoever has uncommitted changes in it cannot go on."""
        for txn in self._readers.by_txn:
            if txn is not self._altering and any(statement.space is space for statement in txn.statements):
                txn.state = TxnState.CONFLICTED

    def _leave(self, txn: Transaction) -> None:
        reads = self._readers.leave(txn)
        if reads is not None:
            self._let_go(reads)
        if txn.read_view and self._stale:
            stale = list(self._stale)
            if len(stale) < _MANY:
                for slot in stale:
                    self._fold(slot)
            else:
                self._fold_later(stale, self._fold)

    def _let_go(self, gathered: Places | ReadSet) -> None:
        """Free, in slices, sets of a transaction that are of no use any more."""
        containers = gathered.containers()
        if sum(map(len, containers)) >= _MANY:
            self.add_work(emptying(containers))

    def _fold_later(self, items: list[Any], fold: Callable[[Any], None]) -> None:
        """Fold many in slices."""
        done = 0

        def step() -> bool:
            nonlocal done
            part = items[done : done + _SLICE]
            done += _SLICE
            for item in part:
                fold(item)
            return done < len(items)

        self.add_work(step)

    def _fold(self, slot: Slot) -> None:
        """Let committed writes sink into the base, and the slot vanish when it has no writes left."""
        oldest_view, writes = self._readers.oldest_view, slot.in_order()
        while writes and writes[0].txn.state is TxnState.COMMITTED:
            if oldest_view and writes[0].txn.psn >= oldest_view:
                break
            slot.base = writes.pop(0).value
        if not writes:
            self._remove_slot(slot)
        elif all(write.txn.state is TxnState.COMMITTED for write in writes):
            self._stale[slot] = None

    def _remove_slot(self, slot: Slot) -> None:
        index = slot.index
        self._stale.pop(slot, None)
        slots = self._slots.get(index)
        if slots is None or slot not in slots:
            return
        del slots[slot]
        if not slots:
            del self._slots[index]
        if slot.base is None:
            index.remove(slot.key)
        else:
            index.put(slot.key, slot.base)


def _is_put(txn: Transaction, index: Index, key: SortKey) -> bool:
    """Whether there is a tuple under a key that had none. A later statement may have taken it away again."""
    slot = index.find(key)
    return type(slot) is Slot and slot.last_of(txn) is not None and slot.below(txn) is None


def _is_back(txn: Transaction, index: Index, key: SortKey) -> bool:
    """Whether a transaction that is rolled back has left no tuple under a key that has one without it."""
    slot = index.find(key)
    return type(slot) is Slot and slot.has_writes_of(txn) and slot.last_of(txn) is None and slot.below(txn) is not None


def _tracked(entries: Iterator[Any], txn: Transaction, place: Range, seen: set[bytes]) -> Iterator[bytes]:
    """The visible tuples of an iteration, noted as they are taken."""
    for found in _visible_of(entries, txn):
        seen.add(found)
        place.last = found
        yield found
    place.complete = True


def _visible(entry: Any, txn: Transaction | None) -> bytes | None:
    """The tuple that an index entry is to a reader."""
    return entry.visible(txn) if type(entry) is Slot else entry


def _is_row(txn: Transaction | None, primary: Index, found: bytes) -> bool:
    """Whether a tuple is what a reader finds by its primary key."""
    return _visible(primary.find(primary.key_of(unpack(found))), txn) == found


def _visible_of(entries: Iterator[Any], txn: Transaction | None) -> Iterator[bytes]:
    for entry in entries:
        value = entry.visible(txn) if type(entry) is Slot else entry
        if value is not None:
            yield value
