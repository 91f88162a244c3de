"""Versions of tuples: transactions that may yield and do not see each other (`memtx_use_mvcc_engine`).

An index entry is a tuple's bytes as long as everybody sees the same, and a `Slot` while there are several answers:

```
Slot    base        the committed value under all of them (None: no tuple)
        writes      committed, but a read view still needs what is below     ordered by psn
                    prepared: on the way to the log or in the limbo          ordered by psn
                    in progress                                              in any order, one sees only one's own
```

A write says what a key holds after a statement: a tuple, or None. A statement writes to the slot of every key that
it changes, in every index. The visible value is that of the newest write that the reader may see:

    its own                           always
    committed                         unless the reader is in a read view that is older
    prepared                          only to readers inside a transaction, because what they write comes later anyway

A transaction's reads are remembered: the tuples, and the places where it found none (single keys, ranges up to
the last key it has read). When a writer is prepared, every other open transaction that has read a value which
the writer replaced, or a place where it put something, goes to a read view just before the writer if it has written
nothing, and is aborted otherwise. Committed writes sink into `base` when no read view needs what is below, and a
slot without writes turns back into the bytes of its base.

Source: the peer's visibility rules (prepared data is visible in transactions, not outside); the version chain per key
instead of per tuple is this node's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final

from box.data.codec import unpack
from box.index import IteratorType, TreeIndex
from box.index.ordered import OrderedIndex
from box.index.view import open_view
from box.txn.storage import TupleStorage
from box.txn.transaction import TxnState

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.index import Cursor, Index
    from box.index.view import TupleView
    from box.schema.space import Space
    from box.txn.transaction import Statement, Transaction

_OPEN: Final = (TxnState.INPROGRESS, TxnState.IN_READ_VIEW)


class Write:
    """The value that one statement leaves in one slot."""

    __slots__ = ("committed", "psn", "slot", "txn", "value")

    def __init__(self, slot: Slot, txn: Transaction, value: bytes | None) -> None:
        self.slot = slot
        self.txn = txn
        self.value = value
        self.psn = 0
        self.committed = False

    def __repr__(self) -> str:
        state = "committed" if self.committed else "prepared" if self.psn else "in progress"
        return f"<write {self.value!r} {state} by {self.txn.id}>"


class Slot:
    """All answers to one key of one index."""

    __slots__ = ("base", "index", "key", "writes")

    def __init__(self, index: Index, key: SortKey, base: bytes | None) -> None:
        self.index = index
        self.key = key
        self.base = base
        self.writes: list[Write] = []

    def visible(self, txn: Transaction | None) -> bytes | None:
        """The value that a reader in this transaction, or outside of any, sees."""
        for write in reversed(self.writes):
            if txn is None:
                if write.committed:
                    return write.value
            elif write.txn is txn or (write.psn and (not txn.read_view or write.psn < txn.read_view)):
                return write.value
        return self.base

    @property
    def prepared(self) -> bytes | None:
        """The newest value that has its place in the order of commits."""
        for write in reversed(self.writes):
            if write.psn:
                return write.value
        return self.base

    def __repr__(self) -> str:
        return f"<slot {self.key!r} base {self.base!r} {self.writes}>"


class Range:
    """A part of an index that a transaction has read: from the start of an iteration to the last tuple it took."""

    __slots__ = ("complete", "index", "iterator", "last", "prefix")

    def __init__(self, index: Index, iterator: int, key: list[Any]) -> None:
        self.index = index
        self.iterator = iterator
        self.prefix = _prefix(index, key)
        self.last: bytes | None = None
        self.complete = False

    def covers(self, key: SortKey) -> bool:
        """True if a tuple that appears under this key would have been read."""
        if not self.complete and self.last is None:
            return False
        if not isinstance(self.index, TreeIndex):
            return True
        whole = _whole(self.index, key)
        if not self._matches(whole[: len(self.prefix)]):
            return False
        if self.complete:
            return True
        assert self.last is not None
        last = _whole(self.index, self.index.key_of(unpack(self.last)))
        return whole >= last if IteratorType(self.iterator).is_reverse else whole <= last

    def _matches(self, part: tuple[Any, ...]) -> bool:
        iterator, prefix = self.iterator, self.prefix
        if iterator in (IteratorType.EQ, IteratorType.REQ):
            return part == prefix
        if iterator in (IteratorType.GE, IteratorType.ALL):
            return part >= prefix
        if iterator == IteratorType.LE:
            return part <= prefix
        if not prefix:
            return True  # GT and LT without a key read everything
        return part > prefix if iterator == IteratorType.GT else part < prefix


def _is_bare(index: Index) -> bool:
    """True if a full key of a TREE index is a bare value and not a tuple (see `box.index.tree`)."""
    assert isinstance(index, TreeIndex)
    return len(index.cmp_def) == 1 and not (index.is_unique and index.key_def.is_nullable)


def _prefix(index: Index, key: list[Any]) -> tuple[Any, ...]:
    """A user's key as the beginning of the index's keys."""
    parts = index.key_def.parse_parts(key)
    is_one_pair = index.is_unique and index.key_def.is_nullable and len(index.key_def) == 1
    return parts[0] if is_one_pair and parts else parts


def _whole(index: Index, key: SortKey) -> tuple[Any, ...]:
    """A full key of a TREE index as a tuple of its parts."""
    return (key,) if _is_bare(index) else key


class ReadSet:
    """Everything that a transaction has read."""

    __slots__ = ("points", "ranges", "tuples")

    def __init__(self) -> None:
        self.tuples: dict[int, set[bytes]] = {}
        """By space id."""
        self.points: set[tuple[Index, SortKey]] = set()
        """Full keys under which there was nothing."""
        self.ranges: list[Range] = []

    def has_tuple(self, space_id: int, value: bytes) -> bool:
        return value in self.tuples.get(space_id, ())

    def has_place(self, index: Index, key: SortKey) -> bool:
        """True if nothing was found where now something is."""
        if (index, key) in self.points:
            return True
        return any(place.index is index and place.covers(key) for place in self.ranges)


class MvccStorage(TupleStorage):
    """Indexes with versions."""

    allows_yield: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._open: set[Transaction] = set()
        """Transactions that have read or written and are not prepared."""
        self._slots: dict[Index, set[Slot]] = {}
        self._stale: set[Slot] = set()
        """Slots kept only for read views."""
        self._altering: Transaction | None = None
        """The transaction whose system trigger is running."""

    # -- reading

    def find(self, txn: Transaction | None, index: Index, key: SortKey) -> bytes | None:
        found = self.peek(txn, index, key)
        if txn is not None and txn.state is TxnState.INPROGRESS:
            reads = self._reads(txn)
            if found is not None:
                reads.tuples.setdefault(index.definition.space_id, set()).add(found)
            else:
                reads.points.add((index, key))
        return found

    def peek(self, txn: Transaction | None, index: Index, key: SortKey) -> bytes | None:
        entry = index.find(key)
        return _visible(entry, txn)

    def scan(self, txn: Transaction | None, index: Index, iterator: int, key: list[Any]) -> Iterator[bytes]:
        entries = index.scan(iterator, key)
        if txn is None or txn.state is not TxnState.INPROGRESS:
            return _visible_of(entries, txn)
        place = Range(index, iterator, key)
        self._reads(txn).ranges.append(place)
        return self._tracked(entries, txn, place)

    def _tracked(self, entries: Iterator[Any], txn: Transaction, place: Range) -> Iterator[bytes]:
        assert txn.reads is not None
        seen = txn.reads.tuples.setdefault(place.index.definition.space_id, set())
        for found in _visible_of(entries, txn):
            seen.add(found)
            place.last = found
            yield found
        place.complete = True

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

    def _reads(self, txn: Transaction) -> ReadSet:
        if txn.reads is None:
            txn.reads = ReadSet()
            self._open.add(txn)
        return txn.reads

    # -- changing

    def _write(self, txn: Transaction, space: Space, statement: Statement, keys: list[SortKey]) -> None:
        old, new = statement.old, statement.new
        self._open.add(txn)
        statement.writes = writes = []
        indexes = list(space.indexes.values())
        if new is not None:
            writes += [self._put(txn, index, key, new) for index, key in zip(indexes, keys, strict=True)]
        if old is not None:
            fields = unpack(old)
            for number, index in enumerate(indexes):
                key = index.key_of(fields)
                if new is None or keys[number] != key:
                    writes.append(self._put(txn, index, key, None))

    def _put(self, txn: Transaction, index: Index, key: SortKey, value: bytes | None) -> Write:
        slot = index.find(key)
        if type(slot) is not Slot:
            slot = Slot(index, key, slot)
            index.put(key, slot)
            self._slots.setdefault(index, set()).add(slot)
        write = Write(slot, txn, value)
        slot.writes.append(write)
        if value is not None and index.is_unique and index.iid:
            self._reads(txn).points.add((index, key))
        return write

    def undo(self, txn: Transaction, statement: Statement) -> None:
        assert statement.writes is not None
        for write in reversed(statement.writes):
            slot = write.slot
            slot.writes.remove(write)
            if write.psn:
                self._break_readers(txn, slot, write.value, slot.prepared)
                self._break_views(write.psn)
            self._fold(slot)
        statement.writes = None

    def _break_views(self, psn: int) -> None:
        """A prepared change was rolled back: read views that include it show what never was."""
        for reader in self._open:
            if reader.read_view > psn:
                reader.state = TxnState.CONFLICTED

    # -- the life of a transaction

    def prepare(self, txn: Transaction) -> None:
        self._leave(txn)
        for statement in txn.statements:
            if statement.writes is not None:
                if statement.new is not None and not statement.requires_old:
                    self._refresh_old(txn, statement, statement.writes)
                self._prepare_writes(txn, statement.writes)

    def _prepare_writes(self, txn: Transaction, writes: list[Write]) -> None:
        for write in writes:
            slot = write.slot
            below = slot.prepared
            slot.writes.remove(write)
            place = sum(1 for other in slot.writes if other.psn)
            slot.writes.insert(place, write)
            write.psn = txn.psn
            self._break_readers(txn, slot, below, write.value)

    def _refresh_old(self, txn: Transaction, statement: Statement, writes: list[Write]) -> None:
        """A blind replace comes after another one that was prepared meanwhile: its secondary keys must go, too."""
        actual = writes[0].slot.prepared
        if actual == statement.old:
            return
        for write in [write for write in writes if write.value is None]:
            writes.remove(write)
            write.slot.writes.remove(write)
            self._fold(write.slot)
        statement.old = actual
        if actual is not None:
            fields = unpack(actual)
            for write in [write for write in writes if write.value is not None]:
                key = write.slot.index.key_of(fields)
                if key != write.slot.key:
                    writes.append(self._put(txn, write.slot.index, key, None))

    def _break_readers(self, writer: Transaction, slot: Slot, below: bytes | None, value: bytes | None) -> None:
        """`below` is no longer the newest value under the slot's key, `value` is."""
        index = slot.index
        if below is None and value is None:
            return
        if isinstance(index, OrderedIndex) and index.listeners:
            index.tell(slot.key, below, value)
        space_id = index.definition.space_id
        for reader in list(self._open):
            reads = reader.reads
            if reads is None or reader is writer or reader.state is not TxnState.INPROGRESS:
                continue
            if reads.has_tuple(space_id, below) if below is not None else reads.has_place(index, slot.key):
                self._break(writer, reader)

    def _break(self, writer: Transaction, reader: Transaction) -> None:
        if reader.statements or writer.state is TxnState.ABORTED:
            reader.state = TxnState.CONFLICTED
        else:
            reader.state = TxnState.IN_READ_VIEW
            reader.read_view = writer.psn

    def commit(self, txn: Transaction) -> None:
        for statement in txn.statements:
            for write in statement.writes or ():
                write.committed = True
                self._fold(write.slot)
            statement.writes = None

    def forget(self, txn: Transaction) -> None:
        self._leave(txn)

    @contextmanager
    def alteration(self, txn: Transaction) -> Iterator[None]:
        before, self._altering = self._altering, txn
        try:
            yield
        finally:
            self._altering = before

    def space_altered(self, space: Space) -> None:
        """The space has other indexes now: whoever has uncommitted changes in it cannot go on."""
        for txn in self._open:
            if txn is not self._altering and any(statement.space is space for statement in txn.statements):
                txn.state = TxnState.CONFLICTED

    def _leave(self, txn: Transaction) -> None:
        self._open.discard(txn)
        if txn.read_view:
            for slot in list(self._stale):
                self._fold(slot)

    def _fold(self, slot: Slot) -> None:
        """Let committed writes sink into the base, and the slot vanish when it has no writes left."""
        oldest_view = min((txn.read_view for txn in self._open if txn.read_view), default=0)
        writes = slot.writes
        while writes and writes[0].committed and (not oldest_view or writes[0].psn < oldest_view):
            slot.base = writes.pop(0).value
        if not writes:
            self._remove_slot(slot)
        elif all(write.committed for write in writes):
            self._stale.add(slot)

    def _remove_slot(self, slot: Slot) -> None:
        index = slot.index
        self._stale.discard(slot)
        slots = self._slots.get(index)
        if slots is None or slot not in slots:
            return
        slots.discard(slot)
        if not slots:
            del self._slots[index]
        if slot.base is None:
            index.remove(slot.key)
        else:
            index.put(slot.key, slot.base)


def _visible(entry: Any, txn: Transaction | None) -> bytes | None:
    """The tuple that an index entry is to a reader."""
    return entry.visible(txn) if type(entry) is Slot else entry


def _visible_of(entries: Iterator[Any], txn: Transaction | None) -> Iterator[bytes]:
    for entry in entries:
        value = entry.visible(txn) if type(entry) is Slot else entry
        if value is not None:
            yield value
