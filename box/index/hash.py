"""HASH: unique full keys only, in a dict.

Its order is that of insertion, which no user may rely on. A scan first takes a small chunk straight from the
dict; the rest goes by a list of the keys, so that changes in between cannot break or repeat anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

from box.data.keydef import KeyDef, SortKey
from box.errors import ErrorCode, client_error
from box.index.base import Cursor, Entry, Index, IndexDef, IteratorType

_BYTES_AN_ENTRY: Final = 8
"""Bytes that the peer's hash table takes for a tuple: a slot of two words, half filled at worst."""


class _KeysCursor(Cursor):
    """Entries of the keys in a list, without those that have gone."""

    __slots__ = ("_entries", "_keys", "_last", "_pos")

    def __init__(self, entries: dict[SortKey, Entry], keys: list[SortKey]) -> None:
        self._entries = entries
        self._keys = keys
        self._pos = 0
        self._last: list[int] = []

    def fetch(self, limit: int) -> list[Entry]:
        chunk: list[Entry] = []
        self._last = []
        while len(chunk) < limit and self._pos < len(self._keys):
            entry = self._entries.get(self._keys[self._pos])
            self._pos += 1
            if entry is not None:
                chunk.append(entry)
                self._last.append(self._pos)
        return chunk

    def rewind(self, used: int) -> None:
        if used < len(self._last):
            self._pos = self._last[used] - 1 if used == 0 else self._last[used - 1]


class _AllCursor(Cursor):
    """Everything; lists the keys only when one chunk is not enough."""

    __slots__ = ("_entries", "_first", "_rest")

    def __init__(self, entries: dict[SortKey, Entry]) -> None:
        self._entries = entries
        self._first: list[SortKey] | None = None
        self._rest: _KeysCursor | None = None

    def fetch(self, limit: int) -> list[Entry]:
        if self._first is None:
            pairs = list(islice(self._entries.items(), limit))
            self._first = [key for key, _ in pairs]
            return [entry for _, entry in pairs]
        if self._rest is None:
            seen = set(self._first)
            self._rest = _KeysCursor(self._entries, [key for key in self._entries if key not in seen])
        return self._rest.fetch(limit)

    def rewind(self, used: int) -> None:
        if self._rest is not None:
            self._rest.rewind(used)
        elif self._first is not None:
            del self._first[used:]


class HashIndex(Index):
    """A unique index without order."""

    def __init__(
        self, definition: IndexDef, primary: KeyDef | None = None, *, space_name: str = "", engine: str = "memtx"
    ) -> None:
        super().__init__(definition, primary, space_name=space_name, engine=engine)
        self.key_of = self.key_def.extract
        self._entries: dict[SortKey, Entry] = {}
        self.find = self._entries.get

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, sort_key: SortKey, entry: Entry) -> None:
        self._entries[sort_key] = entry
        self.version += 1

    def replace(self, sort_key: SortKey, entry: Entry) -> Entry | None:
        entries = self._entries
        old = entries.get(sort_key)
        entries[sort_key] = entry
        self.version += 1
        return old

    def remove(self, sort_key: SortKey) -> None:
        self._entries.pop(sort_key, None)
        self.version += 1

    def clear(self) -> None:
        self._entries.clear()
        self.version += 1

    def load_sorted(self, pairs: Iterable[tuple[SortKey, Entry]]) -> None:
        self._entries.clear()
        self._entries.update(pairs)
        self.version += 1

    def values_list(self) -> list[Entry]:
        return list(self._entries.values())

    def random(self, seed: int) -> Entry | None:
        if not self._entries:
            return None
        return next(islice(self._entries.values(), seed % len(self._entries), None))

    def bsize(self) -> int:
        return _BYTES_AN_ENTRY * 2 * len(self._entries)

    def get(self, values: list[Any]) -> Entry | None:
        return self.find(self.key_def.parse(values, True))

    def cursor(self, iterator: int, values: list[Any]) -> Cursor:
        kind = self.iterator_type(iterator)
        key = self._checked_key(kind, values)
        if kind is IteratorType.ALL or (kind is IteratorType.GT and not values):
            return _AllCursor(self._entries)
        if kind is IteratorType.EQ:
            return _KeysCursor(self._entries, [key])
        if kind is IteratorType.GT:
            keys = list(self._entries)
            return _KeysCursor(self._entries, keys[keys.index(key) + 1 :] if key in self._entries else [])
        raise self.unsupported_feature("requested iterator type")

    def select(self, iterator: int, values: list[Any], offset: int, limit: int) -> list[Entry]:
        if values or iterator not in (IteratorType.ALL, IteratorType.GT):
            return super().select(iterator, values, offset, limit)
        return list(islice(self._entries.values(), offset, offset + limit))

    def _checked_key(self, kind: IteratorType, values: list[Any]) -> SortKey:
        """ALL, and GT without a key, need none; every other scan needs a full one."""
        if not values and kind in (IteratorType.ALL, IteratorType.GT):
            return None
        parts = len(self.key_def)
        if len(values) < parts:
            raise client_error(ErrorCode.PARTIAL_KEY, "HASH", parts, len(values))
        return self.key_def.parse(values, False)

    def count(self, iterator: int, values: list[Any]) -> int:
        if iterator == IteratorType.ALL:
            self._checked_key(IteratorType.ALL, values)
            return len(self._entries)
        return sum(map(len, self.scan_chunks(iterator, values)))

    def min(self, values: list[Any]) -> Entry | None:
        raise self.unsupported_feature("min()")

    def max(self, values: list[Any]) -> Entry | None:
        raise self.unsupported_feature("max()")
