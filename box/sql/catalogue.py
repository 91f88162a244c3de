"""The tables and views that queries see: spaces of the dictionary with their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from box.errors import ErrorCode, client_error
from box.sql.advice import unknown_name
from box.sql.kinds import kind_of
from box.sql.scope import KnownColumn

if TYPE_CHECKING:
    from box.errors import BoxError
    from box.schema.collation_def import CollationDef
    from box.schema.function import FunctionDef
    from box.schema.schema import Schema
    from box.schema.space import Space


class Catalogue:
    """Looks names up in the dictionary for one statement. `used` collects the spaces that the statement reads."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.used: dict[int, Space] = {}

    def space(self, name: str) -> Space:
        """Return a table or a view by its name.

        Raises:
            ClientError: NO_SUCH_SPACE.
            UnsupportedError: the space has no format.
        """
        space = self.find(name)
        if space is None:
            raise self.unknown(name)
        if not space.definition.fields:
            raise client_error(ErrorCode.UNSUPPORTED, "SQL", "space without format")
        return space

    def unknown(self, name: str) -> BoxError:
        """Return the error of a table that does not exist."""
        names = (space.name for space in self.schema.spaces.values())
        return unknown_name(client_error(ErrorCode.NO_SUCH_SPACE, name), name, names)

    def find(self, name: str) -> Space | None:
        """Return a table or a view by its name, or None."""
        return self.schema.find_space(name)

    def read(self, name: str) -> Space:
        """Return a table, and add it to `used`; or a view, for which the rights on its tables count.

        Raises:
            BoxError: see `space`.
        """
        space = self.space(name)
        if not space.definition.opts.view:
            self.used[space.id] = space
        return space

    def function(self, name: str) -> FunctionDef:
        """Return a function of `_func` that SQL may call.

        Raises:
            ClientError: NO_SUCH_FUNCTION, SQL_PARSER_GENERIC.
        """
        found = next((item for item in self.schema.functions.values() if item.name == name), None)
        if found is None or found.definition.language == "SQL_BUILTIN":
            raise client_error(ErrorCode.NO_SUCH_FUNCTION, name)
        if "SQL" not in found.definition.exports:
            raise client_error(ErrorCode.SQL_PARSER_GENERIC, f"function {name}() is not available in SQL")
        return found.definition

    def collation_id(self, name: str) -> int:
        """Return the id of a collation.

        Raises:
            ClientError: NO_SUCH_COLLATION.
        """
        return self.collation(name).id

    def collation(self, name: str) -> CollationDef:
        """Return a collation.

        Raises:
            ClientError: NO_SUCH_COLLATION.
        """
        found = self.schema.collation_by_name(name)
        if found is None:
            raise client_error(ErrorCode.NO_SUCH_COLLATION, name)
        return found


class UnknownCollation(int):
    """Stands for a collation that does not exist. Tarantool looks a collation up when it is used, as here: to show the
    number, as the text of a statement for SQLite does, raises NO_SUCH_COLLATION.
    """

    name: str

    @classmethod
    def named(cls, name: str) -> UnknownCollation:
        found = cls(-1)
        found.name = name
        return found

    def __str__(self) -> str:
        raise client_error(ErrorCode.NO_SUCH_COLLATION, self.name)

    def __format__(self, _: str) -> str:
        return str(self)


def columns_of(space: Space, alias: str | None = None) -> list[KnownColumn]:
    """Return the columns of a space, which SQLite knows by this alias."""
    auto = space.sequence_field if space.sequence is not None else -1
    return [
        KnownColumn(
            field.name or "",
            field.type.value,
            kind_of(field.type.value),
            field.collation_id or 0,
            field.is_nullable,
            number == auto,
            "" if alias is None else f"{alias}.c{number}",
            is_plain=True,
        )
        for number, field in enumerate(space.definition.fields)
    ]
