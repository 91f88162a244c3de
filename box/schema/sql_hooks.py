"""The dictionary's interface to SQL, which parses the texts of checks, views and triggers.

The dictionary reads no SQL itself. Its owner tells `Schema.sql` where to find the functions that do; they are looked up
at the first text, because the modules of SQL take long to import and many nodes never need them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from box.errors import ErrorCode, client_error
from box.schema.sql_objects import RowCheck

if TYPE_CHECKING:
    from box.schema.space import SpaceDef


class SqlFunctions(Protocol):
    """The functions of SQL that the dictionary needs."""

    def compile_check(self, space: SpaceDef, name: str, code: str) -> RowCheck:
        """Return the test of a check constraint.

        Raises:
            ClientError: CREATE_CK_CONSTRAINT.
        """

    def tables_of_view(self, text: str) -> list[str]:
        """Return the names of the tables that a view reads.

        Raises:
            ClientError: SQL_EXECUTE, NO_SUCH_SPACE.
        """

    def check_trigger(self, text: str, name: str, space: SpaceDef) -> None:
        """Check the text of a trigger; `name` is the name in its tuple.

        Raises:
            ClientError: the text is wrong.
        """


class NoSql:
    """The functions of a dictionary without SQL: it has no checks and its views read nothing."""

    def compile_check(self, space: SpaceDef, name: str, code: str) -> RowCheck:
        raise client_error(ErrorCode.CREATE_CK_CONSTRAINT, name, "SQL is not available")

    def tables_of_view(self, text: str) -> list[str]:
        return []

    def check_trigger(self, text: str, name: str, space: SpaceDef) -> None:
        pass


class SqlHooks:
    """Passes the calls of the dictionary to the functions of SQL."""

    def __init__(self) -> None:
        self.find: Callable[[], SqlFunctions] = NoSql
        """Returns the functions of SQL. It is called for each text, so that SQL is imported only when one comes."""

    def compile_check(self, space: SpaceDef, name: str, code: str) -> RowCheck:
        """Call `SqlFunctions.compile_check`."""
        return self.find().compile_check(space, name, code)

    def tables_of_view(self, text: str) -> list[str]:
        """Call `SqlFunctions.tables_of_view`."""
        return self.find().tables_of_view(text)

    def check_trigger(self, text: str, name: str, space: SpaceDef) -> None:
        """Call `SqlFunctions.check_trigger`."""
        self.find().check_trigger(text, name, space)
