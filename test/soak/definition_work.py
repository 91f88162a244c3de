"""A node whose definitions, rows and transactions are changed by several tasks at once, through Python, Lua and SQL.

Run as a program, it is the child process of the campaign "definitions":

    python -m test.soak.definition_work DIRECTORY SEED MVCC SECONDS

It prints what it has found wrong, then `end` and its state in JSON: the rows of every space, by name. Errors that
Tarantool's users expect, BoxErrors, are no finds.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from box import BoxError, Node

TASKS: Final = 8
NAMES: Final = 4
"""The number of tables, Lua spaces, users, sequences and so on: few, so that tasks meet."""
KEYS: Final = 12
_PATIENCE: Final = 60.0
"""Seconds after which a step that has not ended counts as one that hangs."""
_ORDINARY: Final = ("internal error", "Traceback")
"""Words of no ordinary error."""

STATE: Final = """
local state = {}
for _, definition in box.space._space:pairs() do
    local space = box.space[definition.id]
    local is_kept = space ~= nil and space.index[0] ~= nil and definition.engine == 'memtx' and not space.temporary
    if is_kept then
        state[definition.name] = space:select()
    end
end
return require('json').encode(state)
"""
"""Returns the rows of all spaces but temporary ones as JSON."""

CHECK: Final = """
local json, wrong = require('json'), {}
for _, definition in box.space._space:pairs({512}, {iterator = 'GE'}) do
    local space = box.space[definition.id]
    local primary = space and space.index[0]
    if primary ~= nil then
        local rows = {}
        for _, row in primary:pairs() do rows[json.encode(row)] = true end
        for number, index in pairs(space.index) do
            if type(number) == 'number' then
                local found = 0
                for _, row in index:pairs() do
                    found = found + 1
                    if not rows[json.encode(row)] then
                        table.insert(wrong, definition.name .. '.' .. index.name .. ' has ' .. json.encode(row))
                    end
                end
                local is_multikey = (index.parts[1].path or ''):find('*', 1, true) ~= nil
                if index:len() ~= found or (found ~= primary:count() and not is_multikey) then
                    table.insert(wrong, ('%s.%s has %d of %d rows, len %d'):format(
                        definition.name, index.name, found, primary:count(), index:len()))
                end
            end
        end
    end
end
for _, key in box.space._fk_constraint:pairs() do
    local child, parent = box.space[key.child_id], box.space[key.parent_id]
    if child == nil or parent == nil then
        table.insert(wrong, 'a foreign key without its tables: ' .. key.name)
    else
        local parents = {}
        for _, row in parent:pairs() do parents[json.encode(row[key.parent_cols[1] + 1])] = true end
        for _, row in child:pairs() do
            local value = row[key.child_cols[1] + 1]
            if value ~= nil and not parents[json.encode(value)] then
                table.insert(wrong, 'a child without its parent: ' .. json.encode(row))
            end
        end
    end
end
for _, check in box.space._ck_constraint:pairs() do
    local table_name = box.space[check.space_id].name
    local bad, err = box.execute(('SELECT COUNT(*) FROM "%s" WHERE NOT (%s)'):format(table_name, check.code))
    if err ~= nil then
        table.insert(wrong, ('check %s of %s: %s'):format(check.code, table_name, tostring(err)))
    elseif bad.rows[1][1] ~= 0 then
        table.insert(wrong, ('%s has %d rows that its check %s refuses'):format(table_name, bad.rows[1][1], check.code))
    end
end
return wrong
"""
"""Returns the texts of all contradictions between indexes, foreign keys, checks and rows."""


class Player:
    """One of the tasks: it draws steps from its own seed until `until`."""

    def __init__(self, node: Node, seed: str, finds: list[str]) -> None:
        self._node = node
        self._chooser = random.Random(seed)
        self._finds = finds
        self._steps: Sequence[tuple[int, Callable[[], Awaitable[Any]]]] = (
            (16, self._define_in_sql),
            (16, self._define_in_lua),
            (30, self._change_in_sql),
            (20, self._change_in_lua),
            (10, self._change_in_python),
            (12, self._query),
            (6, self._prepared),
            (14, self._transaction),
            (6, self._lua_transaction),
            (6, self._cancelled),
            (2, self._snapshot),
        )

    async def run(self, until: float) -> None:
        """Make steps until a moment of `time.monotonic`."""
        while time.monotonic() < until:
            await self.step()

    async def step(self) -> None:
        """Make one step. An unexpected error goes to the finds."""
        (step,) = self._chooser.choices([step for _, step in self._steps], [weight for weight, _ in self._steps])
        try:
            async with asyncio.timeout(_PATIENCE):
                await step()
        except BoxError as error:
            if any(word in str(error) for word in _ORDINARY):
                self._finds.append(f"{step.__name__}: {error}")
        except TimeoutError:
            self._finds.append(f"{step.__name__} hangs")
        await asyncio.sleep(0)

    # -- names and values

    def _pick(self, *choices: str) -> str:
        return self._chooser.choice(choices)

    def _name(self, prefix: str) -> str:
        return f"{prefix}{self._chooser.randrange(NAMES)}"

    def _key(self) -> int:
        return self._chooser.randrange(KEYS)

    # -- steps

    async def _define_in_sql(self) -> None:
        table, other, number = self._name("t"), self._name("t"), self._key()
        await self._node.execute(
            self._pick(
                f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT, b TEXT)",
                f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT UNIQUE, b TEXT, CHECK (a < 1000))",
                f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT REFERENCES {other} (id), b TEXT)",
                f"CREATE TABLE {table} (id INT PRIMARY KEY AUTOINCREMENT, a INT DEFAULT {number}, b TEXT COLLATE"
                ' "unicode_ci")',
                f"DROP TABLE {table}",
                f"TRUNCATE TABLE {table}",
                f"ALTER TABLE {table} ADD COLUMN c{number} INT",
                f"ALTER TABLE {table} RENAME TO {other}",
                f"ALTER TABLE {table} ADD CONSTRAINT c{number} CHECK (id > -{number + 1})",
                f"ALTER TABLE {table} ADD CONSTRAINT f{number} FOREIGN KEY (a) REFERENCES {other} (id)"
                " ON DELETE CASCADE",
                f"ALTER TABLE {table} DROP CONSTRAINT {self._pick('c', 'f')}{number}",
                f"CREATE INDEX i{number % 3} ON {table} (a)",
                f"CREATE UNIQUE INDEX u{number % 3} ON {table} (b, id)",
                f"DROP INDEX {self._pick('i', 'u')}{number % 3} ON {table}",
                f"CREATE VIEW {self._name('v')} AS SELECT x.id, y.a FROM {table} x, {other} y WHERE x.id = y.a",
                f"DROP VIEW {self._name('v')}",
                f"CREATE TRIGGER {self._name('g')} AFTER INSERT ON {table} FOR EACH ROW BEGIN"
                f" INSERT OR IGNORE INTO {other} VALUES (new.id + 1, new.a, new.b); END",
                f"DROP TRIGGER {self._name('g')}",
            )
        )

    async def _define_in_lua(self) -> None:
        space, number = self._name("l"), self._key()
        await self._node.eval(
            self._pick(
                f"box.schema.space.create('{space}'):create_index('pk')",
                f"local s = box.schema.space.create('{space}') s:create_index('pk')"
                " s:create_index('k', {parts = {{2, 'unsigned', is_nullable = true}}, unique = false})",
                f"local s = box.schema.space.create('{space}', {{temporary = true}}) s:create_index('pk')",
                f"box.space.{space}:create_index('i{number % 3}', {{parts = {{{{1, 'unsigned'}}}},"
                f" type = '{self._pick('tree', 'hash')}'}})",
                f"box.space.{space}:create_index('m', {{parts = {{{{3, 'scalar', path = '[*]'}}}}, unique = false}})",
                f"box.space.{space}.index[{number % 4}]:drop()",
                f"box.space.{space}.index[1]:alter({{unique = {self._pick('true', 'false')}}})",
                f"box.space.{space}:rename('{self._name('l')}')",
                f"box.space.{space}:format({{{{'id', 'unsigned'}}, {{'n', 'any', is_nullable = true}}}})",
                f"box.space.{space}:format({{}})",
                f"box.space.{space}:truncate()",
                f"box.space.{space}:drop()",
                f"box.schema.sequence.create('{self._name('s')}')",
                f"box.sequence.{self._name('s')}:drop()",
                f"box.sequence.{self._name('s')}:next()",
                f"box.space.{space}.index[0]:alter({{sequence = '{self._name('s')}'}})",
                f"box.schema.user.create('{self._name('u')}', {{if_not_exists = true}})",
                f"box.schema.user.drop('{self._name('u')}')",
                f"box.schema.user.grant('{self._name('u')}', 'read,write', 'space', '{space}')",
                f"box.schema.user.revoke('{self._name('u')}', 'read', 'space', '{space}')",
                f"box.schema.func.create('{self._name('f')}', {{body = 'function(t) return {{t[1]}} end',"
                " is_deterministic = true, is_sandboxed = true})",
                f"box.schema.func.drop('{self._name('f')}')",
                f"box.space.{space}:create_index('fi', {{func = '{self._name('f')}', parts = {{{{1, 'unsigned'}}}}}})",
            )
        )

    async def _change_in_sql(self) -> None:
        table, other, key, number = self._name("t"), self._name("t"), self._key(), self._key()
        await self._node.execute(
            self._pick(
                f"INSERT INTO {table} (id, a, b) VALUES ({key}, {number}, 'x{number}')",
                f"INSERT INTO {table} (id, a, b) VALUES ({key}, NULL, 'x'), ({key + 1}, {number}, NULL)",
                f"REPLACE INTO {table} (id, a, b) VALUES ({key}, {number}, 'y')",
                f"INSERT INTO {table} (a) VALUES ({number})",
                f"INSERT OR IGNORE INTO {table} (id, a) SELECT id + {number}, a FROM {other}",
                f"UPDATE {table} SET a = {number} WHERE id = {key}",
                f"UPDATE {table} SET id = id + {KEYS} WHERE id > {key}",
                f"UPDATE {table} SET b = b || '!', a = a + 1 WHERE a < {number}",
                f"DELETE FROM {table} WHERE id = {key}",
                f"DELETE FROM {table} WHERE id % 2 = {number % 2} AND id IN (SELECT a FROM {other})",
            )
        )

    async def _change_in_lua(self) -> None:
        space, key, number = self._name("l"), self._key(), self._key()
        await self._node.eval(
            f"local s = box.space.{space} "
            + self._pick(
                f"s:insert{{{key}, {number}}}",
                f"s:replace{{{key}, {number}, {{{number}, {key}}}}}",
                f"s:replace{{{key}, box.NULL, {{'a', {number}}}}}",
                f"s:update({{{key}}}, {{{{'=', 2, {number}}}}})",
                f"s:upsert({{{key}, 1}}, {{{{'+', 2, 1}}}})",
                f"s:delete{{{key}}}",
                f"for id = {KEYS}, {KEYS + 5 * number} do s:replace{{id, id}} end",
                f"for id = {KEYS}, {KEYS + 5 * number} do s:delete{{id}} end",
            )
        )

    async def _change_in_python(self) -> None:
        key, number = self._key(), self._key()
        with suppress(AttributeError, TypeError):  # no such space, or a row that does not fit its format
            space = self._node.space[self._name("l")]
            match number % 5:
                case 0:
                    await space.insert((key, number))
                case 1:
                    await space.replace((key, number))
                case 2:
                    await space.replace_many([(other, number) for other in range(number)])
                case 3:
                    await space.update([key], [("=", 1, number)])
                case _:
                    await space.delete([key])

    async def _query(self) -> None:
        table, other, number = self._name("t"), self._name("t"), self._key()
        await self._node.execute(
            self._pick(
                f"SELECT * FROM {table} WHERE id > {number}",
                f"SELECT x.id, y.id FROM {table} x, {other} y WHERE x.a = y.a",
                f"SELECT a, COUNT(*), SUM(id) FROM {table} GROUP BY a HAVING COUNT(*) > 0 ORDER BY a",
                f"SELECT * FROM {self._name('v')}",
                f'SELECT * FROM "{self._name("l")}"',
                f"WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {100 * number})"
                f" SELECT COUNT(*) FROM c, {table} WHERE n > id",
                f"SELECT (SELECT MAX(id) FROM {other} WHERE {other}.a = {table}.id) FROM {table}",
            )
        )

    async def _prepared(self) -> None:
        source = self._pick(
            f"SELECT * FROM {self._name('t')} WHERE id = ?",
            f"DELETE FROM {self._name('t')} WHERE id = ?",
            f"INSERT INTO {self._name('t')} (id) VALUES (?)",
        )
        async with await self._node.prepare(source) as statement:
            for _ in range(self._chooser.randrange(4)):
                await asyncio.sleep(0)
                await statement.execute([self._key()])

    async def _any_of(self, *steps: Callable[[], Awaitable[None]]) -> None:
        await self._chooser.choice(steps)()

    async def _transaction(self) -> None:
        """A transaction of some steps, which waits between them. Some go on after an error, some roll back."""
        goes_on, fails, savepoint = (self._chooser.random() < chance for chance in (0.7, 0.3, 0.3))
        with suppress(_RolledBackError):
            async with self._node.transaction():
                if savepoint:
                    await self._node.execute("SAVEPOINT one")
                for _ in range(self._chooser.randrange(1, 6)):
                    with suppress(*[BoxError] if goes_on else []):
                        await self._any_of(
                            self._change_in_sql,
                            self._change_in_lua,
                            self._change_in_python,
                            self._query,
                            self._define_in_sql,
                            self._define_in_lua,
                        )
                    if self._chooser.random() < 0.5:
                        await asyncio.sleep(0)
                if savepoint and self._chooser.random() < 0.5:
                    await self._node.execute("ROLLBACK TO SAVEPOINT one")
                if fails:
                    raise _RolledBackError

    async def _lua_transaction(self) -> None:
        """A fiber with a transaction, which is cancelled or goes on."""
        space, other, key = self._name("l"), self._name("t").upper(), self._key()
        await self._node.eval(
            f"""
            local fiber = require('fiber')
            local function work()
                box.begin()
                box.space.{space}:replace{{{key}, 1}}
                fiber.yield()
                {self._pick("", "box.execute('INSERT INTO " + other.lower() + f" (id) VALUES ({key})')")}
                {self._pick("", "box.schema.sequence.create('" + self._name("s") + "')")}
                {self._pick("", f"if box.space.{other} ~= nil then box.space.{other}:truncate() end")}
                fiber.yield()
                box.space.{space}:delete{{{key + 1}}}
                {self._pick("box.commit()", "box.rollback()", "fiber.sleep(0.01) box.commit()", "")}
            end
            local worker = fiber.new(work)
            worker:set_joinable(true)
            fiber.yield()
            {self._pick("", "", "worker:cancel()")}
            worker:join()
            """
        )

    async def _cancelled(self) -> None:
        """A step that is cancelled after a random number of turns of the loop."""
        work = asyncio.ensure_future(
            self._any_of(
                self._transaction, self._query, self._define_in_sql, self._change_in_sql, self._lua_transaction
            )
        )
        for _ in range(self._chooser.randrange(6)):
            await asyncio.sleep(0)
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work

    async def _snapshot(self) -> None:
        await self._node.eval("box.snapshot()")


class _RolledBackError(Exception):
    """Ends the block of a transaction that is to be rolled back."""


class _Errors(logging.Handler):
    """Adds records of errors to the finds."""

    def __init__(self, finds: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._finds = finds

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        if any(word in text for word in _ORDINARY):
            self._finds.append(text)


async def play(directory: Path, seed: int, mvcc: bool, seconds: float) -> tuple[list[str], str]:
    """Work in a directory, stop, and return the finds and the state in JSON."""
    finds: list[str] = []
    logging.getLogger().addHandler(_Errors(finds))
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: finds.append(f"in the loop: {context!r}"))
    async with Node(directory, memtx_use_mvcc_engine=mvcc) as node:
        until = time.monotonic() + seconds
        print("ready", flush=True)
        await asyncio.gather(*(Player(node, f"{seed} {number}", finds).run(until) for number in range(TASKS)))
        finds += await node.eval(CHECK)
        return finds, await node.eval(STATE)


async def examine(directory: Path, mvcc: bool) -> tuple[list[str], str]:
    """Start a node from a directory, and return what contradicts in it, and its state in JSON."""
    async with Node(directory, memtx_use_mvcc_engine=mvcc) as node:
        return await node.eval(CHECK), await node.eval(STATE)


def main() -> None:
    directory, seed, mvcc, seconds = sys.argv[1:]
    finds, state = asyncio.run(play(Path(directory), int(seed), mvcc == "True", float(seconds)))
    for find in finds:
        print("find", json.dumps(find))
    print("end", state, flush=True)


if __name__ == "__main__":
    main()
