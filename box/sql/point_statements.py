"""Fast path for statements that concern one row by its whole primary key: they use the space directly, without SQLite.

```
SELECT * | column, ... FROM t WHERE key = ?             `point_select.py`
INSERT | REPLACE INTO t [(...)] VALUES (?, ...)         `point_changes.py`
UPDATE t SET column = ?, ... WHERE key = ?
DELETE FROM t WHERE key = ?
```

`?` is a parameter or a constant. Everything else takes the general path: tables with triggers, foreign keys, sequences
or collations in the key, values of another type than the key's. The meaning of a text is worked out once for each
version of the dictionary. A fast path changes nothing before it is sure that it can complete the statement.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Final

from box.errors import BoxError
from box.schema.ids import SYSTEM_ID_MAX
from box.sql import sql_nodes
from box.sql.parse import parse_expression
from box.sql.point_changes import PointChange, PointDelete, PointInsert, PointUpdate
from box.sql.point_keys import PointKey, ValuePlaces, key_exprs, result_places
from box.sql.point_select import PointSelect
from box.sql.stored_values import UINT_MAX

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
Point = PointSelect | PointChange
"""The fast path of a statement."""


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
        self._known: dict[Hashable, Point | None] = {}
        self._prepared: dict[int, Point] = {}

    def find(self, ctx: Context, parsed: sql_nodes.Parsed) -> Point | None:
        """Return the fast path of a statement, or None if it has none."""
        self._stay_fresh()
        key = parsed.key
        if key in self._known:
            return self._known[key]
        try:
            found = None if parsed.trailing is not None else self._analyse(ctx, parsed)
        except BoxError:  # the general path raises it at the right time
            return None
        if len(self._known) >= _KNOWN:
            self._known.clear()
        self._known[key] = found
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
        statement, count = parsed.statement, len(parsed.parameters) + parsed.constants
        if isinstance(statement, sql_nodes.Select):
            return self._select(ctx, parsed.key, statement, count)
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
        if event is not None and self._triggers.of(space, event, None):
            return None
        return space

    # --- SELECT ---

    def _select(self, ctx: Context, key_of_text: Hashable, select: sql_nodes.Select, count: int) -> Point | None:
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
        places = result_places(space, core.columns, names)
        key = _key_of(space, core.where, names, count)
        if places is None or key is None:
            return None
        if not key.is_all(count):
            return None
        compiled = self._queries.compiled(ctx, key_of_text, lambda compiler: compiler.compile(select), [0] * count)
        return PointSelect(self._dml, space, key, places, compiled.fields, count)

    # --- changes ---

    def _insert(self, insert: sql_nodes.Insert, count: int) -> Point | None:
        space = self._table(insert.table, "INSERT")
        if space is None or insert.select is None or insert.common or insert.action not in ("ABORT", "REPLACE"):
            return None
        if self._foreign_keys.has_parents(space):
            return None
        if insert.action == "REPLACE" and (
            any(index.is_unique for index in list(space.indexes.values())[1:])
            or self._triggers.of(space, "DELETE", None)
            or self._foreign_keys.has_children(space)
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
        if self._foreign_keys.concern(space, sets):
            return None
        if key is None or any(part.fieldno in sets for part in space.index(0).definition.parts):
            return None
        values = _places_of(list(sets.values()), count)
        return None if values is None else PointUpdate(self._dml, space, key, list(sets), values, count)

    def _delete(self, delete: sql_nodes.Delete, count: int) -> Point | None:
        space = self._table(delete.table, "DELETE")
        if space is None or delete.common or delete.indexed_by or self._foreign_keys.has_children(space):
            return None
        key = _key_of(space, delete.where, (None, delete.table), count)
        return None if key is None or not key.is_all(count) else PointDelete(self._dml, space, key, count)


# --- analysis ---


def _key_of(space: Space, where: sql_nodes.Expr | None, names: tuple[str | None, ...], count: int) -> PointKey | None:
    """Return the key of the condition `a = ? AND b = ?`, or None for any other condition."""
    found = key_exprs(space, where, names)
    if found is None:
        return None
    exprs, types = found
    values = _places_of(exprs, count)
    return None if values is None else PointKey(values, types, count)


def _default_of(text: str | None) -> sql_nodes.Expr | None:
    """Return the constant that is a column's default, or None if the default has to be computed."""
    return sql_nodes.Literal(None) if text is None else parse_expression(text)


def _places_of(exprs: Sequence[sql_nodes.Expr | sql_nodes.Star | None], count: int) -> ValuePlaces | None:
    """Return the indexes of parameters and constants, or None if the list contains anything else."""
    places = ValuePlaces([], [])
    for expr in exprs:
        if isinstance(expr, sql_nodes.Param):
            places.numbers.append(expr.index)
        elif isinstance(expr, sql_nodes.Literal) and expr.place is not None:
            places.numbers.append(expr.place)
        elif isinstance(expr, sql_nodes.Literal) and not (type(expr.value) is int and expr.value > UINT_MAX):
            places.numbers.append(count + len(places.constants))
            places.constants.append(expr.value)
        else:
            return None
    return places
