"""Triggers of SQL as the dictionary has them, and their parsed form."""

from __future__ import annotations

from functools import lru_cache
from typing import NoReturn

from box.errors import BoxError
from box.sql import sql_nodes
from box.sql.parse import parse_statement
from box.sql.stored_values import execute_error


@lru_cache(256)
def trigger_of(text: str) -> sql_nodes.CreateTrigger:
    """The trigger that a `CREATE TRIGGER` statement makes. SQL_EXECUTE with the text if it is another."""
    try:
        statement = parse_statement(text).statement
    except BoxError:
        raise execute_error(text) from None
    if not isinstance(statement, sql_nodes.CreateTrigger):
        raise execute_error(text)
    return statement


class IgnoreRow(Exception):
    """RAISE(IGNORE): the row that fired the trigger is left alone."""


def raise_error(action: str, text: str) -> NoReturn:
    """RAISE(action, text). IgnoreRow, SQL_EXECUTE."""
    if action == "IGNORE":
        raise IgnoreRow
    raise execute_error(text)
