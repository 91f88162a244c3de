"""The dictionary's interface to SQL, which parses the texts of checks, views and triggers.

The dictionary reads no SQL itself. Its owner tells `Schema.sql` where to find the functions that do; they are looked up
at the first text, because the modules of SQL take long to import and many nodes never need them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from box.errors import ErrorCode, client_error, unsupported
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

    def compile_function(self, space: SpaceDef, number: int | None, code: str) -> RowCheck:
        """Return the test of a constraint whose function is an expression: only true satisfies it.

        It gets the fields of a tuple, or the value of the field `number` alone in a list.

        Raises:
            ClientError: the text is wrong, or it names fields that the space does not have.
        """

    def arguments_of(self, code: str) -> list[str]:
        """Return the names in an expression, each once.

        Raises:
            ClientError: the text is wrong.
            UnsupportedError: it has a query.
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

    def compile_function(self, space: SpaceDef, number: int | None, code: str) -> RowCheck:
        raise unsupported("A node without SQL", "functions in SQL")

    def arguments_of(self, code: str) -> list[str]:
        return []

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

    def compile_function(self, space: SpaceDef, number: int | None, code: str) -> RowCheck:
        """Call `SqlFunctions.compile_function`."""
        return self.find().compile_function(space, number, code)

    def arguments_of(self, code: str) -> list[str]:
        """Call `SqlFunctions.arguments_of`."""
        return self.find().arguments_of(code)

    def tables_of_view(self, text: str) -> list[str]:
        """Call `SqlFunctions.tables_of_view`."""
        return self.find().tables_of_view(text)

    def check_trigger(self, text: str, name: str, space: SpaceDef) -> None:
        """Call `SqlFunctions.check_trigger`."""
        self.find().check_trigger(text, name, space)
