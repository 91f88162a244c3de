"""The versions of one index entry: what each transaction finds under a key.

```
Slot    base        the committed value under all of them (None: no tuple)
        writes      committed, but a read view still needs what is below     ordered by psn
                    prepared: on the way to the log or in the limbo          ordered by psn
                    in progress                  those of one transaction in the order of its statements
```

A reader sees the value of the newest write that it may see:

    its own                           always
    committed                         unless the reader is in a read view that is older
    prepared                          only to readers inside a transaction, because what they write comes later anyway;
                                      one that reads what is confirmed goes to a read view before it
    rolled back, or taken back        never: it is still to be taken out

The state of a write is that of its transaction. So all writes of a transaction are committed, prepared or rolled back
at once, however many there are.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from box.index.memory import TUPLE_COST
from box.txn.isolation import Isolation
from box.txn.transaction import TxnState

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.index import Index
    from box.txn.transaction import Statement, Transaction

_COMMITTED: Final = TxnState.COMMITTED
_ABORTED: Final = TxnState.ABORTED
_READ_CONFIRMED: Final = Isolation.READ_CONFIRMED
_IN_PROGRESS: Final = sys.maxsize
"""The place of writes in progress: after all that are prepared."""


class Write:
    """The value that one statement leaves in one slot. `number` orders the changes of a transaction."""

    __slots__ = ("number", "slot", "statement", "txn", "value")

    def __init__(self, slot: Slot, txn: Transaction, statement: Statement, value: bytes | None) -> None:
        self.number = statement.applied or txn.changes + 1
        self.slot = slot
        self.txn = txn
        self.statement = statement
        self.value = value

    def __repr__(self) -> str:
        return f"<write {self.value!r} {self.txn.state.name} by {self.txn.id}>"


def _place(write: Write) -> int:
    """Return the sort key of a write: its place in the order of commits; writes in progress come last."""
    return write.txn.psn or _IN_PROGRESS


class Slot:
    """All values under one key of one index."""

    __slots__ = ("base", "index", "key", "memory", "size", "writes")

    def __init__(self, index: Index, key: SortKey, base: bytes | None) -> None:
        self.index = index
        self.key = key
        self.base = base
        self.size = 0 if base is None else len(base)
        """The bytes that a primary index counts for this entry. The slot itself counts the bytes of its writes."""
        self.memory = index.memory
        self.writes: list[Write] = []

    def __len__(self) -> int:
        return self.size

    def __bool__(self) -> bool:
        return True

    def visible(self, txn: Transaction | None, *, unhides: bool = False) -> bytes | None:
        """Return the value that a reader sees, either in a transaction or outside of any.

        `unhides`: ignore those None values that the transaction itself has written.
        """
        for write in reversed(self.in_order()):
            writer = write.txn
            if txn is None:
                is_seen = writer.state is _COMMITTED
            elif writer is txn:
                is_seen = not writer.is_taken_back and (not unhides or write.value is not None)
            else:
                is_placed = writer.psn and (not txn.read_view or writer.psn < txn.read_view)
                is_seen = bool(is_placed) and writer.state is not _ABORTED
                if is_seen and txn.isolation is _READ_CONFIRMED and writer.state is not _COMMITTED:
                    txn.pass_over(writer.psn)
                    is_seen = False
            if is_seen:
                return write.value
        return self.base

    def add(self, write: Write) -> None:
        """Put a write after those of earlier statements of its transaction, and before those of later ones."""
        if self.memory is not None and write.value is not None:
            self.memory.room -= len(write.value) + TUPLE_COST
        if not write.statement.applied:
            self.writes.append(write)
            return
        later = (other for other in self.writes if other.txn is write.txn and other.number > write.number)
        first = next(later, None)
        self.writes.insert(len(self.writes) if first is None else self.writes.index(first), write)

    def remove(self, write: Write) -> None:
        """Remove a write, which mostly is the last one."""
        self._give_room(write)
        if self.writes[-1] is write:
            self.writes.pop()
        else:
            self.writes.remove(write)

    def sink(self) -> None:
        """Make the first write the base."""
        write = self.writes.pop(0)
        self._give_room(write)
        self.base = write.value

    def _give_room(self, write: Write) -> None:
        """Return the memory of a write's value to the quota."""
        if self.memory is not None and write.value is not None:
            self.memory.room += len(write.value) + TUPLE_COST

    def in_order(self) -> list[Write]:
        """Return the writes in the order of the table in the module.

        They are sorted here, not when a transaction gets its place in the order of commits: a transaction that has
        written to ten thousand slots would need a tenth of a second for that.
        """
        if len(self.writes) > 1:
            self.writes.sort(key=_place)
        return self.writes

    def first_in_progress(self) -> list[Write]:
        """Return the first write of each transaction that is not prepared."""
        found: dict[Transaction, Write] = {}
        for write in self.writes:
            if not write.txn.psn and write.txn.state is not _ABORTED and not write.txn.is_taken_back:
                found.setdefault(write.txn, write)
        return list(found.values())

    @property
    def is_vacant(self) -> bool:
        """True if no tuple is here for what is prepared next, and none that a transaction in progress would leave."""
        return self.prepared is None and all(
            write.value is None or write.txn.psn or write.txn.is_taken_back or write.txn.state is _ABORTED
            for write in self.writes
        )

    @property
    def prepared(self) -> bytes | None:
        """Return the newest value that is committed or prepared."""
        return self.below(None)

    def below(self, txn: Transaction | None) -> bytes | None:
        """Return the newest committed or prepared value, ignoring the writes of one transaction."""
        for write in reversed(self.in_order()):
            writer = write.txn
            if writer.psn and writer is not txn and writer.state is not _ABORTED:
                return write.value
        return self.base

    def last_of(self, txn: Transaction) -> bytes | None:
        """Return the value that a transaction leaves here, or None if it leaves no tuple or has written nothing."""
        return next((write.value for write in reversed(self.writes) if write.txn is txn), None)

    def has_writes_of(self, txn: Transaction) -> bool:
        """Return True if a transaction has written here."""
        return any(write.txn is txn for write in self.writes)

    def __repr__(self) -> str:
        return f"<slot {self.key!r} base {self.base!r} {self.writes}>"
