"""Transactions that have read, and their new states when what they have read changes.

```
event                                         a reader that has only read           a reader that has written
a writer prepared a change of what it read    goes to a read view before the writer  is in conflict
such a change was rolled back after it was    is in conflict                         is in conflict
read, or after the read view was taken
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from box.txn.read_set import ReadSet
from box.txn.transaction import INPROGRESS, TxnState

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.index import Index
    from box.txn.transaction import Transaction
    from box.txn.versions import Slot
    from box.txn.write_set import Places


class Readers:
    """Transactions that have read or written something and are not prepared yet, with the reads of each."""

    def __init__(self) -> None:
        self.by_txn: dict[Transaction, ReadSet] = {}
        """The reads of each transaction."""
        self._in_view: dict[Transaction, None] = {}
        """The transactions in a read view, and those that may enter one by themselves; the latter have a `read_view` of
        0 until then.
        """

    def of(self, txn: Transaction) -> ReadSet:
        """Return the reads of a transaction so far."""
        reads = self.by_txn.get(txn)
        if reads is None:
            reads = self.by_txn[txn] = ReadSet()
        return reads

    def leave(self, txn: Transaction) -> ReadSet | None:
        """Remove a transaction that is prepared or over, and return its reads."""
        self._in_view.pop(txn, None)
        return self.by_txn.pop(txn, None)

    @property
    def oldest_view(self) -> int:
        """The least psn that some read view does not show; 0 if there is no read view."""
        return min((txn.read_view for txn in self._in_view if txn.read_view), default=0)

    def may_go_to_view(self, txn: Transaction) -> None:
        """Note that a transaction may enter a read view when it reads, because it reads only confirmed data."""
        self._in_view[txn] = None

    def has_other(self, writer: Transaction) -> bool:
        """Return True if an open transaction other than the writer has read or written something."""
        return next(self._others(writer), None) is not None

    def _others(self, writer: Transaction) -> Iterator[tuple[Transaction, ReadSet]]:
        for reader, reads in self.by_txn.items():
            if reader is not writer and reader.state is INPROGRESS:
                yield reader, reads

    def compare(self, writer: Transaction, slot: Slot, below: bytes | None, value: bytes | None) -> None:
        """Break the readers of a slot: its newest value changes from `below` to `value`."""
        if below is None and value is None:
            return
        index = slot.index
        space_id = index.definition.space_id
        for reader, reads in self._others(writer):
            if reads.has_tuple(space_id, below) if below is not None else reads.has_place(index, slot.key):
                self._break(writer, reader)

    def compare_places(
        self, writer: Transaction, places: Places, has_changed: Callable[[Index, SortKey], bool]
    ) -> None:
        """Break the readers of what a large transaction changes, without looking at every slot."""
        for reader, reads in self._others(writer):
            if places.meet(reads, has_changed):
                self._break(writer, reader)

    def _break(self, writer: Transaction, reader: Transaction) -> None:
        """Put a reader into a read view before the writer, or into conflict."""
        if reader.count or writer.state is TxnState.ABORTED:
            reader.state = TxnState.CONFLICTED
        else:
            reader.state = TxnState.IN_READ_VIEW
            reader.read_view = writer.psn
            self._in_view[reader] = None

    def break_views(self, psn: int) -> None:
        """Put transactions into conflict whose read views show the change of a psn, because it was rolled back."""
        for reader in self._in_view:
            if reader.read_view > psn:
                reader.state = TxnState.CONFLICTED
