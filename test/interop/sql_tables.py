# ruff: noqa: E501  a statement is one line
"""Generates SQL statements over generated tables: types, indexes, constraints, collations and rows are random.

Each seed makes two tables, and queries, changes and transactions on them. Some expressions have a wrong type on purpose,
so that errors are compared, too.

They avoid what Tarantool 2.8.1 answers differently from run to run or against its documentation: a comparison in WHERE of a
column of an index with a value of another type, a constant division by zero where no row needs it, and which one of
several equal texts stands for a group under a collation.
"""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from test.interop.sql_statements import printing_script

_TYPES: Final = ("integer", "unsigned", "double", "number", "string", "boolean", "varbinary", "scalar")
_LITERALS: Final = {
    "integer": ("0", "1", "2", "-3", "7", "100"),
    "unsigned": ("0", "1", "2", "5", "9"),
    "double": ("0.5", "1.0", "-2.25", "1e3", "-0.5"),
    "number": ("1", "1.5", "-4", "0"),
    "string": ("'a'", "'b'", "'B'", "'ab'", "''", "'12'", "'Ab c'"),
    "boolean": ("true", "false"),
    "varbinary": ("x''", "x'00'", "x'61'", "x'6162'"),
    "scalar": ("1", "'a'", "true", "2.5", "x'00'"),
}
_NUMERIC: Final = ("integer", "unsigned", "double", "number")
_OPERATORS: Final = ("=", "<", "<=", ">", ">=", "!=", "<>")


class Column(NamedTuple):
    """A column of a generated table."""

    name: str
    type: str
    collation: str
    is_indexed: bool
    is_not_null: bool


class Table(NamedTuple):
    """A generated table: its primary key is `id`."""

    name: str
    columns: tuple[Column, ...]


class Generator:
    """Generates the statements of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.statements: list[str] = []
        self.tables = [self._table("t"), self._table("u")]

    def _pick(self, *choices: str) -> str:
        return self._random.choice(choices)

    def _is(self, share: float) -> bool:
        return self._random.random() < share

    # --- tables ---

    def _table(self, name: str) -> Table:
        columns = []
        for number in range(self._random.randint(3, 6)):
            type_name = self._random.choice(_TYPES)
            collation = self._pick("unicode_ci", "unicode") if type_name == "string" and self._is(0.3) else ""
            columns.append(Column(f"{name}{number}", type_name, collation, self._is(0.3), self._is(0.2)))
        table = Table(name, tuple(columns))
        clauses = [f"id INTEGER PRIMARY KEY{' AUTOINCREMENT' if self._is(0.4) else ''}"]
        clauses += map(self._clause, columns)
        numeric = [column.name for column in columns if column.type in _NUMERIC]
        if numeric and self._is(0.5):
            clauses.append(f"CONSTRAINT {name}_ck CHECK ({self._random.choice(numeric)} < 1000)")
        self.statements.append(f"CREATE TABLE {name} ({', '.join(clauses)})")
        for column in columns:
            if column.is_indexed:
                unique = "UNIQUE " if self._is(0.2) else ""
                self.statements.append(f"CREATE {unique}INDEX {name}_{column.name} ON {name} ({column.name})")
        for number in range(self._random.randint(4, 9)):
            self.statements.append(f"INSERT INTO {name} VALUES ({number}, {self._row(table)})")
        return table

    def _clause(self, column: Column) -> str:
        words = [column.name, column.type.upper()]
        if column.collation:
            words.append(f'COLLATE "{column.collation}"')
        if column.is_not_null:
            words.append("NOT NULL")
        if self._is(0.2):
            words.append(f"DEFAULT {self.literal(column.type)}")
        return " ".join(words)

    def _row(self, table: Table) -> str:
        return ", ".join(self.value(column) for column in table.columns)

    def value(self, column: Column) -> str:
        """Return a constant that fits a column; rarely one that does not."""
        if self._is(0.03):
            return self.literal(self._random.choice(_TYPES))
        if self._is(0.02 if column.is_not_null else 0.15):
            return "NULL"
        return self.literal(column.type)

    # --- expressions ---

    def literal(self, type_name: str) -> str:
        """Return a constant of a type."""
        return self._random.choice(_LITERALS[type_name])

    def _columns(self, tables: list[Table], *types: str) -> list[str]:
        found = [f"{table.name}.{column.name}" for table in tables for column in table.columns if column.type in types]
        return found + ([f"{table.name}.id" for table in tables] if "integer" in types else [])

    def number(self, tables: list[Table], depth: int = 2) -> str:
        """Return an expression that is a number."""
        columns = self._columns(tables, *_NUMERIC)
        if depth <= 0 or self._is(0.35):
            return self._pick(*columns, self.literal(self._pick(*_NUMERIC)), *(["NULL"] if self._is(0.1) else []))
        a, b = self.number(tables, depth - 1), self.number(tables, depth - 1)
        return self._pick(
            f"({a} + {b})",
            f"({a} - {b})",
            f"({a} * {b})",
            f"({a} / 4)",
            "(id % 3)" if len(tables) == 1 else f"(-{a})",
            f"(-{a})",
            f"abs({a})",
            f"coalesce({a}, {b})",
            f"ifnull({a}, {b})",
            f"nullif({a}, {b})",
            f"greatest({a}, {b})",
            f"least({a}, {b})",
            f"length({self.text(tables, depth - 1)})",
            f"char_length({self.text(tables, depth - 1)})",
            f"position('a', {self.text(tables, depth - 1)})",
            f"unicode({self.text(tables, depth - 1)})",
            f"cast({a} AS {self._pick('INTEGER', 'DOUBLE', 'NUMBER', 'UNSIGNED')})",
            f"round({a})",
            f"CASE WHEN {self.condition(tables, depth - 1)} THEN {a} ELSE {b} END",
            f"({self._pick('5', '12')} {self._pick('&', '|', '<<', '>>')} {self._pick('1', '2', '3')})",
        )

    def text(self, tables: list[Table], depth: int = 1) -> str:
        """Return an expression that is a text."""
        columns = self._columns(tables, "string")
        if depth <= 0 or self._is(0.35):
            return self._pick(*columns, self.literal("string"), *(["NULL"] if self._is(0.05) else []))
        a, b = self.text(tables, depth - 1), self.text(tables, depth - 1)
        return self._pick(
            f"({a} || {b})",
            f"upper({a})",
            f"lower({a})",
            f"substr({a}, {self._pick('1', '2', '-1')})",
            f"substr({a}, 1, {self._pick('0', '1', '2')})",
            f"trim({a})",
            f"trim({self._pick('LEADING', 'TRAILING', 'BOTH')} 'a' FROM {a})",
            f"replace({a}, 'a', {b})",
            f"coalesce({a}, {b})",
            f"cast({self.number(tables, depth - 1)} AS STRING)",
            f"hex({a})",
            f"quote({self._pick(a, self.number(tables, 0))})",
            f"CASE {a} WHEN 'a' THEN {b} ELSE 'no' END",
            f"printf('%s-%d', {a}, {self._pick('1', 'NULL', '3')})",
        )

    def anything(self, tables: list[Table], depth: int = 2) -> str:
        """Return an expression of any type."""
        if self._is(0.45):
            return self.number(tables, depth)
        if self._is(0.5):
            return self.text(tables, depth)
        others = self._columns(tables, "boolean", "varbinary", "scalar")
        wrong = f"({self.text(tables, 0)} {self._pick('+', '*', '-')} {self.number(tables, 0)})"
        return self._pick(
            *others,
            self.condition(tables, 1),
            f"typeof({self._pick(*others, self.number(tables, 1), self.text(tables, 1))})",
            f"cast({self._pick(*others, self.literal('scalar'))} AS {self._pick(*_TYPES).upper()})",
            wrong,
            f"({self.number(tables, 0)} || {self.text(tables, 0)})",
            self.literal(self._pick(*_TYPES)),
        )

    def condition(self, tables: list[Table], depth: int = 2) -> str:
        """Return a condition on rows."""
        if depth > 0 and self._is(0.35):
            a, b = self.condition(tables, depth - 1), self.condition(tables, depth - 1)
            return f"({a} {self._pick('AND', 'OR')} {b})"
        operator = self._pick(*_OPERATORS)
        booleans = self._columns(tables, "boolean")
        scalars = self._columns(tables, "scalar", "varbinary", "boolean")
        column = self._pick(*self._columns(tables, *_TYPES))
        a, b, text = self.number(tables, depth - 1), self.number(tables, depth - 1), self.text(tables, depth - 1)
        return self._pick(
            f"{a} {operator} {b}",
            f"{text} {operator} {self.text(tables, depth - 1)}",
            f"{text} LIKE {self._pick(repr('a%'), repr('%b%'), repr('_'), repr('A_%'))}",
            f"{text} NOT LIKE 'a#%' ESCAPE '#'",
            f"{a} {self._pick('', 'NOT ')}BETWEEN {self.literal('integer')} AND {self.literal('double')}",
            f"{a} {self._pick('', 'NOT ')}IN ({self.literal('integer')}, {self.literal('double')})",
            f"{text} {self._pick('', 'NOT ')}IN ('a', 'b', {text})",
            f"{column} IS {self._pick('', 'NOT ')}NULL",
            f"NOT ({a} > 1)",
            *booleans,
            *(f"{name} = {self._pick('true', 'false')}" for name in booleans),
            *(f"typeof({name}) = 'integer'" for name in scalars),
            f"{self._pick('', 'NOT ')}EXISTS (SELECT 1 FROM u AS x WHERE x.id = {self._pick(*self._columns(tables, 'integer'))})",
            f"{a} IN (SELECT id FROM u AS y WHERE y.id > 1)",
            f"{a} > (SELECT min(z.id) FROM t AS z)",
        )

    # --- statements ---

    def query(self) -> str:
        """Return a query whose rows have only one possible order."""
        t, u = self.tables
        one = [self._random.choice(self.tables)]
        name = one[0].name
        where = f" WHERE {self.condition(one)}" if self._is(0.7) else ""
        both = self.tables
        group = self._pick(*(column.name for column in one[0].columns if not column.collation), "id % 3")
        column = self._pick(*(column.name for column in one[0].columns))
        limit = self._pick("", " LIMIT 3", " LIMIT 2 OFFSET 1", " LIMIT 0")
        aggregate = self._pick(
            "count(*)",
            f"sum({self.number(one, 1)})",
            f"total({self.number(one, 0)})",
            f"avg({self.number(one, 0)})",
            f"min({column})",
            f"max({column})",
            f"count({column})",
            f"count(DISTINCT {column})",
            f"max({self.number(one, 1)}) + 1",
        )
        return self._pick(
            f"SELECT id, {self.anything(one)}, {self.anything(one)} FROM {name}{where} ORDER BY id{limit}",
            f"SELECT {self.anything(one)} AS x, id FROM {name}{where} ORDER BY 2 DESC{limit}",
            f"SELECT * FROM {name}{where} ORDER BY id",
            f"SELECT {group}, {aggregate} FROM {name}{where} GROUP BY {group} ORDER BY {group}",
            f"SELECT {group}, count(*) FROM {name} GROUP BY {group} HAVING count(*) > 1 ORDER BY 1",
            f"SELECT {aggregate}, count(*) FROM {name}{where}",
            f"SELECT id FROM {name}{where} ORDER BY {column} {self._pick('', 'DESC')}, id{limit}",
            f"SELECT t.id, u.id, {self.anything(both, 1)} FROM t {self._pick('', 'INNER ', 'LEFT ')}JOIN u ON t.id = u.id ORDER BY t.id",
            f"SELECT t.id, u.id FROM t, u WHERE {self.condition(both)} ORDER BY 1, 2",
            f"SELECT t.id, u.id FROM t LEFT JOIN u ON {self.number([t], 0)} = {self.number([u], 0)} ORDER BY 1, 2",
            f"SELECT id, a FROM (SELECT id, {self.anything(one, 1)} AS a FROM {name}{where}) ORDER BY id",
            f"SELECT id FROM t {self._pick('UNION', 'UNION ALL', 'EXCEPT', 'INTERSECT')} SELECT id FROM u{self._pick('', ' WHERE id > 2')} ORDER BY 1",
            f"SELECT {self.number([t], 1)} FROM t {self._pick('UNION', 'EXCEPT', 'INTERSECT')} SELECT {self.number([u], 1)} FROM u ORDER BY 1",
            f"WITH w AS (SELECT id, {self.number(one, 1)} AS n FROM {name}) SELECT count(*), sum(n) FROM w WHERE n > {self.literal('integer')}",
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n, n * n FROM r",
            f"SELECT id, (SELECT count(*) FROM u WHERE u.id < t.id) AS c FROM t WHERE {self.condition([t], 1)} ORDER BY id",
            f"SELECT DISTINCT {self.number(one, 1)} FROM {name} ORDER BY 1",
            f"VALUES ({self.literal('integer')}, {self.literal('string')}), ({self.literal('integer')}, {self.literal('string')})",
            f"SELECT {self.literal('integer')} {self._pick(*_OPERATORS, '+', '-', '*', '/', '%', '||', '&')} {self.literal(self._pick(*_TYPES))}",
            f"SELECT {self.literal(self._pick(*_TYPES))} {self._pick(*_OPERATORS)} {self.literal(self._pick(*_TYPES))}",
            f"SELECT cast({self.literal(self._pick(*_TYPES))} AS {self._pick(*_TYPES).upper()})",
        )

    def change(self) -> str:
        """Return a statement that changes rows."""
        table = self._random.choice(self.tables)
        name, column = table.name, self._random.choice(table.columns)
        one = [table]
        id_ = self._random.randrange(14)
        some = self._random.sample(table.columns, 2)
        return self._pick(
            f"{self._pick('INSERT', 'REPLACE', 'INSERT OR IGNORE', 'INSERT OR REPLACE', 'INSERT OR ABORT', 'INSERT OR FAIL')} INTO {name} VALUES ({id_}, {self._row(table)})",
            f"INSERT INTO {name} (id, {some[0].name}, {some[1].name}) VALUES ({id_}, {self.value(some[0])}, {self.value(some[1])})",
            f"INSERT INTO {name} ({some[0].name}) VALUES ({self.value(some[0])})",
            f"INSERT INTO {name} VALUES (NULL, {self._row(table)})",
            f"UPDATE {name} SET {column.name} = {self.value(column)} WHERE {self.condition(one, 1)}",
            f"UPDATE {name} SET {column.name} = {self.anything(one, 1)} WHERE id = {id_}",
            f"UPDATE {name} SET {some[0].name} = {self.value(some[0])}, {some[1].name} = {self.value(some[1])} WHERE id > {id_}",
            f"UPDATE {name} SET id = id + 20 WHERE id = {id_}",
            f"DELETE FROM {name} WHERE id = {id_}",
            f"DELETE FROM {name} WHERE id > 19",
            f"DELETE FROM {name} WHERE {self.condition(one, 1)} AND id > 10",
            f"INSERT INTO {name} SELECT id + 20, {', '.join(item.name for item in table.columns)} FROM {name} WHERE id < 3",
            "START TRANSACTION",
            "COMMIT",
            "ROLLBACK",
            "SAVEPOINT p",
            "ROLLBACK TO SAVEPOINT p",
            "RELEASE SAVEPOINT p",
        )


def script(seed: int, count: int) -> str:
    """Return a script that runs `count` statements on new tables, and prints a line for each."""
    made = Generator(seed)
    made.statements += [made.change() if made._is(0.35) else made.query() for _ in range(count)]
    return printing_script(made.statements)
