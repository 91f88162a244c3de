"""`merger`: the order of the first tuples of many sources, for Lua."""

from __future__ import annotations

from bisect import insort
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
    """The first tuples of the sources of one merger, in their order.

    Of equal tuples the one of the earlier source comes first, in both directions. `validate` and `extract` make the
    sort key of a tuple.
    """

    __slots__ = ("_extract", "_heads", "_is_reverse", "_validate")

    def __init__(self, packed: bytes, own: tuple[Collation, ...], *, is_reverse: bool) -> None:
        self._validate, self._extract = _reading(packed, own)
        self._is_reverse = is_reverse
        # Ascending pairs. In reverse order they are taken from the end, and places are negative, so that among equal
        # tuples the earlier source still comes first.
        self._heads: list[tuple[SortKey, int]] = []

    def add(self, place: int, raw: bytes) -> None:
        """Add the next tuple of the source at a place.

        Raises:
            DataError: FIELD_MISSING or FIELD_TYPE.
        """
        insort(self._heads, (self._extract(self._validate(raw)), -place if self._is_reverse else place))

    def take(self) -> int:
        """Remove the first tuple and return the place of its source; 0 if no tuple is left."""
        if not self._heads:
            return 0
        return -self._heads.pop()[1] if self._is_reverse else self._heads.pop(0)[1]


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

    @exported("merger_take")
    def take(self, number: int) -> int:
        """Remove the first tuple of the merger `number`, and return the place of its source; 0 at the end."""
        return self._mergers[number].take()

    @exported("merger_replace")
    def replace(self, number: int, place: int, raw: bytes) -> Any:
        """Add the next tuple (with salt) of the source at `place`, then take the first tuple of all sources."""
        heads = self._mergers[number]
        try:
            heads.add(int(place), raw[:-SALT_SIZE])
        except BoxError as error:
            return self.failure(error)
        return heads.take()

    @exported("merger_close")
    def close(self, number: int) -> None:
        """Forget a merger."""
        self._mergers.pop(number, None)
