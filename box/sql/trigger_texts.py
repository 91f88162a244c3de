"""The texts of triggers in the dictionary, and their parsed form."""

from __future__ import annotations

from functools import lru_cache
from typing import NoReturn

from box.errors import BoxError, ClientError, ErrorCode
from box.sql import sql_nodes
from box.sql.parse import parse_statement
from box.sql.stored_values import execute_error


@lru_cache(256)
def trigger_of(text: str) -> sql_nodes.CreateTrigger:
    """Parse the text of a `CREATE TRIGGER` statement.

    Raises:
        ClientError: SQL_EXECUTE with the text, if it is another statement.
    """
    try:
        statement = parse_statement(text).statement
    except BoxError:
        raise execute_error(text) from None
    if not isinstance(statement, sql_nodes.CreateTrigger):
        raise execute_error(text)
    return statement


class IgnoreRow(Exception):
    """Raised by RAISE(IGNORE): the row that fired the trigger is to be left alone."""


class RaisedError(ClientError):
    """The error of RAISE. `action` tells what the error undoes: ABORT, FAIL or ROLLBACK, as in the OR clause of a
    statement.
    """

    __slots__ = ("action",)

    action: str


def raise_error(action: str, text: str) -> NoReturn:
    """Run RAISE(action, text).

    Raises:
        IgnoreRow: the action is IGNORE.
        RaisedError: SQL_EXECUTE with the text.
    """
    if action == "IGNORE":
        raise IgnoreRow
    error = RaisedError(ErrorCode.SQL_EXECUTE, ErrorCode.SQL_EXECUTE.template % text)
    error.action = action
    raise error
