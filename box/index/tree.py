"""TREE: an ordered index over a B-tree in C (the `BTrees` package).

Which tree: QOBTree, whose keys are 64-bit unsigned numbers held without Python objects, for a unique index of
one unsigned part; OOBTree otherwise (a signed 64-bit tree would lack half the range of `integer`).

Keys are unique in the tree, as every entry needs its place:

    unique                    the key
    non-unique                the key, then the parts of the primary key that it lacks
    unique with nullable      the key, then all of the primary key where the key has a nil: nils never collide

A partial key is a prefix p of such tuples; the keys that start with p are those in [p, p + (TOP,)).

The iterators of a BTree break or skip when the tree changes, and it has none that goes backwards. So a cursor
remembers the last key it gave and seeks anew for each chunk; backwards it walks the leaves from right to
left with the help of the nodes' pickling state, which is their public, stable description.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from BTrees.OOBTree import OOBTree, OOBucket
from BTrees.QOBTree import QOBTree, QOBucket

from box.data.keydef import NIL_PART, TOP, KeyDef, SortKey
from box.data.types import FieldType
from box.errors import ErrorCode, client_error
from box.index.base import Cursor, Entry, Index, IndexDef, IteratorType

_Bounds = tuple[Any, Any, bool, bool]
"""(least, greatest, least excluded, greatest excluded); None is no bound."""

_BYTES_AN_ENTRY: Final = 16
"""Bytes that the peer's tree takes for a tuple: a pointer and a hint."""


class _PointCursor(Cursor):
    """At most one entry, found by its full key."""

    __slots__ = ("_find", "_key", "_spent")

    def __init__(self, find: Callable[[SortKey], Entry | None], key: SortKey) -> None:
        self._find = find
        self._key = key
        self._spent = False

    def fetch(self, limit: int) -> list[Entry]:
        if self._spent or limit < 1:
            return []
        self._spent = True
        entry = self._find(self._key)
        return [] if entry is None else [entry]

    def rewind(self, used: int) -> None:
        self._spent = self._spent and used > 0


class _ForwardCursor(Cursor):
    """Ascending: each chunk is a new range query that starts after the last key."""

    __slots__ = ("_bounds", "_index", "_pairs", "_start")

    def __init__(self, index: TreeIndex, bounds: _Bounds) -> None:
        self._index = index
        self._bounds = bounds
        self._start = bounds
        self._pairs: list[tuple[SortKey, Entry]] = []

    def fetch(self, limit: int) -> list[Entry]:
        self._start = self._bounds
        pairs = self._pairs = list(islice(self._index._tree.items(*self._bounds), limit))
        if not pairs:
            return []
        self._move(pairs[-1][0])
        return [entry for _, entry in pairs]

    def rewind(self, used: int) -> None:
        if used == 0:
            self._bounds = self._start
        elif used < len(self._pairs):
            self._move(self._pairs[used - 1][0])

    def _move(self, last: SortKey) -> None:
        _, high, _, high_excluded = self._bounds
        self._bounds = (last, high, True, high_excluded)


class _BackwardCursor(Cursor):
    """Descending: leaf after leaf, from a fresh descent whenever the index has changed."""

    __slots__ = ("_ahead", "_bounds", "_index", "_leaves", "_pairs", "_start", "_version")

    def __init__(self, index: TreeIndex, bounds: _Bounds) -> None:
        self._index = index
        self._bounds = bounds
        self._start = bounds
        self._pairs: list[tuple[SortKey, Entry]] = []
        self._seek()

    def _seek(self) -> None:
        self._version = self._index.version
        self._leaves = _leaves_backwards(self._index._tree, self._bounds[1])
        self._ahead: list[tuple[SortKey, Entry]] = []

    def fetch(self, limit: int) -> list[Entry]:
        if self._version != self._index.version:
            self._seek()
        ahead = self._ahead
        while len(ahead) < limit and (leaf := next(self._leaves, None)) is not None:
            found = list(leaf.items(*self._bounds))
            found.reverse()
            ahead += found
            if not found and self._is_below(leaf):
                break
        self._start = self._bounds
        pairs = self._pairs = ahead[:limit]
        del ahead[:limit]
        if pairs:
            self._move(pairs[-1][0])
        return [entry for _, entry in pairs]

    def _is_below(self, leaf: Any) -> bool:
        low = self._bounds[0]
        return low is not None and len(leaf) > 0 and bool(leaf.minKey() < low)

    def rewind(self, used: int) -> None:
        if used == 0:
            self._bounds = self._start
        elif used < len(self._pairs):
            self._move(self._pairs[used - 1][0])
        else:
            return
        self._seek()

    def _move(self, last: SortKey) -> None:
        low, _, low_excluded, _ = self._bounds
        self._bounds = (low, last, low_excluded, True)


def _children(node: Any) -> tuple[tuple[Any, ...], tuple[SortKey, ...]]:
    """The children of an inner node and the keys between them; none for a leaf, an empty tree or a tree of one leaf."""
    if isinstance(node, (OOBucket, QOBucket)):
        return (), ()
    state = node.__getstate__()
    if state is None or len(state) == 1:
        return (), ()
    return state[0][::2], state[0][1::2]


def _leaves_backwards(node: Any, high: SortKey | None) -> Iterator[Any]:
    """Leaves from the one that may hold `high` (None: the last one) to the first. Valid while the tree stands still."""
    nodes, keys = _children(node)
    if not nodes:
        yield node
        return
    last = len(keys) if high is None else bisect_right(keys, high)
    for child in reversed(nodes[: last + 1]):
        yield from _leaves_backwards(child, high)


class TreeIndex(Index):
    """An ordered index."""

    def __init__(
        self, definition: IndexDef, primary: KeyDef | None = None, *, space_name: str = "", engine: str = "memtx"
    ) -> None:
        super().__init__(definition, primary, space_name=space_name, engine=engine)
        own, is_unique = self.key_def, definition.unique
        self.cmp_def = own if is_unique or primary is None else own.merge(primary)
        nils_repeat = is_unique and own.is_nullable
        self.key_of = _key_with_primary(own, primary) if nils_repeat and primary else self.cmp_def.extract
        self._is_bare = len(self.cmp_def) == 1 and not nils_repeat
        self._is_one_pair = len(own) == 1 and nils_repeat
        self._full_parts = len(own) if is_unique and not nils_repeat else -1
        part = self.cmp_def.parts[0]
        is_number = self._is_bare and part.type is FieldType.UNSIGNED and not part.is_nullable
        self._tree: Any = QOBTree() if is_number else OOBTree()
        self._size = 0
        self.find = self._tree.get

    def __len__(self) -> int:
        return self._size

    def put(self, sort_key: SortKey, entry: Entry) -> None:
        if self._tree.insert(sort_key, entry):
            self._size += 1
        else:
            self._tree[sort_key] = entry
        self.version += 1

    def replace(self, sort_key: SortKey, entry: Entry) -> Entry | None:
        old = self.find(sort_key)
        self._tree[sort_key] = entry
        if old is None:
            self._size += 1
        self.version += 1
        return old

    def remove(self, sort_key: SortKey) -> None:
        try:
            del self._tree[sort_key]
        except KeyError:
            return
        self._size -= 1
        self.version += 1

    def clear(self) -> None:
        self._tree.clear()
        self._size = 0
        self.version += 1

    def load_sorted(self, pairs: Iterable[tuple[SortKey, Entry]]) -> None:
        self._tree.clear()
        self._tree.update(pairs if isinstance(pairs, list) else list(pairs))
        self._size = len(self._tree)
        self.version += 1

    def values_list(self) -> list[Entry]:
        return list(self._tree.values())

    def random(self, seed: int) -> Entry | None:
        node = self._tree
        while True:
            nodes, _ = _children(node)
            if not nodes:
                break
            seed, choice = divmod(seed, len(nodes))
            node = nodes[choice]
        values = list(node.values())
        return values[seed % len(values)] if values else None

    def bsize(self) -> int:
        return _BYTES_AN_ENTRY * self._size

    # --- access by a user's key ---

    def get(self, values: list[Any]) -> Entry | None:
        if not self.definition.unique:
            raise client_error(ErrorCode.MORE_THAN_ONE_TUPLE)
        return self.find(self.key_def.parse(values, True))

    def cursor(self, iterator: int, values: list[Any]) -> Cursor:
        kind = self.iterator_type(iterator)
        if kind is IteratorType.EQ and values and len(values) == self._full_parts:
            return _PointCursor(self.find, self.key_def.parse(values, False))
        prefix = self._prefix(values)
        if kind > IteratorType.GT:
            raise self.unsupported_feature("requested iterator type")
        bounds = self._bounds(kind, prefix) if values else (None, None, False, False)
        return _BackwardCursor(self, bounds) if kind.is_reverse else _ForwardCursor(self, bounds)

    def select(self, iterator: int, values: list[Any], offset: int, limit: int) -> list[Entry]:
        kind = self.iterator_type(iterator)
        if kind is IteratorType.EQ and values and len(values) == self._full_parts:
            entry = self.find(self.key_def.parse(values, False))
            return [] if entry is None or offset or limit < 1 else [entry]
        if kind > IteratorType.GT or (kind.is_reverse and offset + limit <= self.MAX_CHUNK):
            return super().select(iterator, values, offset, limit)
        prefix = self._prefix(values)
        found = self._tree.values(*(self._bounds(kind, prefix) if values else ()))
        if kind.is_reverse:
            last = max(0, len(found) - offset)
            entries = list(found[max(0, last - limit) : last])
            entries.reverse()
            return entries
        if offset > self.MAX_CHUNK:  # the leaves before it are counted, not their entries
            return list(found[offset : offset + limit])
        return list(islice(found, offset, offset + limit))

    def _prefix(self, values: list[Any]) -> Any:
        """The checked key as a bare value or as a prefix of the tree's keys."""
        if not values:
            return ()
        if self._is_bare:
            return self.key_def.parse(values, False)
        parts = self.key_def.parse_parts(values)
        return parts[0] if self._is_one_pair else parts

    def _bounds(self, kind: IteratorType, key: Any) -> _Bounds:
        after = key if self._is_bare else (*key, TOP)
        if kind in (IteratorType.EQ, IteratorType.REQ):
            return key, after, False, False
        if kind is IteratorType.GT:
            return after, None, True, False
        if kind is IteratorType.LE:
            return None, after, False, False
        if kind is IteratorType.LT:
            return None, key, False, True
        return key, None, False, False

    def count(self, iterator: int, values: list[Any]) -> int:
        kind = self.iterator_type(iterator)
        prefix = self._prefix(values)
        if kind > IteratorType.GT:
            raise self.unsupported_feature("requested iterator type")
        return len(self._tree.keys(*self._bounds(kind, prefix))) if values else self._size

    def min(self, values: list[Any]) -> Entry | None:
        if not values:
            return self._tree[self._tree.minKey()] if self._size else None
        return next(iter(self.cursor(IteratorType.EQ, values).fetch(1)), None)

    def max(self, values: list[Any]) -> Entry | None:
        if not values:
            return self._tree[self._tree.maxKey()] if self._size else None
        return next(iter(self.cursor(IteratorType.REQ, values).fetch(1)), None)


class SparseTreeIndex(TreeIndex):
    """A tree without the tuples whose field of a part with `exclude_null` is nil: their key is None, which every
    method ignores.

    A field that the tuple does not have is no nil here, and what a part's path leads to inside the field does not
    matter. Source: `index_filter_tuple_slow` of the 2.8 line.
    """

    def __init__(
        self, definition: IndexDef, primary: KeyDef | None = None, *, space_name: str = "", engine: str = "memtx"
    ) -> None:
        super().__init__(definition, primary, space_name=space_name, engine=engine)
        key_of = self.key_of
        excluded = [part.fieldno for part in definition.parts if part.exclude_null]
        get = self._tree.get

        def sparse_key_of(fields: list[Any]) -> SortKey:
            count = len(fields)
            return None if any(number < count and fields[number] is None for number in excluded) else key_of(fields)

        self.key_of = sparse_key_of
        self.find = lambda sort_key: None if sort_key is None else get(sort_key)

    def put(self, sort_key: SortKey, entry: Entry) -> None:
        if sort_key is not None:
            super().put(sort_key, entry)

    def replace(self, sort_key: SortKey, entry: Entry) -> Entry | None:
        return None if sort_key is None else super().replace(sort_key, entry)

    def remove(self, sort_key: SortKey) -> None:
        if sort_key is not None:
            super().remove(sort_key)

    def load_sorted(self, pairs: Iterable[tuple[SortKey, Entry]]) -> None:
        super().load_sorted([(key, entry) for key, entry in pairs if key is not None])


def _key_with_primary(own: KeyDef, primary: KeyDef) -> Callable[[list[Any]], SortKey]:
    """The key of a unique index with nullable parts: the primary key follows where a part is nil."""
    extract, extract_primary = own.extract, primary.extract
    is_one_pair, is_bare_primary = len(own) == 1, len(primary) == 1

    def key_of(fields: list[Any]) -> SortKey:
        key = extract(fields)
        if key != NIL_PART if is_one_pair else NIL_PART not in key:
            return key
        tail = extract_primary(fields)
        return (*key, tail) if is_bare_primary else key + tail

    return key_of
