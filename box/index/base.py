"""The interface of all indexes.

An index maps sort keys (`box.data.keydef`) to entries. An entry is a tuple's bytes, or an object of the transaction
manager that holds its versions; the index never looks inside. A tuple has one key in most indexes, and any number of
keys in those with `has_many_keys`.

`version` grows with every change. A cursor that finds it unchanged may continue with what it has already read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final

from box.data.keydef import KeyDef, PartDef, SortKey, key_def_of
from box.errors import BoxError, ErrorCode, client_error
from box.index.iterator_type import IteratorType
from box.index.memory import TUPLE_COST, MemoryQuota, place_cost

Entry = Any
"""`bytes`, or a version chain of `box.txn.versions`; indexes do not look into it."""


_ITERATORS: Final = tuple(IteratorType)


@dataclass(frozen=True, slots=True)
class IndexDef:
    """The definition of an index: a row of `_index` with parsed parts."""

    space_id: int
    iid: int
    name: str
    type: str
    unique: bool
    parts: tuple[PartDef, ...]
    opts: dict[str, Any] = field(default_factory=dict)


class Cursor(ABC):
    """A scan that reads ahead in chunks.

    `fetch` returns the next entries in order, [] at the end. `rewind(used)` tells that only the first `used` entries of
    the last chunk were consumed: the next `fetch` starts just after them, in the index of that time.
    """

    __slots__ = ()

    @abstractmethod
    def fetch(self, limit: int) -> list[Entry]:
        """Return up to `limit` entries; fewer only at the end."""

    @abstractmethod
    def rewind(self, used: int) -> None:
        """Give back the entries of the last chunk, except for the first `used` ones."""

    def go_after(self, key: SortKey) -> None:
        """Continue after a key of the container, as if its entry had been the last one. Only for cursors in the order
        of the keys.
        """
        raise AssertionError("not in the order of the keys")

    def open_view(self, before: Iterable[tuple[SortKey, bytes | None]]) -> Any:
        """Open a view (`box.index.view.TupleView`) of the entries that this fresh cursor selects. Returns None if the
        cursor has no special kind of view; the caller then uses `box.index.view.open_view`.
        """
        return None


class Index(ABC):
    """The common base of indexes: definition, keys, error texts, scans by cursors."""

    FIRST_CHUNK = 16
    """The number of entries that a scan fetches first, because many callers stop early; later chunks grow."""
    MAX_CHUNK = 1024
    """The greatest number of entries that a scan fetches at once."""
    has_pages: ClassVar[bool] = False
    """An iteration can go on from a position: see `box.index.position`."""
    has_many_keys: ClassVar[bool] = False
    """True if a tuple may have no key or several keys, so that `keys_of` has to be called instead of `key_of`."""

    has_slots: ClassVar[bool] = False
    """The order of the entries follows from all earlier changes, also from refused ones (`box.index.slotted_hash`). So
    each change takes the general path, and is undone by itself."""

    effort: ClassVar[int] = 1
    """How much longer than a TREE's it takes to make a key and add it, for work that is cut into turns."""

    find: Callable[[SortKey], Entry | None]
    """Returns the entry of a full key, or None. It is the bound method of the tree or hash itself, for speed."""
    key_of: Callable[[list[Any]], SortKey]
    """Returns the full, unique key that a decoded tuple has in this index."""

    def __init__(
        self, definition: IndexDef, primary: KeyDef | None = None, *, space_name: str = "", engine: str = "memtx"
    ) -> None:
        self.definition = definition
        self.space_name = space_name
        self.engine = engine
        self.key_def = key_def_of(definition.parts)
        self.primary = primary
        self.version = 0
        self.place_cost = place_cost(definition.parts, is_unique=definition.unique)
        """The estimated memory of one entry without its tuple, in bytes."""
        self.memory: MemoryQuota | None = None
        """In a primary index: the quota that is charged for its tuples and for their entries in all indexes of the
        space."""
        self.tuple_bytes = 0
        """In an index with a `memory`: the size of all tuples as MessagePack, in bytes."""
        self.weight = 0
        """In an index with a `memory`: the bytes charged for a tuple in addition to its MessagePack; see `weigh`."""

    @cached_property
    def position_def(self) -> KeyDef:
        """The parts of a position, which are those of a full key."""
        return self.key_def if self.primary is None else self.key_def.merge(self.primary)

    def key_of_position(self, values: list[Any]) -> SortKey:
        """Return the key in the index's container for the values of a position, which are checked already."""
        raise self.unsupported_feature("pagination")

    def values_of_place(self, raw: bytes, fields: list[Any], key: SortKey) -> list[Any]:
        """Return the values of the full key of a tuple that the container holds under `key`."""
        return self.position_def.extract_values(fields)

    def __repr__(self) -> str:
        return f"<{self.definition.type} index '{self.definition.name}' of '{self.space_name}', {len(self)} entries>"

    @property
    def iid(self) -> int:
        return self.definition.iid

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def is_followed(self) -> bool:
        """True if a view, an index build or a copy follows the changes of the index."""
        return False

    @property
    def is_unique(self) -> bool:
        return self.definition.unique

    def keys_of(self, raw: bytes, fields: list[Any]) -> Sequence[SortKey]:
        """Return the keys of a tuple without repetition; `fields` are the decoded `raw`.

        Raises:
            ClientError: FUNC_INDEX_FUNC, FUNC_INDEX_FORMAT, RTREE_RECT or FIELD_TYPE.
        """
        key = self.key_of(fields)
        return () if key is None else (key,)

    def prepare(self, tuples: list[bytes]) -> None:  # noqa: B027 - most kinds need no preparation
        """Prepare for calls of `keys_of` with these tuples, if that is cheaper for all of them together. Raises
        nothing.
        """

    def stored_keys(self, raw: bytes, fields: list[Any]) -> Sequence[SortKey]:
        """Return the keys of a tuple that is in the index. Raises nothing."""
        return self.keys_of(raw, fields)

    # --- the container ---

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def put(self, sort_key: SortKey, entry: Entry) -> None:
        """Set the entry of a key."""

    @abstractmethod
    def replace(self, sort_key: SortKey, entry: Entry) -> Entry | None:
        """Set the entry of a key and return the former one, or None. It costs as much as `find` and `put` together."""

    def add_new(self, sort_keys: list[SortKey], entries: list[Entry]) -> int:
        """Add entries until one of the keys has an entry already, as far as many at once are faster than `put`.

        Returns how many were added. After an exception none is added.
        """
        return 0

    def replace_present(self, sort_keys: list[SortKey], entries: list[Entry]) -> list[Entry] | None:
        """Set the entries of different keys that all have one, and return the former entries, if many at once are
        faster than `replace`. Otherwise return None, with nothing changed.
        """
        return None

    def replace_all(self, sort_keys: list[SortKey], entries: list[Entry]) -> None:
        """Set the entries of many keys in order; most of the keys have none."""
        for sort_key, entry in zip(sort_keys, entries, strict=True):
            self.replace(sort_key, entry)

    def set_many(self, changes: Iterable[tuple[SortKey, Entry | None]]) -> None:
        """Set the entries of many keys; None removes a key, and an absent one is ignored then."""
        for sort_key, entry in changes:
            if entry is None:
                self.remove(sort_key)
            else:
                self.replace(sort_key, entry)

    def move(self, old_key: SortKey, new_key: SortKey, entry: Entry) -> None:
        """Remove the key of a tuple, and set the entry of another key, that of the tuple that replaces it."""
        self.remove(old_key)
        self.put(new_key, entry)

    def exchange(self, old_keys: Sequence[SortKey], new_keys: Sequence[SortKey], entry: Entry) -> None:
        """Remove the keys of a tuple, and set the entry of the keys of the tuple that replaces it."""
        for key in old_keys:
            if key not in new_keys:
                self.remove(key)
        for key in new_keys:
            self.put(key, entry)

    def refuse(self, key: SortKey) -> None:  # noqa: B027 - most kinds have an order that does not depend on it
        """Note that a tuple with this key was refused by this index. Only with `has_slots`."""

    def undo_refused(self, old_key: SortKey | None, key: SortKey) -> None:  # noqa: B027
        """Note that a later index of the space has refused a tuple with this key, which was to replace the one with
        `old_key` (None: no tuple). Only with `has_slots`.
        """

    def add(self, sort_key: SortKey, entry: Entry) -> bool:
        """Set the entry of a key that has none. Returns False if it has one."""
        if self.find(sort_key) is not None:
            return False
        self.put(sort_key, entry)
        return True

    @abstractmethod
    def remove(self, sort_key: SortKey) -> None:
        """Remove a key; an absent one is ignored."""

    @abstractmethod
    def clear(self) -> None:
        """Remove everything."""

    @abstractmethod
    def values_list(self) -> list[Entry]:
        """Return all entries in order, as fast as the container can."""

    @abstractmethod
    def random(self, seed: int) -> Entry | None:
        """Return an entry chosen by `seed` and the contents; None if the index is empty."""

    def bsize(self) -> int:
        """Return the bytes that the index takes besides the tuples, estimated from the number of entries."""
        return self.place_cost * len(self)

    # --- memory ---

    def weigh(self, indexes: Iterable[Index]) -> None:
        """Reserve memory for a tuple's place in each of these indexes, which include this one; the amount reserved
        before is released.
        """
        weight = TUPLE_COST + sum([index.place_cost for index in indexes])
        if self.memory is not None:
            self.memory.room -= (weight - self.weight) * len(self)
        self.weight = weight

    def take_room(self, tuples: list[bytes]) -> None:
        """Reserve memory for tuples that enter the index without `put`."""
        if self.memory is not None:
            size = sum(map(len, tuples))
            self.tuple_bytes += size
            self.memory.room -= size + self.weight * len(tuples)

    def use_memory(self, memory: MemoryQuota) -> None:
        """Move the memory that the index takes to another quota."""
        size = self.tuple_bytes + self.weight * len(self)
        memory.room -= size
        if self.memory is not None:
            self.memory.room += size
        self.memory = memory

    # --- access by a user's key ---

    @abstractmethod
    def get(self, values: list[Any]) -> Entry | None:
        """Return the entry of a full key given by a user.

        Raises:
            ClientError: MORE_THAN_ONE_TUPLE for a non-unique index, EXACT_MATCH or KEY_PART_TYPE.
        """

    @abstractmethod
    def cursor(self, iterator: int, values: list[Any]) -> Cursor:
        """Return a cursor over the entries that an iterator type and a (partial) key select.

        Raises:
            ClientError: KEY_PART_COUNT, KEY_PART_TYPE, PARTIAL_KEY, UNSUPPORTED_INDEX_FEATURE or ILLEGAL_PARAMS.
        """

    def select(self, iterator: int, values: list[Any], offset: int, limit: int) -> list[Entry]:
        """Return at most `limit` entries of a scan after the first `offset`, in a new list. Raises the errors of
        `cursor`.
        """
        found = self.cursor(iterator, values).fetch(offset + limit)
        return found[offset:] if offset else found

    @abstractmethod
    def count(self, iterator: int, values: list[Any]) -> int:
        """Return the number of entries that `cursor` with these arguments would give."""

    def selector(self, iterator: int, values: list[Any]) -> Callable[[SortKey], bool] | None:
        """Return a function that tells whether an iteration selects a key. None if it selects all keys, or all between
        two bounds.
        """
        return None

    @abstractmethod
    def min(self, values: list[Any]) -> Entry | None:
        """Return the least entry whose key starts with `values`, or None."""

    @abstractmethod
    def max(self, values: list[Any]) -> Entry | None:
        """Return the greatest entry whose key starts with `values`, or None."""

    def cursor_after(self, iterator: int, values: list[Any], after: SortKey | None) -> Cursor:
        """Return a cursor over a page, which begins after `after`, a key of the container. None stands for the
        beginning.
        """
        raise self.unsupported_feature("pagination")

    def places(self, iterator: int, values: list[Any], after: SortKey | None = None) -> Iterator[tuple[SortKey, Entry]]:
        """Yield the keys and entries of a page."""
        raise self.unsupported_feature("pagination")

    def scan(self, iterator: int, values: list[Any]) -> Iterator[Entry]:
        """Yield entries one by one; the index may change between steps, and each step sees its current state."""
        return self._steps(self.cursor(iterator, values))

    def _steps(self, cursor: Cursor) -> Iterator[Entry]:
        limit = self.FIRST_CHUNK
        while chunk := cursor.fetch(limit):
            version = self.version
            limit = min(limit * 4, self.MAX_CHUNK)
            for used, entry in enumerate(chunk, 1):
                yield entry
                if self.version != version:
                    cursor.rewind(used)
                    limit = self.FIRST_CHUNK  # another change is likely, which would throw the rest away again
                    break

    def scan_chunks(self, iterator: int, values: list[Any], size: int = MAX_CHUNK) -> Iterator[list[Entry]]:
        """Yield lists of up to `size` entries. The index may change between lists; a list once given is not updated."""
        cursor = self.cursor(iterator, values)
        while chunk := cursor.fetch(size):
            yield chunk

    # --- errors ---

    def unsupported_feature(self, feature: str) -> BoxError:
        """Return the error `Index 'primary' (HASH) of space 'test' (memtx) does not support <feature>`."""
        definition = self.definition
        return client_error(
            ErrorCode.UNSUPPORTED_INDEX_FEATURE,
            definition.name,
            definition.type,
            self.space_name,
            self.engine,
            feature,
        )

    def iterator_type(self, iterator: int) -> IteratorType:
        """Check an iterator number that came from outside."""
        if 0 <= iterator < len(_ITERATORS):
            return _ITERATORS[iterator]
        raise client_error(ErrorCode.ILLEGAL_PARAMS, "Invalid iterator type")
