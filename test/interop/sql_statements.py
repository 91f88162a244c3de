# ruff: noqa: E501  a statement is one line
"""Generates SQL statements over a few fixed tables, as a Lua script that prints the result of each.

They avoid defects of Tarantool 2.8.1: `IS NOT NULL` by an index loses negative numbers, a constant division by zero is an
error even if no row needs it, and a double between -1 and 0 becomes the integer -32.
"""

from __future__ import annotations

import random

_COLUMNS = {"a": "int", "b": "double", "s": "text", "f": "boolean", "v": "scalar"}
_LITERALS = {
    "int": ("0", "1", "2", "-3", "7", "null"),
    "double": ("0.5", "1.0", "-2.25", "null"),
    "text": ("'a'", "'b'", "'B'", "'ab'", "''", "null"),
    "boolean": ("true", "false", "null"),
    "scalar": ("1", "'a'", "true", "2.5", "x'00'", "null"),
}
_SETUP = (
    "create table t (id int primary key, a int, b double, s text, f boolean, v scalar)",
    'create table u (id int primary key autoincrement, a int unique, s text collate "unicode_ci")',
    "create index t_a on t (a, id)",
    "create index t_s on t (s)",
)


class Statements:
    """Generates statements from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def _pick(self, *choices: str) -> str:
        return self._random.choice(choices)

    def literal(self, type_name: str) -> str:
        """Return a constant of a type."""
        return self._pick(*_LITERALS[type_name])

    def number(self, depth: int = 2) -> str:
        """Return an expression that is a number."""
        if depth == 0 or self._random.random() < 0.4:
            return self._pick("id", "a", "b", self.literal("int"), self.literal("double"))
        left, right = self.number(depth - 1), self.number(depth - 1)
        forms = ("{} + {}", "{} - {}", "{} * {}", "{} / 4", "coalesce({}, {})", "nullif({}, {})")
        return "(" + self._pick(*forms).format(left, right) + ")"

    def text(self) -> str:
        """Return an expression that is a text."""
        return self._pick(
            "s",
            self.literal("text"),
            "s || 'x'",
            "upper(s)",
            "lower(s)",
            "substr(s, 2)",
            "trim(s)",
            "cast(id as string)",
        )

    def condition(self, depth: int = 2) -> str:
        """Return a condition on a row of `t`."""
        if depth and self._random.random() < 0.4:
            return f"({self.condition(depth - 1)} {self._pick('and', 'or')} {self.condition(depth - 1)})"
        operator = self._pick("=", "<", "<=", ">", ">=", "!=")
        return self._pick(
            f"{self.number(1)} {operator} {self.number(1)}",
            f"a {operator} {self.literal('int')}",
            f"{self.text()} {operator} {self.text()}",
            f"s like {self._pick(repr('a%'), repr('%b'), repr('_'), 's')}",
            f"a in ({self.literal('int')}, {self.literal('int')})",
            f"a between {self.literal('int')} and {self.literal('int')}",
            f"{self._pick('b', 's', 'f', 'v')} is {self._pick('', 'not ')}null",
            f"not ({self._pick('f', 'a = 1')})",
            "f",
            "exists (select 1 from u where u.a = t.a)",
        )

    def query(self) -> str:
        """Return a query whose rows have only one possible order."""
        where = f" where {self.condition()}" if self._random.random() < 0.7 else ""
        return self._pick(
            f"select id, {self.number()}, {self.text()} from t{where} order by id",
            f"select a, count(*), sum(b), max(s) from t{where} group by a order by a",
            f"select count(*), min(a), max(b), avg(id) from t{where}",
            f"select distinct v from t{where} order by v {self._pick('', 'desc')}",
            f"select id from t{where} order by {self._pick('a', 's', 'v', 'b')} {self._pick('', 'desc')}, id limit 3",
            "select t.id, u.id from t join u on t.a = u.a order by 1, 2",
            "select t.id, u.s from t left join u on t.s = u.s order by 1, 2",
            "select s from t union select s from u order by 1",
            f"select id, case when {self.condition(1)} then {self.number(1)} else {self.number(1)} end from t order by id",
            f"select {self.number()}, {self.text()}, {self._pick('typeof(v)', 'quote(s)', 'hex(s)')} from t where id = 1",
            "select * from u where s = 'A' order by id",
        )

    def change(self) -> str:
        """Return a statement that changes a table."""
        row = ", ".join(self.literal(type_name) for type_name in _COLUMNS.values())
        name = self._pick(*_COLUMNS)
        return self._pick(
            f"{self._pick('insert', 'replace', 'insert or ignore')} into t values ({self._random.randrange(12)}, {row})",
            f"insert into u (a, s) values ({self.literal('int')}, {self.literal('text')})",
            f"update t set {name} = {self.literal(_COLUMNS[name])} where {self.condition(1)}",
            f"update t set b = {self.number(1)} where id = {self._random.randrange(12)}",
            f"delete from t where id = {self._random.randrange(12)}",
            "insert into t select id + 20, a, b, s, f, v from t where id < 3",
            "delete from t where id > 19",
        )


def script(seed: int, count: int) -> str:
    """Return a script that runs `count` statements, and prints a line for each."""
    made = Statements(seed)
    rows = [f"insert into t values ({number}, {number % 4}, {number / 2}, '{'abB'[number % 3]}', {'true' if number % 2 else 'false'}, {number})" for number in range(8)]  # fmt: skip
    rows += [f"insert into u (a, s) values ({number}, '{'aAb'[number % 3]}')" for number in range(5)]
    statements = [*_SETUP, *rows]
    statements += [made.change() if made._random.random() < 0.3 else made.query() for _ in range(count)]
    return printing_script(statements)


def printing_script(statements: list[str]) -> str:
    """Return a script that runs statements, and prints a line for each: its error, or its rows and columns."""
    quoted = ",\n".join(f"[==[{text}]==]" for text in statements)
    return f"""
box.cfg{{log = 'node.log', wal_mode = 'none', memtx_memory = 64 * 1024 * 1024}}
local json = require('json')
for number, text in ipairs{{{quoted}}} do
    local result, problem = box.execute(text)
    if result == nil then
        print(number, problem.code, tostring(problem))
    else
        local columns = {{}}
        for _, column in ipairs(result.metadata or {{}}) do
            table.insert(columns, column.name .. ' ' .. column.type)
        end
        local ids = json.encode(result.autoincrement_ids or {{}})
        print(number, result.row_count or json.encode(result.rows), table.concat(columns, ', '), ids)
    end
end
os.exit(0)
"""
