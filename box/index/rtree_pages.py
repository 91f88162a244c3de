"""The bounding boxes of an R-tree, above the B-tree that holds its entries.

```
nodes       box -> nodes below          at most 32 each, all pages at the same depth
pages       [first, end) -> box         ranges of keys, about 48 of them each, from left to right
B-tree      key -> entry                in the order of the codes, so that a page's keys are near each other
```

So an R-tree changes nearly as fast as a B-tree: a bisection finds the page of a key, and its box grows now and then.
Only boxes are kept here; all else is asked of the B-tree, and what was read of a page is kept until the page changes.

Nothing here is for the garbage collector, which would visit each page of a large index: children know the node above
them by a weak reference, so that no cycle exists, and pages, nodes and rows are hidden from it.

A box is never too small. It may be too large after removals, until the page is read the next time. The numbers of keys
are estimates, since changes that lie over the B-tree (`box.index.layered`) are counted when they are made.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol
from weakref import ref

from box.data.keydef import SortKey
from box.index.base import Entry
from box.index.ordered import OrderedIndex
from box.index.rtree_columns import Box
from box.index.rtree_conditions import Selection
from box.index.rtree_geometry import Geometry
from box.index.untracked import untrack, untrack_one, untracked_list

_MOST_KEYS: Final = 64
"""A page with more keys than this is cut."""
_USUAL_KEYS: Final = 48
"""The keys after a cut or a merge at most, so that a page can grow for a while before it is cut again."""
_LEAST_PART: Final = 20
"""The keys after a cut at least, so that a page is not merged again at once."""
_LEAST_KEYS: Final = 12
"""A page with fewer keys than this is merged with its neighbour, if both fit into one."""
_MOST_ROWS: Final = 32
"""The rows of a node at most: pages, or nodes below it."""
_NO_REACH: Final = (0, 0.0)
KeyRange = tuple[SortKey, SortKey | None, bool, bool]
"""A range of keys: (first key, end, excludes first, excludes end). The end is not in the range; None means no end."""


def key_range(first: SortKey, end: SortKey | None) -> KeyRange:
    """Return the range of the keys from `first` up to, but without, `end`."""
    # with a missing end the last flag has to be False, or the B-tree would leave out its last key
    return first, end, False, end is not None


def _nobody() -> None:
    """Return None, in place of a weak reference to a node."""


class _BelowNode:
    """The base of pages and nodes, which can be below a node."""

    __slots__ = ("_above",)
    _above: Callable[[], BoxNode | None]

    @property
    def parent(self) -> BoxNode | None:
        """The node above; None for the root, and for a page of a load in progress."""
        return self._above()

    @parent.setter
    def parent(self, node: BoxNode | None) -> None:
        self._above = _nobody if node is None else node.reference


class BoxPage(_BelowNode):
    """A page: a range of keys with its bounding box."""

    __slots__ = (
        "_entries",
        "are_points",
        "box",
        "columns",
        "count",
        "end",
        "first",
        "is_loose",
        "keys",
        "order",
        "reach",
        "searches",
    )

    keys: list[SortKey] | None
    """The keys of the page after it was read; None before that and after each change."""

    def __init__(self, first: SortKey, end: SortKey | None, box: Box, count: int) -> None:
        self.first = first
        self.end = end
        self.box = box
        self.count = count
        self.is_loose = False
        """True if the box may be larger than necessary."""
        self.keys = None
        self._entries: Sequence[Entry] | None = None
        self.columns: Sequence[array[float]] = ()
        self.are_points = True
        self.order: bytes | None = None
        self.searches = 0
        self.reach = _NO_REACH
        """A number of neighbours, and the distance of the last one from a point of this page; zeros before a search."""
        self._above = _nobody
        untrack_one(self)

    def __repr__(self) -> str:
        return f"<page of {self.count} keys in {self.box}>"

    @property
    def range(self) -> KeyRange:
        """The range of the page's keys."""
        return key_range(self.first, self.end)


class BoxNode(_BelowNode):
    """A node of the tree of boxes. Each row is the box of a child (a page or another node) followed by the child
    itself.
    """

    __slots__ = ("__weakref__", "box", "is_bottom", "reference", "rows")

    def __init__(self, box: Box, *, is_bottom: bool) -> None:
        self.box = box
        self.rows: list[tuple[Any, ...]] = untracked_list()
        self.is_bottom = is_bottom
        """True if the children are pages."""
        self.reference = ref(self)
        """The weak reference that all children share."""
        self._above = _nobody
        untrack_one(self)

    def row_of(self, child: Any) -> int:
        """Return the index in `rows` of the row that holds a child."""
        for place, row in enumerate(self.rows):
            if row[-1] is child:
                return place
        raise AssertionError("not a child")

    @property
    def range(self) -> KeyRange:
        """The range of the keys below this node."""
        first, last = self.rows[0][-1], self.rows[-1][-1]
        while isinstance(first, BoxNode):
            first, last = first.rows[0][-1], last.rows[-1][-1]
        return key_range(first.first, last.end)


def _row(child: Any) -> tuple[Any, ...]:
    """Return the row of a child in the node above it."""
    row = (*child.box, child)
    untrack_one(row)
    return row


def _first_key(node: Any) -> SortKey:
    """Return where the keys of a page or below a node begin."""
    while isinstance(node, BoxNode):
        node = node.rows[0][-1]
    return node.first


Group = tuple[list[BoxPage], KeyRange | None]
"""Pages that have to be searched, or, with an empty list of pages, a range whose keys are all selected."""


class KeyedTree(Protocol):
    """The methods of a B-tree that this module calls."""

    def keys(self, low: SortKey, high: SortKey | None, is_low_excluded: bool, is_high_excluded: bool, /) -> Any:
        """Return the keys of a range."""

    def iterkeys(self, low: SortKey, high: SortKey | None, is_low_excluded: bool, is_high_excluded: bool, /) -> Any:
        """Return an iterator over the keys of a range, which is faster than a list of `keys`."""

    def itervalues(self, low: SortKey, high: SortKey | None, is_low_excluded: bool, is_high_excluded: bool, /) -> Any:
        """Return an iterator over the entries of a range."""


class Pages:
    """All pages over one B-tree. The caller changes the B-tree first and then calls the methods here."""

    def __init__(self, geometry: Geometry, tree: KeyedTree) -> None:
        self.geometry = geometry
        self._tree = tree
        self._pending: list[SortKey] = []
        self._bare: list[BoxPage] = []
        """The pages of a load in progress that have no node above them yet."""
        self._bottoms: list[BoxNode] = []
        self._is_loading = False
        self.start_anew(tree)

    def start_anew(self, tree: KeyedTree) -> None:
        """Begin again with a single page over an empty B-tree."""
        self._tree = tree
        lowest = self.geometry.layout.lowest
        page = BoxPage(lowest, None, self.geometry.empty, 0)
        self._starts: list[SortKey] = untracked_list([lowest])
        self.pages: list[BoxPage] = untracked_list([page])
        self.root = BoxNode(self.geometry.empty, is_bottom=True)
        self._adopt(self.root, [page])

    def _adopt(self, node: BoxNode, children: list[Any]) -> None:
        node.rows += map(_row, children)
        for child in children:
            child.parent = node
        node.box = self.geometry.unite(node.rows)

    # --- changes ---

    def page_of(self, key: SortKey) -> BoxPage:
        """Return the page whose range contains a key."""
        return self.pages[bisect_right(self._starts, key) - 1]

    def put(self, key: SortKey, growth: int) -> None:
        """Update the pages after the B-tree got an entry under a key; `growth` is 1 for a new key, 0 for a replaced
        entry.
        """
        place = bisect_right(self._starts, key) - 1
        page = self.pages[place]
        page.keys = None
        box = self.geometry.extend(page.box, key)
        if box is not page.box:
            self._grow(page, box)
        if growth:
            page.count += 1
            if page.count > _MOST_KEYS:
                self._divide(place)

    def _grow(self, child: Any, box: Box) -> None:
        """Enlarge the box of a page or a node, and the boxes of all nodes above it."""
        while True:
            child.box = box
            node = child.parent
            if node is None:
                return
            node.rows[node.row_of(child)] = _row(child)
            child, box = node, self.geometry.unite_two(node.box, box)
            if box == node.box:
                return

    def _divide(self, place: int) -> None:
        """Split a page that is estimated to have too many keys, after counting them."""
        page = self.pages[place]
        keys = list(self._tree.iterkeys(*page.range))
        page.count = len(keys)
        if page.count <= _MOST_KEYS:
            return
        cuts = self._cuts(keys)
        bound, after = self.geometry.bound, []
        ends = [*[keys[cut] for cut in cuts], page.end]
        for start, stop, end in zip(cuts, [*cuts[1:], page.count], ends[1:], strict=True):
            after.append(BoxPage(keys[start], end, bound(keys[start:stop]), stop - start))
        page.end, page.count = ends[0], cuts[0]
        self.pages[place + 1 : place + 1] = after
        self._starts[place + 1 : place + 1] = ends[:-1]
        node = page.parent
        assert node is not None
        at = node.row_of(page)
        page.box, page.is_loose = bound(keys[: cuts[0]]), False
        node.rows[at] = _row(page)
        node.rows[at + 1 : at + 1] = map(_row, after)
        for each in after:
            each.parent = node
        if len(node.rows) > _MOST_ROWS:
            self._divide_node(node)

    def _cuts(self, keys: list[SortKey]) -> list[int]:
        """Return the keys at which to cut a list of keys that is too long for a page."""
        cuts = []
        start, count = 0, len(keys)
        while count - start > _MOST_KEYS:
            most = min(start + _USUAL_KEYS, count - _LEAST_PART)
            start += self._best_cut(keys[start:most], _LEAST_PART)
            cuts.append(start)
        return cuts

    def _best_cut(self, keys: list[SortKey], least: int) -> int:
        """Return where to cut sorted keys, not below `least`: where their codes differ in the greatest bit.

        Then both parts lie in different cells of the curve, and their boxes overlap less.
        """
        layout = self.geometry.layout
        first, last = layout.code(keys[least - 1]), layout.code(keys[-1])
        if first == last:
            return least
        # They are sorted, so the greatest bit changes once.
        bits = (first ^ last).bit_length() - 1
        return bisect_left(keys, layout.least_key(last >> bits << bits), least)

    def _divide_node(self, node: BoxNode) -> None:
        """Halve a node with too many rows, then the nodes above it if they need it."""
        while len(node.rows) > _MOST_ROWS:
            above = node.parent
            if above is None:
                above = self.root = BoxNode(node.box, is_bottom=False)
                self._adopt(above, [node])
            firsts = [_first_key(row[-1]) for row in node.rows[: -_MOST_ROWS // 4]]
            half = self._best_cut(firsts, _MOST_ROWS // 4)
            other = BoxNode(node.box, is_bottom=node.is_bottom)
            self._adopt(other, [row[-1] for row in node.rows[half:]])
            del node.rows[half:]
            node.box = self.geometry.unite(node.rows)
            other.parent = above
            at = above.row_of(node)
            above.rows[at : at + 1] = [_row(node), _row(other)]
            node = above

    def remove(self, key: SortKey) -> None:
        """Update the pages after the entry of a key was removed from the B-tree."""
        place = bisect_right(self._starts, key) - 1
        page = self.pages[place]
        page.keys = None
        page.count -= 1
        if not page.is_loose and self.geometry.is_on_edge(page.box, key):
            page.is_loose = True
        if page.count < _LEAST_KEYS:
            self._join(place)

    def _join(self, place: int) -> None:
        """Merge the next page of the same node into a page with few keys if they fit together; drop a page without
        keys.
        """
        page = self.pages[place]
        if place + 1 == len(self.pages) or self.pages[place + 1].parent is not page.parent:
            place -= 1
        if place < 0 or self.pages[place].parent is not page.parent:
            if page.count <= 0:
                self._drop_lonely(page)
            return
        left, right = self.pages[place], self.pages[place + 1]
        if left.count + right.count > _USUAL_KEYS and page.count > 0:
            return
        node = left.parent
        assert node is not None
        left.end, left.keys = right.end, None
        left.count = max(0, left.count) + max(0, right.count)
        left.is_loose = True
        del self.pages[place + 1], self._starts[place + 1]
        del node.rows[node.row_of(right)]
        self._grow(left, self.geometry.unite_two(left.box, right.box))

    def _drop_lonely(self, page: BoxPage) -> None:
        """Remove a page that is alone in its node, with the nodes that become empty; the last page of all stays."""
        place = bisect_right(self._starts, page.first) - 1
        if len(self.pages) == 1 or len(self._tree.keys(*page.range)):
            return
        if place:
            self.pages[place - 1].end = page.end
        else:
            self.pages[1].first = self._starts[1] = self.geometry.layout.lowest
        del self.pages[place], self._starts[place]
        child: Any = page
        while (node := child.parent) is not None:
            del node.rows[node.row_of(child)]
            if node.rows:
                break
            child = node
        while len(self.root.rows) == 1 and not self.root.is_bottom:
            self.root = self.root.rows[0][-1]
            self.root.parent = None

    # --- load ---

    def append(self, keys: list[SortKey]) -> None:
        """Add keys that sort after all others, while a B-tree is built from left to right. Call `finish` at the end."""
        self._pending += keys
        self._take_pending(_MOST_KEYS)

    def _take_pending(self, least: int) -> None:
        pending, taken = self._pending, 0
        if not self._is_loading:
            self._is_loading = True
            self.pages, self._starts = untracked_list(), untracked_list()
        while len(pending) - taken >= least and taken < len(pending):
            part = pending[taken : taken + _MOST_KEYS]
            if len(part) == _MOST_KEYS:
                del part[self._best_cut(part, _LEAST_PART) :]
            taken += len(part)
            first = part[0] if self.pages else self.geometry.layout.lowest
            page = BoxPage(first, None, self.geometry.bound(part), len(part))
            if self.pages:
                self.pages[-1].end = page.first
            self.pages.append(page)
            self._starts.append(page.first)
            self._bare.append(page)
            if len(self._bare) == _MOST_ROWS:
                self._bottoms.append(self._node_above(self._bare, is_bottom=True))
        del pending[:taken]

    def _node_above(self, bare: list[Any], *, is_bottom: bool) -> BoxNode:
        """Take children from the beginning of a list, at most `_MOST_ROWS`, and return a node above them."""
        count = min(len(bare), _MOST_ROWS)
        if count == _MOST_ROWS:
            count = self._best_cut(list(map(_first_key, bare[:count])), _MOST_ROWS // 3)
        node = BoxNode(self.geometry.empty, is_bottom=is_bottom)
        self._adopt(node, bare[:count])
        del bare[:count]
        return node

    def finish(self) -> None:
        """Build the nodes above the pages that `append` made."""
        if not self._is_loading and not self._pending:
            return
        self._take_pending(1)
        self._is_loading = False
        while self._bare:
            self._bottoms.append(self._node_above(self._bare, is_bottom=True))
        level, self._bottoms = self._bottoms, []
        while len(level) > 1:
            above = []
            while level:
                above.append(self._node_above(level, is_bottom=False))
            level = above
        self.root = level[0]

    # --- reads ---

    def read(self, page: BoxPage) -> None:
        """Fetch the keys of a page from the B-tree, and make its box exact."""
        keys = untracked_list(self._tree.iterkeys(*page.range))
        page._entries = None
        page.columns = tuple(self.geometry.layout.columns(keys))
        untrack((*page.columns, page.columns))
        page.are_points = len(page.columns) == self.geometry.dimension
        page.order, page.searches = None, 0
        page.count = len(keys)
        page.keys = keys
        if page.is_loose:
            page.is_loose = False
            self._shrink(page, self.geometry.box_of(page.columns) if keys else self.geometry.empty)

    def entries(self, page: BoxPage) -> Sequence[Entry]:
        """Return the entries of a page that is read, in the order of its keys."""
        found = page._entries
        if found is None:  # counts need no entries
            found = page._entries = untracked_list(self._tree.itervalues(*page.range))
        return found

    def _shrink(self, child: Any, box: Box) -> None:
        while box != child.box:
            child.box = box
            node = child.parent
            if node is None:
                return
            node.rows[node.row_of(child)] = _row(child)
            child, box = node, self.geometry.unite(node.rows)

    def ready(self, pages: list[BoxPage]) -> list[BoxPage]:
        """Return the given pages after reading those that are not read yet."""
        for page in pages:
            if page.keys is None:
                self.read(page)
        return pages

    def groups(self, selection: Selection, box: Box, start: SortKey | None = None) -> Iterator[Group]:
        """Yield the groups of pages that a search has to look at, in the order of the keys. With `start`, begin with
        the page of that key.

        The index must not change meanwhile.
        """
        return self._below(self.root, selection, box) if start is None else self._from(start, selection, box)

    def _from(self, start: SortKey, selection: Selection, box: Box) -> Iterator[Group]:
        child: Any = self.page_of(start)
        yield [child], None
        while (node := child.parent) is not None:
            rest = node.rows[node.row_of(child) + 1 :]
            found = selection.nodes(rest, box)
            if node.is_bottom:
                if found:
                    yield found, None
            else:
                for each in found:
                    yield from self._below(each, selection, box)
            child = node

    def pages_within(self, selection: Selection, box: Box, most: int) -> list[BoxPage] | None:
        """Return the pages that a search has to look at, in any order; None if there are more than `most`."""
        nodes_of, waiting = selection.nodes, [self.root]
        pages: list[BoxPage] = []
        while waiting:
            node = waiting.pop()
            found = nodes_of(node.rows, box)
            if not node.is_bottom:
                waiting += found
            elif len(pages) + len(found) > most:
                return None
            else:
                pages += found
        return pages

    def _below(self, node: BoxNode, selection: Selection, box: Box) -> Iterator[Group]:
        is_inside, nodes_of = selection.is_inside, selection.nodes
        waiting = [node]
        while waiting:
            node = waiting.pop()
            if is_inside is not None and is_inside(node.box, box):
                yield [], node.range
            elif found := nodes_of(node.rows, box):
                if node.is_bottom:
                    yield found, None
                else:
                    found.reverse()
                    waiting += found

    # --- end ---

    def take_apart(self) -> list[Any]:
        """Return all pages and the nodes just above them, to be freed in parts from the end of the list. The pages
        cannot be used any more, until `start_anew`.
        """
        bottoms, nodes = [], [self.root]
        while nodes:
            node = nodes.pop()
            if node.is_bottom:
                bottoms.append(node)
            else:
                nodes += [row[-1] for row in node.rows]
                node.rows = untracked_list()
        return untracked_list([*self.pages, *bottoms])


class PagedIndex(OrderedIndex):
    """An index with pages over its tree."""

    geometry: Geometry
    pages: Pages

    @property
    def over(self) -> Any:
        """The changes that lie over the tree, as a tree from keys to entries or GONE. Only valid while the index is
        layered.
        """
        return self._tree.over
