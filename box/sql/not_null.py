"""NOT NULL of the rows that INSERT, REPLACE and UPDATE store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from box.errors import ErrorCode, client_error
from box.sql import sql_nodes
from box.sql.casts import convert
from box.sql.parse import parse_expression
from box.sql.stored_values import Value
from box.sql.trigger_texts import raise_error

if TYPE_CHECKING:
    from box.schema.space import Space


def check_updated(space: Space, row: list[Value], action: str) -> bool:
    """Check NOT NULL for an updated row, as `check_nil` does. A field with a sequence raises a special error."""
    auto = space.sequence_field if space.sequence is not None and space.sequence_path is None else -1
    if auto >= 0 and row[auto] is None:
        field = space.definition.fields[auto]
        if action == "REPLACE":
            raise client_error(ErrorCode.KEY_PART_TYPE, 0, field.type.value)
        raise client_error(ErrorCode.FIELD_TYPE, f"{auto + 1} ({field.name})", field.type.value, "nil")
    return check_nil(space, row, action, auto)


def check_nil(space: Space, row: list[Value], action: str, auto: int) -> bool:
    """Check NOT NULL. Returns False if the row is to be skipped, else True. REPLACE fills in defaults."""
    for number, field in enumerate(space.definition.fields):
        if row[number] is not None or field.is_nullable or number == auto:
            continue
        own = field.action if action == "ABORT" else action.lower()
        if own == "ignore":
            return False
        if own == "replace" and field.default is not None:
            expr = parse_expression(field.default)
            if isinstance(expr, sql_nodes.Literal) and expr.value is not None:
                row[number] = convert(expr.value, field.type.value)
                continue
        raise_error(own.upper(), f"NOT NULL constraint failed: {space.name}.{field.name}")
    return True
