# ruff: noqa: E501  a statement is one line
"""Generates the SQL that users write on a small schema with triggers, views and foreign keys, as a Lua script.

```
definitions   ALTER TABLE, RENAME, views over views, triggers that write, constraints added and dropped
queries       WITH RECURSIVE, compounds with ORDER BY and LIMIT, correlated sub-queries, groups, CASE, CAST, LIKE ESCAPE
changes       by triggers and foreign keys, OR clauses, keys that change, INSERT ... SELECT
parameters    numbered and named ones, too few, too many, of every type
wrong texts   a statement with a word that is missing, doubled or foreign
```

Every `_PERIOD` statements the schema is made anew. Left out is what docs/reference/sql.md lists, and OR REPLACE of a
parent whose unique key is nil, for which 2.8.1 raises `Supplied key type of part 0 does not match index part type`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Final

_PERIOD: Final = 25
"""The number of statements after which the schema is made anew, so that a difference has no long shadow."""
_RESET: Final = "--reset"
_SCHEMA: Final = (
    'CREATE TABLE p (id INT PRIMARY KEY, n INT UNIQUE, s TEXT, c TEXT COLLATE "unicode_ci")',
    "CREATE TABLE c (id INTEGER PRIMARY KEY AUTOINCREMENT, pid INT REFERENCES p ON DELETE CASCADE, n INT DEFAULT 1 REFERENCES p (n) ON DELETE SET NULL ON UPDATE CASCADE, d DOUBLE CHECK (d < 100))",
    "CREATE TABLE r (id INT PRIMARY KEY, pid INT REFERENCES p, b BOOLEAN, x VARBINARY, v SCALAR, u UNSIGNED)",
    "CREATE TABLE log (id INTEGER PRIMARY KEY AUTOINCREMENT, m TEXT)",
    "CREATE INDEX pc ON p (c)",
    "CREATE VIEW v AS SELECT id, n + 1 AS m, s FROM p",
    "CREATE TRIGGER ti AFTER INSERT ON p FOR EACH ROW BEGIN INSERT INTO log VALUES (NULL, 'in ' || CAST(new.id AS TEXT)); END",
    "CREATE TRIGGER td BEFORE DELETE ON p FOR EACH ROW WHEN old.n > 1 BEGIN INSERT INTO log VALUES (NULL, old.s); END",
    "INSERT INTO p VALUES (1, 1, 'a', 'A'), (2, 2, 'b_', 'a'), (3, NULL, 'c%', 'Ä'), (4, 4, NULL, NULL)",
    "INSERT INTO c VALUES (1, 1, 1, 0.5), (2, 2, 2, 1.5), (3, NULL, NULL, NULL), (4, 1, 4, -2)",
    "INSERT INTO r VALUES (1, 3, true, x'61', 1, 1), (2, 3, false, x'', 'a', 9223372036854775808), (3, NULL, NULL, NULL, true, NULL)",
)
_VALUES: Final = (
    "NULL", "0", "1", "-1", "2", "3", "9223372036854775807", "18446744073709551615", "-9223372036854775808", "1.5", "1e19", "''", "'a'",
    "'1'", "'b_'", "true", "x'61'",
)  # fmt: skip
_WORDS: Final = (
    "SELECT", "FROM", "WHERE", "GROUP", "BY", "ORDER", "HAVING", "LIMIT", "AS", "ON", "JOIN", "UNION", "VALUES", "INTO", "SET", "TABLE",
    "INDEX", "NOT", "NULL", "DEFAULT", "BEGIN", "END", "CASE", "IN", "LIKE", "AND", "CAST", "(", ")", ",", ";", "*", "+", "=", ".", "?",
    "1", "'a'", "id", "nothing", "max", "DISTINCT", "!", "KEY", "REPLACE", "RAISE", "user", "any",
)  # fmt: skip
_TOKEN: Final = re.compile(r"\s+|'[^']*'|\"[^\"]*\"|\w+|[<>|!]+|.")
_TYPES: Final = ("INTEGER", "UNSIGNED", "STRING", "DOUBLE", "NUMBER", "BOOLEAN", "VARBINARY", "SCALAR")


class Users:
    """Generates the statements of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._areas: tuple[Callable[[], str], ...] = (
            self.query, self.query, self.change, self.change, self.definition, self.parameter, self.wrong,
        )  # fmt: skip

    def _pick(self, *choices: str) -> str:
        return self._random.choice(choices)

    def statement(self) -> str:
        """Return a statement of any area."""
        return self._random.choice(self._areas)()

    def _column(self, table: str) -> str:
        names = {"p": ("id", "n", "s", "c"), "c": ("id", "pid", "n", "d"), "r": ("id", "pid", "b", "x", "v", "u")}[
            table
        ]
        return f"{table}.{self._pick(*names)}"

    def _value(self) -> str:
        return self._pick(*_VALUES)

    def _condition(self, table: str) -> str:
        column = self._column(table)
        return self._pick(
            f"{column} {self._pick('=', '<', '>=', '<>')} {self._value()}",
            f"{column} IS {self._pick('', 'NOT ')}NULL",
            f"{column} IN ({self._value()}, {self._value()})",
            f"{table}.id BETWEEN {self._pick('1', '2')} AND {self._pick('2', '3', '1')}",
            f"EXISTS (SELECT 1 FROM c AS e WHERE e.pid = {table}.id LIMIT 1)",
            f"{table}.id = (SELECT max(z.id) FROM {table} AS z WHERE z.id < {self._pick('2', '3', '9')})",
            f"{table}.id {self._pick('', 'NOT ')}IN (SELECT pid FROM {self._pick('c', 'r')})",
        )  # fmt: skip

    def query(self) -> str:
        """Return a query whose rows have only one possible order."""
        table = self._pick("p", "c", "r")
        column, other = self._column(table), self._column(table)
        tail = f" ORDER BY 1{self._pick('', ' DESC')}{self._pick('', ' LIMIT 2', ' LIMIT 2 OFFSET 1')}"
        operator = self._pick("UNION", "UNION ALL", "EXCEPT", "INTERSECT")
        return self._pick(
            f"SELECT id, {column} FROM {table} WHERE {self._condition(table)}{tail}",
            f"SELECT id, {self._pick('quote', 'typeof', 'hex', 'length', 'upper', 'unicode', 'soundex', 'abs')}({column}) FROM {table}{tail}",
            f"SELECT id, CAST({column} AS {self._pick(*_TYPES)}) FROM {table} WHERE {table}.id = {self._pick('1', '2', '3')}",
            f"SELECT CAST(CAST({self._value()} AS {self._pick(*_TYPES)}) AS {self._pick(*_TYPES)})",
            f"SELECT {self._value()} {self._pick('+', '-', '*', '/', '||', '&', '<', '=')} {self._pick('1', '2', '1.5', repr('a'), '9223372036854775807')}",
            f"SELECT id FROM p WHERE s LIKE '{self._pick('a', 'b|_', '%', 'c|%', '_')}' ESCAPE '|'{tail}",
            f"SELECT id FROM {table} {operator} SELECT {self._pick('id', 'pid', '1')} FROM c{tail}",
            f"SELECT {column} FROM {table} {operator} SELECT {self._column('p')} FROM p ORDER BY 1",
            f"WITH RECURSIVE q (i) AS (SELECT {self._pick('1', '-1')} UNION {self._pick('', 'ALL ')}SELECT i + {self._pick('1', '2')} FROM q WHERE i < 5) SELECT i, i * i FROM q{tail}",
            "WITH RECURSIVE q (i, l) AS (SELECT id, 0 FROM p WHERE id = 1 UNION ALL SELECT c.id, l + 1 FROM c, q WHERE c.pid = q.i AND l < 3) SELECT count(*), max(l) FROM q",
            f"SELECT id, (SELECT {self._pick('count(*)', 'max(d)', 'group_concat(d)')} FROM c WHERE c.pid = p.id) FROM p{tail}",
            f"SELECT n, count(*), {self._pick('sum', 'total', 'avg', 'max', 'min')}({self._pick('d', 'id', 'pid')}) FROM c GROUP BY n{self._pick('', ' HAVING count(*) > 0')} ORDER BY n",
            f"SELECT {self._pick('sum', 'avg', 'total', 'group_concat', 'max', 'count')}({self._pick('', 'DISTINCT ')}{column}) FROM {table}",
            f"SELECT id, CASE {self._pick('', column)} WHEN {self._value()} THEN {self._value()} ELSE {other} END FROM {table}{tail}",
            f"SELECT p.id, c.id FROM p {self._pick('', 'LEFT ')}JOIN c ON c.pid = p.id{self._pick('', ' AND c.d > 0')} ORDER BY 1, 2",
            f"SELECT id, {column} {self._pick('=', '<', '>')} {other} FROM {table}{tail}",
            f"SELECT id, m FROM {self._pick('v', 'w')}{tail}",
            "SELECT m FROM log ORDER BY id",
            "SELECT * FROM p ORDER BY id",
            "SELECT * FROM c ORDER BY id",
        )  # fmt: skip

    def change(self) -> str:
        """Return a statement that changes rows."""
        id_ = self._pick("1", "2", "3", "4", "5", "6")
        action = self._pick("INSERT", "INSERT", "REPLACE", "INSERT OR IGNORE", "INSERT OR REPLACE", "INSERT OR FAIL")
        number = self._pick("NULL", "1", "2", "7", "8")
        table = self._pick("p", "c", "r")
        return self._pick(
            f"{action} INTO p VALUES ({id_}, {number}, {self._pick(repr('x'), 'NULL', '5')}, 'q'), (1{id_}, 1{id_}, 'y', 'Z')",
            f"{action} INTO c (pid, n, d) VALUES ({number}, {number}, {self._pick('1', '100', 'NULL', repr('2'))})",
            f"{action} INTO r (id, pid, v, u) VALUES ({id_}, {number}, {self._value()}, {self._value()})",
            f"INSERT INTO p (id, s) SELECT id + {self._pick('10', '0')}, s FROM p WHERE id < 3",
            f"UPDATE {table} SET {self._column(table).partition('.')[2]} = {self._value()} WHERE id = {id_}",
            f"UPDATE {self._pick('', 'OR IGNORE ')}p SET n = {self._pick('n + 1', '1', 'NULL', 'id')}{self._pick('', ' WHERE id > 1')}",
            f"UPDATE c SET d = d {self._pick('+ 99', '* 2', '/ 2')}, n = (SELECT max(n) FROM p)",
            f"UPDATE p SET id = {self._pick('id + 10', '1', 'id')} WHERE id = {id_}",
            f"DELETE FROM {table} WHERE {self._condition(table).replace(table + '.', '')}",
            f"DELETE FROM p WHERE id = {id_}",
            f"INSERT INTO v VALUES ({id_}, 1, 'v')",
            f"TRUNCATE TABLE {self._pick('log', 'p', 'c')}",
            "START TRANSACTION", "COMMIT", "ROLLBACK", "SAVEPOINT x", "ROLLBACK TO SAVEPOINT x", "RELEASE x",
        )  # fmt: skip

    def definition(self) -> str:
        """Return a definition."""
        table = self._pick("p", "c", "r", "log", "v", "nothing")
        column = self._pick("id", "n", "s", "pid", "nothing")
        name = self._pick("x1", "x2", "pc", "ti")
        return self._pick(
            f"ALTER TABLE {table} ADD COLUMN {self._pick('k', 'n')} {self._pick('INT', 'TEXT', 'INT NOT NULL', 'INT UNIQUE', 'INT CHECK (k > 0)', 'INT REFERENCES p', 'INT DEFAULT 3')}",
            f"ALTER TABLE {table} RENAME TO {self._pick('p2', 'log', 'r')}",
            f"ALTER TABLE {table} ADD CONSTRAINT {name} {self._pick('UNIQUE', 'PRIMARY KEY')} ({column})",
            f"ALTER TABLE {table} ADD CONSTRAINT {name} CHECK ({column} {self._pick('> 0', 'IS NOT NULL', '< 2')})",
            f"ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY ({column}) REFERENCES {self._pick('p', 'p (n)', 'c', 'v')}",
            f"ALTER TABLE {table} DROP CONSTRAINT {self._pick(name, 'unique_unnamed_P_2', 'fk_unnamed_C_1', 'ck_unnamed_C_1')}",
            f"CREATE {self._pick('', 'UNIQUE ')}INDEX {self._pick('', 'IF NOT EXISTS ')}{name} ON {table} ({column}{self._pick('', ', id')})",
            f"DROP INDEX {self._pick('', 'IF EXISTS ')}{name} ON {table}",
            f"CREATE VIEW {self._pick('w', 'v')} AS SELECT {self._pick('*', 'id, m', 'id + 1 AS id, m')} FROM {self._pick('v', 'p')}",
            f"CREATE VIEW w (a{self._pick('', ', b')}) AS SELECT id, s FROM v",
            f"DROP VIEW {self._pick('v', 'w')}",
            f"DROP TABLE {self._pick('', 'IF EXISTS ')}{table}",
            f"DROP TRIGGER {self._pick('', 'IF EXISTS ')}{self._pick('ti', 'td', 'tn')}",
            f"CREATE TRIGGER tn {self._pick('BEFORE', 'AFTER')} {self._pick('INSERT', 'UPDATE', 'UPDATE OF n', 'DELETE')} ON {table} FOR EACH ROW BEGIN "
            + self._pick(
                f"UPDATE p SET n = {self._pick('new', 'old')}.id WHERE id = 4;",
                f"INSERT INTO log VALUES (NULL, {self._pick('new.s', 'old.s', repr('t'))});",
                f"SELECT RAISE({self._pick('ABORT', 'FAIL', 'ROLLBACK')}, 'no') WHERE {self._pick('new', 'old')}.id > 2;",
                "SELECT RAISE(IGNORE);",
                "DELETE FROM c WHERE pid = old.id;",
            )
            + " END",
            "CREATE TRIGGER tv INSTEAD OF INSERT ON v FOR EACH ROW BEGIN INSERT INTO p VALUES (new.id, new.m, new.s, 'v'); END",
            f"PRAGMA {self._pick('table_info', 'index_list', 'foreign_key_list')}({table})",
        )  # fmt: skip

    def parameter(self) -> str:
        """Return a statement with parameters, as a call in Lua."""
        text = self._pick(
            "SELECT id FROM p WHERE id = ?", "SELECT $2, $1", "SELECT :a, :b, :a", "SELECT ?, :a", "SELECT id FROM p WHERE s LIKE ? ORDER BY 1",
            "SELECT id FROM p ORDER BY id LIMIT ? OFFSET ?", "SELECT ? + ?", "SELECT typeof(?), typeof(@b)", "UPDATE p SET s = ? WHERE id = ?",
            "INSERT INTO r (id, v, u) VALUES (?, ?, ?)", "SELECT id FROM p WHERE n IN (?, ?)", "SELECT CASE WHEN ? THEN 1 END", "SELECT CAST(? AS INTEGER)",
        )  # fmt: skip
        values = (
            "1", "-1", "1.5", "'a'", "'1'", "true", "box.NULL", "18446744073709551615ULL", "{[':a'] = 1}", "{[':b'] = 'x'}", "{['@b'] = 2}",
            "{['$1'] = 3}", "{}", "{1}",
        )  # fmt: skip
        given = ", ".join(self._pick(*values) for _ in range(self._random.randrange(4)))
        return f"--with {{{given}}} {text}"

    def wrong(self) -> str:
        """Return a statement in which a word is missing, doubled or another one."""
        text = self.query() if self._random.random() < 0.5 else self._pick(self.change(), self.definition())
        tokens = _TOKEN.findall(text)
        place = self._random.choice([number for number, token in enumerate(tokens) if not token.isspace()])
        word = self._pick(*_WORDS)
        tokens[place] = self._pick("", word, f"{word} {tokens[place]}", f"{tokens[place]} {tokens[place]}")
        return "".join(tokens)


def script(seed: int, count: int) -> str:
    """Return a script that runs `count` statements, and prints a line for each and for each new schema."""
    made = Users(seed)
    statements: list[str] = []
    for number in range(count):
        statements += [_RESET] if number % _PERIOD == 0 else []
        statements.append(made.statement())
    schema, quoted = (",\n".join(f"[==[{text}]==]" for text in texts) for texts in (_SCHEMA, statements))
    return f"""
local statements = {{{quoted}}}
box.cfg{{log = 'node.log', wal_mode = 'none', memtx_memory = 64 * 1024 * 1024}}
local json = require('json')
local function shown(result, problem)
    if result == nil then
        return tostring(problem.code) .. ' ' .. tostring(problem)
    end
    local columns = {{}}
    for _, column in ipairs(result.metadata or {{}}) do
        table.insert(columns, column.name .. ' ' .. column.type)
    end
    return (result.row_count or json.encode(result.rows)) .. ' ' .. table.concat(columns, ', ') .. ' ' ..
        json.encode(result.autoincrement_ids or {{}})
end
local function reset()
    box.rollback()
    for _, name in ipairs{{'_trigger', '_fk_constraint'}} do
        for _, row in box.space[name]:pairs() do
            box.space[name]:delete(name == '_trigger' and row[1] or {{row[1], row[2]}})
        end
    end
    for round = 1, 8 do
        for _, row in box.space._space:pairs({{511}}, {{iterator = 'GT'}}) do
            pcall(row[6].view and function() box.space._space:delete(row[1]) end or function() box.space[row[1]]:drop() end)
        end
    end
    for _, text in ipairs{{{schema}}} do
        assert(box.execute(text))
    end
end
for number, text in ipairs(statements) do
    local given, query = text:match('^%-%-with (%b{{}}) (.*)')
    if text == '{_RESET}' then
        reset()
        print(number, 'new schema')
    elseif given ~= nil then
        print(number, shown(box.execute(query, loadstring('return ' .. given)())))
    else
        print(number, shown(box.execute(text)))
    end
end
os.exit(0)
"""
