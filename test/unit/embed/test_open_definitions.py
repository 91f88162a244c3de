"""Definitions of a transaction that is still open and may wait: others end it before they build on them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from box import BoxError, Node, TransactionConflictError

DEADLINE = 30.0

Others = Callable[[Node], Awaitable[Any]]


def run(main: Awaitable[None]) -> None:
    """Run a test with a deadline."""
    asyncio.run(asyncio.wait_for(main, DEADLINE))


async def _filled(node: Node) -> None:
    await node.eval("box.schema.space.create('t'):create_index('pk')")
    await node.eval("box.space.t:replace{1} box.space.t:replace{2}")


async def _after(node: Node, definition: str, others: Others) -> None:
    """Run a definition in a transaction, and others while it is open. The transaction has to end in conflict."""

    async def define() -> None:
        async with node.transaction():
            await node.eval(definition)
            await asyncio.create_task(_run(node, others))

    with pytest.raises(TransactionConflictError, match="aborted by conflict"):
        await define()
    assert await node.eval("return box.is_in_txn()") is False


async def _run(node: Node, others: Others) -> None:
    await others(node)


def _lua(source: str) -> Others:
    return lambda node: node.eval(source)


@pytest.mark.parametrize(
    ("definition", "others", "ids"),
    [
        ("box.space.t:truncate()", _lua("box.space.t:insert{3}"), [1, 2, 3]),
        ("box.space.t:truncate()", _lua("box.space.t:replace{1} box.space.t:delete{2}"), [1]),
        ("box.space.t:truncate()", _lua("box.begin() box.space.t:insert{3} box.commit()"), [1, 2, 3]),
        ("box.space.t:truncate()", _lua("box.space.t:truncate()"), []),
        ("box.space.t:truncate()", _lua("box.schema.space.create('u')"), [1, 2]),
        ("box.space.t:truncate()", _lua("box.snapshot()"), [1, 2]),
        ("box.space.t:drop()", _lua("box.schema.user.create('u')"), [1, 2]),
        ("box.space.t:create_index('k', {parts = {{1, 'unsigned'}}})", _lua("box.space.t:insert{3}"), [1, 2, 3]),
        ("box.space.t:rename('u')", _lua("box.space._space:update(box.space.u.id, {{'=', 3, 'v'}})"), None),
        ("box.schema.user.create('u')", _lua("box.schema.user.create('u')"), [1, 2]),
        ("box.schema.sequence.create('s')", _lua("box.schema.func.create('f')"), [1, 2]),
    ],
)
def test_others_end_the_transaction(tmp_path: Path, definition: str, others: Others, ids: list[int] | None) -> None:
    async def main() -> None:
        wanted = None if ids is None else [[number] for number in ids]
        async with Node(tmp_path, memtx_use_mvcc_engine=True) as node:
            await _filled(node)
            await _after(node, definition, others)
            if wanted is not None:
                assert await node.eval("return box.space.t:select()") == wanted
        async with Node(tmp_path, memtx_use_mvcc_engine=True) as node:
            name = "t" if wanted is not None else "v"
            assert await node.eval(f"return box.space.{name}:select()") == ([[1], [2]] if wanted is None else wanted)

    run(main())


def test_a_space_that_is_not_committed_takes_no_tuples(tmp_path: Path) -> None:
    async def main() -> None:
        async def insert(node: Node) -> None:
            with pytest.raises(BoxError, match="No index #0 is defined in space 't'"):
                await node.eval("box.space.t:insert{1}")

        async with Node(tmp_path, memtx_use_mvcc_engine=True) as node:
            await _after(node, "box.schema.space.create('t'):create_index('pk')", insert)
            assert await node.eval("return box.space.t") is None
        async with Node(tmp_path, memtx_use_mvcc_engine=True) as node:
            assert await node.eval("return box.space.t") is None

    run(main())


def test_the_next_value_of_a_sequence_that_is_not_committed(tmp_path: Path) -> None:
    async def main() -> None:
        async def next_value(node: Node) -> None:
            with pytest.raises(BoxError):
                await node.eval("return box.sequence.s:next()")

        async with Node(tmp_path, memtx_use_mvcc_engine=True) as node:
            await _after(node, "box.schema.sequence.create('s')", next_value)
        async with Node(tmp_path, memtx_use_mvcc_engine=True) as node:
            assert await node.eval("return box.sequence.s") is None

    run(main())


def test_a_definition_in_sql_of_a_table_that_is_not_committed(tmp_path: Path) -> None:
    async def alter(node: Node) -> None:
        with pytest.raises(BoxError, match="Space 'T' does not exist"):
            await node.execute("alter table t add column b int")

    async def main() -> None:
        async with Node(tmp_path, memtx_use_mvcc_engine=True) as node:
            await _after(node, "box.execute('create table t (id int primary key)')", alter)

    run(main())


def test_a_definition_is_prepared_while_another_is_written(tmp_path: Path) -> None:
    async def main() -> None:
        async with Node(tmp_path, memtx_use_mvcc_engine=True) as node:
            made = asyncio.create_task(node.execute("create table t (id int primary key)"))
            while "T" not in [space.name for space in node.space.values()]:
                await asyncio.sleep(0)
            async with await node.prepare("alter table t add column b int") as statement:
                await made
                await statement.execute()
            assert await node.execute("select * from t") == []

    run(main())


def test_work_on_other_spaces_leaves_it_alone(tmp_path: Path) -> None:
    async def main() -> None:
        async with Node(tmp_path, memtx_use_mvcc_engine=True) as node:
            await _filled(node)
            await node.eval("box.schema.space.create('other'):create_index('pk', {sequence = true})")
            async with node.transaction():
                await node.eval("box.schema.space.create('new'):create_index('pk')")
                await node.eval("box.space.new:insert{1}")
                await node.eval("box.space.t:truncate()")
                await asyncio.create_task(_run(node, _lua("box.space.other:insert{box.NULL} box.space.t:select()")))
                await node.eval("box.space.new:insert{2} box.space.t:insert{7}")
            assert await node.eval("return box.space.new:select(), box.space.t:select()") == [[[1], [2]], [[7]]]
            await node.eval("box.space.new:insert{3}")
        async with Node(tmp_path, memtx_use_mvcc_engine=True) as node:
            assert await node.eval("return box.space.new:select(), box.space.t:select()") == [[[1], [2], [3]], [[7]]]
            assert await node.eval("return box.space.other:count()") == 1

    run(main())


def test_no_index_is_built_while_others_see_a_definition(tmp_path: Path) -> None:
    async def main() -> None:
        async with Node(tmp_path, memtx_use_mvcc_engine=True) as node:
            await _filled(node)
            with pytest.raises(BoxError, match="Can not perform index build in a multi-statement transaction"):
                await node.eval(
                    "box.begin() box.schema.space.create('u') "
                    "box.space.t:create_index('k', {parts = {{1, 'unsigned'}}}) box.commit()"
                )
            assert await node.eval("return box.space.u") is None

    run(main())


@pytest.mark.parametrize(("limit", "ends_with"), [(60, "aborted by conflict"), (0.001, "aborted by timeout")])
def test_a_large_transaction_is_invisible_at_once(tmp_path: Path, limit: float, ends_with: str) -> None:
    define = f"""
        fiber = require('fiber')
        box.begin({{timeout = {limit}}})
        box.schema.sequence.create('s')
        for id = 10, 3009 do box.space.t:replace{{id, id}} end
        while box.sequence.s do fiber.sleep(0) end
        return pcall(box.commit)
    """
    others = """
        while box.sequence.s == nil do fiber.sleep(0) end
        if box.sequence.s ~= nil and LIMIT == 60 then box.schema.user.create('u') end
        while box.sequence.s do fiber.sleep(0) end
        box.space.t:replace{1, 'others'} box.space.t:delete{2} box.space.t:insert{10, 'others'}
        return box.space.t:select(), box.space.t:len()
    """.replace("LIMIT", str(limit))
    rows = [[1, "others"], [10, "others"]]

    async def main() -> None:
        async with Node(tmp_path, memtx_use_mvcc_engine=True) as node:
            await _filled(node)
            (is_committed, error), seen = await asyncio.gather(node.eval(define), node.eval(others))
            assert (is_committed, seen) == (False, [rows, 2])
            assert ends_with in str(error)
            assert await node.eval("return box.space.t:select(), box.space.t:len()") == [rows, 2]
        async with Node(tmp_path, memtx_use_mvcc_engine=True) as node:
            assert await node.eval("return box.space.t:select()") == rows

    run(main())


@pytest.mark.parametrize("mvcc", [False, True])
@pytest.mark.parametrize(
    "definition",
    [
        "box.space._ck_constraint:insert{t.id, 'c', false, 'SQL', 'A > 0', true}",
        "box.space._fk_constraint:insert{'f', t.id, t.id, false, 'simple', 'no_action', 'no_action', {1}, {0}}",
        "box.space._space:update(t.id, {{'=', 6, {temporary = true}}})",
        "box.begin() box.schema.space.create('u') t:format({{'ID', 'integer'}, {'A', 'integer'}}) box.commit()",
    ],
)
def test_a_space_whose_deletes_are_on_the_way_to_the_log_is_empty(tmp_path: Path, definition: str, mvcc: bool) -> None:
    """A replica meets this when it applies what another instance has done after the deletes."""
    source = f"""
        local fiber, t = require('fiber'), box.space.T
        for id = 1, 3 do t:replace{{id, id}} end
        fiber.create(function() box.begin() for id = 1, 3 do t:delete(id) end box.commit() end)
        {definition}
        return t:len()
    """

    async def main() -> None:
        async with Node(tmp_path, memtx_use_mvcc_engine=mvcc) as node:
            await node.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT)")
            assert await node.eval(source) == 0
            if "_constraint:" in definition:
                again = definition.replace("'c'", "'d'").replace("'f'", "'g'")
                source_of_refusal = f"local t = box.space.T t:replace{{9, 9}} {again}"
                with pytest.raises(BoxError, match="referencing space must be empty"):
                    await node.eval(source_of_refusal)

    run(main())
