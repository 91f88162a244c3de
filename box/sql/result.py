"""Results of statements: `Rows` with result columns, or `Changed` with the number of rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from box.session import Context
    from box.sql.scope import KnownColumn
    from box.sql.stored_values import Value

_PIECE: Final = 1000
"""The number of rows of a result that are converted in one turn of the loop: that takes about a millisecond."""


@dataclass(frozen=True, slots=True)
class ResultField:
    """A result column. A client receives `name` and `type`; the rest only if the session wants complete metadata."""

    name: str
    type: str
    span: str | None = None
    collation: str | None = None
    is_nullable: bool | None = None
    is_autoincrement: bool = False


class ResultFields(list[ResultField]):
    """The columns of a query. `encoded` and `for_lua` cache their forms in IPROTO replies and for Lua, with and without
    complete metadata, and `shape` whatever an interface of programs makes of them.
    """

    __slots__ = ("encoded", "for_lua", "shape")

    def __init__(self, fields: Iterable[ResultField] = ()) -> None:
        super().__init__(fields)
        self.encoded: dict[bool, bytes] = {}
        self.for_lua: dict[bool, bytes] = {}
        self.shape: Any = None


@dataclass(slots=True)
class Rows:
    """The rows of a query."""

    fields: ResultFields
    rows: list[list[Value]]
    is_full: bool = False
    """True if the session wants complete metadata."""

    @property
    def are_few(self) -> bool:
        """True if all rows can be converted in one turn of the loop."""
        return len(self.rows) <= _PIECE

    async def pieces(self, ctx: Context) -> AsyncIterator[list[list[Value]]]:
        """Yield the rows in lists, and keep none. Outside of a transaction, which a pause could abort, each list has a
        turn of the loop for itself.
        """
        rows, self.rows = self.rows, []
        if len(rows) <= _PIECE or ctx.txn is not None:
            yield rows
            return
        rows.reverse()
        while rows:
            piece = rows[-_PIECE:]
            del rows[-_PIECE:]
            piece.reverse()
            yield piece
            await asyncio.sleep(0)


@dataclass(slots=True)
class Changed:
    """The number of rows that a statement has changed, and the ids that sequences gave to new rows."""

    row_count: int = 0
    autoincrement_ids: list[int] = field(default_factory=list)


Result = Rows | Changed


def metadata_maps(rows: Rows) -> list[dict[str, Any]]:
    """Return the metadata of rows as Lua shows them."""
    found = []
    for item in rows.fields:
        entry: dict[str, Any] = {"name": item.name, "type": item.type}
        if rows.is_full:
            entry["span"] = item.span if item.span is not None else item.name
            if item.collation is not None:
                entry["collation"] = item.collation
            if item.is_nullable is not None:
                entry["is_nullable"] = item.is_nullable
            if item.is_autoincrement:
                entry["is_autoincrement"] = True
        found.append(entry)
    return found


def field_of(column: KnownColumn, span: str | None, collation: str | None) -> ResultField:
    """Return the result column for a column of a query."""
    return ResultField(
        column.name,
        column.type,
        column.name if span == "*" else span or None,
        collation,
        column.is_nullable if column.is_plain else None,
        column.is_autoincrement,
    )
