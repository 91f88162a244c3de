"""Iterations of an R-tree, which go on while it changes, and views of its tuples by distance.

```
conditions    in the order of the keys: a cursor remembers the last one, and seeks its page anew for each chunk
NEIGHBOR      nodes and pages wait in a heap, by the distance of their boxes; the keys of pages that were opened wait in
              a list. What is nearer than all that waits in the heap is next.
```

A NEIGHBOR cursor begins again after a change, and leaves out what is not behind the last tuple that it gave.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice, takewhile
from math import inf
from operator import itemgetter
from typing import Any, ClassVar, Final, NamedTuple

from box.data.keydef import SortKey
from box.index.base import Cursor, Entry
from box.index.iterator_type import IteratorType
from box.index.layered import GONE
from box.index.ordered import EVERYTHING, Bounds, ForwardCursor
from box.index.rtree_columns import Box, in_order
from box.index.rtree_conditions import Selection
from box.index.rtree_pages import BoxNode, BoxPage, PagedIndex, key_range
from box.index.sliced_view import SLICE, SlicedView

_GROUPS_A_STEP: Final = 8
"""The number of page groups (of at most 32 pages each) that are searched in one turn, which takes a millisecond or two.
"""
_PAGES_A_STEP: Final = 2048
"""The number of pages whose distance is calculated in one turn."""
_FEW: Final = 32
"""Up to this many neighbours are found with one search."""
_MORE: Final = 2.0
"""How many times as many keys as are wanted a search should expect: then nineteen of twenty searches find enough."""
_MOST_NEAR_PAGES: Final = 64
"""The number of pages at most in which a search for a few neighbours compares keys."""
_LEAST_SQUARE: Final = 1e-280
"""Squares of distances below this one are too small to be exact."""
_ALL: Final = 1 << 62
"""More groups than there can be: a search that does not pause."""
_key_of: Final = itemgetter(0)


class SpatialCursor(ForwardCursor):
    """A cursor over the keys that a condition selects, in ascending order."""

    __slots__ = ("_box", "_end_version", "_rest", "_rest_version", "_selection", "_spatial")
    is_filtered: ClassVar[bool] = True

    def __init__(self, index: PagedIndex, selection: Selection, box: Box) -> None:
        super().__init__(index, EVERYTHING)
        self._spatial = index
        self._selection = selection
        self._box = box
        self._end_version = -1
        """The version of the index at the moment when the cursor reached the end."""
        self._rest: tuple[list[tuple[SortKey, Entry]], Bounds, bool] = ([], EVERYTHING, False)
        """What the last search found beyond its limit: pairs, the bounds after them, and whether it has ended."""
        self._rest_version = -1
        """The version of the index of which `_rest` is true."""

    def selects(self, key: SortKey) -> bool:
        return self._selection.matches(key, self._box)

    def fetch(self, limit: int) -> list[Entry]:
        start = self.bounds
        pairs: list[tuple[SortKey, Entry]] = []
        while len(pairs) < limit and not self._advance(limit - len(pairs), _ALL):
            pairs += self.pairs
            self.pairs = []
        self.pairs = pairs + self.pairs if pairs else self.pairs
        self._start = start
        return [entry for _, entry in self.pairs]

    def step(self, limit: int) -> bool:
        self._start = self.bounds
        return self._advance(limit, _GROUPS_A_STEP)

    def rewind(self, used: int) -> None:
        self._end_version = self._rest_version = -1
        super().rewind(used)

    def resume(self, bounds: Bounds) -> None:
        self._end_version = self._rest_version = -1
        super().resume(bounds)

    def _advance(self, limit: int, most_groups: int) -> bool:
        """Find up to `limit` pairs in at most `most_groups` groups, and move on. Returns True at the end."""
        index, start = self._spatial, self.bounds
        self.pairs = []
        if self._end_version == index.version:
            return True
        if self._rest_version == index.version:
            pairs, reached, is_end = self._rest
            self._rest_version = -1
        else:
            pairs, reached, is_end = self._base_pairs(limit, most_groups)
            if index.is_layered and not self.reads_base:
                pairs = self._overlaid(pairs, start, EVERYTHING if is_end else reached)
        if len(pairs) > limit:
            self._rest, self._rest_version = (pairs[limit:], reached, is_end), index.version
            del pairs[limit:]
            is_end, reached = False, (pairs[-1][0], None, True, False)
        self.pairs = pairs
        if not is_end:
            self.bounds = reached
            return False
        if pairs:
            self._move(pairs[-1][0])
        self._end_version = index.version
        return True

    def _base_pairs(self, limit: int, most_groups: int) -> tuple[list[tuple[SortKey, Entry]], Bounds, bool]:
        """Return the next pairs of the tree, the bounds after what was searched, and whether the search has ended."""
        pages, tree, selection, box = self._spatial.pages, self._spatial.tree, self._selection, self._box
        low, _, is_low_excluded, _ = self.bounds
        pairs: list[tuple[SortKey, Entry]] = []
        reached = self.bounds
        for number, (group, inside) in enumerate(pages.groups(selection, box, low)):
            if len(pairs) >= limit or number == most_groups:
                return pairs, reached, False
            if inside is None:
                end = group[-1].end
                for page in group:
                    if len(pairs) >= limit:  # never in the first group of a search that goes on, which is one page
                        return pairs, (page.first, None, False, False), False
                    if page.keys is None:
                        pages.read(page)
                    keys, entries = page.keys or (), pages.entries(page)
                    pairs += [(keys[place], entries[place]) for place in selection.places(page, box)]
            else:
                end = inside[1]
                missing = limit - len(pairs)
                some = list(islice(tree.items(*inside), missing))
                pairs += some
                if len(some) == missing:
                    return pairs, (pairs[-1][0], None, True, False), False
            if not number and low is not None:
                cut = bisect_right if is_low_excluded else bisect_left
                del pairs[: cut(pairs, low, key=_key_of)]
            reached = (end, None, False, False)
        return pairs, reached, True

    def _overlaid(self, pairs: list[tuple[SortKey, Entry]], start: Bounds, end: Bounds) -> list[tuple[SortKey, Entry]]:
        """Merge pairs of the tree with the changes that lie over it between two bounds."""
        over, (low, _, is_low_excluded, _), (high, _, is_high_included, _) = self._spatial.over, start, end
        laid = list(over.items(low, high, is_low_excluded, high is not None and not is_high_included))
        if not laid:
            return pairs
        changed = dict(laid)
        merged = [pair for pair in pairs if pair[0] not in changed]
        merged += [(key, entry) for key, entry in laid if entry is not GONE and self.selects(key)]
        merged.sort(key=_key_of)
        return merged


class NeighborCursor(Cursor):
    """A cursor over all keys in the order of their distance from the lower corner of a rectangle."""

    __slots__ = ("_chunk", "_distance", "_index", "_returned", "_search", "_tied", "_version", "point")

    def __init__(self, index: PagedIndex, point: Box) -> None:
        self._index = index
        self.point = point
        self._chunk: list[tuple[float, SortKey, Entry]] = []
        self._distance = -inf
        """The distance of the last entry before the current chunk."""
        self._tied: set[SortKey] = set()
        """The keys before the current chunk that are as far as the last one."""
        self._returned = 0
        """The number of entries before the current chunk."""
        self._version = -1

    def _begin(self) -> None:
        self._version = self._index.version
        self._search = NeighborSearch(self._index, self.point, self._tied.copy())

    def _first(self, limit: int) -> list[tuple[float, SortKey, Entry]]:
        found = nearest(self._index, self.point, limit)
        if found is not None:  # a search that goes on has to begin anew
            return found
        self._begin()
        return self._search.take(limit)

    def fetch(self, limit: int) -> list[Entry]:
        self._pass_chunk()
        if self._distance == -inf:
            self._chunk = self._first(limit)
        elif self._version != self._index.version:
            self._begin()
            self._chunk = self._search.take_from(self._distance, limit, self._returned)
        else:
            self._chunk = self._search.take(limit)
        return [entry for _, _, entry in self._chunk]

    def _pass_chunk(self) -> None:
        if not self._chunk:
            return
        self._returned += len(self._chunk)
        last = self._chunk[-1][0]
        if last != self._distance:
            self._distance = last
            self._tied = set()
        self._tied.update(key for _, key, _ in takewhile(lambda each: each[0] == last, reversed(self._chunk)))

    def rewind(self, used: int) -> None:
        if used < len(self._chunk):
            self._version = -1
            del self._chunk[used:]

    def open_view(self, before: Iterable[tuple[SortKey, bytes | None]]) -> NeighborView:
        return NeighborView(self._index, before, self.point)


class _FartherKeys(NamedTuple):
    """The keys of a page that are farther than a certain distance."""

    nearer: float
    distances: list[float]
    """The distances of all keys of the page."""
    keys: list[SortKey]
    entries: Sequence[Entry]


class NeighborSearch:
    """The keys of an index that does not change, by distance; those of one distance in any order, and none of those in
    `passed`.
    """

    def __init__(self, index: PagedIndex, point: Box, passed: set[SortKey]) -> None:
        self._pages = index.pages
        self._point = point
        self._distances = index.geometry.distances
        self._heap: list[tuple[float, int, Any]] = [(0.0, 0, index.pages.root)]
        self._ready: list[tuple[float, SortKey, Entry]] = []
        """Keys of opened pages that were not returned yet, sorted by distance."""
        self._passed = passed
        self._over: Any = index.over if index.is_layered else ()
        if index.is_layered:
            near = self._distances.of_key
            laid = [(near(key, point), key, entry) for key, entry in index.over.items() if entry is not GONE]
            self._ready = sorted([each for each in laid if each[1] not in passed])

    def take(self, limit: int) -> list[tuple[float, SortKey, Entry]]:
        """Return up to `limit` further keys with their distances and entries; fewer only at the end."""
        ready = self._ready
        if limit < 1:
            return []
        if len(ready) < limit or (self._heap and ready[limit - 1][0] > self._heap[0][0]):
            self._open(limit)
        taken = ready[:limit]
        del ready[:limit]
        return taken

    def take_from(self, distance: float, limit: int, given: int) -> list[tuple[float, SortKey, Entry]]:
        """Return up to `limit` keys that are at least `distance` away. About `given` keys are nearer."""
        taken: list[tuple[float, SortKey, Entry]] = []
        while len(taken) < limit and (found := self.take(min(limit + given, SLICE))):
            for number, each in enumerate(found):
                if each[0] >= distance:
                    taken.append(each)
                if len(taken) == limit:
                    self._ready[:0] = found[number + 1 :]
                    break
        return taken

    def _open(self, limit: int) -> None:
        """Read the pages nearest to the point until the next `limit` keys are known."""
        heap, ready, point, of_rows = self._heap, self._ready, self._point, self._distances.of_rows
        fresh: list[tuple[float, SortKey, Entry]] = []
        known = ready[limit - 1][0] if len(ready) >= limit else inf
        """An upper bound for the distance of the last key that is wanted."""
        while heap:
            # Sorting at each leaf would cost too much in a search for many keys: wait until an eighth of them is new.
            if len(ready) + len(fresh) >= limit and len(fresh) >= len(ready) >> 3:
                ready += fresh
                ready.sort()
                fresh = []
                known = ready[limit - 1][0]
                if known <= heap[0][0]:
                    return
            _, _, node = heappop(heap)
            if type(node) is BoxNode:
                heap += of_rows(node.rows, point)
                heapify(heap)
            else:
                fresh += self._nearest_of(node, known, limit - len(ready) - len(fresh))
        ready += fresh
        ready.sort()

    def _nearest_of(
        self, page: BoxPage | _FartherKeys, known: float, missing: int
    ) -> list[tuple[float, SortKey, Entry]]:
        """Return at least those keys of a page that are wanted; the farther ones go back to the heap."""
        over = self._over
        if type(page) is _FartherKeys:
            nearer, found, keys, entries = page
            wanted = [(far, keys[n], entries[n]) for n, far in enumerate(found) if not far <= nearer]
        else:
            assert type(page) is BoxPage
            self._pages.ready([page])
            keys, entries = page.keys or [], self._pages.entries(page)
            found = in_order(self._distances.of_page(page, self._point), page.order)
            if known == inf and 0 < missing < len(found):
                known = sorted(found)[missing - 1]
            wanted = [(far, keys[n], entries[n]) for n, far in enumerate(found) if far <= known]
            if len(wanted) < len(found):
                heappush(self._heap, (known, id(found), _FartherKeys(known, found, keys, entries)))
        if over:
            wanted = [each for each in wanted if each[1] not in over]
        passed = self._passed
        return [each for each in wanted if each[1] not in passed] if passed else wanted


def nearest(index: PagedIndex, point: Box, limit: int) -> list[tuple[float, SortKey, Entry]] | None:
    """Return the `limit` nearest keys of a NEIGHBOR search, or None if only a complete search can find them.

    The last search from the page that would hold the point tells how far to look. If that was not far enough, the keys
    of the page tell it.
    """
    pages, geometry = index.pages, index.geometry
    place = geometry.layout.equal(point[: geometry.dimension])
    if place is None or index.is_layered or not 0 < limit <= _FEW:
        return None
    home = pages.page_of(place[0])
    known, reach = home.reach
    exponent = geometry.distances.exponent
    if reach:
        ready = _up_to(index, point, reach * (_MORE * limit / known) ** exponent, limit)
        if ready is not None and len(ready) == limit:
            if limit >= known:  # fewer neighbours tell less about the density
                home.reach = limit, ready[-1][0]
            return ready
    found = sorted(geometry.distances.of_page(pages.ready([home])[0], point))
    ready = _up_to(index, point, found[limit - 1], limit) if len(found) >= limit else None
    if ready:
        home.reach = limit, ready[-1][0]
    return ready


def _up_to(index: PagedIndex, point: Box, most: float, limit: int) -> list[tuple[float, SortKey, Entry]] | None:
    """Return the nearest keys up to a distance, at most `limit` of them. None if they may be on too many pages, or the
    distance is not exact enough.

    Pages follow by distance, and each may tell that the rest is too far.
    """
    if not _LEAST_SQUARE < most < inf:
        return None
    pages, distances = index.pages, index.geometry.distances
    near, box_within, within = distances.near, distances.box_within, distances.box_within(most, point)
    selection = index.geometry.selection(IteratorType.OVERLAPS)
    assert selection is not None
    found = pages.pages_within(selection, within, _MOST_NEAR_PAGES)
    if found is None:
        return None
    ready: list[tuple[float, SortKey, Entry]] = []
    order = distances.of_boxes([page.box for page in found], point)
    for far, number in sorted(zip(order, range(len(order)), strict=True)):
        if far > most:
            break
        page = found[number]
        if page.keys is None:
            pages.read(page)
        if places := near(page, most, point, within):
            keys, entries = page.keys or (), pages.entries(page)
            ready += [(far, keys[n], entries[n]) for far, n in places]
            ready.sort()
            del ready[limit:]
            if len(ready) == limit:
                most = ready[-1][0]
                within = box_within(max(most, _LEAST_SQUARE), point)
    return ready


class NeighborView(SlicedView):
    """All tuples by distance, as they are when the view is opened, read in slices while the index changes.

    ```
    pages       their ranges and boxes of that moment; opened one after another
    before      the former entries of keys that have changed in pages that were not opened yet
    ```

    No changes may lie over the index when the view is opened. `before` maps keys to entries that differ from those of
    the index, or to None for an absent tuple.
    """

    def __init__(self, index: PagedIndex, before: Iterable[tuple[SortKey, bytes | None]], point: Box) -> None:
        self._index = index
        self._tree = index.tree
        self._point = point
        self._distances = index.geometry.distances
        pages = index.pages.pages
        self._starts = [page.first for page in pages]
        self._boxes = [page.box for page in pages]
        self._is_opened = bytearray(len(pages))
        self._found: list[float] = []
        """The distances of pages, for those pages whose distance is calculated."""
        self._order: list[int] | None = None
        """The pages that were not opened yet, in descending order of distance."""
        self._before: set[SortKey] = set()
        self._ready: list[tuple[float, SortKey, bytes]] = []
        self._is_closed = False
        for key, entry in before:
            self._changing(key, entry, None)
        index.listeners.append(self._changing)

    def _changing(self, key: SortKey, old: Entry | None, new: Entry | None) -> None:
        if key in self._before or self._is_opened[bisect_right(self._starts, key) - 1]:
            return
        self._before.add(key)
        if old is not None:
            insort(self._ready, (self._distances.of_key(key, self._point), key, old))

    def take(self, limit: int = SLICE) -> list[bytes] | None:
        """Return the next tuples; see `TupleView.take`."""
        if self._is_closed:
            return None
        if self._order is None:
            self._calculate()
            return []
        ready, order, found = self._ready, self._order, self._found
        # Here single pages are opened, not groups; each has at most 64 keys whose distances are calculated.
        opened = 0
        while order and opened < _GROUPS_A_STEP * 8:
            if len(ready) >= limit and ready[limit - 1][0] <= found[order[-1]]:
                break
            self._open(order.pop())
            opened += 1
        nearest = found[order[-1]] if order else inf
        count = min(limit, bisect_right(ready, nearest, key=_key_of) if order else len(ready))
        taken = [entry for _, _, entry in ready[:count]]
        del ready[:count]
        if not order and not ready:
            self.close()
        return taken

    def _calculate(self) -> None:
        known = len(self._found)
        if known < len(self._boxes):
            self._found += self._distances.of_boxes(self._boxes[known : known + _PAGES_A_STEP], self._point)
        else:
            self._order = sorted(range(known), key=self._found.__getitem__, reverse=True)

    def _open(self, number: int) -> None:
        """Open a page: add its tuples as they were when the view was opened."""
        self._is_opened[number] = 1
        end = self._starts[number + 1] if number + 1 < len(self._starts) else None
        pairs = self._tree.items(*key_range(self._starts[number], end))
        if before := self._before:
            pairs = [pair for pair in pairs if pair[0] not in before]
        near, point = self._distances.of_key, self._point
        self._ready += [(near(key, point), key, entry) for key, entry in pairs]
        self._ready.sort()

    def close(self) -> None:
        """Release everything; safe to call again."""
        if not self._is_closed:
            self._is_closed = True
            self._index.listeners.remove(self._changing)
            self._ready, self._before, self._order = [], set(), None
            self._starts, self._boxes = [], []
