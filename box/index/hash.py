"""HASH: unique full keys only.

Its order is that of the keys, on which no user may rely. Python's hash table would find a key faster, but it doubles in
one go: with two million entries that stops everything for a tenth of a second.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from box.data.keydef import KeyDef, SortKey
from box.data.types import FieldType
from box.errors import ErrorCode, client_error
from box.index.base import Cursor, Entry, IndexDef
from box.index.iterator_type import IteratorType
from box.index.ordered import EVERYTHING, ForwardCursor, OrderedIndex, PointCursor
from box.index.own_trees import NumberTree

_EQ: Final = int(IteratorType.EQ)


class HashIndex(OrderedIndex):
    """A unique index without a documented order."""

    def __init__(
        self, definition: IndexDef, primary: KeyDef | None = None, *, space_name: str = "", engine: str = "memtx"
    ) -> None:
        super().__init__(definition, primary, space_name=space_name, engine=engine)
        self.key_of = self.key_def.extract
        self._parts = len(definition.parts)
        first = definition.parts[0]
        if len(definition.parts) == 1 and first.type is FieldType.UNSIGNED and not first.is_nullable:
            self._use_tree(NumberTree())

    def get(self, values: list[Any]) -> Entry | None:
        return self.find(self.key_def.parse(values, True))

    def cursor(self, iterator: int, values: list[Any]) -> Cursor:
        kind = self.iterator_type(iterator)
        key = self._checked_key(kind, values)
        if kind is IteratorType.ALL or (kind is IteratorType.GT and not values):
            return ForwardCursor(self, EVERYTHING)
        if kind is IteratorType.EQ:
            return PointCursor(self, key)
        if kind is IteratorType.GT:
            return ForwardCursor(self, (key, None, True, False))
        raise self.unsupported_feature("requested iterator type")

    def select(self, iterator: int, values: list[Any], offset: int, limit: int) -> list[Entry]:
        if iterator == _EQ and len(values) == self._parts:
            entry = self.find(self.key_def.parse(values, False))
            return [] if entry is None or offset or limit < 1 else [entry]
        if values or iterator not in (IteratorType.ALL, IteratorType.GT):
            return super().select(iterator, values, offset, limit)
        found = self._tree.values()
        return list(found[offset : offset + limit]) if offset else list(islice(found, limit))

    def _checked_key(self, kind: IteratorType, values: list[Any]) -> SortKey:
        """Check a user's key. ALL, and GT without a key, need none; every other scan needs a full key."""
        if not values and kind in (IteratorType.ALL, IteratorType.GT):
            return None
        if len(values) < self._parts:
            raise client_error(ErrorCode.PARTIAL_KEY, "HASH", self._parts, len(values))
        return self.key_def.parse(values, False)

    def count(self, iterator: int, values: list[Any]) -> int:
        if iterator == _EQ and len(values) == self._parts:
            return int(self.find(self.key_def.parse(values, False)) is not None)
        if iterator == IteratorType.ALL:
            self._checked_key(IteratorType.ALL, values)
            return self._size
        return sum(map(len, self.scan_chunks(iterator, values)))

    def min(self, values: list[Any]) -> Entry | None:
        raise self.unsupported_feature("min()")

    def max(self, values: list[Any]) -> Entry | None:
        raise self.unsupported_feature("max()")
