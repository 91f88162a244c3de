"""The work of the campaign "definitions": steps that change definitions, rows and transactions, in Python, Lua and SQL.

Several tasks make such steps at once. Errors that users of Tarantool expect, BoxErrors, are no finds.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from box import BoxError, Node

NAMES: Final = 4
"""The number of tables, Lua spaces, users, sequences and so on: few, so that tasks meet."""
KEYS: Final = 12
_CREATED: Final = 0.8
"""How often a step creates its table or space if it is missing."""
_PATIENCE: Final = 60.0
"""Seconds after which a step that has not ended counts as one that hangs."""
ALARMING: Final = ("internal error", "Traceback")
"""Words that no expected error has."""


class Player:
    """One of the tasks: it draws steps from its own seed until `until`."""

    def __init__(self, node: Node, seed: str, finds: list[str]) -> None:
        self._node = node
        self._chooser = random.Random(seed)
        self._finds = finds
        self._steps: Sequence[tuple[int, Callable[[], Awaitable[Any]]]] = (
            (16, self._define_in_sql),
            (16, self._define_in_lua),
            (8, self._define_in_python),
            (30, self._change_in_sql),
            (20, self._change_in_lua),
            (10, self._change_in_python),
            (12, self._query),
            (6, self._prepared),
            (6, self._set_triggers),
            (8, self._wait_in_sql),
            (4, self._read_along),
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
            if any(word in str(error) for word in ALARMING):
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

    async def _table(self) -> str:
        """Return the name of a table that exists in most cases: one that is missing is often created."""
        table, other = self._name("t"), self._name("t")
        if table.upper() not in self._node.space and self._chooser.random() < _CREATED:
            with suppress(BoxError):  # another task was quicker, or the other table does not exist
                await self._node.execute(
                    self._pick(
                        f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT, b TEXT)",
                        f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT UNIQUE, b TEXT, CHECK (a < 1000))",
                        f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT REFERENCES {other} (id), b TEXT)",
                        f"CREATE TABLE {table} (id INT PRIMARY KEY AUTOINCREMENT, a INT DEFAULT {self._key()},"
                        ' b TEXT COLLATE "unicode_ci")',
                    )
                )
        return table

    async def _space(self) -> str:
        """Return the name of a space that exists in most cases: one that is missing is often created."""
        space = self._name("l")
        if space not in self._node.space and self._chooser.random() < _CREATED:
            with suppress(BoxError):  # another task was quicker
                await self._node.eval(
                    self._pick(
                        f"box.schema.space.create('{space}'):create_index('pk')",
                        f"box.schema.space.create('{space}'):create_index('pk')",
                        f"local s = box.schema.space.create('{space}') s:create_index('pk')"
                        " s:create_index('k', {parts = {{2, 'unsigned', is_nullable = true}}, unique = false})",
                        f"local s = box.schema.space.create('{space}', {{temporary = true}}) s:create_index('pk')",
                    )
                )
        return space

    # -- steps

    async def _define_in_sql(self) -> None:
        table, other, number = await self._table(), await self._table(), self._key()
        await self._node.execute(
            self._pick(
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
                f"CREATE TRIGGER {self._name('g')} AFTER INSERT ON {table} FOR EACH ROW WHEN new.id < {KEYS}"
                f" BEGIN INSERT OR IGNORE INTO {other} VALUES (new.id + 1, new.a, new.b); END",
                f"DROP TRIGGER {self._name('g')}",
            )
        )

    async def _define_in_lua(self) -> None:
        space, number = await self._space(), self._key()
        await self._node.eval(
            self._pick(
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

    async def _define_in_python(self) -> None:
        schema, space, number = self._node.schema, await self._space(), self._key()
        handle = self._node.space[space] if self._chooser.random() < 0.8 else None
        match self._chooser.randrange(12):
            case 0:
                await schema.create_space(space, format=[("id", "unsigned"), ("n", "any")], temporary=number == 0)
            case 1 if handle is not None:
                await handle.create_index("pk", if_not_exists=True)
            case 2 if handle is not None:
                await handle.create_index(f"i{number % 3}", parts=[(2, "unsigned")], unique=number % 2 == 0)
            case 3 if handle is not None:
                await handle.index[f"i{number % 3}"].drop()
            case 4 if handle is not None:
                await handle.truncate()
            case 5 if handle is not None:
                await handle.drop()
            case 6:
                await schema.create_role(self._name("r"))
            case 7:
                await schema.drop_role(self._name("r"))
            case 8:
                await schema.grant(self._name("u"), self._name("r"))
            case 9:
                await schema.set_password(self._name("u"), f"secret {number}")
            case 10:
                await schema.create_sequence(self._name("s"), start=number, min=0, max=20, cycle=number % 2 == 0)
            case _:
                await schema.sequence(self._name("s")).set(number)

    async def _change_in_sql(self) -> None:
        table, other, key, number = await self._table(), await self._table(), self._key(), self._key()
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
        space, key, number = await self._space(), self._key(), self._key()
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
        name, key, number = await self._space(), self._key(), self._key()
        space = self._node.space[name]
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
        table, other, number = await self._table(), await self._table(), self._key()
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
        table = await self._table()
        source = self._pick(
            f"SELECT * FROM {table} WHERE id = ?",
            f"DELETE FROM {table} WHERE id = ?",
            f"INSERT INTO {table} (id) VALUES (?)",
        )
        async with await self._node.prepare(source) as statement:
            for _ in range(self._chooser.randrange(4)):
                await asyncio.sleep(0)
                await statement.execute([self._key()])

    async def _set_triggers(self) -> None:
        """Let changes of a table or space wait, or take away what makes them wait."""
        name = (await self._table()).upper() if self._chooser.random() < 0.5 else await self._space()
        other, key = await self._space(), self._key()
        kind = self._pick("on_replace", "before_replace")
        set_trigger = self._pick(
            "s[kind](s, function() fiber.yield() end)",
            "s[kind](s, function(old, new) fiber.sleep(0.0001) return new end)",
            f"s[kind](s, function(old, new) box.space.{other}:replace{{{key}, 1}} fiber.yield() return new end)",
            f"s[kind](s, function(old, new) if math.random(3) == 1 then box.space.{other}:truncate() end end)",
        )
        take_away = "for _, trigger in pairs(s[kind](s)) do s[kind](s, nil, trigger) end"
        await self._node.eval(
            f"""
            local fiber, kind, s = require('fiber'), '{kind}', box.space['{name}']
            if s and #s[kind](s) < 2 then {self._pick(set_trigger, take_away)} end
            """
        )

    async def _wait_in_sql(self) -> None:
        """A statement whose function waits for each row."""
        await self._node.eval(
            """
            box.schema.func.create('WAIT', {
                language = 'LUA', returns = 'any', param_list = {'any'}, exports = {'LUA', 'SQL'},
                body = "function(a) require('fiber').yield() return a end", if_not_exists = true,
            })
            """
        )
        table, other, key, number = await self._table(), await self._table(), self._key(), self._key()
        await self._node.execute(
            self._pick(
                f"INSERT INTO {table} (id, a) VALUES ({key}, WAIT({number})), (WAIT({key + 1}), 1)",
                f"INSERT OR REPLACE INTO {table} (id, a) SELECT id + {number}, WAIT(a) FROM {other}",
                f"UPDATE {table} SET a = WAIT(a) WHERE id > {key}",
                f"UPDATE OR REPLACE {table} SET id = WAIT(id) + 1 WHERE id > {key}",
                f"DELETE FROM {table} WHERE WAIT(id) = {key}",
                f"SELECT WAIT(x.id), y.id FROM {table} x, {other} y WHERE x.a = y.a AND WAIT(y.id) > {key}",
                f"SELECT a, COUNT(*) FROM {table} WHERE WAIT(id) > {key} GROUP BY WAIT(a) ORDER BY 1",
                f"CREATE TRIGGER {self._name('g')} BEFORE UPDATE ON {table} FOR EACH ROW BEGIN"
                f" UPDATE {other} SET a = WAIT(a) WHERE id = new.id + 1; DELETE FROM {other} WHERE id = {key}; END",
            )
        )

    async def _read_along(self) -> None:
        """A loop over an index that waits at each tuple."""
        space, iterator = await self._space(), self._pick("ALL", "GE", "LE", "REQ")
        await self._node.eval(
            f"""
            local fiber, s = require('fiber'), box.space.{space}
            {self._pick("", "box.begin()")}
            for _, t in s.index[{self._key() % 3}]:pairs({{}}, {{iterator = '{iterator}'}}) do
                {self._pick("fiber.yield()", "fiber.yield() s:replace{t[1], 5}", "s:delete(t[1]) fiber.yield()")}
            end
            if box.is_in_txn() then box.commit() end
            """
        )

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
                            self._wait_in_sql,
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
        space, other, key = await self._space(), await self._table(), self._key()
        await self._node.eval(
            f"""
            local fiber = require('fiber')
            local function work()
                box.begin()
                box.space.{space}:replace{{{key}, 1}}
                fiber.yield()
                {self._pick("", f"box.execute('INSERT INTO {other} (id) VALUES ({key})')")}
                {self._pick("", "box.schema.sequence.create('" + self._name("s") + "')")}
                {self._pick("", f"box.execute('TRUNCATE TABLE {other}')", f"box.space.{space}:truncate()")}
                fiber.yield()
                local point = box.savepoint()
                box.space.{space}:delete{{{key + 1}}}
                {self._pick("", "box.rollback_to_savepoint(point)")}
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
                self._transaction,
                self._query,
                self._define_in_sql,
                self._change_in_sql,
                self._lua_transaction,
                self._wait_in_sql,
                self._read_along,
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
