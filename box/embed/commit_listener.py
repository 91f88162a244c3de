"""Listeners to the committed changes of one space."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from box.data.codec import unpack
from box.schema.ids import SpaceId
from box.schema.space import NOTHING

if TYPE_CHECKING:
    from box.session import Context
    from box.txn.transaction import Statement

RawChange = tuple[bytes | None, bytes | None, int | None, int | None]
"""The tuple before and after a change, and the lsn and the replica id of its row."""


class CommitListener:
    """A trigger on a space, and on the space of truncations, that reports the changes of committed transactions."""

    def __init__(self, space_id: int, tell: Callable[[RawChange], None]) -> None:
        self._space_id = space_id
        self._tell = tell

    async def call(self, ctx: Context, old: bytes | None, new: bytes | None, space_name: str, op: str) -> Any:
        """Note the transaction of a statement in the space, or of a truncation of any space."""
        txn = ctx.txn
        if txn is not None and self._committed not in txn.on_commit:
            txn.on_commit.append(self._committed)
        return NOTHING

    def _committed(self, statements: list[Statement]) -> None:
        for statement in statements:
            change = change_in(statement, self._space_id)
            if change is not None:
                self._tell(change)


def change_in(statement: Statement, space_id: int) -> RawChange | None:
    """Return the change of a space that a committed statement made, or None if it made none. A truncation has no
    tuples.
    """
    space = statement.space
    if space is None or (statement.old is None and statement.new is None):
        return None
    if space.id == space_id:
        return (statement.old, statement.new, *place_of(statement))
    if space.id == SpaceId.TRUNCATE and statement.new is not None and unpack(statement.new)[0] == space_id:
        return (None, None, *place_of(statement))
    return None


def place_of(statement: Statement) -> tuple[int | None, int | None]:
    """Return the lsn and the replica id of a statement's row in the log; both are None if it has no row."""
    row = statement.row
    return (None, None) if row is None or not row.lsn else (row.lsn, row.replica_id)
