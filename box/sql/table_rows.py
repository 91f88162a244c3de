"""CREATE TABLE as rows of the system spaces. Nothing here reads or changes the dictionary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.sql import sql_nodes

CollationId = Callable[[str], int]
"""A function from the name of a collation to its id. Raises NO_SUCH_COLLATION."""


@dataclass(slots=True)
class IndexRow:
    """An index of a table. `parts` have the form of a row of `_index`."""

    iid: int
    name: str
    is_unique: bool
    parts: list[dict[str, Any]]

    def row(self, space_id: int) -> list[Any]:
        """Return the row of `_index`."""
        return [space_id, self.iid, self.name, "tree", {"unique": self.is_unique}, self.parts]


@dataclass(slots=True)
class ForeignKeyRow:
    """A foreign key of a table. `columns` are the places of fields of the child."""

    name: str
    key: sql_nodes.ForeignKey
    columns: list[int]


@dataclass(slots=True)
class TableRows:
    """The fields, indexes and constraints of a table, or of a new column."""

    name: str
    fields: list[dict[str, Any]] = field(default_factory=list)
    indexes: list[IndexRow] = field(default_factory=list)
    checks: list[tuple[str, str]] = field(default_factory=list)
    """The name and the text of each."""
    foreign_keys: list[ForeignKeyRow] = field(default_factory=list)
    auto_field: int | None = None
    """The place of the field that a sequence fills, None if there is none."""

    def place(self, name: str) -> int:
        """Return the place of a field.

        Raises:
            ClientError: SQL_CANT_RESOLVE_FIELD.
        """
        for number, item in enumerate(self.fields):
            if item["name"] == name:
                return number
        raise client_error(ErrorCode.SQL_CANT_RESOLVE_FIELD, name)


class TableBuilder:
    """Collects the items of a CREATE TABLE or ALTER TABLE, one after another.

    A constraint without a name gets a number in its kind; primary and unique keys are numbered together.
    """

    def __init__(self, name: str, collation_id: CollationId, rows: TableRows | None = None) -> None:
        self.rows = rows or TableRows(name)
        self._collation_id = collation_id
        self._numbers: dict[str, int] = {}
        self._unspecified: set[str] = set()
        """The names of columns with neither NULL nor NOT NULL."""

    def count(self, *, indexes: int, checks: int, foreign_keys: int) -> None:
        """Number new constraints after those that the table has already."""
        self._numbers = {"index": indexes, "ck": checks, "fk": foreign_keys}

    # --- columns ---

    def add_column(self, column: sql_nodes.TableColumn) -> None:
        """Add a column and its constraints.

        Raises:
            ClientError: SPACE_FIELD_IS_DUPLICATE, SQL_SYNTAX_WITH_POS, NO_SUCH_COLLATION.
        """
        if any(item["name"] == column.name for item in self.rows.fields):
            raise client_error(ErrorCode.SPACE_FIELD_IS_DUPLICATE, column.name)
        action = column.nullable_action or "none"
        item: dict[str, Any] = {
            "name": column.name,
            "type": column.type,
            "is_nullable": action == "none",
            "nullable_action": action,
        }
        if column.collation is not None:
            item["collation"] = self._collation_id(column.collation)
        if column.default is not None:
            item["default"] = column.default
        self.rows.fields.append(item)
        is_key = any(isinstance(one, sql_nodes.TableKey) and one.is_primary for one in column.constraints)
        if is_key and column.nullable_action is None:
            _refuse_nil(item)
        if column.nullable_action is None:
            self._unspecified.add(column.name)
        for constraint in column.constraints:
            self.add_constraint(constraint)
        if column.is_autoincrement:
            self._set_auto(len(self.rows.fields) - 1)

    def _set_auto(self, place: int) -> None:
        if self.rows.auto_field is not None:
            raise client_error(ErrorCode.SQL_CANT_ADD_AUTOINC, self.rows.name)
        self.rows.auto_field = place

    # --- constraints ---

    def add_constraint(self, constraint: sql_nodes.Constraint) -> None:
        """Add a constraint.

        Raises:
            ClientError: CREATE_SPACE, SQL_CANT_RESOLVE_FIELD, UNSUPPORTED.
        """
        if isinstance(constraint, sql_nodes.TableKey):
            self._add_key(constraint)
        elif isinstance(constraint, sql_nodes.Check):
            name = constraint.name or self._new_name("ck")
            self.rows.checks.append((name, constraint.text))
        else:
            self._add_foreign_key(constraint)

    def _new_name(self, kind: str, counter: str | None = None) -> str:
        number = self._numbers[counter or kind] = self._numbers.get(counter or kind, 0) + 1
        return f"{kind}_unnamed_{self.rows.name}_{number}"

    def _add_key(self, key: sql_nodes.TableKey) -> None:
        indexes = self.rows.indexes
        if key.is_primary and any(index.iid == 0 for index in indexes):
            raise self.failure("primary key has been already declared")
        if key.is_primary:
            for part in key.parts:
                self._require(part)
        parts = self.parts(key.parts)
        if key.autoincrement is not None:
            self._set_auto(self.rows.place(key.autoincrement))
        if key.name is None:
            for index in indexes:
                if [part["field"] for part in index.parts] != [part["field"] for part in parts]:
                    continue
                if key.is_primary:
                    index.iid, index.parts = 0, parts
                    indexes.sort(key=lambda one: one.iid)
                return
        name = key.name or self._new_name("pk" if key.is_primary else "unique", "index")
        if key.name is not None:
            self._numbers["index"] = self._numbers.get("index", 0) + 1
        iid = 0 if key.is_primary else max((index.iid for index in indexes), default=0) + 1
        indexes.append(IndexRow(iid, name, True, parts))
        indexes.sort(key=lambda one: one.iid)

    def _require(self, part: sql_nodes.KeyPart) -> None:
        """Make a column of a primary key NOT NULL, unless NULL was written."""
        expr = part.column.operand if isinstance(part.column, sql_nodes.Collate) else part.column
        if isinstance(expr, sql_nodes.Name):
            item = self.rows.fields[self.rows.place(expr.name)]
            if expr.name in self._unspecified:
                _refuse_nil(item)

    def parts(self, parts: list[sql_nodes.KeyPart]) -> list[dict[str, Any]]:
        """Convert the parts of a key to the form of `_index`.

        Raises:
            ClientError: UNSUPPORTED, SQL_CANT_RESOLVE_FIELD, NO_SUCH_COLLATION.
        """
        found: list[dict[str, Any]] = []
        for part in parts:
            expr, collation = part.column, None
            if isinstance(expr, sql_nodes.Collate):
                collation, expr = self._collation_id(expr.name), expr.operand
            if not isinstance(expr, sql_nodes.Name):
                raise unsupported("Tarantool", "functional indexes")
            place = self.rows.place(expr.name)
            if any(one["field"] == place for one in found):
                continue
            item = self.rows.fields[place]
            is_nullable = item.get("is_nullable", False)
            entry: dict[str, Any] = {"type": item["type"], "field": place}
            collation = item.get("collation") if collation is None else collation
            if collation is not None:
                entry["collation"] = collation
            entry["is_nullable"] = is_nullable
            entry["nullable_action"] = item.get("nullable_action", "none" if is_nullable else "default")
            entry["sort_order"], entry["exclude_null"] = "asc", False
            found.append(entry)
        return found

    def _add_foreign_key(self, key: sql_nodes.ForeignKey) -> None:
        name = key.name or self._new_name("fk")
        numbers = {item["name"]: number for number, item in enumerate(self.rows.fields)}
        for column in key.columns:
            if column not in numbers:
                text = f"unknown column {column} in foreign key definition"
                raise client_error(ErrorCode.CREATE_FK_CONSTRAINT, name, text)
        self.rows.foreign_keys.append(ForeignKeyRow(name, key, [numbers[column] for column in key.columns]))

    def failure(self, text: str) -> BoxError:
        """Make the error `Failed to create space '<name>': <text>`."""
        return client_error(ErrorCode.CREATE_SPACE, self.rows.name, text)


def _refuse_nil(item: dict[str, Any]) -> None:
    item["is_nullable"], item["nullable_action"] = False, "abort"


def rows_of(statement: sql_nodes.CreateTable, collation_id: CollationId) -> TableRows:
    """Return the rows of a new table.

    Raises:
        ClientError: CREATE_SPACE, SPACE_FIELD_IS_DUPLICATE.
        BoxError: see `TableBuilder`.
    """
    builder = TableBuilder(statement.name, collation_id)
    for item in statement.items:
        if isinstance(item, sql_nodes.TableColumn):
            builder.add_column(item)
        else:
            builder.add_constraint(item)
    if not any(index.iid == 0 for index in builder.rows.indexes):
        raise builder.failure("PRIMARY KEY missing")
    return builder.rows
