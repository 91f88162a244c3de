"""SQL of embedded nodes: rows, parameters, transactions and prepared statements, asynchronous and blocking."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from box import BoxError, DuplicateKeyError, Node, SqlColumn
from box.embed import NamedRow
from box.errors import ErrorCode
from box.sync import Node as BlockingNode

CREATE = 'CREATE TABLE goods (id INTEGER PRIMARY KEY AUTOINCREMENT, name STRING, "price" DOUBLE CHECK ("price" > 0))'


def on_node(work: Callable[[Node], Awaitable[None]], **options: Any) -> None:
    """Run a coroutine with an in-memory node that has the table `goods`."""

    async def run() -> None:
        async with Node(wal_mode="none", **options) as node:
            await node.execute(CREATE)
            await work(node)

    asyncio.run(run())


async def refused(work: Awaitable[Any]) -> ErrorCode:
    with pytest.raises(BoxError) as caught:
        await work
    return ErrorCode(caught.value.code)


def test_rows_are_read_by_name_and_position() -> None:
    async def work(node: Node) -> None:
        made = await node.execute("INSERT INTO goods VALUES (NULL, 'pear', 2.5), (NULL, 'fig', ?)", [1])
        assert (made, made.row_count, made.autoincrement_ids, made.columns) == ([], 2, [1, 2], [])
        assert repr(made) == "<SQL: 2 rows changed>"
        found = await node.execute('SELECT id, name, "price", id + 1 AS next FROM goods ORDER BY id')
        assert found == [(1, "pear", 2.5, 2), (2, "fig", 1, 3)]
        assert isinstance(found[0], NamedRow)
        first = found[0]
        assert (first.ID, first.NAME, first.price, first["NEXT"], first[1]) == (1, "pear", 2.5, 2, "pear")
        assert found[0]._asdict() == {"ID": 1, "NAME": "pear", "price": 2.5, "NEXT": 2}
        assert [(column.name, column.type) for column in found.columns] == [
            ("ID", "integer"),
            ("NAME", "string"),
            ("price", "double"),
            ("NEXT", "integer"),
        ]
        assert (found.row_count, found.autoincrement_ids) == (2, [])
        assert await node.space.GOODS.get(1) == [1, "pear", 2.5]

    on_node(work)


def test_parameters_are_a_sequence_or_a_mapping() -> None:
    async def work(node: Node) -> None:
        for text, params in (
            ("SELECT ?, ?", (1, "a")),
            ("SELECT :x, :y", [{":y": "a"}, {":x": 1}]),
            ("SELECT :x, @y", {"y": "a", "x": 1}),
            ("SELECT @x, :y", {":y": "a", "@x": 1}),
            ("SELECT $2, $1", ["a", 1]),
        ):
            assert await node.execute(text, params) == [(1, "a")]
        assert await node.execute("SELECT ?, ?, ?", [bytearray(b"x"), True, None]) == [(b"x", True, None)]
        assert await refused(node.execute("SELECT :x", {"z": 1})) == ErrorCode.SQL_BIND_NOT_FOUND
        assert await refused(node.execute("SELECT ?", [1, 2])) == ErrorCode.SQL_EXECUTE
        assert await refused(node.execute("SELECT ?", [2**64])) == ErrorCode.ILLEGAL_PARAMS
        assert await refused(node.execute("SELECT ?", [object()])) == ErrorCode.ILLEGAL_PARAMS
        assert await refused(node.execute("SELECT ?", [datetime.date.today()])) == ErrorCode.UNSUPPORTED
        assert await refused(node.execute("SELECT ?", [Decimal(1)])) == ErrorCode.SQL_BIND_TYPE
        assert await refused(node.execute("SELECT ?", [[1]])) == ErrorCode.SQL_BIND_TYPE
        for wrong in ("ab", 5, {1, 2}):
            with pytest.raises(TypeError, match="a sequence or a mapping"):
                await node.execute("SELECT ?", wrong)  # type: ignore[arg-type]

    on_node(work)


def test_errors_have_their_classes() -> None:
    async def work(node: Node) -> None:
        await node.execute("INSERT INTO goods VALUES (1, 'pear', 1.5)")
        with pytest.raises(DuplicateKeyError):
            await node.execute("INSERT INTO goods VALUES (1, 'pear', 1.5)")
        assert await refused(node.execute("INSERT INTO goods VALUES (2, '', -1)")) == ErrorCode.CK_CONSTRAINT_FAILED
        assert await refused(node.execute("SELEC 1")) == ErrorCode.SQL_SYNTAX_NEAR_TOKEN
        assert await refused(node.execute("SELECT * FROM absent")) == ErrorCode.NO_SUCH_SPACE

    on_node(work)


@pytest.mark.parametrize("versions", [False, True])
def test_statements_are_part_of_the_transaction_of_their_task(versions: bool) -> None:
    async def work(node: Node) -> None:
        async with node.transaction() as undone:
            await node.execute("INSERT INTO goods VALUES (1, 'pear', 1.5)")
            assert (await node.execute("SELECT COUNT(*) FROM goods"))[0][0] == 1
            await undone.rollback()
        assert await node.execute("SELECT * FROM goods") == []
        async with node.transaction() as tx:
            await node.execute("INSERT INTO goods VALUES (1, 'pear', 1.5)")
            await tx.space.GOODS.update(1, {"NAME": "fig"})
        assert await node.execute("SELECT name FROM goods") == [("fig",)]
        assert await refused(node.execute("START TRANSACTION")) == ErrorCode.FUNCTION_TX_ACTIVE
        await node.execute("DELETE FROM goods")
        assert await node.execute("SELECT * FROM goods") == []

    on_node(work, memtx_use_mvcc_engine=versions)


def test_a_prepared_statement_runs_until_it_is_closed() -> None:
    async def work(node: Node) -> None:
        async with await node.prepare("INSERT INTO goods VALUES (:id, ?, 1)") as insert:
            assert (insert.parameters, insert.columns) == ([":id", None], [])
            for number in range(1, 4):
                assert (await insert.execute([number, f"n{number}"])).row_count == 1
            assert (await insert.execute({"id": 9})).row_count == 1
        assert await refused(insert.execute([5, "x"])) == ErrorCode.WRONG_QUERY_ID
        one, two = [await node.prepare("SELECT name FROM goods WHERE id = ?") for _ in range(2)]
        assert repr(one) == "<prepared statement: SELECT name FROM goods WHERE id = ?>"
        assert one.columns == [SqlColumn("NAME", "string", True)]
        await one.close()
        await one.close()
        assert await two.execute([2]) == [("n2",)]
        await node.execute("CREATE TABLE another (id INT PRIMARY KEY)")
        assert await refused(two.execute([2])) == ErrorCode.SQL_EXECUTE
        await two.close()
        assert node._embedding.core.prepared.count == 0
        three = await node.prepare("SELECT 1")
        await node.stop()
        assert await refused(three.execute()) == ErrorCode.LOADING
        await node.start()
        assert await refused(three.execute()) == ErrorCode.WRONG_QUERY_ID
        await three.close()

    on_node(work)


def test_other_threads_are_refused() -> None:
    async def work(node: Node) -> None:
        def elsewhere() -> None:
            with pytest.raises(RuntimeError, match=r"execute\(\) is used outside of the thread"):
                asyncio.run(node.execute("SELECT 1"))  # type: ignore[arg-type]

        await asyncio.to_thread(elsewhere)

    on_node(work)


def test_blocking_nodes_run_statements(tmp_path: Path) -> None:
    with BlockingNode(tmp_path) as node:
        node.execute(CREATE)
        with node.transaction() as tx:
            node.execute("INSERT INTO goods VALUES (1, 'pear', 1.5)")
            before = tx.savepoint()
            node.execute("INSERT INTO goods VALUES (2, 'fig', 1.5)")
            before.rollback()
        with node.prepare("SELECT name AS n FROM goods WHERE id = ?") as statement:
            assert statement.execute([1])[0].N == "pear"
            assert (statement.text, statement.parameters) == ("SELECT name AS n FROM goods WHERE id = ?", [None])
            assert statement.columns[0].name == "N"
        with pytest.raises(BoxError):
            statement.execute([1])
    statement.close()
    with BlockingNode(tmp_path) as node:
        assert node.execute("SELECT id, name FROM goods") == [(1, "pear")]
