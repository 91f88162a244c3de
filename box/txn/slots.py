"""The slots of all indexes, and their removal when all readers see the same value again.

A committed write becomes the slot's `base` once no read view needs the value before it. A slot without writes is
replaced by its base in the index. Many slots are removed in slices.
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
"""The number of items that are processed in one turn, which takes about a millisecond."""


class Slots:
    """The slots of all indexes. `add_work` accepts deferred steps; see `TupleStorage.add_work`."""

    def __init__(self, readers: Readers, add_work: Callable[[Callable[[], bool]], None]) -> None:
        self._readers = readers
        self._add_work = add_work
        self.by_index: dict[Index, dict[Slot, None]] = {}
        """The slots of each index."""
        self.stale: dict[Slot, None] = {}
        """Slots that are kept only for read views."""

    def make(self, index: Index, key: SortKey, base: bytes | None) -> Slot:
        """Put a new slot with the value `base` under a key of an index, in place of the entry there, if any."""
        slot = Slot(index, key, base)
        index.put(key, slot)
        self.by_index.setdefault(index, {})[slot] = None
        return slot

    def fold(self, slot: Slot) -> None:
        """Merge the committed writes of a slot into its base as far as no read view needs the older values; then remove
        a slot without writes.
        """
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
        """Fold the slots that were kept only for a read view, after a view has ended."""
        stale = list(self.stale)
        if len(stale) < MANY:
            for slot in stale:
                self.fold(slot)
        else:
            self.fold_later(stale, self.fold)

    def fold_later(self, items: list[Any], fold: Callable[[Any], None]) -> None:
        """Call `fold` for many items, some in each turn of the loop."""
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

        Each step of the iterator is a turn of the loop. Slots refer to their indexes, and the garbage collector does
        not look into indexes (`untracked`), so it would never free these cycles.
        """
        for slots in list(self.by_index.values()):
            for number, slot in enumerate(list(slots), 1):
                self._remove(slot)
                if number % SLICE == 0:
                    yield

    def let_go(self, gathered: Places | ReadSet) -> None:
        """Free sets of a transaction that are no longer needed, some elements in each turn."""
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
