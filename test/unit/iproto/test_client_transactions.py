"""Transactions that clients keep open over several requests, on a whole node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgpack
import pytest

from box import Node
from box.errors import BoxError
from box.wire.constants import RequestType
from test.support import until

from .serving import RawClient, error_of, packet

ACTIVE_YIELD = "Transaction has been aborted by a fiber yield"
TIMEOUT = "Transaction has been aborted by timeout"
CONFLICT = "Transaction has been aborted by conflict"


class StreamClient:
    """A client that sends one request at a time in streams of one connection."""

    def __init__(self, raw: RawClient, space_id: int) -> None:
        self._raw = raw
        self._space = space_id
        self.close = raw.close

    async def ask(self, kind: int, stream: int = 1, **fields: Any) -> Any:
        numbers = {"space": 0x10, "limit": 0x12, "key": 0x20, "tuple": 0x21, "name": 0x22, "expr": 0x27}
        numbers |= {"timeout": 0x56, "isolation": 0x59, "sql": 0x40}
        content = {numbers[name]: value for name, value in fields.items()} or None
        reply = await self._raw.ask(packet({0: kind, 1: 1, 0x0A: stream}, content))
        if reply.type & 0x8000:
            raise error_of(reply)
        return msgpack.unpackb(reply.body, strict_map_key=False).get(0x30)

    async def begin(self, stream: int = 1, **fields: Any) -> None:
        await self.ask(RequestType.BEGIN, stream, **fields)

    async def commit(self, stream: int = 1) -> None:
        await self.ask(RequestType.COMMIT, stream)

    async def rollback(self, stream: int = 1) -> None:
        await self.ask(RequestType.TXN_ROLLBACK, stream)

    async def replace(self, *fields: Any, stream: int = 1) -> Any:
        return await self.ask(RequestType.REPLACE, stream, space=self._space, tuple=list(fields))

    async def select(self, *key: Any, stream: int = 1) -> Any:
        return await self.ask(RequestType.SELECT, stream, space=self._space, limit=100, key=list(key))

    async def eval(self, expression: str, *args: Any, stream: int = 1) -> Any:
        return await self.ask(RequestType.EVAL, stream, expr=expression, tuple=list(args))


@asynccontextmanager
async def served(**options: Any) -> AsyncIterator[tuple[Node, StreamClient]]:
    """Run a node with a space `s`, and a client of it."""
    async with Node(listen="127.0.0.1:0", **{"memtx_use_mvcc_engine": True} | options) as node:
        await node.eval("box.schema.user.grant('guest', 'super') box.schema.space.create('s'):create_index('pk')")
        address = await node.eval("return box.info.listen")
        client = StreamClient(await RawClient.connect(address[0] if isinstance(address, list) else address), 512)
        try:
            yield node, client
        finally:
            await client.close()


async def content(node: Node) -> list[Any]:
    return [list(row) for row in await node.space["s"].select()]


async def fails(work: Any, text: str) -> None:
    with pytest.raises(BoxError) as caught:
        await work
    assert caught.value.message == text


def test_nobody_else_sees_a_transaction_until_its_commit() -> None:
    async def scenario() -> None:
        async with served() as (node, client):
            await client.begin()
            await client.replace(1, "a")
            assert await client.select() == [[1, "a"]]
            assert await client.select(stream=2) == []
            assert await content(node) == []
            assert await client.eval("return box.is_in_txn(), box.space.s:count()") == [True, 1]
            assert await client.eval("box.space.s:replace{2, 'b'} return box.space.s:count()") == [2]
            await client.commit()
            assert await content(node) == [[1, "a"], [2, "b"]]
            assert await client.eval("return box.is_in_txn()") == [False]
            await client.begin()
            await client.replace(3, "c")
            await client.rollback()
            assert await content(node) == [[1, "a"], [2, "b"]]

    asyncio.run(scenario())


def test_functions_in_a_transaction_of_a_stream() -> None:
    """Functions in a stream may begin, wait in and commit its transaction; an error leaves it open."""

    async def scenario() -> None:
        async with served() as (node, client):
            await client.eval("box.begin() box.space.s:replace{1}")
            assert await content(node) == []
            await client.eval("require('fiber').sleep(0.01) box.space.s:replace{2}")
            await fails(client.eval("error('no')"), "eval:1: no")
            await client.replace(3)
            await client.eval("box.commit()")
            assert await content(node) == [[1], [2], [3]]
            await client.begin()
            await client.replace(4)
            assert await client.eval("box.rollback() return box.is_in_txn()") == [False]
            await client.commit()
            assert await content(node) == [[1], [2], [3]]

    asyncio.run(scenario())


def test_a_conflict_is_found() -> None:
    async def scenario() -> None:
        async with served() as (node, client):
            for stream in (1, 2):
                await client.begin(stream)
                assert await client.select(1, stream=stream) == []
                await client.replace(1, stream, stream=stream)
            await client.commit(1)
            await fails(client.commit(2), CONFLICT)
            await client.commit(2)
            assert await content(node) == [[1, 1]]

    asyncio.run(scenario())


def test_without_versions_a_transaction_ends_with_the_request() -> None:
    async def scenario() -> None:
        async with served(memtx_use_mvcc_engine=False) as (node, client):
            await client.begin()
            await client.commit()
            await client.begin()
            await client.replace(1)
            assert await content(node) == []
            await fails(client.replace(2), ACTIVE_YIELD)
            await fails(client.select(), ACTIVE_YIELD)
            await fails(client.commit(), ACTIVE_YIELD)
            await client.commit()
            await client.begin()
            await client.eval("box.space.s:replace{5} box.commit()")
            assert await content(node) == [[5]]

    asyncio.run(scenario())


def test_the_time_of_a_transaction() -> None:
    """A transaction's timeout counts from its first wait; then its changes are gone, and statements and the commit
    fail.
    """

    async def scenario() -> None:
        async with served() as (node, client):
            await client.begin(timeout=0.03)
            await client.replace(1)
            transactions = node._embedding.core.tuples.open_transactions
            (txn,) = transactions
            await until(lambda: not txn.statements)
            await fails(client.replace(2), TIMEOUT)
            await fails(client.select(), TIMEOUT)
            await fails(client.eval("return box.space.s:get{1}"), TIMEOUT)
            await fails(client.begin(), "Operation is not permitted when there is an active transaction ")
            await fails(client.commit(), TIMEOUT)
            assert await content(node) == []
            await client.begin(timeout=0.5)
            await client.replace(1)
            await client.commit()
            await asyncio.sleep(0.6)
            assert await content(node) == [[1]]
            await client.begin()
            await client.replace(2)
            (txn,) = transactions
            assert (txn.timeout, txn.timer) == (None, None)
            await client.rollback()

    asyncio.run(scenario())


def test_the_default_time() -> None:
    async def scenario() -> None:
        async with served(txn_timeout=0.02) as (node, client):
            await client.begin()
            await client.replace(1)
            await asyncio.sleep(0.05)
            await fails(client.commit(), TIMEOUT)
            ended = await node.eval("""
                box.begin() box.space.s:replace{1} require('fiber').sleep(0.05)
                local ok, problem = pcall(box.space.s.replace, box.space.s, {2})
                local ok2, problem2 = pcall(box.commit)
                box.cfg{txn_timeout = 100}
                box.begin{timeout = 0.01} require('fiber').sleep(0.05)
                local ok3, problem3 = pcall(box.commit)
                box.begin{} box.space.s:replace{3} require('fiber').sleep(0.05) box.commit()
                return {ok, problem.message, ok2, problem2.message, ok3, problem3.message, box.space.s:count()}
            """)
            assert ended == [False, TIMEOUT, False, TIMEOUT, False, TIMEOUT, 1]

    asyncio.run(scenario())


def test_a_time_that_is_no_number() -> None:
    """A timeout that is no number never ends, as in Tarantool, and later requests are answered."""

    async def scenario() -> None:
        async with served() as (node, client):
            for strange in (float("nan"), float("inf"), 1e300):
                await client.begin(timeout=strange)
                await fails(client.begin(), "Operation is not permitted when there is an active transaction ")
                await client.replace(1, str(strange))
                await client.commit()
                assert await content(node) == [[1, str(strange)]]
            assert await node.eval("box.begin{timeout = 0/0} require('fiber').sleep(0) box.commit() return 1") == 1
            await node.eval("box.ctl.set_on_shutdown_timeout(0/0) box.ctl.on_shutdown(function() end)")

    asyncio.run(scenario())


def test_a_stream_after_its_transaction() -> None:
    """After its transaction a stream ignores COMMIT and ROLLBACK, makes changes at once, and may begin anew."""

    async def scenario() -> None:
        async with served() as (node, client):
            for end, other in ((client.commit, client.rollback), (client.rollback, client.commit)):
                await client.begin()
                await client.replace(1)
                await end()
                await end()
                await other()
                await client.replace(2)
                assert [2] in await content(node)
            await fails(client.ask(99), "Unable to process (null) request in stream")
            await client.begin()
            await client.rollback()

    asyncio.run(scenario())


def test_options_of_begin() -> None:
    async def scenario() -> None:
        async with served() as (node, client):
            refused = await node.eval("""
                local texts = {}
                for _, options in ipairs{
                    {timeout = 0}, {timeout = 'x'}, {other = 1}, {txn_isolation = 'strict'}, {txn_isolation = 5},
                    {txn_isolation = 'linearizable'},
                } do
                    texts[#texts + 1] = select(2, pcall(box.begin, options)).message
                end
                for _, options in ipairs{
                    {timeout = 1}, {txn_isolation = 'best-effort'}, {txn_isolation = 'READ_COMMITTED'},
                    {txn_isolation = box.txn_isolation_level['read-confirmed']}, {},
                } do
                    box.begin(options) box.rollback()
                end
                box.atomic({timeout = 1}, function(n) box.space.s:replace{n} end, 7)
                return texts, box.txn_id()
            """)
            illegal = "Illegal parameters, "
            levels = illegal + "txn_isolation must be one of box.txn_isolation_level (keys or values)"
            assert refused == [
                [
                    *[illegal + "timeout must be a number greater than 0"] * 2,
                    illegal + "unexpected option 'other'",
                    *[levels] * 2,
                    "Lunabox does not support linearizable transactions",
                ],
                None,
            ]
            assert await content(node) == [[7]]
            await fails(client.begin(isolation=5), illegal + "unknown isolation level")
            await fails(client.begin(isolation=4), "Lunabox does not support linearizable transactions")
            for wrong in ({"txn_timeout": 0}, {"txn_isolation": "x"}, {"txn_isolation": 0}):
                with pytest.raises(BoxError, match="Incorrect value for option"):
                    await node.configure(**wrong)

    asyncio.run(scenario())


def test_the_end_of_a_connection_rolls_back() -> None:
    async def scenario() -> None:
        async with served() as (node, client):
            await client.begin()
            await client.replace(1)
            await client.begin(2)
            open_transactions = node._embedding.core.tuples.open_transactions
            assert len(open_transactions) == 1
            await client.close()
            await until(lambda: not open_transactions)
            assert await content(node) == []

    asyncio.run(scenario())


def test_a_node_that_stops_lets_transactions_go() -> None:
    """A node that stops rolls back open transactions, also those of running functions."""

    async def scenario() -> None:
        async with served() as (node, client):
            await client.begin()
            await client.replace(1)
            await client.begin(2, timeout=0.01)
            await client.replace(2, stream=2)
            hangs = asyncio.ensure_future(client.eval("box.space.s:replace{3} require('fiber').sleep(100)", stream=2))
            await asyncio.sleep(0.05)
            await node.stop()
            with pytest.raises((BoxError, asyncio.IncompleteReadError, ConnectionError)):
                await hangs

    asyncio.run(scenario())


def test_only_what_is_confirmed() -> None:
    """A transaction at level "read-confirmed" reads the state before a change that waits for its quorum."""

    async def scenario() -> None:
        async with served(replication_synchro_quorum=1, replication_synchro_timeout=100) as (node, client):
            await node.eval("box.space.s:alter{is_sync = true} box.space.s:replace{1, 'old'}")
            await node.configure(replication_synchro_quorum=2)
            waits = asyncio.ensure_future(node.eval("box.space.s:replace{1, 'new'}"))
            await asyncio.sleep(0.02)
            for stream, level in ((1, 1), (2, 2), (3, 3), (4, 0)):
                await client.begin(stream, isolation=level)
            assert [await client.select(1, stream=stream) for stream in (1, 2, 3, 4)] == [
                [[1, "new"]],
                [[1, "old"]],
                [[1, "new"]],
                [[1, "new"]],
            ]
            await node.configure(replication_synchro_quorum=1)
            await waits
            assert await client.select(1, stream=2) == [[1, "old"]]
            assert await client.select(stream=2) == [[1, "old"]]
            await client.replace(1, "mine", stream=2)
            await fails(client.commit(2), CONFLICT)
            await client.begin(2, isolation=2)
            assert await client.select(1, stream=2) == [[1, "new"]]
            await client.commit(2)

    asyncio.run(scenario())


def test_sql_in_a_stream() -> None:
    async def scenario() -> None:
        async with served() as (node, client):
            await client.ask(RequestType.EXECUTE, 1, sql="CREATE TABLE t (a INT PRIMARY KEY)")
            await client.begin()
            await client.ask(RequestType.EXECUTE, 1, sql="INSERT INTO t VALUES (1)")
            assert await node.space["T"].len() == 0
            await client.commit()
            assert await node.space["T"].len() == 1

    asyncio.run(scenario())
