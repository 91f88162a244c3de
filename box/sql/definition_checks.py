"""Finds the errors of a definition that Tarantool raises before it changes a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from box.errors import BoxError, ErrorCode
from box.schema.ids import SpaceId
from box.sql import sql_nodes
from box.sql.definer import Definer

if TYPE_CHECKING:
    from box.schema.space import Space
    from box.session import Context
    from box.wire.change import Request

_CREATED: Final = (sql_nodes.CreateTable, sql_nodes.CreateView)
_AT_RUN: Final = frozenset(
    (
        ErrorCode.ALTER_SPACE,
        ErrorCode.CONSTRAINT_EXISTS,
        ErrorCode.NO_SUCH_INDEX_NAME,
        ErrorCode.NO_SUCH_TRIGGER,
        ErrorCode.SPACE_FIELD_IS_DUPLICATE,
        ErrorCode.TRIGGER_EXISTS,
    )
)
"""Errors that Tarantool finds only when it runs a statement."""


class _WouldChange(Exception):
    """Raised in place of the first change of a row."""


class DefinitionChecks(Definer):
    """Checks definitions against the dictionary, without changing a row."""

    def check(self, ctx: Context, statement: sql_nodes.Definition) -> None:
        """Check a definition, as far as Tarantool does before it runs a statement.

        A trigger without steps is one whose text is wrong after the name of its table: only the table is looked up.

        Raises:
            BoxError: see `Definer.run`.
        """
        if isinstance(statement, sql_nodes.CreateTrigger) and not statement.steps:
            self._space(ctx, statement.table)
            return
        txns = self._dml.txns
        is_alone = ctx.txn is None and txns.storage.allows_yield
        if is_alone:
            txns.begin(ctx)  # only transactions see the rows of definitions that are on their way to the log
        running = self.run(ctx, statement)
        try:
            running.send(None)  # it waits for nothing but changes
        except (_WouldChange, StopIteration):
            pass
        except BoxError as error:
            is_of_name = error.code == ErrorCode.SPACE_EXISTS and isinstance(statement, _CREATED)
            if error.code not in _AT_RUN and not is_of_name:
                raise
        finally:
            running.close()
            if is_alone:
                txns.rollback(ctx)

    def _check_readable(self, ctx: Context, space_id: SpaceId) -> None:
        """Check nothing: rights count when a statement runs."""

    async def _write(self, ctx: Context, space_id: SpaceId, request: Request) -> bytes | None:
        raise _WouldChange

    async def _drop_space(self, ctx: Context, space: Space) -> None:
        raise _WouldChange

    async def _next_space_id(self, ctx: Context) -> int:
        raise _WouldChange
