"""`_trigger`, `_fk_constraint` and `_ck_constraint`: spaces that only SQL fills."""

from __future__ import annotations

from box.errors import unsupported
from box.schema.access import Credentials
from box.schema.ddl.dictionary_change import DdlStatement, DdlTransaction
from box.schema.schema import Schema


def on_replace_trigger(schema: Schema, credentials: Credentials, txn: DdlTransaction, stmt: DdlStatement) -> None:
    """Refuse SQL triggers."""
    if stmt.new is not None:
        raise unsupported("Lunabox", "SQL triggers")


def on_replace_fk_constraint(schema: Schema, credentials: Credentials, txn: DdlTransaction, stmt: DdlStatement) -> None:
    """Refuse foreign keys."""
    if stmt.new is not None:
        raise unsupported("Lunabox", "foreign key constraints")


def on_replace_ck_constraint(schema: Schema, credentials: Credentials, txn: DdlTransaction, stmt: DdlStatement) -> None:
    """Refuse check constraints."""
    if stmt.new is not None:
        raise unsupported("Lunabox", "check constraints")
