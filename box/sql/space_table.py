"""Spaces as virtual tables of SQLite.

`BestIndexObject` offers the indexes to SQLite. A scan can use equal values for the leading parts of a key, a range of
the next part, and the order of the index. Where no index helps with an equality, the scan finds the rows by an
automatic index (`box.sql.automatic_index`). SQLite checks every condition itself as well, so a scan may return too many
rows but never too few.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import takewhile
from operator import length_hint
from typing import TYPE_CHECKING, Any, Final, Protocol

import apsw

from box.index import IteratorType
from box.sql.automatic_index import AutomaticIndex, value_of
from box.sql.row_decoder import RowDecoder
from box.sql.scan_keys import (
    NOTHING,
    after_prefix,
    bound_value,
    end_of,
    end_of_prefix,
    key_value,
    like_column,
    prefix_of,
    refuse_negative,
)
from box.sql.stored_values import load

if TYPE_CHECKING:
    from box.index import Index
    from box.schema.space import Space
    from box.sql.stored_values import Texts

_EQ: Final = apsw.SQLITE_INDEX_CONSTRAINT_EQ
_LOW: Final = {apsw.SQLITE_INDEX_CONSTRAINT_GT: "GT", apsw.SQLITE_INDEX_CONSTRAINT_GE: "GE"}
_HIGH: Final = {apsw.SQLITE_INDEX_CONSTRAINT_LT: "LT", apsw.SQLITE_INDEX_CONSTRAINT_LE: "LE"}
_LIKE: Final = apsw.SQLITE_INDEX_CONSTRAINT_FUNCTION
"""The constraint of `like_column`: the column matches a pattern of LIKE."""
LIKE_COLUMN: Final = "lb_like_column"
"""The name of the function in SQLite that evaluates `column LIKE pattern` without ESCAPE, with the order of bytes. A
table understands it as a constraint on the column.
"""
_ITERATORS: Final = {"GT": IteratorType.GT, "GE": IteratorType.GE, "LT": IteratorType.LT, "LE": IteratorType.LE}
_NO_ROWS: Final[Iterator[Any]] = iter(())
_FIRST_BATCH: Final = 8
"""The number of rows that are decoded first: a LIMIT or EXISTS often needs no more."""
_BATCH: Final = 256
"""The greatest number of rows that are decoded at once."""
_SCAN_READS: Final = 3
"""To begin a scan, or to find a row by its key, costs as much as to read so many rows of a scan."""
_SCANS: Final = 32
"""The number of scans after which it may be time for a pause. SQLite itself looks only every thousand steps. In a join
these are a hundred scans, which may take as long as a whole turn.
"""
_ROW_COST: Final = 1.0
_SEEK_COST: Final = 5.0
"""The costs, for SQLite's planner, of finding the first row and of reading a row. Only their ratio matters."""
_LEAST: Final = 0.9
"""The number of rows that an equality is estimated to find, at least: less than one, so that the index is chosen even
for a table with one row.
"""
_MATCHING: Final = 0.92
"""The cost of a scan that looks for equal values, as a part of that of a whole scan. It is little less, so that the
planner takes the scan where it would take a whole one, and the order of the rows stays the same. SQLite's costs have
steps of 7 %.
"""
_MATCHED: Final = 4.0
"""Of how many rows one is estimated to have an equal value."""
_DISTINCT: Final = 2
"""The planner's request that equal rows follow each other; the order of the groups does not matter."""
_MASK: Final = 2**62 - 1
"""A mask that limits row ids to the 63 bits that SQLite allows."""


class ScanSource(Protocol):
    """A source of tuples for a scan."""

    def fetch(self, limit: int) -> list[bytes]:
        """Return up to `limit` tuples; fewer only at the end."""


class _NoTuples:
    """A source that has ended."""

    def fetch(self, limit: int) -> list[bytes]:
        """Return nothing."""
        return []


class RunningStatement(Protocol):
    """The connection to SQLite, as virtual tables use it: it knows the running statement."""

    texts: Texts
    """How texts are stored."""

    being_declared: Space | None
    """The space whose virtual table is being declared."""

    tables: dict[int, SpaceTable]
    """The virtual tables by the id of their space."""

    may_read_ahead: bool
    """True unless the statement could notice that a scan reads tuples before SQLite asks for them."""

    outer: SpaceCursor | None
    """The first scan that has not ended: the outermost loop of what the statement does now."""

    automatic: dict[Any, AutomaticIndex | None]
    """The automatic indexes of the running statement by table and plan; None where the rows were needed only once."""

    def begin_outer(self, cursor: SpaceCursor) -> None:
        """Note a scan that begins while there is no other."""

    def leave_out(self, reads: int) -> None:
        """Take these reads for done once, not again for each row of the outermost loop."""

    def look(self) -> None:
        """Pause, or end the statement, if it is time."""

    @property
    def is_reversed(self) -> bool:
        """Return whether rows come backwards if the statement asks for no order."""

    def indexes(self, space: Space) -> Mapping[int, Index]:
        """Return the indexes of a space, by id, that the running statement sees."""

    def scan(self, owner: Any, space: Space, iid: int, iterator: int, key: list[Any]) -> ScanSource:
        """Begin to read the tuples of an index that the running statement sees; `owner` ends its former scan."""

    def find(self, space: Space, iid: int, key: list[Any]) -> bytes | None:
        """Return the tuple with a full key of a unique index that the running statement sees."""


_NO_TUPLES: Final = _NoTuples()


class SpaceTable:
    """The virtual table of one space, `spaces.t<id>`."""

    def __init__(self, connection: RunningStatement, space: Space) -> None:
        self.connection = connection
        self.space = space
        self.decoder = RowDecoder(space, connection.texts)
        self.reads = 0
        """The number of rows that all statements have read; a scan counts as some rows more."""
        self.scans = 0

    # --- planning ---

    def BestIndexObject(self, info: apsw.IndexInfo) -> bool:
        constraints: dict[int, list[tuple[int, int]]] = {}
        for number in range(info.nConstraint):
            if info.get_aConstraint_usable(number):
                column = info.get_aConstraint_iColumn(number)
                constraints.setdefault(column, []).append((number, info.get_aConstraint_op(number)))
        count = self.count()
        is_free = not info.nOrderBy or info.distinct == _DISTINCT
        best: tuple[float, Any] | None = None
        for index in self.connection.indexes(self.space).values():
            plan = self._plan(index, info, constraints, count)
            if plan is not None and (best is None or plan[0] < best[0]):
                best = plan
        chosen: dict[str, Any] = {"index": 0, "is_free": is_free}
        used: list[int] = []
        if best is None:
            cost, rows = count * _ROW_COST + _SEEK_COST, float(count)
        else:
            cost, (index, equal, low, high, rows, is_ordered, is_reverse) = best
            used = [*equal, *(item[0] for item in (low, high) if item)]
            if low and low[1] == _LIKE:
                low, chosen["like"] = None, "ordered" if is_ordered else "free"
            info.orderByConsumed = is_ordered
            if index.is_unique and len(equal) == len(index.definition.parts):
                info.idxFlags = apsw.SQLITE_INDEX_SCAN_UNIQUE
            chosen |= {
                "index": index.iid,
                "equal": len(equal),
                "low": _LOW[low[1]] if low else None,
                "high": _HIGH[high[1]] if high else None,
                "reverse": is_reverse,
            }
        if not chosen.get("equal") and (matched := self._matched(info, constraints, used)):
            chosen["match"] = list(matched)
            used += matched.values()
            cost, rows = cost * _MATCHING, rows / _MATCHED ** len(matched)
        for argument, number in enumerate(used, 1):
            info.set_aConstraintUsage_argvIndex(number, argument)
        info.estimatedCost, info.estimatedRows = cost, max(int(rows), 1)
        info.idxStr = json.dumps(chosen)
        return True

    def _matched(
        self, info: apsw.IndexInfo, constraints: dict[int, list[tuple[int, int]]], used: list[int]
    ) -> dict[int, int]:
        """Return the columns, each with the number of its constraint, by which an automatic index finds rows. IN is no
        such constraint: SQLite would begin a scan for each of its values.
        """
        return {
            column: number
            for column, items in sorted(constraints.items())
            for number, op in items
            if op == _EQ
            and column >= 0
            and number not in used
            and info.get_aConstraint_collation(number) == "BINARY"
            and not info.get_aConstraintUsage_in(number)
        }

    def count(self) -> int:
        """Return the number of rows, at least 2, or a guess for those of a system view."""
        primary = self.space.primary
        # At least two rows, so that an index (see _LEAST) costs less than a scan. Rows that are computed, those of
        # system views, would have to be made to be counted: they get a guess.
        return max(len(primary), 2) if primary is not None and self.space.is_plain else 100

    def _plan(
        self, index: Index, info: apsw.IndexInfo, constraints: dict[int, list[tuple[int, int]]], count: int
    ) -> tuple[float, Any] | None:
        parts = index.definition.parts
        is_tree = index.definition.type.upper() == "TREE"
        if any(part.path for part in parts) or index.definition.type.upper() not in ("TREE", "HASH"):
            return None
        if index.definition.opts.get("func"):  # its parts are not those of columns
            return None
        equal: list[int] = []
        low = high = None
        for part in parts:
            usable = [item for item in constraints.get(part.fieldno, ()) if self._collates(info, item[0], part)]
            found = next((number for number, op in usable if op == _EQ), None)
            if found is not None:
                equal.append(found)
                continue
            low = next((item for item in usable if item[1] in _LOW), None)
            high = next((item for item in usable if item[1] in _HIGH), None)
            like = next((item for item in usable if item[1] == _LIKE), None)
            if like and is_tree and part.type.value == "string" and not (low or high):
                low = like
            break
        if not is_tree and len(equal) < len(parts):
            return None
        if any(part.exclude_null for part in parts[len(equal) + bool(low or high) :]):  # rows with nil are not in it
            return None
        rows: float = count
        if index.is_unique and len(equal) == len(parts):
            rows = _LEAST
        else:
            # Guesses, as there are no statistics: an equality leaves a tenth of the rows, a bound a third.
            rows = max(_LEAST, count / 10.0 ** len(equal)) if equal else rows
            rows = rows / 3 if low else rows
            rows = rows / 3 if high or (low and low[1] == _LIKE) else rows
        is_ordered, is_reverse = self._order(info, index, len(equal)) if is_tree else (False, False)
        if not equal and not low and not high and not is_ordered and index.iid:
            return None
        # Between equals the primary key wins, by 2 %; an order that SQLite has to make itself costs a tenth of reading.
        cost = _SEEK_COST + rows * _ROW_COST * (1.0 if index.iid == 0 else 1.02)
        if info.nOrderBy and not is_ordered:
            cost += 0.1 * rows
        return cost, (index, equal, low, high, rows, is_ordered, is_reverse)

    @staticmethod
    def _collates(info: apsw.IndexInfo, number: int, part: Any) -> bool:
        wanted = part.collation_id or 0
        name = info.get_aConstraint_collation(number)
        return name == ("BINARY" if wanted in (0, 3) else f"lb_{wanted}")  # the ids of `none` and `binary`

    def _order(self, info: apsw.IndexInfo, index: Index, skipped: int) -> tuple[bool, bool]:
        if not info.nOrderBy:
            return False, False
        parts = index.definition.parts[skipped:]
        is_reverse = info.get_aOrderBy_desc(0)
        if info.nOrderBy > len(parts):
            return False, False
        for number in range(info.nOrderBy):
            part = parts[number]
            if info.get_aOrderBy_iColumn(number) != part.fieldno or info.get_aOrderBy_desc(number) != is_reverse:
                return False, False
            if (part.collation_id or 0) not in (0, 3) or part.type.value in ("scalar", "any"):
                return False, False
        return True, is_reverse

    def index(self, iid: int) -> Index:
        """Return the index with this id that the running statement sees. Raises NO_SUCH_INDEX_ID."""
        found = self.connection.indexes(self.space).get(iid)
        return self.space.index(iid) if found is None else found

    def FindFunction(self, name: str, count: int) -> tuple[int, Callable[..., Any]] | None:
        return (_LIKE, like_column) if name == LIKE_COLUMN else None

    def Open(self) -> SpaceCursor:
        return SpaceCursor(self)

    def Disconnect(self) -> None:
        """Do nothing, as the table holds no resources."""

    Destroy = Disconnect


@lru_cache(1000)
def _plan_of(text: str) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads(text)
    return plan


class SpaceCursor:
    """A scan of one table. SQLite calls `Column`, which is the `__getitem__` of the current row, to read a column."""

    __slots__ = (
        "Column",
        "_batch",
        "_connection",
        "_is_inside",
        "_is_match",
        "_plan",
        "_point",
        "_read",
        "_row",
        "_size",
        "_source",
        "_table",
        "_text",
    )

    def __init__(self, table: SpaceTable) -> None:
        self._table = table
        self._connection = table.connection
        self._is_inside: Callable[[bytes], bool] | None = None
        self._is_match: Callable[[list[Any]], bool] | None = None
        self._source: ScanSource = _NO_TUPLES
        self._batch: Iterator[list[Any]] = _NO_ROWS
        self._size = 1
        self._read = 0
        self._row: list[Any] | None = None
        self._text: str | None = None
        self._plan: dict[str, Any] = {}
        self._point: tuple[str, ...] | None = None

    def Filter(self, number: int, text: str | None, args: tuple[Any, ...]) -> None:
        table = self._table
        table.reads += _SCAN_READS
        table.scans += 1
        if not table.scans % _SCANS:
            self._connection.look()
        if text != self._text:
            self._prepare(text)
        if self._point is not None:
            self._find(self._point, args)
            return
        self._is_inside = self._is_match = None
        self._batch, self._read = _NO_ROWS, 0
        self._size = _FIRST_BATCH if self._connection.may_read_ahead else 1
        columns = self._plan.get("match")
        if columns is None:
            self._source = self._open(self._plan, args)
        else:
            self._match(columns, args[: -len(columns)], args[-len(columns) :])
        if self._connection.outer is None:
            self._connection.begin_outer(self)
        self.Next()

    def _match(self, columns: list[int], bounds: tuple[Any, ...], wanted: tuple[Any, ...]) -> None:
        """Begin a scan for the rows with these values in the columns.

        It looks at all rows the first time, outside of other scans, and if a range differs from that of the automatic
        index.
        """
        if None in wanted:
            self._source = _NO_TUPLES
            return
        connection = self._connection
        value = wanted[0] if len(wanted) == 1 else wanted
        place = self._table.space.id, self._text
        index = connection.automatic.get(place)
        if index is not None and index.key == bounds:
            self._take(index.find(value))
        elif not connection.may_read_ahead:
            self._source = self._open(self._plan, bounds)
        elif index is None and (place in connection.automatic or connection.outer is not None):
            self._source = self._open(self._plan, bounds)
            index = AutomaticIndex(bounds, self._table.count())
            connection.leave_out(index.fill(self._batches(), self._table.decoder, columns))
            connection.automatic[place] = index
            self._take(index.find(value))
        else:
            connection.automatic.setdefault(place)
            self._source = self._open(self._plan, bounds)
            get = value_of(columns)
            self._is_match = lambda row: get(row) == value

    def _take(self, raws: list[bytes]) -> None:
        """Let these tuples be the scan."""
        self._source = _NO_TUPLES
        self._table.reads += len(raws)
        if len(raws) == 1:
            self._batch = iter((self._table.decoder.row(raws[0]),))
        elif raws:
            self._batch = iter(self._table.decoder.rows(raws))

    def _batches(self) -> Iterator[list[bytes]]:
        """Return all tuples of the scan; it looks for pauses."""
        self._size = _BATCH
        while raws := self._next_tuples():
            yield raws
            self._connection.look()

    def _prepare(self, text: str | None) -> None:
        """Parse the plan of the following scans. A scan by a whole unique key keeps the types of the key's parts."""
        self._text, self._plan, self._point = text, _plan_of(text or "{}"), None
        equal = self._plan.get("equal")
        if equal:
            index = self._table.index(self._plan["index"])
            if index.is_unique and equal == len(index.definition.parts):
                self._point = tuple(part.type.value for part in index.definition.parts)

    def _find(self, types: tuple[str, ...], args: tuple[Any, ...]) -> None:
        """Move to the only row with a key."""
        self._source, self._batch = _NO_TUPLES, _NO_ROWS
        self._row = None
        key = [key_value(arg, name) for arg, name in zip(args, types, strict=False)]
        if NOTHING in key:
            refuse_negative(args, types)
            return
        if None in key:
            return
        table = self._table
        raw = self._connection.find(table.space, self._plan["index"], key)
        if raw is not None:
            self._row = row = table.decoder.row(raw)
            self.Column = row.__getitem__

    def _open(self, plan: dict[str, Any], args: tuple[Any, ...]) -> ScanSource:
        if not self._connection.indexes(self._table.space):
            return _NO_TUPLES
        index = self._table.index(plan["index"])
        parts = index.definition.parts
        equal = plan.get("equal", 0)
        types = [part.type.value for part in parts[:equal]]
        key = [key_value(arg, name) for arg, name in zip(args, types, strict=False)]
        if NOTHING in key:
            refuse_negative(args, types)
            return _NO_TUPLES
        if any(value is None for value in args):
            return _NO_TUPLES
        low = high = None
        rest = list(args[equal:])
        if plan.get("like"):
            return self._scan_like(index, key, prefix_of(load(rest[0])))
        if plan.get("low"):
            low = bound_value(rest.pop(0), parts[equal].type.value)
        if plan.get("high"):
            high = bound_value(rest.pop(0), parts[equal].type.value)
        if low is NOTHING or high is NOTHING:
            low = high = None
        reverse = self._is_reverse(index)
        return self._scan(index, key, (plan.get("low"), low), (plan.get("high"), high), reverse)

    def _is_reverse(self, index: Index) -> bool:
        if self._plan["is_free"] and self._connection.is_reversed:
            return index.definition.type.upper() == "TREE"
        return bool(self._plan.get("reverse"))

    def _scan_like(self, index: Index, key: list[Any], prefix: str) -> ScanSource:
        """Begin a scan of the texts with a prefix. Without one, and if any order will do, the primary index is read."""
        table = self._table
        if not prefix:
            if not key and self._plan["like"] == "free":
                index = table.index(0)
            return self._scan(index, key, (None, None), (None, None), self._is_reverse(index))
        self._is_inside = end_of_prefix(index, key, prefix)
        if not self._is_reverse(index):
            return self._connection.scan(self, table.space, index.iid, IteratorType.GE, [*key, prefix])
        last = [*key, after_prefix(prefix)]
        return self._connection.scan(self, table.space, index.iid, IteratorType.LT, last)

    def _scan(
        self, index: Index, key: list[Any], low: tuple[str | None, Any], high: tuple[str | None, Any], reverse: bool
    ) -> ScanSource:
        space, connection = self._table.space, self._connection
        first, last = (high, low) if reverse else (low, high)
        if first[1] is not None:
            kind = _ITERATORS[first[0] or ""]
            self._is_inside = end_of(index, key, last, reverse, len(key))
            return connection.scan(self, space, index.iid, kind, [*key, first[1]])
        if not key:
            self._is_inside = end_of(index, key, last, reverse, 0)
            return connection.scan(self, space, index.iid, IteratorType.LE if reverse else IteratorType.ALL, [])
        self._is_inside = end_of(index, [], last, reverse, len(key))
        return connection.scan(self, space, index.iid, IteratorType.REQ if reverse else IteratorType.EQ, key)

    def Eof(self) -> bool:
        return self._row is None

    def Next(self) -> None:
        row = next(self._batch, None)
        if row is None:
            row = self._next_of_batch()
        self._row = row
        if row is not None:
            self.Column = row.__getitem__

    def _next_of_batch(self) -> list[Any] | None:
        """Decode the next rows, in batches that grow, and return the first; None at the end."""
        while raws := self._next_tuples():
            rows = self._table.decoder.rows(raws)
            if self._is_match is not None:
                rows = list(filter(self._is_match, rows))
            self._batch = iter(rows)
            row = next(self._batch, None)
            if row is not None:
                return row
            self._connection.look()
        if self._connection.outer is self:
            self._connection.outer = None
        return None

    def _next_tuples(self) -> list[bytes]:
        """Read the next tuples, and note whether they are the last ones."""
        raws = self._source.fetch(self._size)
        if not raws:
            return raws
        self._table.reads += len(raws)
        self._read += len(raws)
        if len(raws) < self._size:
            self._source = _NO_TUPLES
        if self._connection.may_read_ahead:
            # A scan that goes on will probably go on for long.
            self._size = min(4 * self._size, _BATCH)
        if self._is_inside is not None and not self._is_inside(raws[-1]):
            self._source = _NO_TUPLES
            if self._plan.get("like"):  # LIKE may raise an error for what does not begin with the prefix
                return list(takewhile(self._is_inside, raws))
        return raws

    def foreseen_reads(self, reads: int) -> float:
        """Estimate how many more rows the statement reads until this scan ends. `reads` is the number of rows read
        since the scan began. Returns 0 if the scan reads only a part of the table, because its length is unknown.
        """
        plan, ahead = self._plan, length_hint(self._batch)
        if any(map(plan.get, ("equal", "low", "high", "like"))) or self._read == ahead:
            return 0.0
        passed = self._read - ahead
        return max(reads - ahead - _SCAN_READS, passed) * (self._table.count() / passed - 1)

    def Rowid(self) -> int:
        assert self._row is not None
        primary = self._table.space.primary
        assert primary is not None
        return hash(str([self._row[part.fieldno] for part in primary.definition.parts])) & _MASK

    def Close(self) -> None:
        self._source, self._batch = _NO_TUPLES, _NO_ROWS
        self._row = None
        if self._connection.outer is self:
            self._connection.outer = None


class SpaceModule:
    """Creates the virtual tables of one connection."""

    def __init__(self, connection: RunningStatement) -> None:
        self._connection = connection

    def Create(self, _: apsw.Connection, module: str, database: str, name: str, *args: str) -> tuple[str, SpaceTable]:
        space = self._connection.being_declared
        assert space is not None
        columns = ", ".join(f"c{number}" for number in range(len(space.definition.fields)))
        table = self._connection.tables[space.id] = SpaceTable(self._connection, space)
        return f"CREATE TABLE x({columns})", table

    Connect = Create
