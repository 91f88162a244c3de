"""Reads of transactions where tuples have versions, and the notes of them.

Remembered are the tuples, and the places where it found none (single keys, ranges up to the last
key it has read). Readers outside of transactions see what is committed, and leave no notes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from box.data.codec import unpack
from box.index import IteratorType
from box.index.view import open_view
from box.txn.read_set import Range
from box.txn.readers import Readers
from box.txn.slots import Slots
from box.txn.storage import TupleStorage
from box.txn.transaction import Transaction, TxnState
from box.txn.versions import Slot

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.index import Cursor, Index
    from box.index.view import TupleView
    from box.schema.space import Space
    from box.txn.write_set import WriteSet


class VersionedReads(TupleStorage):
    """Reading from indexes with versions; `box.txn.mvcc` writes to them."""

    def __init__(self) -> None:
        super().__init__()
        self._readers = Readers()
        self._written: dict[Transaction, WriteSet] = {}
        """Of transactions whose outcome is open."""
        self._slots = Slots(self._readers, lambda step: self.add_work(step))

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
        if txn is None and index not in self._slots.by_index:
            return super().select(txn, index, iterator, key, offset, limit)
        return list(islice(self.scan(txn, index, iterator, key), offset, offset + limit))

    def count(self, txn: Transaction | None, index: Index, iterator: int, key: list[Any]) -> int:
        if txn is None and index not in self._slots.by_index:
            return super().count(txn, index, iterator, key)
        return sum(1 for _ in self.scan(txn, index, iterator, key))

    def least(self, txn: Transaction | None, index: Index, key: list[Any]) -> bytes | None:
        if txn is None and index not in self._slots.by_index:
            return super().least(txn, index, key)
        return next(self.scan(txn, index, IteratorType.EQ if key else IteratorType.GE, key), None)

    def greatest(self, txn: Transaction | None, index: Index, key: list[Any]) -> bytes | None:
        if txn is None and index not in self._slots.by_index:
            return super().greatest(txn, index, key)
        return next(self.scan(txn, index, IteratorType.REQ if key else IteratorType.LE, key), None)

    def size(self, txn: Transaction | None, index: Index) -> int:
        if txn is not None and txn.state is TxnState.CONFLICTED:
            return self.count(txn, index, IteratorType.ALL, [])
        hidden = sum(slot.visible(txn) is None for slot in self._slots.by_index.get(index, ()))
        return len(index) - hidden

    def random(self, txn: Transaction | None, index: Index, seed: int) -> bytes | None:
        return _visible(index.random(seed), txn)

    def read_view(self, space: Space) -> list[bytes]:
        primary = space.primary
        if primary is None:
            return []
        values = primary.values_list()
        if primary not in self._slots.by_index:
            return values
        prepared = (entry.prepared if type(entry) is Slot else entry for entry in values)
        return [value for value in prepared if value is not None]

    def value_of(self, entry: Any) -> bytes | None:
        return entry.prepared if type(entry) is Slot else entry

    def view_of(self, index: Index, cursor: Cursor) -> TupleView:
        return open_view(
            index, [(slot.key, slot.visible(None)) for slot in self._slots.by_index.get(index, ())], cursor
        )

    def _hidden(self, space: Space, primary: Index) -> Iterator[tuple[SortKey, bytes | None]]:
        for slot in self._slots.by_index.get(primary, ()):
            yield slot.key, slot.prepared


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
