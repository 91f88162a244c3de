"""Reads where tuples have versions, and the record of what transactions have read.

Recorded are the tuples, and the places without a tuple: single keys, and ranges up to the last key read. Readers
outside of transactions see what is committed; their reads are not recorded.

Entries of secondary indexes may not match what a transaction has changed itself: if the transaction is in conflict, and
while many of its replaces are behind (`box.txn.mvcc`). Then a tuple counts for it only if the transaction finds the
same tuple by its primary key, and what it has itself hidden under a secondary key is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from box.data.codec import unpack
from box.index import IteratorType
from box.index.frozen import FrozenIndex
from box.index.view import open_view
from box.txn.read_set import Range
from box.txn.readers import Readers
from box.txn.slots import Slots
from box.txn.storage import TupleStorage
from box.txn.transaction import INPROGRESS, Transaction, TxnState
from box.txn.versions import Slot

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.index import Cursor, Index
    from box.index.ordered import OrderedIndex
    from box.index.view import TupleView
    from box.schema.space import Space
    from box.txn.write_set import WriteSet


class VersionedReads(TupleStorage):
    """Reads from indexes whose tuples have versions; `box.txn.mvcc` adds the writes."""

    def __init__(self) -> None:
        super().__init__()
        self._readers = Readers()
        self._written: dict[Transaction, WriteSet] = {}
        """The writes of transactions whose outcome is open."""
        self._slots = Slots(self._readers, lambda step: self.add_work(step))
        self._behind: dict[Transaction, int] = {}
        """For each transaction with replaces that have to be adapted, the number of lists of slots that are not
        processed yet.
        """

    def may_go_to_view(self, txn: Transaction) -> None:
        self._readers.may_go_to_view(txn)

    def holds_versions(self, index: Index) -> bool:
        return index in self._slots.by_index

    def find(self, txn: Transaction | None, index: Index, key: SortKey) -> bytes | None:
        found = self.peek(txn, index, key)
        if txn is not None and txn.state is INPROGRESS:
            reads = self._readers.of(txn)
            if found is not None:
                reads.tuples.setdefault(index.definition.space_id, set()).add(found)
            else:
                reads.add_point(index, key)
        return found

    def peek(self, txn: Transaction | None, index: Index, key: SortKey) -> bytes | None:
        return self._seen(index.find(key), txn, index)

    def scan(self, txn: Transaction | None, index: Index, iterator: int, key: list[Any]) -> Iterator[bytes]:
        entries = index.scan(iterator, key)
        if txn is None or txn.state is not INPROGRESS:
            return self._seen_of(entries, txn, index)
        place, reads = Range(index, iterator, key), self._readers.of(txn)
        reads.ranges.append(place)
        seen = self._seen_of(entries, txn, index)
        return _tracked(seen, place, reads.tuples.setdefault(index.definition.space_id, set()))

    def places(
        self, txn: Transaction | None, index: Index, iterator: int, key: list[Any], after: SortKey | None
    ) -> Iterator[tuple[SortKey, bytes]]:
        seen = self._seen_places(index.places(iterator, key, after), txn, index)
        if txn is None or txn.state is not INPROGRESS:
            return seen
        place, reads = Range(index, iterator, key, after), self._readers.of(txn)
        reads.ranges.append(place)
        return _tracked_places(seen, place, reads.tuples.setdefault(index.definition.space_id, set()))

    def _seen_places(
        self, places: Iterator[tuple[SortKey, Any]], txn: Transaction | None, index: Index
    ) -> Iterator[tuple[SortKey, bytes]]:
        for key, entry in places:
            found = self._seen(entry, txn, index)
            if found is not None:
                yield key, found

    def _seen_of(self, entries: Iterator[Any], txn: Transaction | None, index: Index) -> Iterator[bytes]:
        """Return an iterator over the tuples that a reader sees in index entries."""
        if txn is None or not index.iid:
            return _visible_of(entries, txn)
        seen = (self._seen(entry, txn, index) for entry in entries)
        return (value for value in seen if value is not None)

    def _seen(self, entry: Any, txn: Transaction | None, index: Index) -> bytes | None:
        """Return the tuple that a reader sees in an index entry, or None."""
        primary = None if txn is None or not index.iid else self._deciding(txn, index)
        if primary is None:
            return _visible(entry, txn)
        found = entry.visible(txn, unhides=True) if type(entry) is Slot else entry
        if found is None or _visible(primary.find(primary.key_of(unpack(found))), txn) != found:
            return None
        return found

    def _deciding(self, txn: Transaction, index: Index) -> Index | None:
        """Return the primary index if it decides which tuples of a secondary one count, as described in the module."""
        if txn.state is not TxnState.CONFLICTED and txn not in self._behind:
            return None
        written = self._written.get(txn)
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
        if iterator == IteratorType.ALL:
            index.cursor(iterator, key)  # only checks the key, which ALL ignores
            key = []
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
        if txn is not None and (txn.state is TxnState.CONFLICTED or (index.iid and txn in self._behind)):
            return sum(1 for _ in self._seen_of(index.scan(IteratorType.ALL, []), txn, index))
        hidden = sum(slot.visible(txn) is None for slot in self._slots.by_index.get(index, ()))
        return len(index) - hidden

    def random(self, txn: Transaction | None, index: Index, seed: int) -> bytes | None:
        return self._seen(index.random(seed), txn, index)

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

    def freeze(self, index: OrderedIndex) -> FrozenIndex:
        return FrozenIndex(index, [(slot.key, slot.visible(None)) for slot in self._slots.by_index.get(index, ())])

    def _hidden(self, space: Space, primary: Index) -> Iterator[tuple[SortKey, bytes | None]]:
        for slot in self._slots.by_index.get(primary, ()):
            yield slot.key, slot.prepared


def _tracked(tuples: Iterator[bytes], place: Range, seen: set[bytes]) -> Iterator[bytes]:
    """Yield the tuples of an iteration, and record each as it is taken."""
    for found in tuples:
        seen.add(found)
        place.last = found
        yield found
    place.complete = True


def _tracked_places(
    places: Iterator[tuple[SortKey, bytes]], place: Range, seen: set[bytes]
) -> Iterator[tuple[SortKey, bytes]]:
    for key, found in places:
        seen.add(found)
        place.last = found
        yield key, found
    place.complete = True


def _visible(entry: Any, txn: Transaction | None) -> bytes | None:
    """Return the tuple that a reader sees in an index entry, or None."""
    return entry.visible(txn) if type(entry) is Slot else entry


def _visible_of(entries: Iterator[Any], txn: Transaction | None) -> Iterator[bytes]:
    """Yield the tuples that a reader sees in index entries."""
    for entry in entries:
        value = entry.visible(txn) if type(entry) is Slot else entry
        if value is not None:
            yield value
