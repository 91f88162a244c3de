"""`merger`: the order of the first tuples of many sources, for Lua."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from box.data.format import TupleFormat
from box.data.keydef import SortKey
from box.errors import BoxError
from lua.bindings.binding import Binding, Outcome, exported, guarded
from lua.bindings.key_def import ordered_definition, own_collations
from lua.salt import SALT_SIZE

if TYPE_CHECKING:
    from box.data.collation import Collation
    from box.instance.node import Instance
    from lua.runtime import Runtime


@lru_cache(maxsize=64)
def _reading(
    packed: bytes, own: tuple[Collation, ...]
) -> tuple[Callable[[bytes], list[Any]], Callable[[list[Any]], SortKey]]:
    """Return a function that checks and decodes a tuple, and a function that makes a sort key of the result. Compiling
    them takes time, so they are cached.
    """
    key = ordered_definition(packed, own)
    return TupleFormat(key_defs=[key]).validate, key.extract


class Heads:
    """The first tuples of the sources of one merger, as a binary heap.

    The heap is that of Tarantool, so that equal tuples of several sources come in its order: an entry rises only above
    a greater one, but sinks below an equal one, and in reverse order equal entries count as less. `validate` and
    `extract` make the sort key of a tuple.
    """

    __slots__ = ("_extract", "_heads", "_is_reverse", "_validate")

    def __init__(self, packed: bytes, own: tuple[Collation, ...], *, is_reverse: bool) -> None:
        self._validate, self._extract = _reading(packed, own)
        self._is_reverse = is_reverse
        self._heads: list[tuple[SortKey, int]] = []

    def add(self, place: int, raw: bytes) -> None:
        """Add the next tuple of the source at a place.

        Raises:
            DataError: FIELD_MISSING or FIELD_TYPE.
        """
        heads, key, is_reverse = self._heads, self._extract(self._validate(raw)), self._is_reverse
        position = len(heads)
        heads.append((key, place))
        while position > 0 and (key < heads[parent := (position - 1) // 2][0]) != is_reverse:
            heads[position] = heads[parent]
            position = parent
        heads[position] = key, place

    @property
    def first(self) -> int:
        """The place of the source whose tuple comes next; 0 if no tuple is left."""
        return self._heads[0][1] if self._heads else 0

    def replace(self, raw: bytes) -> None:
        """Replace the first tuple by the next one of the same source.

        Raises:
            DataError: FIELD_MISSING or FIELD_TYPE.
        """
        self._heads[0] = self._extract(self._validate(raw)), self._heads[0][1]
        self._sink()

    def drop(self) -> None:
        """Remove the first tuple, because its source has ended."""
        last = self._heads.pop()
        if self._heads:
            self._heads[0] = last
            self._sink()

    def _sink(self) -> None:
        heads, is_reverse = self._heads, self._is_reverse
        position, size = 0, len(heads)
        sinking = heads[0]
        while (child := 2 * position + 1) < size:
            if child + 1 < size and (heads[child + 1][0] < heads[child][0]) != is_reverse:
                child += 1
            if (sinking[0] < heads[child][0]) != is_reverse:
                break
            heads[position] = heads[child]
            position = child
        heads[position] = sinking


class MergerBinding(Binding):
    """Python half of lua/modules/merger.lua."""

    def __init__(self, runtime: Runtime, node: Instance) -> None:
        super().__init__(runtime, node)
        self._mergers: dict[int, Heads] = {}
        self._last = 0

    @guarded("merger_open")
    def open(self, packed: bytes, is_reverse: bool) -> Outcome:
        """Open a merger by a key definition (see `KeyDefBinding`) and return its number."""
        self._last += 1
        self._mergers[self._last] = Heads(packed, own_collations(self.node), is_reverse=is_reverse)
        return self._last

    @exported("merger_add")
    def add(self, number: int, place: int, raw: bytes) -> Any:
        """Add the next tuple, with salt, of the source at a place."""
        try:
            self._mergers[number].add(int(place), raw[:-SALT_SIZE])
        except BoxError as error:
            return self.failure(error)
        return None

    @exported("merger_first")
    def first(self, number: int) -> int:
        """Return the place of the source whose tuple comes next; 0 at the end."""
        return self._mergers[number].first

    @exported("merger_replace")
    def replace(self, number: int, raw: bytes) -> Any:
        """Replace the first tuple by the next one (with salt) of its source. Returns the place that comes next."""
        heads = self._mergers[number]
        try:
            heads.replace(raw[:-SALT_SIZE])
        except BoxError as error:
            return self.failure(error)
        return heads.first

    @exported("merger_drop")
    def drop(self, number: int) -> int:
        """Remove the first tuple, because its source has ended. Returns the place that comes next; 0 at the end."""
        heads = self._mergers[number]
        heads.drop()
        return heads.first

    @exported("merger_close")
    def close(self, number: int) -> None:
        """Forget a merger."""
        self._mergers.pop(number, None)
