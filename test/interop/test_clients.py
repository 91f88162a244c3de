"""The clients `tarantool` and `asynctnt` from PyPI work with a Lunabox node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asynctnt
import pytest
import tarantool

from box import Node

SCHEMA = """
    box.schema.user.create('alice', {password = 'secret'})
    box.schema.user.grant('alice', 'read,write,execute', 'universe')
    local goods = box.schema.space.create('goods', {format = {
        {'id', 'unsigned'}, {'name', 'string'}, {'price', 'number', is_nullable = true},
    }})
    goods:create_index('pk')
    goods:create_index('name', {parts = {{'name'}}, unique = false})
    function add(a, b) return a + b end
    function many() return 1, 'two', {3} end
    function fail() error('on purpose') end
    function bad() box.error(box.error.ILLEGAL_PARAMS, 'coded') end
    function later() require('fiber').sleep(0.01) return 'done' end
"""


def with_node(body: Callable[[Node, tuple[str, int]], Awaitable[None]], **options: Any) -> None:
    """Start an in-memory node that listens, and run `body` with it and its address."""

    async def run() -> None:
        async with Node(listen="127.0.0.1:0", **options) as node:
            await node.eval(SCHEMA)
            host, port = str(node.info["listen"]).rsplit(":", 1)
            await body(node, (host, int(port)))

    asyncio.run(run())


def in_thread(body: Callable[[tarantool.Connection], None]) -> Callable[[Node, tuple[str, int]], Awaitable[None]]:
    """Make a body for `with_node` that runs `body` with a blocking client in another thread."""

    async def run(node: Node, address: tuple[str, int]) -> None:
        def blocking() -> None:
            connection = tarantool.Connection(*address, user="alice", password="secret")
            try:
                body(connection)
            finally:
                connection.close()

        await asyncio.to_thread(blocking)

    return run


def test_the_blocking_client_reads_and_writes() -> None:
    def body(connection: tarantool.Connection) -> None:
        assert connection.ping() < 5
        assert list(connection.insert("goods", (1, "pear", 2.5))) == [[1, "pear", 2.5]]
        connection.replace("goods", (2, "fig", None))
        assert list(connection.select("goods", 1)) == [[1, "pear", 2.5]]
        assert list(connection.select("goods", "fig", index="name")) == [[2, "fig", None]]
        assert len(connection.select("goods", limit=10, iterator=2)) == 2
        assert list(connection.update("goods", 1, [("=", 1, "peach"), ("+", 2, 1)])) == [[1, "peach", 3.5]]
        connection.upsert("goods", (3, "kiwi", 1), [("+", 2, 1)])
        connection.upsert("goods", (3, "kiwi", 1), [("+", 2, 1)])
        assert list(connection.delete("goods", 3)) == [[3, "kiwi", 2]]
        assert list(connection.delete("goods", 3)) == []

    with_node(in_thread(body))


def test_the_blocking_client_calls_and_evaluates() -> None:
    def body(connection: tarantool.Connection) -> None:
        assert list(connection.call("add", 1, 2)) == [3]
        assert list(connection.call("many")) == [1, "two", [3]]
        assert list(connection.call("later")) == ["done"]
        assert list(connection.eval("return ..., #({...})", "x", "y")) == ["x", 2]

    with_node(in_thread(body))


def test_the_blocking_client_sees_codes_and_texts() -> None:
    def body(connection: tarantool.Connection) -> None:
        connection.insert("goods", (1, "pear"))
        with pytest.raises(tarantool.DatabaseError) as caught:
            connection.insert("goods", (1, "apple"))
        text = (
            'Duplicate key exists in unique index "pk" in space "goods" with old tuple - [1, "pear"] and new tuple - '
        )
        assert caught.value.args == (3, text + '[1, "apple"]')
        with pytest.raises(tarantool.DatabaseError) as caught:
            connection.insert("goods", ("x", "apple"))
        assert caught.value.args[0] == 23
        with pytest.raises(tarantool.DatabaseError, match="on purpose"):
            connection.call("fail")
        with pytest.raises(tarantool.DatabaseError) as caught:
            connection.call("bad")
        assert caught.value.args == (1, "Illegal parameters, coded")
        with pytest.raises(tarantool.DatabaseError) as caught:
            connection.call("nothing")
        assert caught.value.args == (33, "Procedure 'nothing' is not defined")
        assert connection.ping() < 5

    with_node(in_thread(body))


def test_wrong_passwords_and_missing_grants_are_refused() -> None:
    async def body(node: Node, address: tuple[str, int]) -> None:
        def blocking() -> None:
            with pytest.raises(tarantool.DatabaseError, match="Incorrect password supplied for user 'alice'"):
                tarantool.Connection(*address, user="alice", password="wrong")
            with pytest.raises(tarantool.DatabaseError, match="User 'nobody' is not found"):
                tarantool.Connection(*address, user="nobody", password="x")
            guest = tarantool.Connection(*address)
            with pytest.raises(tarantool.DatabaseError, match="Execute access to function 'add' is denied"):
                guest.call("add", 1, 2)
            with pytest.raises(tarantool.DatabaseError, match="Read access to space 'goods' is denied for"):
                guest.select(512)
            guest.close()

        await asyncio.to_thread(blocking)

    with_node(body)


def test_the_asynchronous_client_reads_and_writes() -> None:
    async def body(node: Node, address: tuple[str, int]) -> None:
        connection = asynctnt.Connection(host=address[0], port=address[1], username="alice", password="secret")
        await connection.connect()
        try:
            assert (await connection.insert("goods", [1, "pear", 2.5])).body[0]["name"] == "pear"
            assert (await connection.insert("goods", {"id": 2, "name": "fig"})).body[0]["id"] == 2
            assert len((await connection.select("goods")).body) == 2
            assert (await connection.select("goods", ["fig"], index="name")).body[0]["id"] == 2
            assert (await connection.update("goods", [1], [["+", "price", 1]])).body[0]["price"] == 3.5
            assert (await connection.call("add", [1, 2])).body == [3]
            assert (await connection.eval("return box.session.user()")).body == ["alice"]
            assert (await connection.delete("goods", [2])).body[0]["name"] == "fig"
            with pytest.raises(asynctnt.exceptions.TarantoolDatabaseError, match="Duplicate key"):
                await connection.insert("goods", [1, "again"])
        finally:
            await connection.disconnect()

    with_node(body)


def test_a_thousand_requests_in_flight_come_back_in_full(tmp_path: Path) -> None:
    async def run() -> None:
        async with Node(tmp_path, listen="127.0.0.1:0") as node:
            await node.eval(SCHEMA)
            host, port = str(node.info["listen"]).rsplit(":", 1)
            connection = asynctnt.Connection(host=host, port=int(port), username="alice", password="secret")
            await connection.connect()
            try:
                await asyncio.gather(*(connection.replace("goods", [n, f"name {n}", n / 2]) for n in range(1000)))
                found = await asyncio.gather(*(connection.select("goods", [n]) for n in range(1000)))
                assert [rows.body[0]["price"] for rows in found] == [n / 2 for n in range(1000)]
                slow, quick = connection.call("later"), connection.ping()
                await asyncio.gather(slow, quick)
            finally:
                await connection.disconnect()

    asyncio.run(run())


def test_a_schema_change_reaches_connected_clients() -> None:
    async def body(node: Node, address: tuple[str, int]) -> None:
        # Without pings: a reply to a ping would notice the change of schema too, and cancel the call of the test.
        connection = asynctnt.Connection(
            host=address[0], port=address[1], username="alice", password="secret", ping_timeout=0
        )
        await connection.connect()
        try:
            await node.eval("box.schema.space.create('fresh'):create_index('pk')")
            await connection.refetch_schema()
            await connection.insert("fresh", [1])
            assert [list(row) for row in (await connection.select("fresh")).body] == [[1]]
        finally:
            await connection.disconnect()

    with_node(body)
