"""The rows of an INSERT: those that it names itself, without a query, and how they are stored together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from box.data.codec import pack
from box.errors import BoxError
from box.sql import sql_nodes
from box.sql.advice import unknown_field
from box.sql.not_null import check_nil
from box.sql.operators import order_key
from box.sql.parse import parse_expression
from box.sql.parse.token_reader import generic
from box.sql.scope import QueryScope
from box.sql.stored_values import Value, result_value
from box.wire.change import INSERT, Request

if TYPE_CHECKING:
    from box.schema.space import Space
    from box.session import Context
    from box.sql.reading import Compiled
    from box.sql.row_expressions import RowExpressions
    from box.sql.row_shapes import RowShape
    from box.sql.scope import Special
    from box.sql.trigger_lists import RowTriggerList
    from box.txn.dml import Dml

_NO_CONSTANT: Final = object()
"""What `_constant` returns for an expression that is no constant."""


def has_one_row(insert: sql_nodes.Insert) -> bool:
    """Return whether an INSERT has DEFAULT VALUES or VALUES with one row."""
    select = insert.select
    if select is None:
        return True
    values = select.cores[0].values
    return len(select.cores) == 1 and not insert.common and values is not None and len(values) == 1


def places_of(space: Space, insert: sql_nodes.Insert) -> list[int]:
    """Return the numbers of the columns that an INSERT names, or of all.

    Raises:
        ClientError: SQL_PARSER_GENERIC, a name is there twice; or there is no such column.
    """
    names = [field.name for field in space.definition.fields]
    if insert.columns is None:
        return list(range(len(names)))
    places: list[int] = []
    for name in insert.columns:
        if name not in names:
            raise unknown_field(space, name)
        place = names.index(name)
        if place in places:
            raise generic(f"table id list: duplicate column name {name}")
        places.append(place)
    return places


def place_of(space: Space, name: str) -> int:
    """Return the number of a column.

    Raises:
        ClientError: there is no such column.
    """
    for number, field in enumerate(space.definition.fields):
        if field.name == name:
            return number
    raise unknown_field(space, name)


def check_count(insert: sql_nodes.Insert, space: Space, given: int, wanted: int) -> None:
    """Check the number of values in a row.

    Raises:
        ClientError: SQL_PARSER_GENERIC.
    """
    if given == wanted:
        return
    if insert.columns is None:
        raise generic(f"table {space.name} has {wanted} columns but {given} values were supplied")
    raise generic(f"{given} values for {wanted} columns")


def constant_rows(select: sql_nodes.Select, params: Sequence[Value]) -> list[list[Value]] | None:
    """Return the rows of a VALUES that has only constants and parameters, or None for any other query."""
    core = select.cores[0]
    if len(select.cores) > 1 or core.values is None or select.common:
        return None
    if len(set(map(len, core.values))) > 1:  # an error, once the expressions have been looked at
        return None
    rows = []
    for items in core.values:
        row: list[Value] = []
        for item in items:
            value = _constant(item.expr, params)
            if value is _NO_CONSTANT:
                return None
            row.append(value)
        rows.append(row)
    return rows


def _constant(expr: object, params: Sequence[Value]) -> Value:
    """Return the value of a constant or a parameter, or `_NO_CONSTANT` for any other expression."""
    if isinstance(expr, sql_nodes.Literal) and expr.place is not None:
        return params[expr.place]
    if isinstance(expr, sql_nodes.Literal) and not (type(expr.value) is int and expr.value >= 2**64):
        return expr.value
    if isinstance(expr, sql_nodes.Param):
        return params[expr.index]
    if (
        isinstance(expr, sql_nodes.Unary)
        and expr.op == "-"
        and isinstance(expr.operand, sql_nodes.Literal)
        and type(expr.operand.value) in (int, float)
        and abs(expr.operand.value) <= 2**63  # type: ignore[arg-type]
    ):
        place = expr.operand.place
        return -(expr.operand.value if place is None else params[place])  # type: ignore[operator]
    return _NO_CONSTANT


class InsertPlan:
    """What the dictionary says about an INSERT under one version; `special` are NEW and OLD in the step of a trigger.

    Raises:
        ClientError: see `places_of`.
    """

    __slots__ = ("compiled", "computed", "defaults", "is_whole", "places", "space", "triggers", "values", "version")

    def __init__(
        self,
        version: int,
        space: Space,
        triggers: RowTriggerList,
        insert: sql_nodes.Insert,
        special: Special | None,
    ) -> None:
        fields = space.definition.fields
        self.version = version
        self.space = space
        self.triggers = triggers
        self.places = places_of(space, insert)
        self.is_whole = insert.select is not None and self.places == list(range(len(fields)))
        """True if the statement gives a value for each column, in their order."""
        self.defaults: list[Value] = [None] * len(fields)
        """A row of the constant defaults of other columns."""
        self.computed: list[tuple[int, str, sql_nodes.Expr]] = []
        """The places, texts and expressions of the other defaults."""
        for place, field in enumerate(fields):
            if field.default is not None and (insert.select is None or place not in self.places):
                expr = parse_expression(field.default)
                if isinstance(expr, sql_nodes.Literal):
                    self.defaults[place] = expr.value
                else:
                    self.computed.append((place, field.default, expr))
        self.compiled: Compiled | None = None
        """The analysed query of the rows, if the statement is the step of a trigger whose rows have been queried."""
        self.values: list[tuple[int | None, Value]] | None = None
        """The only inserted row, if it has nothing but constants and columns of NEW and OLD; see `_special_places`."""
        if special is not None and insert.select is not None and not insert.common:
            values = _special_places(insert.select, special)
            self.values = values if values is None or len(values) == len(self.places) else None

    def default_row(self, ctx: Context, expressions: RowExpressions) -> list[Value]:
        """Return a row of the defaults of the columns that the statement does not name.

        Raises:
            BoxError: the expression of a default raised it.
        """
        row = list(self.defaults)
        for place, text, expr in self.computed:
            row[place] = expressions.value(ctx, ("default", text), expr, QueryScope, ())
        return row

    def whole_rows(self, given: list[list[Value]], defaults: list[Value]) -> list[list[Value]]:
        """Return rows for all columns, from the values that the statement gives and the defaults."""
        if self.is_whole:
            return given
        rows = []
        for values in given:
            row = list(defaults)
            for place, value in zip(self.places, values, strict=True):
                row[place] = value
            rows.append(row)
        return rows

    def plain_row(self, special: list[Value]) -> list[Value] | None:
        """Return the values that the statement gives for its only row, or None if it needs a query. `special` are the
        values of NEW and OLD.
        """
        if self.values is None:
            return None
        return [value if place is None else result_value(special[place]) for place, value in self.values]


def _special_places(select: sql_nodes.Select, special: Special) -> list[tuple[int | None, Value]] | None:
    """Return for each value of a VALUES with one row its place among those of NEW and OLD, or None and the constant
    that it is. Returns None for any other query.
    """
    core = select.cores[0]
    if len(select.cores) > 1 or core.values is None or len(core.values) > 1 or select.common:
        return None
    names: list[tuple[str | None, str]] = [
        (table, column.name) for table, columns in special.columns.items() for column in columns
    ]
    found: list[tuple[int | None, Value]] = []
    for item in core.values[0]:
        expr = item.expr
        if isinstance(expr, sql_nodes.Name) and (expr.table, expr.name) in names:
            found.append((names.index((expr.table, expr.name)), None))
            continue
        value = _constant(expr, ())
        if value is _NO_CONSTANT:
            return None
        found.append((None, value))
    return found


def store_request(row: list[Value], action: str) -> Request:
    """Return the request that stores a row for a statement with this OR clause."""
    return (Request.replace if action == "REPLACE" else Request.insert)(pack(row))


def sort_gathered(rows: list[list[Value]]) -> None:
    """Sort the rows of a query by all their values.

    Tarantool inserts them in this order if it has to gather them first, because of triggers or because the query reads
    the table, unless a sequence gives the keys.
    """
    if len(rows) > 1:
        rows.sort(key=lambda row: [order_key(value, 0) for value in row])


def are_free(space: Space) -> bool:
    """Return whether rows of a table without foreign keys can be inserted together: neither a sequence nor code of the
    user takes part.
    """
    return not (space.definition.opts.view or space.sequence is not None or space.runs_code)


def store_together(ctx: Context, dml: Dml, space: Space, shape: RowShape, rows: list[list[Value]]) -> list[list[Value]]:
    """Insert rows in the open transaction of a statement, into a space that is free (`are_free`). Returns the rows as
    they are stored.

    Raises:
        BoxError: the error of the first wrong row; the rows before it are inserted.
    """
    stored: list[list[Value]] = []
    raws: list[bytes] = []
    failure: BoxError | None = None
    try:
        for row in rows:
            if None not in row or check_nil(space, row, "ABORT", -1):
                stored.append(shape.converted(row))
                raws.append(pack(stored[-1]))
    except BoxError as error:
        failure = error
    if raws:
        dml.store_all(ctx, space, INSERT, raws)
    if failure is not None:
        raise failure
    return stored
