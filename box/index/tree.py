"""TREE: an ordered index.

Keys are unique in the tree, because every entry needs its own place:

    unique                    the key
    non-unique                the key, then the parts of the primary key that it lacks
    unique with nullable      the key, then all of the primary key if the key has a nil: nils never collide

A multikey index has an entry for every element of an array.

A partial key is a prefix p of such tuples; the keys that start with p are those in [p, p + (TOP,)). Keys of non-unique
indexes are one bytes object each where their parts allow it (`box.index.packed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from box.data.keydef import NIL_PART, TOP, KeyDef, PartDef, SortKey
from box.data.types import FieldType
from box.errors import ErrorCode, client_error
from box.index.base import Cursor, Entry, IndexDef
from box.index.iterator_type import REVERSE, IteratorType
from box.index.ordered import EVERYTHING, BackwardCursor, Bounds, ForwardCursor, OrderedIndex, PointCursor
from box.index.own_trees import NumberTree
from box.index.packed import after_all, is_packable, pack_parts, packer, packer_of_all

# Members of an enumeration are slow to look up.
_EQ: Final = IteratorType.EQ
_REQ: Final = IteratorType.REQ
_LT: Final = IteratorType.LT
_LE: Final = IteratorType.LE
_GE: Final = IteratorType.GE
_GT: Final = IteratorType.GT


class TreeIndex(OrderedIndex):
    """An ordered index."""

    has_pages = True

    def __init__(
        self, definition: IndexDef, primary: KeyDef | None = None, *, space_name: str = "", engine: str = "memtx"
    ) -> None:
        super().__init__(definition, primary, space_name=space_name, engine=engine)
        own, is_unique = self.key_def, definition.unique
        self.cmp_def = own if is_unique or primary is None else self._full_key(own, primary)
        nils_repeat = is_unique and own.is_nullable
        self._is_packed = not is_unique and is_packable(self.cmp_def)
        if self._is_packed:
            self.key_of = packer(self.cmp_def)
        else:
            self.key_of = _key_with_primary(own, primary) if nils_repeat and primary else self.cmp_def.extract
        self._is_bare = len(self.cmp_def) == 1 and not nils_repeat
        self._is_one_pair = len(own) == 1 and nils_repeat
        self._exact_parts = -1 if own.is_nullable else len(own)
        """The number of key parts that compiled code parses at once; -1 if such code does not exist for the key."""
        self._full_parts = len(own) if is_unique and not nils_repeat else -1
        part = self.cmp_def.parts[0]
        is_number = self._is_bare and part.type is FieldType.UNSIGNED and not part.is_nullable
        if is_number:
            self._use_tree(NumberTree())

    def _full_key(self, own: KeyDef, primary: KeyDef) -> KeyDef:
        """Return the parts of the keys that the tree of a non-unique index stores."""
        return own.merge(primary)

    # --- access by a user's key ---

    def get(self, values: list[Any]) -> Entry | None:
        if not self.definition.unique:
            raise client_error(ErrorCode.MORE_THAN_ONE_TUPLE)
        return self.find(self.key_def.parse(values, True))

    def cursor(self, iterator: int, values: list[Any]) -> Cursor:
        kind = self.iterator_type(iterator)
        if kind is _EQ and values and len(values) == self._full_parts:
            return PointCursor(self, self.key_def.parse(values, False))
        bounds = self.bounds(kind, values)
        if kind > _GT:
            raise self.unsupported_feature("requested iterator type")
        return BackwardCursor(self, bounds) if kind.is_reverse else ForwardCursor(self, bounds)

    def cursor_after(self, iterator: int, values: list[Any], after: SortKey | None) -> ForwardCursor | BackwardCursor:
        kind = self.iterator_type(iterator)
        bounds = self.bounds_after(kind, values, after)
        if kind > _GT:
            raise self.unsupported_feature("requested iterator type")
        return BackwardCursor(self, bounds) if kind.is_reverse else ForwardCursor(self, bounds)

    def places(self, iterator: int, values: list[Any], after: SortKey | None = None) -> Iterator[tuple[SortKey, Entry]]:
        return self._places(self.cursor_after(iterator, values, after))

    def _places(self, cursor: ForwardCursor | BackwardCursor) -> Iterator[tuple[SortKey, Entry]]:
        limit = self.FIRST_CHUNK
        while cursor.fetch(limit):
            pairs, version = cursor.pairs, self.version
            limit = min(limit * 4, self.MAX_CHUNK)
            for used, pair in enumerate(pairs, 1):
                yield pair
                if self.version != version:
                    cursor.rewind(used)
                    break

    def bounds_after(self, kind: IteratorType, values: list[Any], after: SortKey | None) -> Bounds:
        """Return what is left of a range after a key of the tree; None stands for the beginning.

        As in 2.11 the key alone is the new start, also where a GT or LT would begin later.
        """
        low, high, low_excluded, high_excluded = self.bounds(kind, values)
        if after is None:
            return low, high, low_excluded, high_excluded
        if kind.is_reverse:
            high, high_excluded = after, True
        else:
            low, low_excluded = after, True
        return low, high, low_excluded, high_excluded

    def key_of_position(self, values: list[Any]) -> SortKey:
        parts = self.position_def.parse_parts(values)
        own = len(self.key_def)
        if not self.definition.unique:
            return pack_parts(parts) if self._is_packed else parts if len(parts) > 1 else parts[0]
        key = parts[0] if own == 1 else parts[:own]
        if self._full_parts >= 0 or NIL_PART not in parts[:own] or self.primary is None:
            return key
        places = [_place_of(part, self.position_def) for part in self.primary.parts]
        tail = self.primary.parse([values[place] for place in places])
        return (*key, tail) if len(self.primary) == 1 else key + tail

    def select(self, iterator: int, values: list[Any], offset: int, limit: int) -> list[Entry]:
        kind = self.iterator_type(iterator)
        if kind is _EQ and values and len(values) == self._full_parts:
            entry = self.find(self.key_def.parse(values, False))
            return [] if entry is None or offset or limit < 1 else [entry]
        is_reverse = kind in REVERSE
        if kind > _GT or self._tree is not self._base or (is_reverse and offset + limit <= self.MAX_CHUNK):
            return super().select(iterator, values, offset, limit)
        bounds = self.bounds(kind, values) if values else ()
        if not is_reverse and offset <= self.MAX_CHUNK:
            return list(islice(self._tree.itervalues(*bounds), offset, offset + limit))
        found = self._tree.values(*bounds)
        if is_reverse:
            last = max(0, len(found) - offset)
            entries = list(found[max(0, last - limit) : last])
            entries.reverse()
            return entries
        # Slicing skips whole leaves, where `islice` would visit each entry before the offset.
        return list(found[offset : offset + limit])

    def _prefix(self, values: list[Any]) -> Any:
        """Check a key that is not empty. Returns it as a bare value or as a prefix of the tree's keys."""
        if self._is_bare:
            return self.key_def.parse(values, False)
        if len(values) == self._exact_parts:
            key = self.key_def.parse(values, False)
            parts = (key,) if self._exact_parts == 1 else key
        else:
            parts = self.key_def.parse_parts(values)
        if self._is_packed:
            return pack_parts(parts)
        return parts[0] if self._is_one_pair else parts

    def bounds(self, kind: IteratorType, values: list[Any]) -> Bounds:
        """Check a user's key. Returns the range of the tree that an iteration reads."""
        if not values:
            return EVERYTHING
        key = self._prefix(values)
        if kind is _GE:
            return key, None, False, False
        after = key if self._is_bare else after_all(key) if self._is_packed else (*key, TOP)
        # Then `after` is the first key without this prefix; a bare key ends at itself.
        is_behind = not self._is_bare
        if kind is _EQ or kind is _REQ:
            return key, after, False, is_behind
        if kind is _GT:
            return after, None, not is_behind, False
        if kind is _LE:
            return None, after, False, is_behind
        if kind is _LT:
            return None, key, False, True
        return key, None, False, False

    def count(self, iterator: int, values: list[Any]) -> int:
        kind = self.iterator_type(iterator)
        if kind is _EQ and values and len(values) == self._full_parts:
            return int(self.find(self.key_def.parse(values, False)) is not None)
        bounds = self.bounds(kind, values)
        if kind > _GT:
            raise self.unsupported_feature("requested iterator type")
        return len(self._tree.keys(*bounds)) if values and kind is not IteratorType.ALL else self._size

    def min(self, values: list[Any]) -> Entry | None:
        if not values and not self.is_layered:
            return self._tree[self._tree.minKey()] if self._size else None
        return next(iter(self.cursor(IteratorType.EQ if values else IteratorType.GE, values).fetch(1)), None)

    def max(self, values: list[Any]) -> Entry | None:
        if not values:
            return self._tree[self._tree.maxKey()] if self._size else None
        return next(iter(self.cursor(IteratorType.REQ, values).fetch(1)), None)


class SparseTreeIndex(TreeIndex):
    """A tree without the tuples that have nil in a part with `exclude_null` (see `has_nil`).

    The key of such a tuple is None, which every method ignores.
    """

    def __init__(
        self, definition: IndexDef, primary: KeyDef | None = None, *, space_name: str = "", engine: str = "memtx"
    ) -> None:
        super().__init__(definition, primary, space_name=space_name, engine=engine)
        key_of, excluded = self.key_of, excluded_fields(definition)
        self.key_of = lambda fields: None if has_nil(fields, excluded) else key_of(fields)

    def _read_from(self, tree: Any) -> None:
        super()._read_from(tree)
        get = tree.get
        self.find = lambda sort_key: None if sort_key is None else get(sort_key)

    def put(self, sort_key: SortKey, entry: Entry) -> None:
        if sort_key is not None:
            super().put(sort_key, entry)

    def add(self, sort_key: SortKey, entry: Entry) -> bool:
        return sort_key is None or super().add(sort_key, entry)

    def replace(self, sort_key: SortKey, entry: Entry) -> Entry | None:
        return None if sort_key is None else super().replace(sort_key, entry)

    def remove(self, sort_key: SortKey) -> None:
        if sort_key is not None:
            super().remove(sort_key)


class MultikeyTreeIndex(TreeIndex):
    """A tree with a key for every element of an array in the tuple, possibly none."""

    has_many_keys = True

    def __init__(
        self, definition: IndexDef, primary: KeyDef | None = None, *, space_name: str = "", engine: str = "memtx"
    ) -> None:
        super().__init__(definition, primary, space_name=space_name, engine=engine)
        own = self.key_def
        self._tail = _tail_of_nils(own, primary) if definition.unique and own.is_nullable and primary else None
        if self._is_packed:
            self._extract_all: Callable[[list[Any]], Sequence[SortKey]] = packer_of_all(self.cmp_def)
        else:
            self._extract_all = (self.cmp_def if self._tail is None else own).extract_all
        self._excluded = excluded_fields(definition)

    def keys_of(self, raw: bytes, fields: list[Any]) -> Sequence[SortKey]:
        if self._excluded and has_nil(fields, self._excluded):
            return ()
        keys, tail = self._extract_all(fields), self._tail
        return keys if tail is None else [tail(key, fields) for key in keys]

    def values_of_place(self, raw: bytes, fields: list[Any], key: SortKey) -> list[Any]:
        candidates = self.position_def.general.values_of_all(fields)
        return next(values for values in candidates if self.key_of_position(values) == key)


def excluded_fields(definition: IndexDef) -> list[int]:
    """Return the numbers of fields that keep a tuple out of the index when they are nil."""
    return [part.fieldno for part in definition.parts if part.exclude_null]


def has_nil(fields: list[Any], numbers: list[int]) -> bool:
    """Return whether one of these fields is present and nil.

    A missing field does not count as nil here, and the path of a part inside the field does not matter. Source:
    `index_filter_tuple_slow` of the 2.8 line.
    """
    count = len(fields)
    return any(number < count and fields[number] is None for number in numbers)


def _place_of(part: PartDef, definition: KeyDef) -> int:
    """Return the index of the part of `definition` that reads the same value as `part`."""
    return next(number for number, own in enumerate(definition.parts) if own.same_place(part))


def _key_with_primary(own: KeyDef, primary: KeyDef) -> Callable[[list[Any]], SortKey]:
    """Return the function that makes keys of a unique index with nullable parts: to a key with a nil it appends the
    primary key.
    """
    extract, tail = own.extract, _tail_of_nils(own, primary)
    return lambda fields: tail(extract(fields), fields)


def _tail_of_nils(own: KeyDef, primary: KeyDef) -> Callable[[SortKey, list[Any]], SortKey]:
    """Return the function that completes a key of a unique index with nullable parts from the tuple's fields."""
    extract_primary = primary.extract
    is_one_pair, is_bare_primary = len(own) == 1, len(primary) == 1

    def with_tail(key: SortKey, fields: list[Any]) -> SortKey:
        if key != NIL_PART if is_one_pair else NIL_PART not in key:
            return key
        tail = extract_primary(fields)
        return (*key, tail) if is_bare_primary else key + tail

    return with_tail
