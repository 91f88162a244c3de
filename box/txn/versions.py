"""Versions of one index entry: what each transaction finds under a key.

```
Slot    base        the committed value under all of them (None: no tuple)
        writes      committed, but a read view still needs what is below     ordered by psn
                    prepared: on the way to the log or in the limbo          ordered by psn
                    in progress                  those of one transaction in the order of its statements
```

The visible value is that of the newest write that the reader may see:

    its own                           always
    committed                         unless the reader is in a read view that is older
    prepared                          only to readers inside a transaction, because what they write comes later anyway
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.index import Index
    from box.txn.transaction import Statement, Transaction


class Write:
    """The value that one statement leaves in one slot. `number` orders the changes of a transaction."""

    __slots__ = ("committed", "number", "psn", "slot", "statement", "txn", "value")

    def __init__(self, slot: Slot, txn: Transaction, statement: Statement, value: bytes | None) -> None:
        self.number = statement.applied or txn.changes + 1
        self.slot = slot
        self.txn = txn
        self.statement = statement
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

    def add(self, write: Write) -> None:
        """Put a write behind those of earlier statements of its transaction, and before those of later ones."""
        if not write.statement.applied:
            self.writes.append(write)
            return
        later = (other for other in self.writes if other.txn is write.txn and other.number > write.number)
        first = next(later, None)
        self.writes.insert(len(self.writes) if first is None else self.writes.index(first), write)

    def remove(self, write: Write) -> None:
        """Take a write out, mostly the last one."""
        if self.writes[-1] is write:
            self.writes.pop()
        else:
            self.writes.remove(write)

    def prepare(self, own: list[Write], psn: int) -> None:
        """The writes of one transaction take their place in the order of commits: behind those that have one."""
        txn = own[0].txn
        for write in own:
            write.psn = psn
        others = [write for write in self.writes if write.txn is not txn]
        place = sum(1 for write in others if write.psn)
        self.writes = others[:place] + own + others[place:]

    def first_in_progress(self) -> list[Write]:
        """The first write of each transaction that is not prepared."""
        found: dict[Transaction, Write] = {}
        for write in self.writes:
            if not write.psn:
                found.setdefault(write.txn, write)
        return list(found.values())

    @property
    def prepared(self) -> bytes | None:
        """The newest value that has its place in the order of commits."""
        for write in reversed(self.writes):
            if write.psn:
                return write.value
        return self.base

    def __repr__(self) -> str:
        return f"<slot {self.key!r} base {self.base!r} {self.writes}>"
