"""`_trigger`, `_fk_constraint` and `_ck_constraint`: spaces that only SQL fills."""

from __future__ import annotations

from typing import TYPE_CHECKING

from box.errors import unsupported
from box.schema.schema import Schema

if TYPE_CHECKING:
    from box.session import Context
    from box.txn.transaction import Statement, Transaction


def on_replace_trigger(schema: Schema, ctx: Context, txn: Transaction, stmt: Statement) -> None:
    """Refuse SQL triggers."""
    if stmt.new is not None:
        raise unsupported("Lunabox", "SQL triggers")


def on_replace_fk_constraint(schema: Schema, ctx: Context, txn: Transaction, stmt: Statement) -> None:
    """Refuse foreign keys."""
    if stmt.new is not None:
        raise unsupported("Lunabox", "foreign key constraints")


def on_replace_ck_constraint(schema: Schema, ctx: Context, txn: Transaction, stmt: Statement) -> None:
    """Refuse check constraints."""
    if stmt.new is not None:
        raise unsupported("Lunabox", "check constraints")
