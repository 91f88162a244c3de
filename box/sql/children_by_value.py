"""Finds child rows by the values of a foreign key that has no index, when a statement asks for many of them.

Each search would read all rows. The second one of a statement therefore notes for each value the rows that have it. The
notes are valid while the primary index has the version that it had then, and each change by the statement itself is
noted, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from box.data.codec import pack, unpack
from box.data.collation import is_binary, sort_key_function
from box.index import IteratorType
from box.sql.stored_values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from box.index import Index
    from box.schema.space import Space
    from box.session import Context
    from box.txn.dml import Dml

_MOST: Final = 500_000
"""The number of rows up to which notes are made: they take some hundred bytes for each."""


class _Notes:
    """The primary keys of rows by the values of some fields, as of one version of the primary index."""

    def __init__(self, index: Index, rows: Iterator[list[Value]], mark: Callable[[list[Value]], Any]) -> None:
        self.index = index
        self.version = index.version
        self.mark = mark
        self.by_mark: dict[Any, dict[bytes, list[Value]]] = {}
        self.unsorted: set[Any] = set()
        """The values that rows have got since; the rows with such a value are not in the order of the index."""
        for row in rows:
            self.add(row)

    def add(self, row: list[Value]) -> Any:
        mark = self.mark(row)
        key = self.index.key_def.extract_values(row)
        self.by_mark.setdefault(mark, {})[pack(key)] = key
        return mark


class ChildrenByValue:
    """The searches for child rows without an index of one node."""

    def __init__(self, dml: Dml) -> None:
        self._dml = dml
        self._notes: dict[tuple[int, tuple[int, ...]], _Notes | None] = {}
        """The notes by space and places of the fields; None after the first search."""

    def forget(self) -> None:
        """Drop all notes: the statement has ended."""
        self._notes.clear()

    def find(
        self, ctx: Context, space: Space, places: list[int], values: tuple[Value, ...], limit: int
    ) -> list[list[Value]]:
        """Return the rows with these values in the fields at these places, in the order of the primary index."""
        mark = _mark_function(space, places)
        wanted = tuple(key(value) for key, value in zip(_keys(space, places), values, strict=True))
        notes = self._notes_of(ctx, space, places, mark) if limit > 1 else None
        found: list[list[Value]] = []
        if notes is None or wanted in notes.unsorted:
            for row in self._all(ctx, space):
                if mark(row) == wanted:
                    found.append(row)
                    if len(found) == limit:
                        break
            return found
        for key in notes.by_mark.get(wanted, {}).values():
            raw = self._dml.sql_reads.get(ctx, space, 0, key)
            if raw is not None and mark(row := unpack(raw)) == wanted:
                found.append(row)
        return found

    def note(self, space: Space, new: list[Value] | None) -> None:
        """Note that the statement has just removed a row, or stored `new`."""
        for (space_id, _), notes in self._notes.items():
            if space_id != space.id or notes is None or notes.index.version != notes.version + 1:
                continue
            notes.version += 1
            if new is not None:
                notes.unsorted.add(notes.add(new))

    def _notes_of(
        self, ctx: Context, space: Space, places: list[int], mark: Callable[[list[Value]], Any]
    ) -> _Notes | None:
        index, storage = space.primary, self._dml.txns.storage
        assert index is not None
        if storage.allows_yield or len(index) > _MOST:
            return None
        name = space.id, tuple(places)
        if name not in self._notes:
            self._notes[name] = None
            return None
        notes = self._notes[name]
        if notes is None or notes.index is not index or notes.version != index.version:
            notes = self._notes[name] = _Notes(index, self._all(ctx, space), mark)
        return notes

    def _all(self, ctx: Context, space: Space) -> Iterator[list[Value]]:
        return (unpack(raw) for raw in self._dml.sql_reads.cursor(ctx, space, 0, IteratorType.ALL, []))


def _keys(space: Space, places: list[int]) -> list[Callable[[Value], Any]]:
    """Return functions whose results are equal for equal values of the fields at these places."""
    return [_key_function(space, place) for place in places]


def _mark_function(space: Space, places: list[int]) -> Callable[[list[Value]], Any]:
    """Return a function from a row to what is equal for rows with equal values at these places."""
    pairs = list(zip(_keys(space, places), places, strict=True))
    return lambda row: tuple(key(row[place] if place < len(row) else None) for key, place in pairs)


def _key_function(space: Space, place: int) -> Callable[[Value], Any]:
    collation = space.definition.fields[place].collation_id
    if is_binary(collation):
        return lambda value: value
    key = sort_key_function(collation)
    return lambda value: key(value) if type(value) is str else value
