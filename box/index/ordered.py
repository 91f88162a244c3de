"""The container of TREE and HASH: entries in the order of their keys, in a B-tree in C (the `BTrees` package).

Full keys of one unsigned part use NumberTree, which holds 64-bit unsigned numbers without Python objects. All others
use ObjectTree (a signed 64-bit tree would lack half the range of `integer`). The cost of each operation depends only on
the depth of the tree, so that an index of any size grows without a pause, unlike Python's hash table.

The iterators of a BTree break or skip when the tree changes, and none goes backwards. Therefore a cursor remembers the
last key it returned and seeks anew for each chunk. Backwards it walks the leaves from right to left with the nodes'
pickling state, which is their public, stable description.

`listeners` are called just before every change. They are views, which keep the former entry (`box.index.view`), and
builds of other indexes, which repeat the change (`box.schema.ddl.build`). `followers` are called for entries whose
meaning changes without a new entry, as happens to versions when a transaction is prepared. Only builds need that, since
views keep what an entry meant when it was changed.

Many changes that take effect at one moment are laid over the tree (`box.index.layered`), and merged into it later:

```
          lay_over(changes)                    merge() ... False, or settle()
one tree -------------------> changes over it -------------------------------> one tree
```

Meanwhile readers see both layers. Listeners follow the tree itself: they are called when a change is merged, or when
its key is changed again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import compress, islice, takewhile
from typing import Any, ClassVar, Final

from box.data.keydef import KeyDef, SortKey
from box.index.base import Cursor, Entry, Index, IndexDef
from box.index.frozen import FrozenIndex, FrozenTree
from box.index.layered import GONE, LayeredTree
from box.index.memory import MemoryQuota
from box.index.own_trees import LEAVES, ObjectTree

Bounds = tuple[Any, Any, bool, bool]
"""(lower bound, upper bound, lower excluded, upper excluded); None means that there is no bound."""
EVERYTHING: Final[Bounds] = (None, None, False, False)

Listener = Callable[[SortKey, Entry | None, Entry | None], None]
"""`listener(key, old, new)` is called before the entry of a key changes; None stands for no entry. It must not fail."""
Follower = Callable[[Iterator[tuple[Entry | None, Entry | None]]], None]
"""`follower(changes)` gets pairs of the tuples before and after each change; it may consume them later. It must not
fail."""

_ALL: Final = 1 << 62
"""More entries than any index has."""


class OrderedIndex(Index):
    """An index on an ordered container. Subclasses define the keys and the allowed scans."""

    def __init__(
        self, definition: IndexDef, primary: KeyDef | None = None, *, space_name: str = "", engine: str = "memtx"
    ) -> None:
        super().__init__(definition, primary, space_name=space_name, engine=engine)
        self.listeners: list[Listener] = []
        self.followers: list[Follower] = []
        self._use_tree(ObjectTree())

    def _use_tree(self, tree: Any) -> None:
        self._base: Any = tree
        """The B-tree without the changes that lie over it and are not merged yet."""
        self._size = len(tree)
        self.insert: Callable[[SortKey, Entry], int] = tree.insert
        """Adds an entry while nothing else uses the index. Returns 0 if the key has an entry. Call `end_load` at the
        end."""
        self._read_from(tree)

    def _read_from(self, tree: Any) -> None:
        self._tree: Any = tree
        """The tree that readers see: the base, or a `LayeredTree` over it."""
        self.find = tree.get

    @property
    def tree(self) -> Any:
        """The B-tree without the changes laid over it; `detach` gives the index a new one."""
        return self._base

    def __len__(self) -> int:
        return self._size

    @property
    def is_followed(self) -> bool:
        return bool(self.listeners or self.followers)

    def put(self, sort_key: SortKey, entry: Entry) -> None:
        if self.listeners:
            self._tell(sort_key, entry)
        if self._tree.insert(sort_key, entry):
            self._size += 1
            if (memory := self.memory) is not None:
                size = len(entry)
                self.tuple_bytes += size
                memory.room -= size + self.weight
        elif self.memory is not None:
            self._exchange(self.memory, sort_key, self.find(sort_key), entry)
        else:
            self._tree[sort_key] = entry
        self.version += 1

    def _exchange(self, memory: MemoryQuota, sort_key: SortKey, old: Entry, entry: Entry) -> None:
        self._tree[sort_key] = entry
        if growth := len(entry) - len(old):
            self.tuple_bytes += growth
            memory.room -= growth

    def add(self, sort_key: SortKey, entry: Entry) -> bool:
        if self.listeners:
            return super().add(sort_key, entry)
        if not self._tree.insert(sort_key, entry):
            return False
        self._size += 1
        if (memory := self.memory) is not None:
            size = len(entry)
            self.tuple_bytes += size
            memory.room -= size + self.weight
        self.version += 1
        return True

    def add_new(self, sort_keys: list[SortKey], entries: list[Entry]) -> int:
        if self.listeners or self.is_layered:
            return 0
        try:
            count = sum(takewhile(bool, map(self.insert, sort_keys, entries)))
        except BaseException:
            for sort_key, entry in zip(sort_keys, entries, strict=True):
                if self.find(sort_key) is entry:
                    del self._base[sort_key]
            raise
        if count:
            self.take_room(entries[:count])
            self._size += count
            self.version += count
        return count

    def replace_present(self, sort_keys: list[SortKey], entries: list[Entry]) -> list[Entry] | None:
        if self.listeners or self.is_layered:
            return None
        changes = dict(zip(sort_keys, entries, strict=True))
        former: list[Any] = list(map(self.find, sort_keys))
        if len(changes) < len(former) or not all(former):
            return None
        try:
            self._base.update(changes)
        except BaseException:
            self._base.update(dict(zip(sort_keys, former, strict=True)))
            raise
        if self.memory is not None:
            growth = sum(map(len, entries)) - sum(map(len, former))
            self.tuple_bytes += growth
            self.memory.room -= growth
        self.version += len(former)
        return former

    def replace_all(self, sort_keys: list[SortKey], entries: list[Entry]) -> None:
        if self.listeners or self.is_layered:
            super().replace_all(sort_keys, entries)
            return
        added = list(map(self.insert, sort_keys, entries))
        count = sum(added)
        self.take_room(list(compress(entries, added)))
        self._size += count
        self.version += count
        if count < len(added):
            self.set_many((key, entry) for key, entry, new in zip(sort_keys, entries, added, strict=True) if not new)

    def set_many(self, changes: Iterable[tuple[SortKey, Entry | None]]) -> None:
        memory, tree, find = self.memory, self._tree, self.find
        if self.listeners or memory is None:
            super().set_many(changes)
            return
        growth = size = 0
        try:
            for sort_key, entry in changes:
                old = find(sort_key)
                if entry is not None:
                    tree[sort_key] = entry
                    size += len(entry)
                    growth += 1
                elif old is not None:
                    del tree[sort_key]
                if old is not None:
                    size -= len(old)
                    growth -= 1
        finally:
            self._size += growth
            self.tuple_bytes += size
            memory.room -= size + growth * self.weight
            self.version += 1

    def replace(self, sort_key: SortKey, entry: Entry) -> Entry | None:
        if self.listeners:
            self._tell(sort_key, entry)
        old = self.find(sort_key)
        self._tree[sort_key] = entry
        memory = self.memory
        if old is None:
            self._size += 1
            if memory is not None:
                size = len(entry)
                self.tuple_bytes += size
                memory.room -= size + self.weight
        elif memory is not None and (growth := len(entry) - len(old)):
            self.tuple_bytes += growth
            memory.room -= growth
        self.version += 1
        return old

    def remove(self, sort_key: SortKey) -> None:
        if self.listeners:
            self._tell(sort_key, None)
        memory = self.memory
        if memory is None:
            try:
                del self._tree[sort_key]
            except KeyError:
                return
        else:
            old = self._tree.pop(sort_key, None)
            if old is None:
                return
            size = len(old)
            self.tuple_bytes -= size
            memory.room += size + self.weight
        self._size -= 1
        self.version += 1

    def _tell(self, sort_key: SortKey, new: Entry | None) -> None:
        # Listeners know the base. So a change that lies over this key is merged, and told, before the next one.
        if self.is_layered and (laid := self._tree.over.pop(sort_key, None)) is not None:
            self._merge_one(sort_key, laid)
        old = self.find(sort_key)
        if old is not None or new is not None:
            self.tell(sort_key, old, new)

    def tell(self, sort_key: SortKey, old: Entry | None, new: Entry | None) -> None:
        """Call the listeners before the entry of a key changes from `old` to `new`."""
        for listener in tuple(self.listeners):
            listener(sort_key, old, new)

    # --- many changes at once ---

    @property
    def is_layered(self) -> bool:
        """True while changes that are not merged yet lie over the container."""
        return self._tree is not self._base

    def lay_over(self, changes: Any, growth: int, size: int = 0) -> None:
        """Make many changes at once. `changes` is a tree from keys to entries or GONE, which belongs to the index from
        now on.

        They add `growth` entries and, in a primary index, `size` bytes. No other changes may lie over the container;
        afterwards call `merge` until it returns False.
        """
        assert not self.is_layered
        if self.memory is not None:
            self.tuple_bytes += size
            self.memory.room -= size + growth * self.weight
        self._read_from(LayeredTree(self._base, changes, self.settle))
        self._size += growth
        self.version += 1

    def merge(self, limit: int) -> bool:
        """Merge at most `limit` of the changes. Returns False when none are left."""
        if not self.is_layered:
            return False
        over = self._tree.over
        laid = list(islice(over.items(), limit))
        for sort_key, entry in laid:
            self._merge_one(sort_key, entry)
            del over[sort_key]
        self.version += 1
        if over:
            return True
        self._read_from(self._base)
        return False

    def _merge_one(self, sort_key: SortKey, entry: Any) -> None:
        base, new = self._base, None if entry is GONE else entry
        if self.listeners:
            old = base.get(sort_key)
            if old is not None or new is not None:
                self.tell(sort_key, old, new)
        if new is None:
            base.pop(sort_key, None)
        else:
            base[sort_key] = new

    def settle(self) -> None:
        """Merge all changes at once."""
        while self.merge(_ALL):
            pass

    def clear(self) -> None:
        self._give_room_back()
        self._tree.clear()
        self._size = 0
        self.version += 1

    def _give_room_back(self) -> None:
        if self.memory is not None:
            self.memory.room += self.tuple_bytes + self.weight * self._size
            self.tuple_bytes = 0

    def follow_load(self, keys: list[SortKey]) -> None:
        """Note keys that a build from sorted entries has appended; `end_load` follows."""

    def end_load(self, count: int) -> None:
        """Count entries that were added by `insert` on the tree."""
        self._size += count
        self.version += 1

    def new_tree(self) -> Any:
        """Return an empty tree for keys of the same kind."""
        return type(self._base)()

    def values_list(self) -> list[Entry]:
        return list(self._tree.values())

    def nodes(self) -> Iterator[Any]:
        """Yield all nodes of the tree, which must not change meanwhile."""
        nodes = [self._base]
        while nodes:
            node = nodes.pop()
            nodes += children(node)[0]
            yield node

    def detach(self) -> list[Any]:
        """Empty the index at once. Returns the trees with its content, for `box.index.release`."""
        self.settle()
        self._give_room_back()
        tree = self._base
        self._use_tree(type(tree)())
        self.version += 1
        return [tree]

    def random(self, seed: int) -> Entry | None:
        node = self._tree
        while True:
            nodes, _ = children(node)
            if not nodes:
                break
            seed, choice = divmod(seed, len(nodes))  # the seed's digits, in base of each node's size, choose the way
            node = nodes[choice]
        values = list(node.values())
        return values[seed % len(values)] if values else None


class PointCursor(Cursor):
    """A cursor over at most one entry, found by its full key."""

    __slots__ = ("_index", "_key", "_spent")

    def __init__(self, index: Index, key: SortKey) -> None:
        self._index: Any = index
        self._key = key
        self._spent = False

    def fetch(self, limit: int) -> list[Entry]:
        if self._spent or limit < 1:
            return []
        self._spent = True
        entry = self._index.find(self._key)
        return [] if entry is None else [entry]

    def rewind(self, used: int) -> None:
        self._spent = self._spent and used > 0

    def go_after(self, key: SortKey) -> None:
        self._spent = True

    def read_from(self, source: FrozenIndex) -> None:
        """Read what a frozen index has, from now on."""
        self._index = source


class ForwardCursor(Cursor):
    """A cursor in ascending order: each chunk is a new range query that starts after the last key.

    `bounds` is the rest of the range, `pairs` the last chunk as (key, entry) pairs. With `reads_base` the cursor
    ignores changes laid over the container; listeners need that.
    """

    __slots__ = ("_index", "_start", "bounds", "pairs", "reads_base")
    is_reverse: ClassVar[bool] = False
    is_filtered: ClassVar[bool] = False
    """True if keys within the bounds may be unselected, so that each has to be checked with `selects`."""

    def __init__(self, index: OrderedIndex, bounds: Bounds) -> None:
        self._index: Any = index
        self.reads_base = False
        self.bounds = bounds
        self._start = bounds
        self.pairs: list[tuple[SortKey, Entry]] = []

    def fetch(self, limit: int) -> list[Entry]:
        self._start = self.bounds
        tree = self._index._base if self.reads_base else self._index._tree
        pairs = self.pairs = list(islice(tree.items(*self.bounds), limit))
        if not pairs:
            return []
        self._move(pairs[-1][0])
        return [entry for _, entry in pairs]

    def step(self, limit: int) -> bool:
        """Fetch up to `limit` entries into `pairs` within a short turn. Returns True at the end."""
        return len(self.fetch(limit)) < limit

    def selects(self, key: SortKey) -> bool:
        """Return whether a key within the bounds is selected."""
        return True

    def pass_over(self, limit: int) -> list[Entry]:
        """Fetch entries as a cursor with `reads_base` does, but much faster, because only the last key becomes an
        object.
        """
        base = self._index._base
        entries = list(islice(base.values(*self.bounds), limit))
        if entries:  # fetching `keys()[n]` would take time in proportion to the length of the index
            self._move(next(islice(base.keys(*self.bounds), len(entries) - 1, None)))
        return entries

    def rewind(self, used: int) -> None:
        if used == 0:
            self.bounds = self._start
        elif used < len(self.pairs):
            self._move(self.pairs[used - 1][0])

    def go_after(self, key: SortKey) -> None:
        self._move(key)

    def resume(self, bounds: Bounds) -> None:
        """Continue with other bounds."""
        self.bounds = bounds

    def read_from(self, source: FrozenIndex) -> None:
        """Read what a frozen index has, from now on."""
        self._index = source

    def _move(self, last: SortKey) -> None:
        _, high, _, high_excluded = self.bounds
        self.bounds = (last, high, True, high_excluded)


class BackwardCursor(Cursor):
    """A cursor in descending order: leaf after leaf, with a fresh descent whenever the index has changed.

    Its attributes are those of `ForwardCursor`.
    """

    __slots__ = ("_ahead", "_index", "_leaves", "_start", "_version", "bounds", "pairs", "reads_base")
    is_reverse: ClassVar[bool] = True
    is_filtered: ClassVar[bool] = False

    def __init__(self, index: OrderedIndex, bounds: Bounds) -> None:
        self._index: Any = index
        self.reads_base = False
        self.bounds = bounds
        self._start = bounds
        self.pairs: list[tuple[SortKey, Entry]] = []
        self._seek()

    def _seek(self) -> None:
        self._version = self._index.version
        tree = self._index._base if self.reads_base else self._index._tree
        self._leaves = leaves_backwards(tree, self.bounds[1])
        self._ahead: list[tuple[SortKey, Entry]] = []

    def fetch(self, limit: int) -> list[Entry]:
        if self._version != self._index.version:
            self._seek()
        ahead = self._ahead
        while len(ahead) < limit and (leaf := next(self._leaves, None)) is not None:
            found = list(leaf.items(*self.bounds))
            found.reverse()
            ahead += found
            # The first leaf may have nothing within the bounds because it lies above them.
            if not found and self._is_below(leaf):
                break
        self._start = self.bounds
        pairs = self.pairs = ahead[:limit]
        del ahead[:limit]
        if pairs:
            self._move(pairs[-1][0])
        return [entry for _, entry in pairs]

    def step(self, limit: int) -> bool:
        """Fetch up to `limit` entries; see `ForwardCursor.step`."""
        return len(self.fetch(limit)) < limit

    def selects(self, key: SortKey) -> bool:
        """Return True: every key within the bounds is selected."""
        return True

    def pass_over(self, limit: int) -> list[Entry]:
        """Fetch up to `limit` entries."""
        return self.fetch(limit)

    def _is_below(self, leaf: Any) -> bool:
        low = self.bounds[0]
        return low is not None and len(leaf) > 0 and bool(leaf.minKey() < low)

    def rewind(self, used: int) -> None:
        if used == 0:
            self.bounds = self._start
        elif used < len(self.pairs):
            self._move(self.pairs[used - 1][0])
        else:
            return
        self._seek()

    def go_after(self, key: SortKey) -> None:
        self._move(key)
        self._seek()

    def resume(self, bounds: Bounds) -> None:
        """Continue with other bounds."""
        self.bounds = bounds
        self._seek()

    def read_from(self, source: FrozenIndex) -> None:
        """Read what a frozen index has, from now on."""
        self._index = source
        self._seek()

    def _move(self, last: SortKey) -> None:
        low, _, low_excluded, _ = self.bounds
        self.bounds = (low, last, low_excluded, True)


def is_within(key: SortKey, bounds: Bounds) -> bool:
    """Return whether a key lies within the bounds of a scan."""
    low, high, low_excluded, high_excluded = bounds
    if low is not None and (key <= low if low_excluded else key < low):
        return False
    return high is None or bool(key < high if high_excluded else key <= high)


def children(node: Any) -> tuple[tuple[Any, ...], tuple[SortKey, ...]]:
    """Return the children of an inner node and the keys between them; two empty lists for a leaf, an empty tree or a
    tree of one leaf.
    """
    if isinstance(node, LEAVES):
        return (), ()
    # BTrees gives no other access to inner nodes: the first part of their state has children and keys in turn.
    state = node.__getstate__()
    if state is None or len(state) == 1:
        return (), ()
    return state[0][::2], state[0][1::2]


def leaves_backwards(node: Any, high: SortKey | None) -> Iterator[Any]:
    """Yield leaves from the one that may hold `high` (None: the last one) to the first; the tree must not change."""
    if isinstance(node, FrozenTree):
        yield from node.pieces(leaves_backwards(node.base, high))
        return
    nodes, keys = children(node)
    if not nodes:
        yield node
        return
    last = len(keys) if high is None else bisect_right(keys, high)
    for child in reversed(nodes[: last + 1]):
        yield from leaves_backwards(child, high)
