"""HASH in the order of Tarantool: that of the slots of its table (`box.index.slot_table`).

```
entries    key -> entry             the tree of `OrderedIndex`, for look-ups, listeners and copies
table      slot -> key, entry       what iterations read
```

Changes take longer than those of a `HashIndex`. So an instance has this kind only if `LUNABOX_HASH_ORDER` is `slots`:
for tests whose results contain the order of tuples. Because of `Index.has_slots`, the indexes change statement by
statement, and learn of refused changes.

Source: `memtx_hash.c` of the 2.8 line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from box.data.key_hash import key_hasher
from box.data.keydef import SortKey
from box.index.base import Cursor, Entry
from box.index.frozen import FrozenIndex
from box.index.hash import HashIndex
from box.index.iterator_type import IteratorType
from box.index.ordered import OrderedIndex, PointCursor
from box.index.slot_table import SlotTable
from box.index.view import ListView


class SlottedHashIndex(HashIndex):
    """A unique index with the order of Tarantool's."""

    has_slots: ClassVar[bool] = True

    def _use_tree(self, tree: Any) -> None:
        super()._use_tree(tree)
        self.table = SlotTable(key_hasher(self.definition.parts))
        self.insert = self._insert

    def _insert(self, sort_key: SortKey, entry: Entry) -> int:
        """Add an entry during a load; see `OrderedIndex.insert`."""
        if not self._base.insert(sort_key, entry):
            return 0
        self.table.put(sort_key, entry)
        return 1

    # --- changes ---

    def put(self, sort_key: SortKey, entry: Entry) -> None:
        super().put(sort_key, entry)
        self.table.put(sort_key, entry)

    def add(self, sort_key: SortKey, entry: Entry) -> bool:
        if self.find(sort_key) is not None:
            return False
        self.put(sort_key, entry)
        return True

    def add_new(self, sort_keys: list[SortKey], entries: list[Entry]) -> int:
        return 0

    def replace_present(self, sort_keys: list[SortKey], entries: list[Entry]) -> None:
        return None

    def replace(self, sort_key: SortKey, entry: Entry) -> Entry | None:
        old = super().replace(sort_key, entry)
        self.table.put(sort_key, entry)
        return old

    def remove(self, sort_key: SortKey) -> None:
        super().remove(sort_key)
        self.table.remove(sort_key)

    def move(self, old_key: SortKey, new_key: SortKey, entry: Entry) -> None:
        self.put(new_key, entry)
        self.remove(old_key)

    def exchange(self, old_keys: Sequence[SortKey], new_keys: Sequence[SortKey], entry: Entry) -> None:
        for key in new_keys:
            self.put(key, entry)
        for key in old_keys:
            if key not in new_keys:
                self.remove(key)

    def clear(self) -> None:
        super().clear()
        self.table = SlotTable(key_hasher(self.definition.parts))

    def refuse(self, key: SortKey) -> None:
        """Move entries as a change does that ends with an error in this index.

        `key` is that of the refused tuple. Tarantool stores the tuple, removes it by its slot, and adds again what was
        there.
        """
        if self.table.slot_of(key) is None:
            self.table.try_key(key)
        else:
            self.table.add_again(key)
        self.version += 1

    def undo_refused(self, old_key: SortKey | None, key: SortKey) -> None:
        """Move entries as a change does that ends with an error in a later index of the space.

        In this index, Tarantool makes the change and then undoes it. `old_key` is that of the tuple to be replaced
        (None: no tuple), `key` that of the refused one.
        """
        if self.find(key) is not None:
            return
        self.table.put(key, key)
        if old_key is not None:
            old = self.find(old_key)
            self.table.remove(old_key)
            self.table.put(old_key, old)
        self.table.remove(key)
        self.version += 1

    def rearrange(self, entries: Iterable[tuple[SortKey, Entry]]) -> None:
        """Make the table anew; `entries` are those of the index, in the order in which they are added."""
        self.table = SlotTable(key_hasher(self.definition.parts))
        for key, entry in entries:
            self.table.put(key, entry)
        self.version += 1

    # --- reads ---

    def values_list(self) -> list[Entry]:
        return [entry for entry in self.table.entries if entry is not None]

    def cursor(self, iterator: int, values: list[Any]) -> Cursor:
        kind = self.iterator_type(iterator)
        key = self._checked_key(kind, values)
        if kind is IteratorType.ALL or (kind is IteratorType.GT and not values):
            return SlotCursor(self, 0, skips_one=False)
        if kind is IteratorType.EQ:
            return PointCursor(self, key)
        if kind is IteratorType.GT:
            slot = self.table.slot_of(key)
            return SlotCursor(self, _NO_SLOT if slot is None else slot, skips_one=True)
        raise self.unsupported_feature("requested iterator type")

    def select(self, iterator: int, values: list[Any], offset: int, limit: int) -> list[Entry]:
        if iterator == IteratorType.EQ:
            return super().select(iterator, values, offset, limit)
        return OrderedIndex.select(self, iterator, values, offset, limit)

    def random(self, seed: int) -> Entry | None:
        if not self._size:
            return None
        entries = self.table.entries
        slot = seed % len(entries)
        while entries[slot] is None:
            slot = (slot + 1) % len(entries)
        return entries[slot]


_NO_SLOT = 1 << 62
"""A slot that no table has."""


class SlotCursor(Cursor):
    """A cursor that remembers the next slot, as Tarantool's iterators do: a tuple that moves may come twice, or never.

    With `skips_one` the first tuple is left out.
    """

    __slots__ = ("_at", "_frozen", "_index", "_skips_one", "_slots", "_start")

    def __init__(self, index: SlottedHashIndex, at: int, *, skips_one: bool) -> None:
        self._index = index
        self._at = at
        self._skips_one = skips_one
        self._start = at, skips_one
        """Where the last chunk began."""
        self._slots: list[int] = []
        """The slots of the last chunk."""
        self._frozen: Iterator[Entry] | None = None

    def fetch(self, limit: int) -> list[Entry]:
        if self._frozen is not None:
            return [entry for _, entry in zip(range(limit), self._frozen, strict=False)]
        entries, at, skips_one = self._index.table.entries, self._at, self._skips_one
        self._start = at, skips_one
        found: list[Entry] = []
        slots: list[int] = []
        size = len(entries)
        while at < size and len(found) < limit:
            entry = entries[at]
            if entry is None:
                pass
            elif skips_one:
                skips_one = False
            else:
                found.append(entry)
                slots.append(at)
            at += 1
        # Free slots behind the last tuple may be taken before the next chunk.
        self._at, self._skips_one, self._slots = (slots[-1] + 1 if slots else at), skips_one, slots
        return found

    def rewind(self, used: int) -> None:
        if not used:
            self._at, self._skips_one = self._start
        elif used <= len(self._slots):
            self._at = self._slots[used - 1] + 1

    def _rest(self) -> list[tuple[SortKey, Entry]]:
        """Return the keys and entries that are still to come."""
        table = self._index.table
        slots = range(self._at, len(table.entries))
        rest = [(table.keys[slot], table.entries[slot]) for slot in slots if table.entries[slot] is not None]
        return rest[1:] if self._skips_one else rest

    def open_view(self, before: Iterable[tuple[SortKey, bytes | None]]) -> ListView:
        hidden = dict(before)
        found = (hidden.get(key, entry) for key, entry in self._rest())
        return ListView(entry for entry in found if entry is not None)

    def read_from(self, source: FrozenIndex) -> None:
        """Read what a frozen index has, from now on; in the order of the keys if nothing was read yet."""
        if self._at:
            found = (source.find(key) for key, _ in self._rest())
            self._frozen = iter([entry for entry in found if entry is not None])
        else:
            self._frozen = iter([entry for _, entry in source.items()])
