"""The dictionary's interface to SQL, which parses the texts of checks, views and triggers.

The dictionary itself reads no SQL: its owner sets the functions of `Schema.sql`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from box.errors import ErrorCode, client_error
from box.schema.sql_objects import RowCheck

if TYPE_CHECKING:
    from box.schema.space import SpaceDef


def _refuse_check(space: SpaceDef, name: str, code: str) -> RowCheck:
    raise client_error(ErrorCode.CREATE_CK_CONSTRAINT, name, "SQL is not available")


def _nothing_read(text: str) -> list[str]:
    return []


@dataclass(slots=True)
class SqlHooks:
    """The functions of SQL that the dictionary calls."""

    compile_check: Callable[[SpaceDef, str, str], RowCheck] = field(default=_refuse_check)
    """(space, name of the constraint, code): raises CREATE_CK_CONSTRAINT."""
    tables_of_view: Callable[[str], list[str]] = field(default=_nothing_read)
    """The names of the tables that a view's query reads. SQL_EXECUTE."""
    check_trigger: Callable[[str, str, SpaceDef], None] = lambda text, name, space: None
    """(text, name in the tuple, its space): raises what is wrong with it."""
