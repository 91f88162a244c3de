"""Fast path for statements that concern one row by its whole primary key: they use the space directly, without SQLite.

```
SELECT * | column, ... FROM t WHERE key = ?             Reader.get
INSERT | REPLACE INTO t [(...)] VALUES (?, ...)         Dml.store
UPDATE t SET column = ?, ... WHERE key = ?              Reader.get, Dml.write
DELETE FROM t WHERE key = ?                             Reader.get, Dml.write
```

`?` is a parameter or a constant. Everything else takes the general path: tables with triggers, foreign keys, sequences
or collations in the key, values of another type than the key's. The meaning of a text is worked out once for each
version of the dictionary. A fast path changes nothing before it is sure that it can complete the statement.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple

from box.data.codec import pack, unpack
from box.data.marks import FIXARRAY
from box.errors import BoxError
from box.schema.ids import SYSTEM_ID_MAX
from box.sql import sql_nodes
from box.sql.casts import convert
from box.sql.not_null import check_nil
from box.sql.parse import parse_expression
from box.sql.result import ResultFields
from box.sql.stored_values import INT_MIN, UINT_MAX, Value
from box.txn.pending import Outcome
from box.wire.change import INSERT, REPLACE, Request

if TYPE_CHECKING:
    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.session import Context
    from box.sql.foreign_keys import ForeignKeys
    from box.sql.reading import QueryRunner
    from box.sql.row_triggers import RowTriggers
    from box.txn.dml import Dml

_KNOWN: Final = 1000
"""The number of texts whose meaning is cached."""
_PLAIN: Final[frozenset[type]] = frozenset((bool, int, float, str, bytes, type(None)))
"""The types of plain parameters; a named parameter is given as a map."""
_SAME: Final[dict[str, frozenset[type]]] = {
    "integer": frozenset((int,)),
    "double": frozenset((float,)),
    "string": frozenset((str,)),
    "boolean": frozenset((bool,)),
    "varbinary": frozenset((bytes,)),
    "number": frozenset((int, float)),
    "scalar": frozenset((bool, int, float, str, bytes)),
    "any": frozenset((bool, int, float, str, bytes)),
}
"""For each column type, the types of values that are stored without a conversion."""
_KEY_TYPES: Final = frozenset(("integer", "unsigned", "string"))
_BINARY: Final = frozenset((None, 0, 3))
"""The collations that compare bytes; None stands for no collation."""
_KINDS_MAX: Final = 64
"""The number of combinations of parameter types that are cached for one statement."""
_NO_ROWS: Final = bytes((FIXARRAY,))
_ONE_ROW: Final = bytes((FIXARRAY | 1,))
_SPECIAL: Final = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]|\xca[\x7f\xff][\x80-\xff]").search
"""Finds NaN in a tuple, and also other bytes that look like it."""


class _Places(NamedTuple):
    """The values of a statement, by their indexes in the list of parameters and constants; the constants come last."""

    numbers: list[int]
    constants: list[Value]


class PointStatements:
    """The point statements of one node."""

    def __init__(
        self, schema: Schema, dml: Dml, queries: QueryRunner, triggers: RowTriggers, foreign_keys: ForeignKeys
    ) -> None:
        self._schema = schema
        self._dml = dml
        self._queries = queries
        self._triggers = triggers
        self._foreign_keys = foreign_keys
        self._version = -1
        self._known: dict[str, Point | None] = {}
        self._prepared: dict[int, Point] = {}

    def find(self, ctx: Context, parsed: sql_nodes.Parsed) -> Point | None:
        """Return the fast path of a statement, or None if it has none."""
        self._stay_fresh()
        if parsed.text in self._known:
            return self._known[parsed.text]
        try:
            found = None if parsed.trailing is not None else self._analyse(ctx, parsed)
        except BoxError:  # the user may not read the table; the general path raises the error at the right time
            return None
        if len(self._known) >= _KNOWN:
            self._known.clear()
        self._known[parsed.text] = found
        return found

    def prepared(self, statement_id: int) -> Point | None:
        """Return the fast path of a prepared statement that was stored by `remember`, or None."""
        return self._prepared.get(statement_id) if self._version == self._schema.version else None

    def remember(self, statement_id: int, point: Point) -> None:
        """Store the fast path of a prepared statement."""
        self._stay_fresh()
        if len(self._prepared) >= _KNOWN:
            self._prepared.clear()
        self._prepared[statement_id] = point

    def _stay_fresh(self) -> None:
        if self._version != self._schema.version:
            self._known.clear()
            self._prepared.clear()
            self._version = self._schema.version

    def _analyse(self, ctx: Context, parsed: sql_nodes.Parsed) -> Point | None:
        statement, count = parsed.statement, len(parsed.parameters)
        if isinstance(statement, sql_nodes.Select):
            return self._select(ctx, parsed.text, statement, count)
        if isinstance(statement, sql_nodes.Insert):
            return self._insert(statement, count)
        if isinstance(statement, sql_nodes.Update):
            return self._update(statement, count)
        if isinstance(statement, sql_nodes.Delete):
            return self._delete(statement, count)
        return None

    def _table(self, name: str | None, event: str | None = None) -> Space | None:
        """Return a table that the fast path supports, or None. `event` is the kind of triggers that the table must not
        have.
        """
        space = next((space for space in self._schema.spaces.values() if space.name == name), None)
        if space is None or space.id <= SYSTEM_ID_MAX or not space.is_plain or not space.definition.fields:
            return None
        if space.primary is None or space.definition.opts.view:
            return None
        if event is not None and (self._foreign_keys.has_any(space) or self._triggers.of(space, event, None)):
            return None
        return space

    # --- SELECT ---

    def _select(self, ctx: Context, text: str, select: sql_nodes.Select, count: int) -> Point | None:
        core = select.cores[0]
        is_simple = not (select.common or select.order_by or select.limit or select.offset)
        if len(select.cores) > 1 or not is_simple or core.values is not None or len(core.sources) != 1:
            return None
        source = core.sources[0]
        if source != sql_nodes.FromItem(name=source.name, alias=source.alias, join=source.join):
            return None
        if core.group_by is not None or core.having is not None or core.is_distinct:
            return None
        space = self._table(source.name)
        if space is None:
            return None
        names = (None, source.alias or source.name)
        places = _result_places(space, core.columns, names)
        key = _key_of(space, core.where, names, count)
        if places is None or key is None:
            return None
        if not key.is_all(count):
            return None
        compiled = self._queries.compiled(ctx, text, lambda compiler: compiler.compile(select), [0] * count)
        return PointSelect(self._dml, space, key, places, compiled.fields, count)

    # --- changes ---

    def _insert(self, insert: sql_nodes.Insert, count: int) -> Point | None:
        space = self._table(insert.table, "INSERT")
        if space is None or insert.select is None or insert.common or insert.action not in ("ABORT", "REPLACE"):
            return None
        if insert.action == "REPLACE" and (
            any(index.is_unique for index in list(space.indexes.values())[1:])
            or self._triggers.of(space, "DELETE", None)
        ):
            return None
        names = [field.name for field in space.definition.fields]
        columns = names if insert.columns is None else insert.columns
        core = insert.select.cores[0]
        if len(insert.select.cores) > 1 or insert.select.common or core.values is None or len(core.values) > 1:
            return None
        given = [item.expr for item in core.values[0]]
        if len(given) != len(columns) or len(set(columns)) < len(columns) or not set(columns) <= set(names):
            return None
        written = dict(zip(columns, given, strict=True))
        exprs = [
            written[name] if name in written else _default_of(field.default)
            for name, field in zip(names, space.definition.fields, strict=True)
        ]
        row = _places_of(exprs, count)
        return None if row is None else PointInsert(self._dml, space, row, insert.action, count)

    def _update(self, update: sql_nodes.Update, count: int) -> Point | None:
        space = self._table(update.table, "UPDATE")
        if space is None or update.common or update.action != "ABORT" or update.indexed_by:
            return None
        key = _key_of(space, update.where, (None, update.table), count)
        fields = {field.name: number for number, field in enumerate(space.definition.fields)}
        sets: dict[int, sql_nodes.Expr] = {}
        for columns, expr in update.sets:
            place = fields.get(columns[0])
            if len(columns) > 1 or place is None or place in sets:
                return None
            sets[place] = expr
        if key is None or any(part.fieldno in sets for part in space.index(0).definition.parts):
            return None
        values = _places_of(list(sets.values()), count)
        return None if values is None else _PointUpdate(self._dml, space, key, list(sets), values, count)

    def _delete(self, delete: sql_nodes.Delete, count: int) -> Point | None:
        space = self._table(delete.table, "DELETE")
        if space is None or delete.common or delete.indexed_by:
            return None
        key = _key_of(space, delete.where, (None, delete.table), count)
        return None if key is None or not key.is_all(count) else _PointDelete(self._dml, space, key, count)


# --- analysis ---


def _result_places(
    space: Space, columns: list[sql_nodes.ResultColumn], names: tuple[str | None, ...]
) -> list[int] | None:
    """Return the fields of the result columns, or None if a result column is not simply a column."""
    fields = {field.name: number for number, field in enumerate(space.definition.fields)}
    places: list[int] = []
    for column in columns:
        expr = column.expr
        if isinstance(expr, sql_nodes.Star) and expr.table in names:
            places += range(len(fields))
        elif isinstance(expr, sql_nodes.Name) and expr.table in names and expr.name in fields:
            places.append(fields[expr.name])
        else:
            return None
    return places


def _key_of(space: Space, where: sql_nodes.Expr | None, names: tuple[str | None, ...], count: int) -> _Key | None:
    """Return the key of the condition `a = ? AND b = ?`, or None for any other condition."""
    terms: list[sql_nodes.Expr | None] = [where]
    found: dict[str, sql_nodes.Expr] = {}
    while terms:
        term = terms.pop()
        if not isinstance(term, sql_nodes.Binary):
            return None
        if term.op == "AND":
            terms += (term.left, term.right)
            continue
        column, value = (term.left, term.right) if isinstance(term.left, sql_nodes.Name) else (term.right, term.left)
        if term.op != "=" or not isinstance(column, sql_nodes.Name) or column.table not in names:
            return None
        if column.name in found:
            return None
        found[column.name] = value
    fields = space.definition.fields
    exprs: list[sql_nodes.Expr] = []
    types: list[str] = []
    for part in space.index(0).definition.parts:
        field = fields[part.fieldno] if part.fieldno < len(fields) else None
        if field is None or field.name not in found or part.path or part.type is not field.type:
            return None
        if part.type.value not in ("integer", "unsigned", "string") or {part.collation_id, field.collation_id} - {
            None,
            0,
            3,
        }:
            return None
        exprs.append(found.pop(field.name))
        types.append(part.type.value)
    values = _places_of(exprs, count)
    return None if found or values is None else _Key(values, types)


def _default_of(text: str | None) -> sql_nodes.Expr | None:
    """Return the constant that is a column's default, or None if the default has to be computed."""
    return sql_nodes.Literal(None) if text is None else parse_expression(text)


def _places_of(exprs: Sequence[sql_nodes.Expr | sql_nodes.Star | None], count: int) -> _Places | None:
    """Return the indexes of parameters and constants, or None if the list contains anything else."""
    places = _Places([], [])
    for expr in exprs:
        if isinstance(expr, sql_nodes.Param):
            places.numbers.append(expr.index)
        elif isinstance(expr, sql_nodes.Literal) and not (type(expr.value) is int and expr.value > UINT_MAX):
            places.numbers.append(count + len(places.constants))
            places.constants.append(expr.value)
        else:
            return None
    return places


# --- running ---


class _Key:
    """The values of a primary key whose parts have the types `types`."""

    __slots__ = ("_is_single", "_lowest", "_numbers", "constants")

    def __init__(self, values: _Places, types: list[str]) -> None:
        self._numbers = values.numbers
        self.constants = values.constants
        self._lowest = [None if name == "string" else 0 if name == "unsigned" else INT_MIN for name in types]
        """The least integer of each part of the key, or None for a text."""
        self._is_single = self._numbers == [0] and not self.constants and types != ["string"]

    def is_all(self, count: int) -> bool:
        """Return whether the parts of the key are exactly the first `count` parameters."""
        return set(range(count)) <= set(self._numbers)

    def of(self, params: list[Value]) -> list[Value] | None:
        """Return the key for these parameters, or None if a value has another type than the key, so that the general
        path has to compare it.
        """
        if self._is_single:
            value, lowest = params[0], self._lowest[0]
            is_right = type(value) is int and lowest is not None and lowest <= value <= UINT_MAX
            return [value] if is_right else None
        values = [*params, *self.constants] if self.constants else params
        key = [values[number] for number in self._numbers]
        for value, lowest in zip(key, self._lowest, strict=True):
            if lowest is None:
                if type(value) is not str:
                    return None
            elif type(value) is not int or not lowest <= value <= UINT_MAX:
                return None
        return key


class PointSelect:
    """The fast path of `SELECT ... WHERE key = ?`."""

    is_query: ClassVar[Literal[True]] = True
    __slots__ = ("_count", "_dml", "_first", "_key", "_places", "_size", "_space", "fields")

    def __init__(self, dml: Dml, space: Space, key: _Key, places: list[int], fields: ResultFields, count: int) -> None:
        self._dml = dml
        self._space = space
        self._key = key
        self._size = len(space.definition.fields)
        self._places = None if places == list(range(self._size)) else places
        self._first = 0x90 | self._size if self._size < 16 and self._places is None else -1
        """The first byte of tuples that can be returned unchanged as a result."""
        self.fields = fields
        self._count = count

    @property
    def space(self) -> Space:
        """The space that the statement concerns."""
        return self._space

    def key(self, params: Sequence[Value]) -> list[Value] | None:
        """Return the key for these parameters, or None for values that need the general path."""
        return self._key.of(params) if len(params) == self._count else None  # type: ignore[arg-type]

    def rows(self, ctx: Context, key: list[Value]) -> list[list[Value]]:
        """Return the row with a key as a list of rows. Raises ACCESS_DENIED."""
        raw = self._dml.sql_reads.get(ctx, self._space, 0, key)
        return [] if raw is None else [self._row(raw)]

    def packed_rows(self, ctx: Context, key: list[Value]) -> bytes:
        """Return the row with a key as MessagePack."""
        raw = self._dml.sql_reads.get(ctx, self._space, 0, key)
        if raw is None:
            return _NO_ROWS
        if raw[0] == self._first and _SPECIAL(raw) is None:
            return _ONE_ROW + raw
        return _ONE_ROW + pack(self._row(raw))

    def _row(self, raw: bytes) -> list[Value]:
        row = unpack(raw)
        if len(row) != self._size:
            row = row[: self._size] + [None] * (self._size - len(row))
        if self._places is not None:
            row = [row[place] for place in self._places]
        if float in map(type, row):
            row = [None if value != value else value for value in row]  # SQL shows NaN as nil
        found: list[Value] = row
        return found


class PointInsert:
    """The fast path of `INSERT ... VALUES (?, ...)`, and of `REPLACE`, which removes an existing row."""

    is_query: ClassVar[Literal[False]] = False
    __slots__ = ("_action", "_constants", "_count", "_dml", "_is_row", "_numbers", "_plain", "_space", "_types")

    def __init__(self, dml: Dml, space: Space, row: _Places, action: str, count: int) -> None:
        self._dml = dml
        self._space = space
        self._numbers = row.numbers
        self._constants = row.constants
        self._is_row = row.numbers == list(range(count))
        """True if the parameters, in their order, are the row."""
        self._action = action
        self._count = count
        self._types = [field.type.value for field in space.definition.fields]
        self._plain: dict[tuple[type, ...], bool] = {}
        """For each combination of types: whether such values are stored without a conversion."""

    @property
    def space(self) -> Space:
        """The space that the statement concerns."""
        return self._space

    def run(self, ctx: Context, params: Sequence[Value]) -> _Written | None:
        """Store the row. Raises the errors of `Sql.execute`."""
        space = self._space
        if len(params) != self._count or space.has_triggers or space.sequence is not None:
            return None
        row: Sequence[Value] = params
        if not self._is_row:
            values = [*params, *self._constants]
            row = [values[number] for number in self._numbers]
        if not self._is_plain(row):
            if not _PLAIN.issuperset(map(type, params)):
                return None
            row = list(row)
            if not check_nil(space, row, self._action, -1):
                return 0, None
            row = [convert(value, name) for value, name in zip(row, self._types, strict=True)]
        raw = pack(row)
        if self._action != "REPLACE":
            return 1, self._dml.store(ctx, space, INSERT, raw)
        key = space.index(0).key_def.extract_values(list(row))
        if self._dml.sql_reads.get(ctx, space, 0, key) is not None:
            return self._exchange(ctx, key, raw)
        return 1, self._dml.store(ctx, space, REPLACE, raw)

    @property
    def takes_many(self) -> bool:
        """True if rows may be stored together: nothing but the indexes has a say in them."""
        return self._action != "REPLACE" and not self._space.has_triggers and self._space.sequence is None

    def packed(self, params: Sequence[Any]) -> bytes | None:
        """Return the tuple for these parameters, or None if a value needs a conversion.

        Raises:
            ClientError: PROC_RET, an integer has more than 64 bits.
        """
        if len(params) != self._count:
            return None
        row = params
        if not self._is_row:
            values = [*params, *self._constants]
            row = [values[number] for number in self._numbers]
        return pack(list(row)) if self._is_plain(row) else None

    def _is_plain(self, row: Sequence[Value]) -> bool:
        kinds = tuple(map(type, row))
        known = self._plain.get(kinds)
        if known is None:
            if len(self._plain) >= _KINDS_MAX:
                self._plain.clear()
            known = all(kind in _SAME.get(name, ()) for kind, name in zip(kinds, self._types, strict=True))
            self._plain[kinds] = known
        return known

    def _exchange(self, ctx: Context, key: list[Value], raw: bytes) -> _Written:
        """Replace a row. As in Tarantool, the log gets a DELETE and an INSERT, and both are counted."""
        dml, txns, is_alone = self._dml, self._dml.txns, ctx.txn is None
        if is_alone:
            txns.begin_lone(ctx)  # nothing waits before its commit
        before = txns.savepoint(ctx)
        try:
            dml.write(ctx, self._space, Request.delete(key))
            dml.store(ctx, self._space, REPLACE, raw)
        except BaseException:
            if ctx.txn is not None and is_alone:
                txns.rollback_open(ctx, ctx.txn)
            elif ctx.txn is not None and before.is_valid_in(ctx.txn):
                txns.rollback_to_savepoint(ctx, before)
            raise
        return 2, dml.commit(ctx) if is_alone else None


class _PointUpdate:
    """The fast path of `UPDATE t SET column = ?, ... WHERE key = ?`."""

    is_query: ClassVar[Literal[False]] = False
    __slots__ = (
        "_constants",
        "_count",
        "_dml",
        "_is_nullable",
        "_key",
        "_numbers",
        "_places",
        "_size",
        "_space",
        "_types",
    )

    def __init__(self, dml: Dml, space: Space, key: _Key, places: list[int], values: _Places, count: int) -> None:
        fields = space.definition.fields
        self._dml = dml
        self._space = space
        self._key = key
        self._places = places
        self._numbers = values.numbers
        self._constants = values.constants
        self._types = [fields[place].type.value for place in places]
        self._is_nullable = all(fields[place].is_nullable for place in places)
        self._size = len(fields)
        self._count = count

    @property
    def space(self) -> Space:
        """The space that the statement concerns."""
        return self._space

    def run(self, ctx: Context, params: Sequence[Value]) -> _Written | None:
        """Update the row. Raises the errors of `Sql.execute`."""
        space, dml = self._space, self._dml
        if len(params) != self._count or space.has_triggers or not _PLAIN.issuperset(map(type, params)):
            return None
        key = self._key.of(params)  # type: ignore[arg-type]
        if key is None:
            return None
        raw = dml.sql_reads.get(ctx, space, 0, key)
        if raw is None:
            return 0, None
        if _count_of(raw) < self._size:
            return None  # the tuple lacks the field, and updating it needs the fields before it
        values = [*params, *self._constants] if self._constants else params
        operations: list[list[Any]] = []
        for place, number in zip(self._places, self._numbers, strict=True):
            value = values[number]
            operations.append(["=", place + 1, None if value != value else value])
        if not self._is_nullable and not self._has_values(raw, operations):
            return 0, None
        for operation, type_name in zip(operations, self._types, strict=True):
            operation[2] = convert(operation[2], type_name)
        operations.sort()
        return 1, dml.write(ctx, space, Request.update(key, operations))

    def _has_values(self, raw: bytes, operations: list[list[Any]]) -> bool:
        """Return whether an update leaves no NOT NULL column without a value; see `check_nil`."""
        if all(value is not None for _, _, value in operations):
            return True
        new = unpack(raw)
        for _, place, value in operations:
            new[place - 1] = value
        return check_nil(self._space, new, "ABORT", -1)


class _PointDelete:
    """The fast path of `DELETE FROM t WHERE key = ?`."""

    is_query: ClassVar[Literal[False]] = False
    __slots__ = ("_count", "_dml", "_key", "_space")

    def __init__(self, dml: Dml, space: Space, key: _Key, count: int) -> None:
        self._dml = dml
        self._space = space
        self._key = key
        self._count = count

    @property
    def space(self) -> Space:
        """The space that the statement concerns."""
        return self._space

    def run(self, ctx: Context, params: Sequence[Value]) -> _Written | None:
        """Delete the row. Raises the errors of `Sql.execute`."""
        space, dml = self._space, self._dml
        if len(params) != self._count or space.has_triggers:
            return None
        key = self._key.of(params)  # type: ignore[arg-type]
        if key is None:
            return None
        if dml.sql_reads.get(ctx, space, 0, key) is None:
            return 0, None
        return 1, dml.write(ctx, space, Request.delete(key))


def _count_of(raw: bytes) -> int:
    """Return the number of fields of a tuple."""
    return raw[0] & 0x0F if raw[0] < 0xA0 else int.from_bytes(raw[1 : 3 if raw[0] == 0xDC else 5], "big")


_Written = tuple[int, Outcome]
"""The number of changed rows, and the outcome of the write: complete unless it is a `Pending`."""
PointChange = PointInsert | _PointUpdate | _PointDelete
Point = PointSelect | PointChange
