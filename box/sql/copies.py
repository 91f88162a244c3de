"""Copies of spaces in tables of SQLite, for queries that read many rows of spaces that do not change meanwhile.

SQLite calls Python for each row that it reads from a space (`box.sql.space_table`): some microseconds. To copy a row
costs twice as much, and to read it again next to nothing. So a query runs on copies after so many rows have been read
from its spaces, since they changed last, as would have paid for them; a query that reads many rows itself is stopped
and begins anew:

```
rows read from the spaces since their last change     few --enough--> copied --a change--> few
```

A copy has the same values in the same order as the virtual table, and an index for each index of the space, so a query
gives the same rows on both. It is not asked where a difference could be seen: see `Copies.suit`.

All copies lie in one connection, which serves one query at a time; another query meanwhile reads the spaces.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from box.index import IteratorType
from box.index.ordered import OrderedIndex
from box.sql.row_decoder import RowDecoder
from box.sql.sqlite_connection import Connection, Environment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from box.index import Index
    from box.schema.space import Space
    from box.sql.pauses import Pauses

_READS: Final = 2
"""Rows that are read from spaces before they are copied, for each of their rows: to copy a row costs as much."""
_OWN_READS: Final = 3
"""So many reads of a running query count as one: what it has done is lost, and it may be about to end."""
_LEAST_READS: Final = 5000
"""Rows that are read at least: some ten milliseconds."""
_BATCH: Final = 256
"""Rows that are copied at once."""
_TUPLE_GROWTH: Final = 1.2
_ROW_SIZE: Final = 10
_ENTRY_SIZE: Final = 20
"""The estimated bytes of a copy: for each byte of a tuple, for each row, and for each row and index."""
_COPIED_TYPES: Final = frozenset(("unsigned", "integer", "number", "double", "string", "boolean", "varbinary"))
"""Types of index parts that SQLite orders and compares as the index does. It never asks for an index of other types."""
_DOUBLES: Final = frozenset(("number", "double"))
"""Types of which SQLite has fewer values: a NaN is NULL."""
_BINARY: Final = (0, 3)
"""The ids of the collations that compare bytes."""


class CopiesWanted(Exception):
    """Raised in a query whose spaces should be copied: it begins anew."""


class _CopyState:
    """What is known of a space: how many rows were read since its last change, and its copy."""

    __slots__ = ("_index", "_version", "definitions", "is_copied", "last_used", "reads", "size")

    def __init__(self, space: Space) -> None:
        self._index: Callable[[], Index | None] = weakref.ref(_primary(space))
        self._version = _primary(space).version
        self.definitions = _definitions(space)
        self.reads = 0
        self.is_copied = False
        self.size = 0
        """The bytes of the copy."""
        self.last_used = 0

    def is_of(self, space: Space) -> bool:
        """Return whether the space has not changed since."""
        index = space.primary
        return index is not None and index is self._index() and index.version == self._version

    def has_shape_of(self, space: Space) -> bool:
        """Return whether the columns and indexes are those of the space."""
        return self.definitions == _definitions(space)


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
        """Return whether a query outside of transactions, with these parameters, may run on copies of spaces.

        SQLite could not use an index with a collation, whose order Python knows. A negative number as the key of an
        unsigned index is an error, which only the space gives.
        """
        if env.is_reversed or env.reads.has_versions or not spaces:
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
        if known is None or not known.is_of(space) or not known.has_shape_of(space):
            self._forget(space.id)
            known = self._known[space.id] = _CopyState(space)
        return known

    def are_worthwhile(self, spaces: Sequence[Space], own_reads: int = 0) -> bool:
        """Return whether a query should run on copies now, after so many reads of its own."""
        if self._is_busy:
            return False
        known = [self._of(space) for space in spaces]
        missing = [space for space, one in zip(spaces, known, strict=True) if not one.is_copied]
        if not missing:
            return True
        reads = own_reads // _OWN_READS + sum(one.reads for one in known)
        if reads < max(_LEAST_READS, _READS * sum(len(_primary(space)) for space in missing)):
            return False
        size = sum(one.size for one in known) + sum(_estimate(space) for space in missing)
        return size <= self._limit()

    # --- copying ---

    @contextmanager
    def lend(self, env: Environment, spaces: list[Space]) -> Iterator[Connection]:
        """Lend the connection with copies of these spaces. Inside of `run_apart`, it waits now and then."""
        self._is_busy = True
        connection = self._connection = self._connection or _new_connection()
        is_whole = False
        try:
            self._make_room(spaces)
            known = [(space, self._of(space)) for space in spaces]
            missing = [(space, one) for space, one in known if not one.is_copied]
            pauses = connection.begin(env, [space for space, _ in missing])
            pauses.freeze()
            for space, one in missing:
                self._copy(connection, pauses, space, one)
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
            columns = ", ".join(f"c{part.fieldno}" for part in index.definition.parts)
            types = {part.type.value for part in index.definition.parts}
            if types <= _COPIED_TYPES:
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
        if known is not None and known.is_copied and self._connection is not None:
            self._connection.db.execute(f"DROP TABLE spaces.t{space_id}")

    def close(self) -> None:
        """Remove all copies."""
        self._known.clear()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.db.close(True)


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
        rows = decoder.rows(raws)
        if max(map(len, rows)) > count:
            rows = [row[:count] for row in rows]
        yield rows
        pauses.look()


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


def _estimate(space: Space) -> int:
    """Return the bytes that a copy of the space will take, roughly."""
    primary = _primary(space)
    return int(_TUPLE_GROWTH * primary.tuple_bytes) + len(primary) * (_ROW_SIZE + _ENTRY_SIZE * len(space.indexes))


def _can_be_copied(space: Space) -> bool:
    parts = [part for index in space.indexes.values() for part in index.definition.parts]
    return bool(space.definition.fields) and all((part.collation_id or 0) in _BINARY for part in parts)
