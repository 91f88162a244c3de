"""The slots of all indexes, and their removal when all readers see the same again.

Committed writes sink into a slot's `base` once no read view needs what is below them. A slot without writes is replaced
by the bytes of its base. If there are many, that is done in slices.
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
"""The number of statements, or of slots, that are too many for one turn of the loop."""
SLICE: Final = 128
"""The number of items folded in one turn, which takes about a millisecond."""


class Slots:
    """The slots of all indexes. `add_work` accepts deferred steps, as that of `TupleStorage`."""

    def __init__(self, readers: Readers, add_work: Callable[[Callable[[], bool]], None]) -> None:
        self._readers = readers
        self._add_work = add_work
        self.by_index: dict[Index, dict[Slot, None]] = {}
        """The slots of each index."""
        self.stale: dict[Slot, None] = {}
        """Slots that are kept only for read views."""

    def make(self, index: Index, key: SortKey, base: bytes | None) -> Slot:
        """Replace an index entry, or none, by a new slot."""
        slot = Slot(index, key, base)
        index.put(key, slot)
        self.by_index.setdefault(index, {})[slot] = None
        return slot

    def fold(self, slot: Slot) -> None:
        """Let committed writes sink into the base, and remove the slot if it has no writes left."""
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
        """Fold the stale slots after a read view has ended."""
        stale = list(self.stale)
        if len(stale) < MANY:
            for slot in stale:
                self.fold(slot)
        else:
            self.fold_later(stale, self.fold)

    def fold_later(self, items: list[Any], fold: Callable[[Any], None]) -> None:
        """Call `fold` for many items, in slices."""
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
        """Remove all slots from the indexes, whatever the outcome of their writes, because no reader is left.

        Each step of the iterator is a turn of the loop. Slots refer to their indexes, which the garbage collector does
        not look into (`untracked`), so it would never free these cycles.
        """
        for slots in list(self.by_index.values()):
            for number, slot in enumerate(list(slots), 1):
                self._remove(slot)
                if number % SLICE == 0:
                    yield

    def let_go(self, gathered: Places | ReadSet) -> None:
        """Free, in slices, sets of a transaction that are no longer needed."""
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
