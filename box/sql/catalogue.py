"""Tables and views as queries see them: columns of the dictionary's spaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from box.errors import ErrorCode, client_error
from box.schema.access import Privilege
from box.sql.kinds import kind_of
from box.sql.scope import KnownColumn

if TYPE_CHECKING:
    from box.schema.access import Credentials
    from box.schema.function import FunctionDef
    from box.schema.schema import Schema
    from box.schema.space import Space


class Catalogue:
    """Look-ups by name in the dictionary, for one statement of one user. `used` gathers the spaces that it reads."""

    def __init__(self, schema: Schema, credentials: Credentials) -> None:
        self.schema = schema
        self.credentials = credentials
        self.used: dict[int, Space] = {}

    def space(self, name: str) -> Space:
        """A table or a view. NO_SUCH_SPACE, UNSUPPORTED (a space without a format)."""
        space = self.find(name)
        if space is None:
            raise client_error(ErrorCode.NO_SUCH_SPACE, name)
        if not space.definition.fields:
            raise client_error(ErrorCode.UNSUPPORTED, "SQL", "space without format")
        return space

    def find(self, name: str) -> Space | None:
        """A table or a view, or None."""
        return next((space for space in self.schema.spaces.values() if space.name == name), None)

    def readable(self, name: str) -> Space:
        """As `space`, which the user may read, with the note that it is read. ACCESS_DENIED."""
        space = self.space(name)
        space.check_access(self.credentials, Privilege.R)
        self.used[space.id] = space
        return space

    def function(self, name: str) -> FunctionDef:
        """A function of the user's that SQL may call. NO_SUCH_FUNCTION, SQL_PARSER_GENERIC."""
        found = next((item for item in self.schema.functions.values() if item.name == name), None)
        if found is None or found.definition.language == "SQL_BUILTIN":
            raise client_error(ErrorCode.NO_SUCH_FUNCTION, name)
        if "SQL" not in found.definition.exports:
            raise client_error(ErrorCode.SQL_PARSER_GENERIC, f"function {name}() is not available in SQL")
        return found.definition

    def collation_id(self, name: str) -> int:
        """NO_SUCH_COLLATION."""
        found = self.find_collation(name)
        if found is None:
            raise client_error(ErrorCode.NO_SUCH_COLLATION, name)
        return found

    def find_collation(self, name: str) -> int | None:
        """The number of a collation; names differ in case only once they are not found as written."""
        for candidate in (name, name.lower()):
            for collation in self.schema.collations.values():
                if collation.name == candidate:
                    return collation.id
        return None

    def collation_name(self, collation: int) -> str:
        """The name of a collation."""
        return self.schema.collations[collation].name


def columns_of(space: Space) -> list[KnownColumn]:
    """The columns of a space."""
    auto = space.sequence_field if space.sequence is not None else -1
    return [
        KnownColumn(
            field.name or "",
            field.type.value,
            kind_of(field.type.value),
            field.collation_id or 0,
            field.is_nullable,
            number == auto,
            is_plain=True,
        )
        for number, field in enumerate(space.definition.fields)
    ]
