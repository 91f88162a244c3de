"""Applies constraints and foreign keys in formats to the changes of users.

Rows of the log and of other instances were checked where they were first written; a Tarantool that knows no such rules
may have written them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from box.txn.triggers import preview_of
from box.wire.change import DELETE, INSERT, UPDATE, Request

if TYPE_CHECKING:
    from box.index import Index
    from box.schema.rule_checks import Find
    from box.schema.space import Space
    from box.session import Context
    from box.txn.storage import TupleStorage


def validated(ctx: Context, space: Space, request: Request, raw: bytes) -> list[Any]:
    """Check a tuple by the format of its space and, if a user stores it, by its rules. Returns its fields.

    Raises:
        ClientError: as `RuleChecks.validate`.
    """
    checks = space.rule_checks
    if not space.rules or request.row is not None or checks is None:
        return space.format.validate(raw)
    return checks.validate(space.definition, space.format, raw, _finder(ctx))


def check_removal(ctx: Context, space: Space, request: Request, storage: TupleStorage) -> None:
    """Check that no foreign key needs the tuple that a user's request removes or replaces.

    Raises:
        ClientError: FOREIGN_KEY_INTEGRITY, or an error that the request would raise.
    """
    checks = space.rule_checks
    if checks is None or request.type == INSERT:
        return
    txn = ctx.txn
    assert txn is not None
    if request.type not in (UPDATE, DELETE):
        validated(ctx, space, request, request.tuple)
    preview = preview_of(txn, space, request, storage)
    if preview is not None and preview[0] is not None:
        checks.check_removal(space, preview[0], preview[1], _finder(ctx))


def _finder(ctx: Context) -> Find:
    def find(space: Space, index: Index, key: list[Any]) -> bytes | None:
        engine = space.engine
        return engine.find(ctx, space, index, key) if index.is_unique else engine.least(ctx, space, index, key)

    return find
