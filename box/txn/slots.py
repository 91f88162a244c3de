"""Slots of all indexes: which there are, and how they vanish when everybody sees the same again.

Committed writes sink into a slot's `base` when no read view needs what is below, and a slot without writes turns back
into the bytes of its base: in slices, when there are many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from box.slices import emptying
from box.txn.transaction import TxnState
from box.txn.versions import Slot

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.index import Index
    from box.txn.read_set import ReadSet
    from box.txn.readers import Readers
    from box.txn.write_set import Places

MANY: Final = 1024
"""Statements, or slots, that are too many for one turn."""
SLICE: Final = 128
"""So many are folded in a millisecond."""


class Slots:
    """`add_work` takes steps that can wait, as that of `TupleStorage`."""

    def __init__(self, readers: Readers, add_work: Callable[[Callable[[], bool]], None]) -> None:
        self._readers = readers
        self._add_work = add_work
        self.by_index: dict[Index, dict[Slot, None]] = {}
        self.stale: dict[Slot, None] = {}
        """Those that are kept only for read views."""

    def make(self, index: Index, key: SortKey, base: bytes | None) -> Slot:
        """Put a slot into the place of an entry, or of none."""
        slot = Slot(index, key, base)
        index.put(key, slot)
        self.by_index.setdefault(index, {})[slot] = None
        return slot

    def fold(self, slot: Slot) -> None:
        """Let committed writes sink into the base, and the slot vanish when it has no writes left."""
        oldest_view, writes = self._readers.oldest_view, slot.in_order()
        while writes and writes[0].txn.state is TxnState.COMMITTED:
            if oldest_view and writes[0].txn.psn >= oldest_view:
                break
            slot.sink()
        if not writes:
            self._remove(slot)
        elif all(write.txn.state is TxnState.COMMITTED for write in writes):
            self.stale[slot] = None

    def fold_stale(self) -> None:
        """A read view is over."""
        stale = list(self.stale)
        if len(stale) < MANY:
            for slot in stale:
                self.fold(slot)
        else:
            self.fold_later(stale, self.fold)

    def fold_later(self, items: list[Any], fold: Callable[[Any], None]) -> None:
        """Fold many in slices."""
        done = 0

        def step() -> bool:
            nonlocal done
            part = items[done : done + SLICE]
            done += SLICE
            for item in part:
                fold(item)
            return done < len(items)

        self._add_work(step)

    def abandon(self) -> Iterator[None]:
        """Take all out of the indexes, whatever becomes of their writes: nobody looks any more. Each step is a turn.

        They name their indexes, into which the collector of garbage does not look (`untracked`): it would never find
        any of this.
        """
        for slots in list(self.by_index.values()):
            for number, slot in enumerate(list(slots), 1):
                self._remove(slot)
                if number % SLICE == 0:
                    yield

    def let_go(self, gathered: Places | ReadSet) -> None:
        """Free, in slices, sets of a transaction that are of no use any more."""
        containers = gathered.containers()
        if sum(map(len, containers)) >= MANY:
            self._add_work(emptying(containers))

    def _remove(self, slot: Slot) -> None:
        index = slot.index
        self.stale.pop(slot, None)
        slots = self.by_index.get(index)
        if slots is None or slot not in slots:
            return
        del slots[slot]
        if not slots:
            del self.by_index[index]
        if slot.base is None:
            index.remove(slot.key)
        else:
            index.put(slot.key, slot.base)
