"""The rows of an INSERT: those that it names itself, without a query, and how they are stored together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from box.data.codec import pack
from box.errors import BoxError
from box.sql import sql_nodes
from box.sql.advice import unknown_field
from box.sql.not_null import check_nil
from box.sql.operators import order_key
from box.sql.parse.token_reader import generic
from box.sql.stored_values import Value
from box.wire.change import INSERT, Request

if TYPE_CHECKING:
    from box.schema.space import Space
    from box.session import Context
    from box.sql.row_shapes import RowShape
    from box.txn.dml import Dml


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
            expr = item.expr
            if isinstance(expr, sql_nodes.Literal) and expr.place is not None:
                row.append(params[expr.place])
            elif isinstance(expr, sql_nodes.Literal) and not (type(expr.value) is int and expr.value >= 2**64):
                row.append(expr.value)
            elif isinstance(expr, sql_nodes.Param):
                row.append(params[expr.index])
            elif (
                isinstance(expr, sql_nodes.Unary)
                and expr.op == "-"
                and isinstance(expr.operand, sql_nodes.Literal)
                and type(expr.operand.value) in (int, float)
                and abs(expr.operand.value) <= 2**63  # type: ignore[arg-type]
            ):
                place = expr.operand.place
                row.append(-(expr.operand.value if place is None else params[place]))  # type: ignore[operator]
            else:
                return None
        rows.append(row)
    return rows


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
