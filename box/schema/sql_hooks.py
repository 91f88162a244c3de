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
    """`compile_check(space, name, code)` compiles a check constraint. Raises CREATE_CK_CONSTRAINT."""
    tables_of_view: Callable[[str], list[str]] = field(default=_nothing_read)
    """`tables_of_view(query)` returns the names of the tables that the query of a view reads. Raises SQL_EXECUTE."""
    check_trigger: Callable[[str, str, SpaceDef], None] = lambda text, name, space: None
    """`check_trigger(text, name, space)` raises an error if the trigger's text does not fit its name and space."""
