"""The container of BITSET: entries have numbers, which a separate structure finds.

```
entries     key -> entry            the tree of `OrderedIndex`; a key is (primary key, indexed value)
numbers     key -> number           the tree of those that the structure knows
placed      number -> entry         what searches read, since a tree of numbers is faster than one of keys
free        numbers                 of keys that are gone; the last one is used first, as Tarantool does
structure   ... -> numbers          bitmaps
```

Readers get numbers from the structure and look up their entries; versions, listeners and loads work as in other
indexes. Changes laid over the tree (`box.index.layered`) enter the structure when they are merged; a reader first
completes the merge.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterable
from typing import Any, ClassVar, Protocol

from box.data.json_path import follow
from box.data.keydef import KeyDef, SortKey
from box.index.base import Cursor, Entry, IndexDef
from box.index.iterator_type import IteratorType
from box.index.layered import GONE
from box.index.ordered import OrderedIndex
from box.index.own_trees import NumberTree, ObjectTree
from box.index.sliced_view import SLICE, SlicedView


class Search(Protocol):
    """The numbers that a search finds, in order."""

    def __len__(self) -> int:
        """Return the number of results."""

    def numbers(self, start: int, limit: int) -> list[int]:
        """Return up to `limit` numbers of the result, from the one at index `start` on; fewer only at the end."""

    def complete(self) -> None:
        """Find all numbers now, because the index is about to change."""


class PlacedIndex(OrderedIndex):
    """An index that is never unique and gives a number to each of its keys."""

    def __init__(
        self, definition: IndexDef, primary: KeyDef | None = None, *, space_name: str = "", engine: str = "memtx"
    ) -> None:
        super().__init__(definition, primary, space_name=space_name, engine=engine)
        assert primary is not None
        self._forget_places()
        part = definition.parts[0]
        self._field, self._path = part.fieldno, part.steps
        self._extract_primary = primary.extract
        self.key_of = self._key_of

    def _forget_places(self) -> None:
        self._numbers: Any = ObjectTree()
        self.placed: Any = NumberTree()
        self._free = array("L")
        self._next = 0
        """The first number that was never used: a tree takes long to count its keys."""

    def value_of(self, fields: list[Any]) -> Any:
        """Return the indexed value of a tuple."""
        value = fields[self._field]
        return follow(value, self._path) if self._path else value

    def _key_of(self, fields: list[Any]) -> SortKey:
        return self._extract_primary(fields), self.indexed(self.value_of(fields))

    # --- the structure ---

    @abstractmethod
    def indexed(self, value: Any) -> Any:
        """Return the form that a value has in keys. Raises an error if the value is wrong."""

    @abstractmethod
    def enter(self, number: int, indexed: Any) -> None:
        """Add a number to the structure, for an indexed value."""

    @abstractmethod
    def leave(self, number: int, indexed: Any) -> None:
        """Remove a number from the structure, for an indexed value."""

    def change(self, number: int, old: Any, new: Any) -> None:
        """Move a number from one indexed value to another."""
        self.leave(number, old)
        self.enter(number, new)

    @abstractmethod
    def search(self, kind: IteratorType, values: list[Any]) -> Search:
        """Start a search with an iterator type and a user's key. Raises the errors of `Index.cursor`."""

    @abstractmethod
    def search_again(self, kind: IteratorType, values: list[Any], last: int) -> Search:
        """Continue a search after the number `last`, after a change of the index."""

    @abstractmethod
    def start_anew(self) -> None:
        """Remove all numbers from the structure."""

    # --- changes ---

    def _place(self, key: SortKey, entry: Entry) -> None:
        free = self._free
        number = free[-1] if free else self._next
        if not self._numbers.insert(key, number):
            self.placed[self._numbers[key]] = entry
            return
        if free:
            free.pop()
        else:
            self._next += 1
        self.placed[number] = entry
        self.enter(number, key[1])

    def _displace(self, key: SortKey) -> None:
        number = self._numbers.pop(key, None)
        if number is not None:
            del self.placed[number]
            self._free.append(number)
            self.leave(number, key[1])

    def put(self, sort_key: SortKey, entry: Entry) -> None:
        super().put(sort_key, entry)
        self._place(sort_key, entry)

    def add(self, sort_key: SortKey, entry: Entry) -> bool:
        if not super().add(sort_key, entry):
            return False
        if not self.listeners:  # with listeners, `put` has placed it
            self._place(sort_key, entry)
        return True

    def replace(self, sort_key: SortKey, entry: Entry) -> Entry | None:
        old = super().replace(sort_key, entry)
        self._place(sort_key, entry)
        return old

    def remove(self, sort_key: SortKey) -> None:
        super().remove(sort_key)
        self._displace(sort_key)

    def move(self, old_key: SortKey, new_key: SortKey, entry: Entry) -> None:
        if self.is_layered:  # one of the keys may have no number, or the other one still have it
            super().move(old_key, new_key, entry)
            return
        OrderedIndex.remove(self, old_key)
        OrderedIndex.put(self, new_key, entry)
        number = self._numbers[new_key] = self._numbers.pop(old_key)
        self.placed[number] = entry
        self.change(number, old_key[1], new_key[1])

    def _merge_one(self, sort_key: SortKey, entry: Any) -> None:
        super()._merge_one(sort_key, entry)
        if entry is GONE:
            self._displace(sort_key)
        else:
            self._place(sort_key, entry)

    def clear(self) -> None:
        super().clear()
        self._forget_places()
        self.start_anew()

    def detach(self) -> list[Any]:
        trees = [*super().detach(), self._numbers, self.placed]
        self._forget_places()
        self.start_anew()
        return trees

    # --- reads ---

    def number_of(self, key: SortKey) -> int | None:
        """Return the number of a key that is in the structure."""
        found: int | None = self._numbers.get(key)
        return found

    def get(self, values: list[Any]) -> Entry | None:
        raise AssertionError("not unique")

    def cursor(self, iterator: int, values: list[Any]) -> PlacedCursor:
        kind = self.iterator_type(iterator)
        self.settle()
        return PlacedCursor(self, kind, values)

    def select(self, iterator: int, values: list[Any], offset: int, limit: int) -> list[Entry]:
        kind = self.iterator_type(iterator)
        self.settle()
        return self.entries_of(self.search(kind, values).numbers(offset, limit))

    def first_numbers(self, iterator: int, values: list[Any], limit: int) -> list[int]:
        """Return the numbers of the first tuples that `select` would find."""
        kind = self.iterator_type(iterator)
        self.settle()
        return self.search(kind, values).numbers(0, limit)

    def entries_of(self, numbers: list[int]) -> list[Entry]:
        """Return the entries of numbers that the structure knows, in a new list."""
        return list(map(self.placed.__getitem__, numbers))

    def count(self, iterator: int, values: list[Any]) -> int:
        kind = self.iterator_type(iterator)
        self.settle()
        search = self.search(kind, values)
        return self._size if kind is IteratorType.ALL else len(search)

    def min(self, values: list[Any]) -> Entry | None:
        raise self.unsupported_feature("min()")

    def max(self, values: list[Any]) -> Entry | None:
        raise self.unsupported_feature("max()")

    def random(self, seed: int) -> Entry | None:
        raise self.unsupported_feature("random()")


class PlacedCursor(Cursor):
    """A cursor over the results of a search. If the index has changed, `search_again` continues it."""

    __slots__ = ("_at", "_chunk", "_index", "_kind", "_last", "_values", "_version", "search")
    is_reverse: ClassVar[bool] = False

    def __init__(self, index: PlacedIndex, kind: IteratorType, values: list[Any]) -> None:
        self._index = index
        self._kind = kind
        self._values = values
        self.search = index.search(kind, values)
        self._version = index.version
        self._at = 0
        """The position in the search of the last chunk."""
        self._last = -1
        """The number of the last tuple that earlier chunks returned, or -1."""
        self._chunk: list[int] = []
        """The numbers of the last chunk."""

    def fetch(self, limit: int) -> list[Entry]:
        if self._chunk:
            self._at += len(self._chunk)
            self._last = self._chunk[-1]
        if self._version != self._index.version:
            self._go_on_anew()
        self._chunk = self.search.numbers(self._at, limit) if limit > 0 else []
        return self._index.entries_of(self._chunk)

    def _go_on_anew(self) -> None:
        self._index.settle()
        self.search = self._index.search_again(self._kind, self._values, self._last)
        self._version = self._index.version
        self._at = 0

    def rewind(self, used: int) -> None:
        del self._chunk[used:]

    def go_after_number(self, number: int) -> None:
        """Continue after the tuple that had this number, whether it is still there or not."""
        self._last = number
        self._go_on_anew()


class PlacedView(SlicedView):
    """The tuples of a search at the moment when the view is opened, read in slices while the index changes.

    When the entry of a number changes, a listener keeps the first former entry; a number that is used again stands for
    that one. `before` maps keys to entries that differ from those of the index, or to None for an absent tuple.
    """

    def __init__(
        self,
        index: PlacedIndex,
        before: Iterable[tuple[SortKey, bytes | None]] = (),
        cursor: PlacedCursor | None = None,
    ) -> None:
        index.settle()
        self._index = index
        self._search = cursor.search if cursor is not None else index.search(IteratorType.ALL, [])
        self._at = 0
        self._is_closed = False
        self._before: dict[int, bytes | None] = {}
        for key, entry in before:
            number = index.number_of(key)
            if number is not None:
                self._before[number] = entry
        index.listeners.append(self._changing)

    def _changing(self, key: SortKey, old: Entry | None, new: Entry | None) -> None:
        self._search.complete()
        number = self._index.number_of(key)
        if number is not None:
            self._before.setdefault(number, old)

    def take(self, limit: int = SLICE) -> list[bytes] | None:
        """Return the next tuples; see `TupleView.take`."""
        if self._is_closed:
            return None
        numbers = self._search.numbers(self._at, limit)
        self._at += len(numbers)
        if len(numbers) < limit:
            taken = self._entries(numbers)
            self.close()
            return taken
        return self._entries(numbers)

    def _entries(self, numbers: list[int]) -> list[bytes]:
        before = self._before
        if not before:
            return self._index.entries_of(numbers)
        placed = self._index.placed
        found = [before[number] if number in before else placed[number] for number in numbers]
        return [entry for entry in found if entry is not None]

    def close(self) -> None:
        """Release everything; safe to call again."""
        if not self._is_closed:
            self._is_closed = True
            self._index.listeners.remove(self._changing)
            self._before = {}
