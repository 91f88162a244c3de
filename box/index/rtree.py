"""RTREE: rectangles and points of 1 to 20 dimensions.

```
B-tree      key -> entry        the tree of `OrderedIndex`, in the order of codes that keep neighbours together
pages       ranges of keys      and their bounding boxes, by which a search finds the keys to look at
```

Keys are those of `box.index.rtree_keys`, boxes and conditions those of `box.index.rtree_geometry`. The boxes are kept
by `box.index.rtree_pages`, and iterated by `box.index.rtree_search`. Since the B-tree holds everything, loads, views,
layers and releases are those of other indexes. Results come in the order of the codes, those of NEIGHBOR by distance
and then by code.

Source: `memtx_rtree.c` of the 2.8 line.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import islice
from typing import Any, Final

from box.data.keydef import KeyDef, SortKey
from box.data.types import FieldType, checker
from box.errors import ErrorCode, client_error
from box.index.base import Cursor, Entry, IndexDef
from box.index.iterator_type import IteratorType
from box.index.layered import GONE
from box.index.ordered import EVERYTHING, ForwardCursor
from box.index.rtree_columns import Box
from box.index.rtree_conditions import CONDITIONS, Selection, without_nan
from box.index.rtree_geometry import MAX_DIMENSION, geometry_of, read_rectangle
from box.index.rtree_keys import tail_of
from box.index.rtree_pages import PagedIndex, Pages

DEFAULT_DIMENSION: Final = 2
DEFAULT_DISTANCE: Final = "euclid"
_COST: Final = 117
"""The bytes of an entry without its coordinates."""
_COST_OF_PAIR: Final = 100
"""The bytes that are added where the primary key is an object of its own."""
_COST_OF_DIMENSION: Final = 25
"""The bytes of an entry for each dimension: a point has a number in the key and a part of the code, and after a read
also a number in its page.
"""
_KINDS: Final = frozenset({IteratorType.ALL, IteratorType.NEIGHBOR, *CONDITIONS})
_EQ: Final = int(IteratorType.EQ)
_ALL: Final = 1 << 62
"""More entries than any index has."""
_is_number: Final = checker(FieldType.NUMBER)


class RtreeIndex(PagedIndex):
    """An index of rectangles."""

    effort = 4

    def __init__(
        self, definition: IndexDef, primary: KeyDef | None = None, *, space_name: str = "", engine: str = "memtx"
    ) -> None:
        super().__init__(definition, primary, space_name=space_name, engine=engine)
        assert primary is not None
        self.dimension: int = definition.opts.get("dimension", DEFAULT_DIMENSION)
        if not 1 <= self.dimension <= MAX_DIMENSION:
            text = f"dimension ({self.dimension}): must belong to range [1, {MAX_DIMENSION}]"
            raise self.unsupported_feature(text)
        distance = definition.opts.get("distance", DEFAULT_DISTANCE).lower()
        self.geometry = geometry_of(self.dimension, distance, tail_of(primary))
        self.pages = Pages(self.geometry, self._base)
        pair = 0 if self.geometry.layout.tail.is_packed else _COST_OF_PAIR
        self.place_cost = _COST + _COST_OF_DIMENSION * self.dimension + pair
        part = definition.parts[0]
        self.key_of = self.geometry.layout.key_of(primary, part.fieldno, part.steps)

    # --- changes ---

    def put(self, sort_key: SortKey, entry: Entry) -> None:
        # As `OrderedIndex.put` does it, without the memory that only primary indexes count.
        if self.listeners:
            self._tell(sort_key, entry)
        if growth := self._tree.insert(sort_key, entry):
            self._size += 1
        else:
            self._tree[sort_key] = entry
        self.version += 1
        self.pages.put(sort_key, growth)

    def add(self, sort_key: SortKey, entry: Entry) -> bool:
        if not super().add(sort_key, entry):
            return False
        if not self.listeners:  # with listeners, `put` has reported the change
            self.pages.put(sort_key, 1)
        return True

    def replace(self, sort_key: SortKey, entry: Entry) -> Entry | None:
        old = super().replace(sort_key, entry)
        self.pages.put(sort_key, old is None)
        return old

    def remove(self, sort_key: SortKey) -> None:
        if self.listeners:
            self._tell(sort_key, None)
        if self._tree.pop(sort_key, None) is not None:
            self._size -= 1
            self.version += 1
            self.pages.remove(sort_key)

    def _merge_one(self, sort_key: SortKey, entry: Any) -> None:
        super()._merge_one(sort_key, entry)
        if entry is GONE:
            self.pages.remove(sort_key)
        else:
            self.pages.put(sort_key, 1)

    def clear(self) -> None:
        super().clear()
        self.pages.take_apart()
        self.pages.start_anew(self._base)

    def detach(self) -> list[Any]:
        trees = [*super().detach(), self.pages.take_apart()]
        self.pages.start_anew(self._base)
        return trees

    def follow_load(self, keys: list[SortKey]) -> None:
        self.pages.append(keys)

    def end_load(self, count: int) -> None:
        super().end_load(count)
        self.pages.finish()

    # --- reads ---

    def rectangle(self, kind: IteratorType, values: list[Any]) -> Box | None:
        """Return the rectangle of a user's key, given as numbers or as one array of them; None for ALL without a key.

        Raises:
            ClientError: KEY_PART_COUNT, KEY_PART_TYPE, RTREE_RECT, FIELD_TYPE or UNSUPPORTED_INDEX_FEATURE.
        """
        usual = self.geometry.usual_box(values) if len(values) > 1 else None
        if usual is not None and kind in _KINDS:
            return usual
        numbers = self._numbers(kind, values)
        if numbers is None:
            return None
        found = read_rectangle(numbers, self.dimension, "Key")
        if kind not in _KINDS:
            raise self.unsupported_feature("requested iterator type")
        return without_nan(kind, found)

    def _numbers(self, kind: IteratorType, values: list[Any]) -> list[Any] | None:
        """Return the numbers of a user's key, or None without one; a number may still be one that no coordinate can
        have.
        """
        count, dimension = len(values), self.dimension
        if not count and kind is IteratorType.ALL:
            return None
        if count == 1:
            if type(values[0]) is not list:
                raise client_error(ErrorCode.KEY_PART_TYPE, 0, FieldType.ARRAY)
            values = values[0]
            if len(values) not in (dimension, 2 * dimension):
                raise client_error(ErrorCode.RTREE_RECT, "Key", dimension, 2 * dimension)
        elif count not in (dimension, 2 * dimension):
            raise client_error(ErrorCode.KEY_PART_COUNT, 2 * dimension, count)
        for number, value in enumerate(values):
            if not _is_number(value):
                raise client_error(ErrorCode.KEY_PART_TYPE, number if count > 1 else 0, FieldType.NUMBER)
        return values

    def get(self, values: list[Any]) -> Entry | None:
        raise client_error(ErrorCode.MORE_THAN_ONE_TUPLE)

    def _selection(self, kind: IteratorType) -> Selection:
        found = self.geometry.selection(kind)
        assert found is not None
        return found

    def cursor(self, iterator: int, values: list[Any]) -> Cursor:
        kind = self.iterator_type(iterator)
        return self._cursor(kind, self.rectangle(kind, values))

    def _cursor(self, kind: IteratorType, box: Box | None) -> Cursor:
        if box is None or kind is IteratorType.ALL:
            return ForwardCursor(self, EVERYTHING)
        if kind is IteratorType.NEIGHBOR:
            return self._cursors[0](self, box)
        point = box[: self.dimension]
        if kind is IteratorType.EQ and point == box[self.dimension :] and (keys := self.geometry.layout.equal(point)):
            return ForwardCursor(self, (*keys, False, True))  # the keys of one point are exactly those of a range
        return self._cursors[1](self, self._selection(kind), box)

    @cached_property
    def _cursors(self) -> tuple[Callable[..., Cursor], Callable[..., Cursor]]:
        """The cursors of NEIGHBOR and of other searches, imported at the first one: the first index of a process takes
        long enough to make.
        """
        from box.index.rtree_search import NeighborCursor, SpatialCursor

        return NeighborCursor, SpatialCursor

    def select(self, iterator: int, values: list[Any], offset: int, limit: int) -> list[Entry]:
        if iterator == _EQ and (equal := self._equal(values, offset + limit)) is not None:
            return equal[offset:] if offset else equal
        kind = self.iterator_type(iterator)
        box = self.rectangle(kind, values)
        if self.is_layered or kind is IteratorType.NEIGHBOR:
            ordered = self._cursor(kind, box).fetch(offset + limit)
            return ordered[offset:] if offset else ordered
        if box is None or kind is IteratorType.ALL:
            everything = self._tree.values()
            return list(everything[offset : offset + limit]) if offset else list(islice(everything, limit))
        wanted = offset + limit
        found: list[Entry] = []
        selection = self._selection(kind)
        places, pages = selection.places, self.pages
        for group, inside in pages.groups(selection, box):
            if inside is not None:
                found += islice(self._base.itervalues(*inside), wanted - len(found))
            for page in group:
                if len(found) >= wanted:
                    break
                if page.keys is None:
                    pages.read(page)
                if chosen := places(page, box):
                    found += map(pages.entries(page).__getitem__, chosen)
            if len(found) >= wanted:
                break
        return found[offset:wanted] if offset or len(found) > wanted else found

    def _equal(self, values: list[Any], limit: int) -> list[Entry] | None:
        """Return up to `limit` entries whose rectangle is the point that a user's key names, or None if only a general
        search finds them.
        """
        if self._tree is not self._base or len(values) < 2 or (wanted := self.geometry.layout.equal(values)) is None:
            return None
        first, end = wanted
        found: list[Entry] = []
        # Usually there are few, for which a search for the end of the range would take longer.
        for key, entry in self._base.iteritems(first):
            if not key < end or len(found) == limit:
                break
            found.append(entry)
        return found

    def count(self, iterator: int, values: list[Any]) -> int:
        if iterator == _EQ and (equal := self._equal(values, _ALL)) is not None:
            return len(equal)
        kind = self.iterator_type(iterator)
        if kind is IteratorType.ALL:
            self._numbers(kind, values)
            return self._size
        box = self.rectangle(kind, values)
        assert box is not None
        if kind is IteratorType.NEIGHBOR:
            return self._size
        if self.is_layered:
            return sum(map(len, self.scan_chunks(iterator, values)))
        pages = self.pages
        return self._selection(kind).count(pages.root, box, pages.read, self._base.keys)

    def selector(self, iterator: int, values: list[Any]) -> Callable[[SortKey], bool] | None:
        kind = self.iterator_type(iterator)
        selection, box = self.geometry.selection(kind), self.rectangle(kind, values)
        if selection is None or box is None:
            return None
        matches, selected = selection.matches, box
        return lambda key: matches(key, selected)

    def min(self, values: list[Any]) -> Entry | None:
        raise self.unsupported_feature("min()")

    def max(self, values: list[Any]) -> Entry | None:
        raise self.unsupported_feature("max()")

    def random(self, seed: int) -> Entry | None:
        raise self.unsupported_feature("random()")
