"""The table of slots of Tarantool's HASH indexes: linear hashing, with chains inside the table.

```
slot     0   1   2   3   4   5   6   7
record   a       e       c                a and e have the home 0: their chain begins in slot 0 and goes on in slot 2
free         1       3       5   6   7    a stack
```

- A record goes to its home, the slot that its hash names. If the chain of this home is there, the record takes the
  free slot on top, and comes second in the chain. If a record of another chain is there, it moves to the free slot on
  top.
- When no slot is free, the table grows by eight slots, and the chains of eight homes are split.
- When a record is removed, its slot becomes the free slot on top. The second record of a chain takes the place of the
  first one.

So the place of a record depends on all earlier changes. Source: `salad/light.h` of the 2.8 line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from box.data.keydef import SortKey
from box.index.base import Entry

STEP: Final = 8
"""The number of slots by which the table grows."""
_END: Final = -1
"""The next slot of the last record of a chain."""


class SlotTable:
    """Keys and entries in slots. An entry must not be None, which stands for a free slot in `entries`."""

    def __init__(self, hash_of: Callable[[SortKey], int]) -> None:
        self.entries: list[Entry | None] = []
        """The entries by slot."""
        self.keys: list[SortKey] = []
        """The keys by slot; those of free slots mean nothing."""
        self._hash_of = hash_of
        self._hashes: list[int] = []
        self._next: list[int] = []
        self._free: dict[int, None] = {}
        """The free slots; the last one is the top of the stack. A dictionary, because any of them may be taken."""
        self._slots: dict[SortKey, int] = {}
        self._mask = STEP - 1
        """The least power of two that is not below the size, less one."""

    def __len__(self) -> int:
        return len(self._slots)

    def slot_of(self, key: SortKey) -> int | None:
        """Return the slot of a key, or None."""
        return self._slots.get(key)

    def put(self, key: SortKey, entry: Entry) -> None:
        """Set the entry of a key, in its slot or in a new one."""
        slot = self._slots.get(key)
        if slot is None:
            self._add(key, self._hash_of(key), entry)
        else:
            self.entries[slot] = entry

    def add_again(self, key: SortKey) -> None:
        """Remove a key by its slot, and add it again with its entry."""
        slot = self._slots[key]
        number, entry = self._hashes[slot], self.entries[slot]
        self._remove_slot(slot)
        self._add(key, number, entry)

    def try_key(self, key: SortKey) -> None:
        """Add a key that is not there, and remove it by its slot."""
        self._remove_slot(self._add(key, self._hash_of(key), key))

    def remove(self, key: SortKey) -> None:
        """Remove a key; an absent one is ignored."""
        slot = self._slots.pop(key, None)
        if slot is None:
            return
        home, following = self._home(self._hashes[slot]), self._next[slot]
        if home != slot:
            self._next[self._before(home, slot)] = following
        elif following != _END:
            self._move(following, slot)
            slot = following
        self._set_free(slot)

    def _remove_slot(self, slot: int) -> None:
        """Remove the record of a slot. Unlike with `remove`, the next record always takes its place."""
        del self._slots[self.keys[slot]]
        home, following = self._home(self._hashes[slot]), self._next[slot]
        if following != _END:
            self._move(following, slot)
            slot = following
        elif home != slot:
            self._next[self._before(home, slot)] = _END
        self._set_free(slot)

    def _add(self, key: SortKey, number: int, entry: Entry) -> int:
        """Add a key that is not there, with its hash. Returns its slot."""
        if not self._free:
            self._grow()
        slot = self._home(number)
        if self.entries[slot] is None:
            del self._free[slot]
            following = _END
        else:
            home = self._home(self._hashes[slot])
            free, _ = self._free.popitem()
            if home == slot:
                following, self._next[slot] = self._next[slot], free
                slot = free
            else:
                before = self._before(home, slot)
                self._move(slot, free)
                self._next[before] = free
                following = _END
        self.keys[slot], self.entries[slot], self._hashes[slot], self._next[slot] = key, entry, number, following
        self._slots[key] = slot
        return slot

    def _home(self, number: int) -> int:
        """Return the slot in which the chain of a hash begins."""
        mask = self._mask
        slot = number & mask
        return slot if slot < len(self.entries) else slot ^ (mask + 1 >> 1)

    def _before(self, first: int, slot: int) -> int:
        """Return the slot before another one in the chain that begins at `first`."""
        following = self._next
        while following[first] != slot:
            first = following[first]
        return first

    def _chain(self, slot: int) -> Iterator[int]:
        """Yield the slots of the chain that begins at a slot."""
        while slot != _END:
            yield slot
            slot = self._next[slot]

    def _move(self, slot: int, other: int) -> None:
        """Copy a record to another slot."""
        key = self.keys[other] = self.keys[slot]
        self.entries[other] = self.entries[slot]
        self._hashes[other] = self._hashes[slot]
        self._next[other] = self._next[slot]
        self._slots[key] = other

    def _set_free(self, slot: int) -> None:
        self.keys[slot] = self.entries[slot] = None
        self._free[slot] = None

    def _grow(self) -> None:
        """Add free slots, and split the chains of the homes that get a second home among them."""
        size = len(self.entries)
        new = range(size, size + STEP)
        self.entries += [None] * STEP
        self.keys += [None] * STEP
        self._hashes += [0] * STEP
        self._next += [_END] * STEP
        if not size:
            self._free = dict.fromkeys(reversed(new))
            return
        if self._mask < size + STEP - 1:
            self._mask = self._mask << 1 | 1
        lower = self._mask >> 1
        for slot in new:
            self._free[self._split(slot & lower, slot, lower)] = None

    def _split(self, home: int, new: int, lower: int) -> int:
        """Move the records of a chain that belong to a new home there. Returns the slot that is free then.

        `lower` is the mask before the two homes were different ones.
        """
        if self.entries[home] is None or self._hashes[home] & lower != home:
            return new
        parts: dict[int, list[int]] = {new: [], home: []}
        for slot in self._chain(home):
            parts[self._hashes[slot] & self._mask].append(slot)
        free = new
        for first, slots in parts.items():
            if not slots:
                continue
            if slots[0] != first:
                self._move(slots[0], first)
                self.entries[slots[0]] = None
                free, slots[0] = slots[0], first
            for slot, following in zip(slots, [*slots[1:], _END], strict=True):
                self._next[slot] = following
        self.keys[free] = None
        return free
