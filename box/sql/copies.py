"""Copies of spaces in tables of SQLite, for queries that read many rows of spaces that change seldom.

SQLite calls Python for each row that it reads from a space (`box.sql.space_table`), which takes some microseconds.
Copying a row costs half as much again; reading it from the copy costs next to nothing. So queries run on copies once
they have read so many rows of a space that a copy would have paid for itself. If a single query reads that many rows,
or is going to according to the progress of its outermost loop, it is stopped and repeated on copies:

```
rows read from the spaces     few --enough--> copied --many changes--> few
```

If few rows have changed since, they are replaced in the copy before the next query. That needs a primary key which
SQLite compares as the index does. With any other primary key, the first change ends the copy.

A copy has the same values in the same order as the virtual table, and an index for each index of the space, so a query
gives the same rows on both. Queries that could show a difference do not run on copies: see `Copies.suit`.

All copies are in one connection, which serves one query at a time. Other queries read the spaces meanwhile.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from box.index import IteratorType
from box.index.changed_entries import ChangedEntries
from box.index.ordered import OrderedIndex
from box.sql.row_decoder import RowDecoder
from box.sql.sqlite_connection import Connection, Environment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from box.index import Index
    from box.index.changed_entries import Changes
    from box.schema.space import Space
    from box.sql.pauses import Pauses

_READS: Final = 1.5
"""The number of rows read per row of the space after which it is copied: copying a row costs as much."""
_LEAST_READS: Final = 5000
"""The least number of rows read after which a space is copied: they take some ten milliseconds."""
_BATCH: Final = 256
"""The number of rows that are copied in one turn."""
_CHANGED_SHARE: Final = 4
"""The share of the rows that may change before a copy ends: replacing a row costs two to three times as much as copying
one."""
_MOST_CHANGED: Final = 50_000
"""The most changed rows of a copy, because they are kept in memory until the next query."""
_TUPLE_GROWTH: Final = 1.2
_ROW_SIZE: Final = 10
_ENTRY_SIZE: Final = 20
"""The estimated bytes of a copy: for each byte of a tuple, for each row, and for each row and index."""
_COPIED_TYPES: Final = frozenset(("unsigned", "integer", "number", "double", "string", "boolean", "varbinary"))
"""Types of index parts that SQLite orders and compares as the index does. It never asks for an index of other types."""
_KEY_TYPES: Final = frozenset(("unsigned", "integer", "string", "boolean", "varbinary", "uuid"))
"""Types of a primary key by which a changed row is found in a copy: equal keys are equal in SQLite."""
_DOUBLES: Final = frozenset(("number", "double"))
"""Types of which SQLite has fewer values: a NaN is NULL."""
_BINARY: Final = (0, 3)
"""The ids of the collations that compare bytes."""


class CopiesWanted(Exception):
    """Raised to stop a query whose spaces should be copied; the query is then repeated on the copies."""


class _CopyState:
    """The state of one space: how many rows queries have read from it, and its copy."""

    __slots__ = ("_index", "_version", "changes", "definitions", "is_copied", "last_used", "reads", "size")

    def __init__(self, space: Space) -> None:
        self._index: Callable[[], Index | None] = weakref.ref(_primary(space))
        self._version = _primary(space).version
        self.definitions = _definitions(space)
        self.reads = 0
        self.is_copied = False
        self.changes: ChangedEntries | None = None
        """The changes of a copied space since it was copied; None if the first one ends the copy."""
        self.size = 0
        """The bytes of the copy."""
        self.last_used = 0

    def is_of(self, space: Space) -> bool:
        """Return whether the state is still valid: the space has the same definition, and few rows have changed."""
        index = space.primary
        if index is None or index is not self._index() or self.definitions != _definitions(space):
            return False
        if self.changes is not None:
            return self.changes.are_whole()
        return index.version - self._version <= (0 if self.is_copied else _most_changed(space))

    def begin(self, space: Space) -> None:
        """Note that the space is being copied as it is at this moment."""
        index = _primary(space)
        self._version = index.version
        most = _most_changed(space)
        if most:
            assert isinstance(index, OrderedIndex)
            self.changes = ChangedEntries(index, most)

    def end(self) -> None:
        """End the copy: drop the recorded changes and record no more."""
        if self.changes is not None:
            self.changes.close()


class Copies:
    """The copies of the spaces of one node. `limit` returns the bytes that they may take together."""

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._connection: Connection | None = None
        self._known: dict[int, _CopyState] = {}
        self._is_busy = False
        self._uses = 0

    @staticmethod
    def suit(env: Environment, spaces: Sequence[Space], params: Sequence[Any]) -> bool:
        """Return whether a query that runs now, with these parameters, may run on copies of spaces.

        While tuples have versions, the entries of an index are not always tuples. SQLite could not use an index with a
        collation, whose order Python knows. A negative number as the key of an unsigned index is an error, which only
        the space gives.
        """
        if env.is_reversed or env.reads.txns.storage.has_versions or not spaces:
            return False
        if any(type(value) is int and value < 0 for value in params):
            return False
        return all(isinstance(space.primary, OrderedIndex) and _can_be_copied(space) for space in spaces)

    def note(self, space: Space, rows: int) -> None:
        """Count rows that a query has read from a space."""
        if space.primary is not None and not self._is_busy:
            self._of(space).reads += rows

    def _of(self, space: Space) -> _CopyState:
        known = self._known.get(space.id)
        if known is None or not known.is_of(space):
            self._forget(space.id)
            known = self._known[space.id] = _CopyState(space)
        return known

    def are_worthwhile(self, spaces: Sequence[Space], own_reads: int = 0, foreseen: float = 0.0) -> bool:
        """Return whether a query should run on copies now, after so many reads of its own and before others."""
        if self._is_busy or any(space.primary is None for space in spaces):  # dropped in a pause of the query
            return False
        known = [self._of(space) for space in spaces]
        missing = [space for space, one in zip(spaces, known, strict=True) if not one.is_copied]
        if not missing:
            return True
        reads = max(own_reads, foreseen) + sum(one.reads for one in known)
        if reads < max(_LEAST_READS, _READS * sum(len(_primary(space)) for space in missing)):
            return False
        size = sum(one.size for one in known) + sum(_estimate(space) for space in missing)
        return size <= self._limit()

    # --- copying ---

    @contextmanager
    def lend(self, env: Environment, spaces: list[Space]) -> Iterator[Connection]:
        """Lend the connection with copies of these spaces. Outside of a transaction it waits now and then."""
        self._is_busy = True
        connection = self._connection = self._connection or _new_connection()
        is_whole = False
        try:
            self._make_room(spaces)
            known = [(space, self._of(space)) for space in spaces]
            missing = [(space, one) for space, one in known if not one.is_copied]
            changed = [(space, one.changes.take()) for space, one in known if one.changes is not None]
            connection.choose_files(True)
            pauses = connection.begin(env, [space for space, _ in missing])
            pauses.freeze()
            for space, one in missing:
                one.begin(space)
            for space, one in missing:
                self._copy(connection, pauses, space, one)
            for space, changes in changed:
                if changes:
                    _replace(connection, pauses, space, changes)
            pauses.end()
            is_whole = True
            self._uses += 1
            for _, one in known:
                one.last_used = self._uses
            yield connection
        finally:
            connection.release()
            if not is_whole:
                self.close()
            self._is_busy = False

    def _copy(self, connection: Connection, pauses: Pauses, space: Space, known: _CopyState) -> None:
        """Copy a space as it was when the pauses froze it."""
        db, before = connection.db, _used_bytes(connection)
        name, count = f"t{space.id}", len(space.definition.fields)
        db.execute(f"CREATE TABLE spaces.{name}({', '.join(f'c{number}' for number in range(count))})")
        # The indexes come first, because to sort all rows for one of them would be a long turn.
        for index in space.indexes.values():
            if any(part.path for part in index.definition.parts) or index.definition.opts.get("func"):
                continue  # its keys are not those of columns
            columns = ", ".join(f"c{part.fieldno}" for part in index.definition.parts)
            types = {part.type.value for part in index.definition.parts}
            if types <= _COPIED_TYPES or (known.changes is not None and not index.iid):
                unique = "UNIQUE " if index.is_unique and not types & _DOUBLES else ""
                db.execute(f"CREATE {unique}INDEX spaces.i{space.id}_{index.iid} ON {name} ({columns})")
        insert = f"INSERT INTO spaces.{name} VALUES ({', '.join('?' * count)})"
        db.execute("BEGIN")
        db.executemany(insert, chain.from_iterable(_batches(pauses, space, count)))
        db.execute("COMMIT")
        known.size = _used_bytes(connection) - before
        known.is_copied = True

    def _make_room(self, spaces: list[Space]) -> None:
        """Remove copies of spaces that have changed, and those used least recently while there is no room."""
        wanted = {space.id for space in spaces}
        needed = sum(_estimate(space) for space in spaces if not self._of(space).is_copied)
        copied = {number: known for number, known in self._known.items() if known.is_copied}
        room = self._limit() - needed - sum(known.size for known in copied.values())
        for number, known in sorted(copied.items(), key=lambda item: item[1].last_used):
            if room >= 0:
                break
            if number not in wanted:
                room += known.size
                self._forget(number)

    def _forget(self, space_id: int) -> None:
        known = self._known.pop(space_id, None)
        if known is not None:
            known.end()
            if known.is_copied and self._connection is not None:
                self._connection.db.execute(f"DROP TABLE spaces.t{space_id}")

    def on_alter_spaces(self, spaces: list[Space]) -> None:
        """End the copies of spaces that were altered, emptied or dropped."""
        for space in spaces:
            known = self._known.get(space.id)
            if known is not None and not known.is_of(space):
                known.end()

    def end(self) -> None:
        """End all copies, so that the indexes can be freed."""
        for known in self._known.values():
            known.end()

    def close(self) -> None:
        """Remove all copies."""
        self.end()
        self._known.clear()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _new_connection() -> Connection:
    connection = Connection()
    # Without a journal a statement that fails may leave a damaged table: then the connection is closed.
    connection.db.execute("PRAGMA spaces.journal_mode = OFF")
    return connection


def _batches(pauses: Pauses, space: Space, count: int) -> Iterator[list[list[Any]]]:
    """Yield rows of `count` columns, a list at a time; it waits between them."""
    decoder = RowDecoder(space)
    cursor = pauses.scan(space, space, 0, IteratorType.ALL, [])
    while raws := cursor.fetch(_BATCH):
        yield _rows(decoder, raws, count)
        pauses.look()


def _rows(decoder: RowDecoder, raws: Sequence[bytes], count: int) -> list[list[Any]]:
    rows = decoder.rows(raws)
    return [row[:count] for row in rows] if max(map(len, rows)) > count else rows


def _replace(connection: Connection, pauses: Pauses, space: Space, changes: Changes) -> None:
    """Replace changed rows in a copy. It waits now and then."""
    db, decoder = connection.db, RowDecoder(space)
    count, parts = len(space.definition.fields), [part.fieldno for part in _primary(space).definition.parts]
    delete = f"DELETE FROM spaces.t{space.id} WHERE {' AND '.join(f'c{number} = ?' for number in parts)}"
    insert = f"INSERT INTO spaces.t{space.id} VALUES ({', '.join('?' * count)})"
    former = [old for old, _ in changes.values() if old is not None]
    current = [new for _, new in changes.values() if new is not None]
    db.execute("BEGIN")
    # All rows go before the first one comes: a new row may have what another one had in a unique index.
    for start in range(0, len(former), _BATCH):
        rows = decoder.rows(former[start : start + _BATCH])
        db.executemany(delete, [[row[number] for number in parts] for row in rows])
        pauses.look()
    for start in range(0, len(current), _BATCH):
        db.executemany(insert, _rows(decoder, current[start : start + _BATCH], count))
        pauses.look()
    db.execute("COMMIT")


def _used_bytes(connection: Connection) -> int:
    pages, free, size = (
        next(connection.db.execute(f"PRAGMA spaces.{name}"))[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def _primary(space: Space) -> Index:
    assert space.primary is not None
    return space.primary


def _definitions(space: Space) -> tuple[Any, ...]:
    return space.definition, *(index.definition for index in space.indexes.values())


def _most_changed(space: Space) -> int:
    """Return how many rows of a space may change before its copy ends."""
    primary = _primary(space)
    if not all(part.type.value in _KEY_TYPES and not part.path for part in primary.definition.parts):
        return 0
    return min(len(primary) // _CHANGED_SHARE, _MOST_CHANGED)


def _estimate(space: Space) -> int:
    """Return the bytes that a copy of the space will take, roughly."""
    primary = _primary(space)
    return int(_TUPLE_GROWTH * primary.tuple_bytes) + len(primary) * (_ROW_SIZE + _ENTRY_SIZE * len(space.indexes))


def _can_be_copied(space: Space) -> bool:
    parts = [part for index in space.indexes.values() for part in index.definition.parts]
    return bool(space.definition.fields) and all((part.collation_id or 0) in _BINARY for part in parts)
