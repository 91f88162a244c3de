# ruff: noqa: E501  a statement is one line
"""Generates SQL statements of areas that tables and constants alone do not reach, as a Lua script that prints results.

```
functions     every built-in function with arguments of every type and count, forms of PRINTF, TRIM, SUBSTR, LIKE
joins         columns of unlike types, with an index and without
metadata      complete metadata of all kinds of expressions
aggregates    aggregates in subqueries, which may belong to the query around them
definitions   what box.prepare says of a definition
rights        statements of a user with few rights
lua           spaces that Lua has made: formats of every type, nullable fields, no format, other indexes
limits        depth of expressions, numbers of columns, terms, arguments and tables
```

Left out is what ends Tarantool 2.8.1 itself, what it answers by chance, and what docs/reference/sql.md lists.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

_VALUES: Final = (
    "NULL", "true", "0", "-1", "2", "9223372036854775807", "18446744073709551615", "1.5", "-0.5", "1e30", "''", "'abc'",
    "'12'", "'äöü'", "x''", "x'616263'",
)  # fmt: skip
_FEW: Final = ("NULL", "true", "-1", "2", "1.5", "'abc'", "''", "x'61'")
_ONE: Final = (
    "ABS", "CHARACTER_LENGTH", "CHAR_LENGTH", "COALESCE", "GREATEST", "HEX", "LENGTH", "LIKELY", "LOWER", "QUOTE", "ROUND",
    "SOUNDEX", "TRIM", "TYPEOF", "UNICODE", "UNLIKELY", "UPPER",
)  # fmt: skip
_TWO: Final = (
    "ROUND", "SUBSTR", "COALESCE", "IFNULL", "NULLIF", "POSITION", "GREATEST", "LEAST", "CHAR", "LIKE", "ABS", "HEX",
)  # fmt: skip
_THREE: Final = ("SUBSTR", "REPLACE", "COALESCE", "GREATEST", "CHAR", "LIKE")
_TYPES: Final = {"a": "INT", "s": "TEXT", "n": "NUMBER", "u": "UNSIGNED", "d": "DOUBLE", "c": "SCALAR", "b": "BOOLEAN"}
_ROWS: Final = (
    "(1, 1, '1', 1, 1, 1, 1, true), (2, 2, '2', 2, 2, 2, '2', false), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL), "
    "(4, -1, 'x', 1.5, 4, 2.5, 2.5, true)"
)
_TABLES: Final = (
    f"CREATE TABLE t (id INT PRIMARY KEY, {', '.join(f'{name} {kind}' for name, kind in _TYPES.items())})",
    f"CREATE TABLE x (id INT PRIMARY KEY, {', '.join(f'{name} {kind}' for name, kind in _TYPES.items())})",
    *(f"CREATE INDEX x{name} ON x ({name})" for name in _TYPES),
    'CREATE TABLE e (id INT PRIMARY KEY AUTOINCREMENT, a INT NOT NULL, s TEXT COLLATE "unicode_ci")',
    "CREATE TABLE p (id INT PRIMARY KEY REFERENCES t (id))",
    "CREATE VIEW v AS SELECT id, a + 1 AS z, s FROM e",
    f"INSERT INTO t VALUES {_ROWS}",
    f"INSERT INTO x VALUES {_ROWS}",
    "INSERT INTO e VALUES (1, 1, 'a'), (NULL, 2, 'b')",
)
_LUA: Final = (
    "--lua local s = box.schema.space.create('o', {format = {{'id', 'unsigned'}, {'a', 'array', is_nullable = true}, "
    "{'m', 'map', is_nullable = true}, {'y', 'any', is_nullable = true}, {'k', 'scalar', is_nullable = true}}}) "
    "s:create_index('pk') s:insert{1, {1, 2}, {a = 1}, 'any', 5} s:insert{2} s:insert{3, {}, nil, 7, 'k'}",
    "--lua box.schema.space.create('nofmt'):create_index('pk')",
    "--lua local s = box.schema.space.create('less', {format = {{'a', 'unsigned'}, {'b', 'string', is_nullable = true}, "
    "{'c', 'integer', is_nullable = true}}}) s:create_index('pk') s:insert{1} s:insert{2, 'y'}",
    "--lua local s = box.schema.space.create('multi', {format = {{'a', 'unsigned'}, {'b', 'array'}}}) s:create_index('pk') "
    "s:create_index('m', {unique = false, parts = {{2, 'unsigned', path = '[*]'}}}) s:insert{1, {1, 2}} s:insert{2, {2, 3}}",
    "--lua box.schema.user.create('plain') box.schema.user.grant('plain', 'read', 'space', 'T') "
    "box.schema.user.grant('plain', 'write', 'space', 'P')",
)


class Areas:
    """Generates the statements of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._areas: tuple[Callable[[], str], ...] = (
            self.function, self.form, self.join, self.metadata, self.aggregate, self.definition, self.right, self.lua,
            self.limit,
        )  # fmt: skip

    def _pick(self, *choices: str) -> str:
        return self._random.choice(choices)

    def statement(self) -> str:
        """Return a statement of any area."""
        return self._random.choice(self._areas)()

    def function(self) -> str:
        """Return a call of a built-in function."""
        count = self._random.randint(1, 3)
        name = self._pick(*(_ONE, _TWO, _THREE)[count - 1])
        args = [self._pick(*(_VALUES if count == 1 else _FEW)) for _ in range(count)]
        return f"SELECT {name}({', '.join(args)})"

    def form(self) -> str:
        """Return a call with a form: of PRINTF, TRIM, SUBSTR, ROUND, LIKE or ZEROBLOB."""
        flags, width = self._pick("", "-", "0", "+", " ", "#", "!"), self._pick("", "5", ".3", "8.2")
        form = f"%{flags}{width}{self._pick(*'dfgesxXoqQwi%')}|"
        text = self._pick("'abcba'", "x'616261'", "''", "'  a '", "'äaä'", "NULL", "1")
        return self._pick(
            f"SELECT PRINTF('{form}', {self._pick('42', '-7', '1.5', repr('abc'))})",
            f"SELECT TRIM({self._pick('BOTH', 'LEADING', 'TRAILING')} {self._pick('', repr('a'), repr('ab'))} FROM {text})",
            f"SELECT SUBSTR({self._pick(repr('abcdef'), repr('äöüß'))}, {self._pick('0', '1', '-3', '10', 'NULL', '1.5')}, "
            f"{self._pick('0', '2', '-1', '100', 'NULL')})",
            f"SELECT ROUND({self._pick('1.2345', '2.5', '-1.5', '1e20')}, {self._pick('0', '2', '-1', '30', 'NULL')})",
            f"SELECT {text} LIKE {self._pick(repr('a%'), repr('%b_'), repr('A%'), repr(''), 'NULL')}",
            f"SELECT CAST({self._pick(*_VALUES)} AS {self._pick('INTEGER', 'UNSIGNED', 'STRING', 'DOUBLE', 'NUMBER')})",
        )

    def join(self) -> str:
        """Return a join by two columns, the second of which has an index."""
        first, second = self._pick(*_TYPES), self._pick(*_TYPES)
        join = self._pick(", x WHERE", " JOIN x ON", " LEFT JOIN x ON")
        order = self._pick("", "id, ", "d, ")
        return f"SELECT {order}t.id, x.id FROM t{join} t.{first} = x.{second}".replace(
            "SELECT id, ", "SELECT t.a, "
        ).replace("SELECT d, ", "SELECT t.d, ")

    def metadata(self) -> str:
        """Return a query of expressions, whose complete metadata are shown."""
        items = (
            "s", "a", "id", "a + 1", "s || 'x'", "max(s)", "upper(s)", 's COLLATE "unicode"', "CAST(s AS STRING)", "a = 1", "*",
            "CASE WHEN a = 1 THEN s END", "coalesce(s, 'x')", "likely(s)", "(SELECT max(s) FROM e)", "s AS \"A b\"", "a IN (1, 2)",
        )  # fmt: skip
        source = self._pick("e", "v", "(SELECT * FROM e) AS q", "e AS z")
        if source == "v":
            return f"SELECT {self._pick('*', 'id, z', 's', 'z + 1')} FROM v ORDER BY 1"
        return f"SELECT {self._pick(*items)}, {self._pick(*items)} FROM {source}"

    def aggregate(self) -> str:
        """Return a query with an aggregate in a subquery."""
        name = self._pick("max", "min", "sum", "count")
        source = self._pick("", " FROM e", " FROM e WHERE e.id = 1", " FROM x WHERE x.id = 1")
        inner = f"(SELECT {name}(t.a){source})"
        return self._pick(
            f"SELECT {inner} FROM t",
            f"SELECT id FROM t WHERE {inner} > 0",
            f"SELECT a, {inner} FROM t GROUP BY a ORDER BY a",
            f"SELECT a FROM t GROUP BY a HAVING {inner} > 1",
            f"SELECT count(*) FROM t WHERE {name}(a) > 0",
            f"SELECT GROUP_CONCAT({self._pick('', 's', 's, a')}) FROM {self._pick('t', 'e')}",
        )

    def definition(self) -> str:
        """Return a definition that box.prepare looks at."""
        table, column = self._pick("t", "e", "v", "nothing"), self._pick("a", "b")
        text = self._pick(
            f"DROP TABLE {table}", f"DROP VIEW {table}", f"DROP TABLE IF EXISTS {table}", f"DROP INDEX xa ON {table}",
            f"CREATE INDEX i ON {table} ({column})", f"CREATE VIEW w AS SELECT {column} FROM {table}",
            f"CREATE TABLE {table} (id INT)", f"ALTER TABLE {table} RENAME TO {self._pick('p', 'n')}",
            f"ALTER TABLE {table} ADD COLUMN {column} INT", f"ALTER TABLE {table} DROP CONSTRAINT c", f"TRUNCATE TABLE {table}",
            f"UPDATE t SET {column} = {self._pick('b', '1')}, {self._pick('n1', 'a')} = {self._pick('n2', '2')}",
        )  # fmt: skip
        return f"--prepare {text}"

    def right(self) -> str:
        """Return a statement of the user plain."""
        table = self._pick("t", "p", "e", "v")
        return "--plain " + self._pick(
            f"SELECT * FROM {table} ORDER BY 1",
            "INSERT INTO e VALUES (100, 1, 'q')",
            "INSERT INTO p VALUES (100)",
            "DROP INDEX nothing ON t",
            "DROP TRIGGER nothing",
            "ALTER TABLE t RENAME TO t9",
            "CREATE TABLE n (id INT PRIMARY KEY)",
            f"TRUNCATE TABLE {table}",
            "PRAGMA table_info(t)",
        )

    def lua(self) -> str:
        """Return a statement on a space that Lua has made."""
        column = self._pick('"a"', '"m"', '"y"', '"k"')
        return self._pick(
            f'SELECT {column}, typeof({column}) FROM "o"',
            f'SELECT {self._pick("hex", "quote", "length", "upper", "count")}({column}) FROM "o"',
            f'SELECT {column} {self._pick("=", "<", "||", "+")} {self._pick(column, "1")} FROM "o"',
            f'SELECT CAST({column} AS {self._pick("STRING", "INTEGER", "SCALAR")}) FROM "o"',
            f'UPDATE "o" SET {column} = {self._pick("1", column)} WHERE "id" = {self._pick("1", "2")}',
            f'SELECT * FROM "less" WHERE "{self._pick("b", "c")}" IS NULL',
            'UPDATE "less" SET "c" = 1',
            f'{self._pick("SELECT *", "DELETE")} FROM "nofmt"',
            f'PRAGMA {self._pick("table_info", "index_list")}("{self._pick("o", "less", "multi", "nofmt")}")',
            'SELECT * FROM "multi" WHERE "a" = 1',
        )

    def limit(self) -> str:
        """Return a statement near a limit."""
        deep, wide = self._random.choice((199, 200, 201)), self._random.choice((1999, 2000, 2001))
        few = self._random.choice((30, 31, 32))
        args = self._random.choice((126, 127, 128))
        tables = self._random.choice((63, 64, 65))
        return self._pick(
            f"SELECT {' + '.join(['1'] * deep)}",
            f"SELECT LENGTH({' || '.join(['s'] * deep)}) FROM e",
            f"SELECT {'NOT ' * deep}true",
            f"SELECT {', '.join(['1'] * wide)}",
            f"VALUES ({', '.join(['1'] * wide)})",
            f"SELECT 1 FROM e GROUP BY {', '.join(['1'] * wide)}",
            " UNION ALL ".join(["SELECT 1"] * few),
            f"SELECT GREATEST({', '.join(['1'] * args)})",
            f"SELECT count(*) FROM {', '.join(f'p AS p{number}' for number in range(tables))}",
        )


def script(seed: int, count: int) -> str:
    """Return a script that runs `count` statements after those that make tables, and prints a line for each."""
    made = Areas(seed)
    statements = [*_TABLES, 'SET SESSION "sql_full_metadata" = true', *_LUA, *(made.statement() for _ in range(count))]
    quoted = ",\n".join(f"[==[{text}]==]" for text in statements)
    return f"""
box.cfg{{log = 'node.log', wal_mode = 'none', memtx_memory = 64 * 1024 * 1024}}
local json = require('json')
local function shown(result, problem)
    if result == nil then
        return tostring(problem.code) .. ' ' .. tostring(problem)
    elseif result.stmt_id ~= nil then
        return 'prepared'
    end
    local columns = {{}}
    for _, column in ipairs(result.metadata or {{}}) do
        table.insert(columns, table.concat({{column.name, column.type, tostring(column.span), tostring(column.collation),
            tostring(column.is_nullable), tostring(column.is_autoincrement)}}, ' '))
    end
    return (result.row_count or json.encode(result.rows)) .. ' ' .. table.concat(columns, ', ')
end
for number, text in ipairs{{{quoted}}} do
    local lua, prepared = text:match('^%-%-lua (.*)'), text:match('^%-%-prepare (.*)')
    local plain = text:match('^%-%-plain (.*)')
    if lua ~= nil then
        print(number, pcall(loadstring(lua)))
    elseif prepared ~= nil then
        print(number, shown(box.prepare(prepared)))
    elseif plain ~= nil then
        print(number, shown(box.session.su('plain', box.execute, plain)))
    else
        print(number, shown(box.execute(text)))
    end
end
os.exit(0)
"""
