"""SQL in a dictionary of Tarantool 3.x: an unquoted name is looked up as it is written, then in upper case."""

from __future__ import annotations

import asyncio

import pytest

from box import BoxError, Node

SETUP = """
for _, text in ipairs{
    'CREATE TABLE "t" ("id" INT PRIMARY KEY, "aB" INT, "kind" STRING COLLATE "unicode_ci")',
    'CREATE TABLE OLD (ID INT PRIMARY KEY, N INT)',
    'CREATE INDEX "by_ab" ON "t" ("aB")',
} do assert(box.execute(text)) end
box.schema.func.create('expression', {
    language = 'SQL_EXPR', is_deterministic = true, body = [[aB > 10 AND kind <> '-']],
})
box.schema.func.create('twice', {
    body = 'function(x) return 2 * x end', returns = 'integer', param_list = {'integer'}, exports = {'LUA', 'SQL'},
    is_deterministic = true,
})
box.space._schema:replace{'version', 3, 3, 0}
local id = box.space.t.id
box.space._trigger:insert{'tr', id, {
    sql = 'CREATE TRIGGER tr AFTER INSERT ON t FOR EACH ROW BEGIN INSERT INTO old VALUES (new.id, new.aB); END',
}}
local _space = box.space._space
_space:insert{
    700, 1, 'v', 'memtx', 2, {view = true, sql = 'CREATE VIEW v AS SELECT aB AS x, id FROM t WHERE t.aB > 3'},
    {{name = 'x', type = 'integer'}, {name = 'id', type = 'integer'}},
}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM t", [(1, 20, "One")]),
        ("SELECT id, AB FROM old, t", "resolve field 'AB'"),
        ("SELECT n FROM old", [(20,)]),
        ("SELECT OLD.n, t.aB AS q FROM old JOIN t ON old.ID = t.id ORDER BY q", [(20, 20)]),
        ("SELECT x, id FROM v", [(20, 1)]),
        ("SELECT twice(aB) FROM t INDEXED BY by_ab WHERE aB = 20", [(40,)]),
        ("SELECT count(*), max(aB) AS m FROM t GROUP BY id HAVING max(aB) > 2", [(1, 20)]),
        ("SELECT CAST(aB AS text) FROM t", [("20",)]),
        ("SELECT kind FROM t WHERE kind = 'oNE' COLLATE unicode_ci", [("One",)]),
        ("SELECT aB FROM t WHERE id = ?", [(20,)]),
        ("SELECT Ab FROM t", "resolve field 'AB'"),
        ("SELECT * FROM nothing", "Space 'NOTHING' does not exist"),
        ('SELECT "aB", \'aB\' FROM "t" -- aB', [(20, "aB")]),
    ],
)
def test_names(text: str, expected: list[tuple[object, ...]] | str) -> None:
    async def main() -> None:
        async with Node() as node:
            await node.eval(SETUP)
            await node.execute("INSERT INTO t (id, aB, kind) VALUES (1, 20, 'One')")
            params = [1] if "?" in text else []
            if isinstance(expected, list):
                assert list(map(tuple, await node.execute(text, params))) == expected
                assert list(map(tuple, await (await node.prepare(text)).execute(params))) == expected
            else:
                with pytest.raises(BoxError, match=expected):
                    await node.execute(text)

    asyncio.run(main())


def test_constraints_and_new_tables() -> None:
    """Expressions of constraints name fields as they are written; new spaces get ids without `max_id` in `_schema`."""

    async def main() -> None:
        async with Node() as node:
            await node.eval(SETUP)
            await node.eval("box.space._schema:delete('max_id') box.space.t:alter{constraint = 'expression'}")
            with pytest.raises(BoxError, match="Check constraint 'expression' failed"):
                await node.execute("INSERT INTO t VALUES (1, 10, 'x')")
            last = await node.eval("return box.space._space.index.primary:max().id")
            await node.execute("CREATE TABLE more (id INT PRIMARY KEY)")
            await node.schema.create_space("most")
            found = await node.eval(
                "return box.space.MORE.id, box.space.most.id, box.space._schema:get('max_id') == nil"
            )
            assert found == [last + 1, last + 2, True]

    asyncio.run(main())
