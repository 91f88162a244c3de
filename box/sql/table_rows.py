"""CREATE TABLE as rows of the system spaces. Nothing here reads or changes the dictionary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.sql import sql_nodes

CollationId = Callable[[str], int]
"""A function from the name of a collation to its id. Raises NO_SUCH_COLLATION."""


@dataclass(frozen=True, slots=True)
class ParentTable:
    """A table that a foreign key refers to: its fields, and the fields of its primary key, or None without one."""

    space_id: int
    fields: list[str | None]
    primary: list[int] | None
    is_view: bool


ParentOf = Callable[[str], ParentTable]
"""Finds a parent table by its name. Raises NO_SUCH_SPACE."""


CheckExpression = Callable[[sql_nodes.Expr, list[dict[str, Any]]], None]
"""Raises the errors that an expression would have in a query of a table with these fields. No index takes it."""
_VARIABLE: Final = (sql_nodes.Name, sql_nodes.Param, sql_nodes.Subquery, sql_nodes.Exists, sql_nodes.InSelect)
"""The nodes that no default value may have."""
COLUMNS_MAX: Final = 2000
"""The limit of Tarantool for the columns of a table, and of a result."""


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
    """A foreign key of a table: `columns` are fields of the child, `parent_columns` fields of the parent.

    `parent_id` is None for a key of a new table that refers to the table itself.
    """

    name: str
    key: sql_nodes.ForeignKey
    columns: list[int]
    parent_id: int | None
    parent_columns: list[int]


@dataclass(slots=True)
class TableRows:
    """The rows to be written for a CREATE TABLE or a new column: fields, indexes and constraints."""

    name: str
    fields: list[dict[str, Any]] = field(default_factory=list)
    indexes: list[IndexRow] = field(default_factory=list)
    checks: list[tuple[str, str]] = field(default_factory=list)
    """The check constraints, each with its name and its text."""
    foreign_keys: list[ForeignKeyRow] = field(default_factory=list)
    auto_field: int | None = None
    """The number of the field that a sequence fills, or None."""

    def place(self, name: str) -> int:
        """Return the number of a field.

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

    def __init__(
        self,
        name: str,
        collation_id: CollationId,
        parent_of: ParentOf,
        check_expression: CheckExpression,
        rows: TableRows | None = None,
    ) -> None:
        self.rows = rows or TableRows(name)
        self._check_expression = check_expression
        self._is_new = rows is None
        self._collation_id = collation_id
        self._parent_of = parent_of
        self.is_complete = False
        """True if no more columns will be added; Tarantool then has another error text for a missing column."""
        self._numbers: dict[str, int] = {}
        self._unspecified: set[str] = set()
        """The names of columns with neither NULL nor NOT NULL."""

    def count(self, *, indexes: int, checks: int, foreign_keys: int) -> None:
        """Continue the numbers of unnamed constraints after those that the table already has."""
        self._numbers = {"index": indexes, "ck": checks, "fk": foreign_keys}

    # --- columns ---

    def add_column(self, column: sql_nodes.TableColumn) -> None:
        """Add a column and its constraints.

        Raises:
            ClientError: SPACE_FIELD_IS_DUPLICATE, SQL_COLUMN_COUNT_MAX, SQL_SYNTAX_WITH_POS, NO_SUCH_COLLATION.
        """
        is_duplicate = any(item["name"] == column.name for item in self.rows.fields)
        if is_duplicate and self._is_new:
            raise client_error(ErrorCode.SPACE_FIELD_IS_DUPLICATE, column.name)
        if len(self.rows.fields) >= COLUMNS_MAX:
            raise client_error(ErrorCode.SQL_COLUMN_COUNT_MAX, self.rows.name, len(self.rows.fields) + 1, COLUMNS_MAX)
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
            if _has(column.default_expr, *_VARIABLE):
                text = f"default value of column '{column.name}' is not constant"
                raise client_error(ErrorCode.CREATE_SPACE, self.rows.name, text)
            item["default"] = column.default
        if is_duplicate:
            raise client_error(ErrorCode.SPACE_FIELD_IS_DUPLICATE, column.name)
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
        parts = self.parts(key.parts, is_primary=key.is_primary)
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
        """Make the column of a primary key NOT NULL, unless it was declared NULL."""
        expr = part.column.operand if isinstance(part.column, sql_nodes.Collate) else part.column
        if isinstance(expr, sql_nodes.Name):
            item = self.rows.fields[self.rows.place(expr.name)]
            if expr.name in self._unspecified:
                _refuse_nil(item)

    def parts(self, parts: list[sql_nodes.KeyPart], *, is_primary: bool = False) -> list[dict[str, Any]]:
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
                if is_primary:
                    raise client_error(ErrorCode.INDEX_DEF_UNSUPPORTED, "Expressions")
                if _has(expr, sql_nodes.Param):
                    raise client_error(ErrorCode.INDEX_DEF_UNSUPPORTED, "Parameter markers")
                self._check_expression(expr, self.rows.fields)
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
        is_own = self._is_new and key.table == self.rows.name
        parent = None if is_own else self._parent_of(key.table)
        name = key.name or self._new_name("fk")
        if parent is None:
            wanted = len(key.columns) if key.parent_columns is None else len(key.parent_columns)
        else:
            wanted = _parent_count(name, key, parent)
        if wanted != len(key.columns):
            raise wrong_key(name, _UNLIKE_COUNT)
        places: list[int] = []
        columns: list[int] = []
        for number, column in enumerate(key.columns):
            if parent is not None:
                places.append(_parent_place(name, key, parent, number))
            columns.append(self._child_place(name, column))
        self.rows.foreign_keys.append(ForeignKeyRow(name, key, columns, parent.space_id if parent else None, places))

    def _child_place(self, name: str, column: str) -> int:
        for number, item in enumerate(self.rows.fields):
            if item["name"] == column:
                return number
        if self.is_complete:
            raise wrong_key(name, f"foreign key refers to nonexistent field {column}")
        raise wrong_key(name, f"unknown column {column} in foreign key definition")

    def resolve_own_keys(self) -> None:
        """Find the parent columns of foreign keys that refer to the new table itself. Raises CREATE_FK_CONSTRAINT."""
        for found in self.rows.foreign_keys:
            if found.parent_id is not None:
                continue
            if found.key.parent_columns is not None:
                found.parent_columns = [self._child_place(found.name, column) for column in found.key.parent_columns]
                continue
            found.parent_columns = [part["field"] for part in self.rows.indexes[0].parts]
            if len(found.parent_columns) != len(found.columns):
                raise wrong_key(found.name, _UNLIKE_COUNT)

    def failure(self, text: str) -> BoxError:
        """Make the error `Failed to create space '<name>': <text>`."""
        return client_error(ErrorCode.CREATE_SPACE, self.rows.name, text)


_UNLIKE_COUNT: Final = (
    "number of columns in foreign key does not match the number of columns in the primary index of referenced table"
)


def wrong_key(name: str, text: str) -> BoxError:
    """Make the error `Failed to create foreign key constraint '<name>': <text>`."""
    return client_error(ErrorCode.CREATE_FK_CONSTRAINT, name, text)


def _parent_count(name: str, key: sql_nodes.ForeignKey, parent: ParentTable) -> int:
    """Return the number of parent columns of a foreign key, whether it names them or not. Raises
    CREATE_FK_CONSTRAINT.
    """
    if parent.is_view:
        raise wrong_key(name, "referenced space can't be VIEW")
    if key.parent_columns is not None:
        return len(key.parent_columns)
    if parent.primary is None:
        raise wrong_key(name, "referenced space doesn't feature PRIMARY KEY")
    return len(parent.primary)


def _parent_place(name: str, key: sql_nodes.ForeignKey, parent: ParentTable, number: int) -> int:
    if key.parent_columns is None:
        assert parent.primary is not None
        return parent.primary[number]
    column = key.parent_columns[number]
    if column not in parent.fields:
        raise wrong_key(name, f"foreign key refers to nonexistent field {column}")
    return parent.fields.index(column)


def _refuse_nil(item: dict[str, Any]) -> None:
    item["is_nullable"], item["nullable_action"] = False, "abort"


def rows_of(
    statement: sql_nodes.CreateTable,
    collation_id: CollationId,
    parent_of: ParentOf,
    check_expression: CheckExpression,
) -> TableRows:
    """Return the rows of a new table. If it is cut, items are missing at its end: only those before are checked.

    Raises:
        ClientError: CREATE_SPACE, SPACE_FIELD_IS_DUPLICATE, or an error of `TableBuilder`.
    """
    builder = TableBuilder(statement.name, collation_id, parent_of, check_expression)
    for item in statement.items:
        if isinstance(item, sql_nodes.TableColumn):
            builder.add_column(item)
        elif isinstance(item, sql_nodes.TableKey) and not builder.rows.fields:
            raise client_error(ErrorCode.UNSUPPORTED, "SQL", "space without format")
        else:
            builder.add_constraint(item)
    if statement.is_cut:
        return builder.rows
    if not any(index.iid == 0 for index in builder.rows.indexes):
        raise builder.failure("PRIMARY KEY missing")
    for index in builder.rows.indexes:  # a later primary key may have made their fields NOT NULL
        for part in index.parts:
            item = builder.rows.fields[part["field"]]
            part["is_nullable"], part["nullable_action"] = item["is_nullable"], item["nullable_action"]
    builder.resolve_own_keys()
    return builder.rows


def _has(expr: object, *kinds: type) -> bool:
    """Return whether a node of one of these kinds is in an expression."""
    return isinstance(expr, kinds) or any(_has(child, *kinds) for child in sql_nodes.children(expr))
