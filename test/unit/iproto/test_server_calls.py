"""Functions, commits and triggers that take time on the server, and the limit of concurrent requests."""

from __future__ import annotations

import re
from typing import Any

import pytest

from box.data.codec import pack
from box.errors import BoxError, ErrorCode, client_error
from box.iproto.stop import Stop
from box.schema.access import ALL_PRIVILEGES
from box.wire.constants import RequestType
from box.wire.row import Row
from test.support import until

from .serving import (
    SELECT_1,
    RawClient,
    body,
    client,
    data_of,
    request,
    row,
    run,
    serving,
)


def call(name: str, *arguments: Any, request_type: int = RequestType.CALL) -> Row:
    return Row(request_type, body=pack({0x22: name, 0x21: list(arguments)}))


def test_functions() -> None:
    """CALL, CALL_16 and EVAL pass arguments and results; errors and bugs become error replies."""

    async def scenario() -> None:
        async with serving() as (node, _, address), client(address) as connection:
            assert data_of(await connection.request(call("echo", 1, [2], {"a": None}))) == [1, [2], {"a": None}]
            assert data_of(await connection.request(Row(RequestType.CALL, body=pack({0x22: "echo"})))) == []
            old = RequestType.CALL_16
            assert data_of(await connection.request(call("echo", 1, [2], request_type=old))) == [[1], [2]]
            assert data_of(await connection.request(call("echo", [[1], 2, {}], request_type=old))) == [[1], [2], [{}]]
            assert data_of(await connection.request(call("echo", [1, [2]], request_type=old))) == [[1, [2]]]
            evaluated = await connection.request(Row(RequestType.EVAL, body=pack({0x27: "return ...", 0x21: [5]})))
            assert data_of(evaluated) == ["return ...", [5]]
            for name, text in (
                ("fail", "as you wish"),
                ("missing", "Procedure 'missing' is not defined"),
                ("begin", "Transaction is active at return from function"),
                ("bug", "internal error, see the log"),
            ):
                with pytest.raises(BoxError, match=text):
                    await connection.request(call(name))
            assert "ZeroDivisionError" in node.log.lines[-1]
            totals = {name: counter["total"] for name, counter in node.stats.show_box().items()}
            assert (totals["CALL"], totals["EVAL"], totals["ERROR"]) == (9, 1, 4)
            node.schema.users["guest"].credentials.universal = 0
            with pytest.raises(BoxError, match="Execute access to function 'echo' is denied for user 'guest'"):
                await connection.request(call("echo"))
            node.schema.users["guest"].credentials.universal = ALL_PRIVILEGES
            node.functions = None
            with pytest.raises(BoxError, match="Procedure 'echo' is not defined"):
                await connection.request(call("echo"))
            with pytest.raises(BoxError, match="A node without Lua does not support EVAL"):
                await connection.request(Row(RequestType.EVAL, body=pack({0x27: "return"})))

    run(scenario())


def test_waiting_function_lets_others_pass() -> None:
    """A function that waits does not delay later requests, and its pushed messages carry its sync."""

    async def scenario() -> None:
        async with serving() as (node, server, address), client(address) as connection:
            waiting = connection.send(call("wait", 1))
            await connection.request(Row(RequestType.PING))
            assert (server.in_flight, waiting.done()) == (1, False)
            pushed: list[Any] = []
            reply = await connection.request(call("push", {"a": 1}), on_push=lambda push: pushed.append(data_of(push)))
            assert (pushed, data_of(reply)) == ([[{"a": 1}]], [{"a": 1}])
            assert node.functions.gate is not None
            node.functions.gate.set_result(None)
            assert data_of(await waiting) == [1]
            assert server.in_flight == 0
            assert node.functions.contexts[0].sync != node.functions.contexts[1].sync

    run(scenario())


def test_a_function_whose_end_fails_leaves_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function whose end fails, at once or after a wait, gets one error reply and counts as finished once."""

    async def scenario() -> None:
        def fail(ctx: Any) -> None:
            raise ZeroDivisionError("a failed rollback")

        async with serving() as (node, server, address), client(address) as connection:
            monkeypatch.setattr(node.txns, "rollback", fail)
            with pytest.raises(BoxError, match="internal error, see the log"):
                await connection.request(call("begin"))
            assert server.in_flight == 0
            waiting = connection.send(call("wait"))
            await until(lambda: node.functions.gate is not None)
            node.functions.contexts[-1].txn = object()
            node.functions.gate.set_result(None)
            with pytest.raises(BoxError, match="internal error, see the log"):
                await waiting
            assert server.in_flight == 0

    run(scenario())


def test_client_leaves_a_waiting_function() -> None:
    """When a client leaves, its waiting function gets an error from push, and its reply is dropped."""

    async def scenario() -> None:
        async with serving() as (node, server, address):
            async with client(address) as connection:
                connection.send(call("wait"))
                await until(lambda: node.functions.gate is not None)
            await until(lambda: not server.connections)
            session = node.functions.contexts[0].session
            with pytest.raises(BoxError, match="Session is closed"):
                session.push(b"\x01", 1)
            assert node.functions.gate is not None
            node.functions.gate.set_result(None)
            await until(lambda: server.in_flight == 0)

    run(scenario())


def test_commits_answer_when_complete() -> None:
    """A write is answered when its commit completes, with the error if it fails."""

    async def scenario() -> None:
        async with serving() as (node, server, address), client(address) as connection:
            node.dml.is_slow = True
            writes = [
                connection.send(write)
                for write in (
                    row(RequestType.REPLACE, tuple=[1]),
                    row(RequestType.REPLACE, tuple=[2]),
                    row(RequestType.REPLACE, tuple=[3]),
                    row(RequestType.DELETE, key=[9]),
                )
            ]
            await until(lambda: len(node.dml.waiting) == 4)
            assert (server.in_flight, any(write.done() for write in writes)) == (4, False)
            first, second, third, fourth = node.dml.waiting
            for commit in (fourth, first, second):
                commit.complete()
            third.complete(client_error(ErrorCode.WAL_IO))
            assert [data_of(await write) for write in (writes[0], writes[1], writes[3])] == [[[1]], [[2]], []]
            with pytest.raises(BoxError, match="Failed to write to disk"):
                await writes[2]
            assert server.in_flight == 0

    run(scenario())


def test_triggers_run_in_a_task() -> None:
    """A space with triggers is changed by `execute`, which may wait."""

    async def scenario() -> None:
        async with serving() as (node, _, address), client(address) as connection:
            await connection.request(row(RequestType.REPLACE, tuple=[0]))
            node.space.on_replace.append(object())
            for key in (1, 2):
                assert data_of(await connection.request(row(RequestType.REPLACE, tuple=[key]))) == [[key]]
            assert data_of(await connection.request(row(RequestType.DELETE, key=[1]))) == [[1]]
            node.dml.is_slow = True
            slow = connection.send(row(RequestType.REPLACE, tuple=[3]))
            await until(lambda: bool(node.dml.waiting))
            node.dml.waiting[0].complete()
            assert data_of(await slow) == [[3]]

    run(scenario())


def test_net_msg_max() -> None:
    """Above `net_msg_max` the server stops to read until requests finish, then serves everything in order."""

    async def scenario() -> None:
        async with serving() as (node, server, address), client(address) as connection:
            server.set_limit(4)
            node.dml.is_slow = True
            writes = [connection.send(row(RequestType.REPLACE, tuple=[key])) for key in range(20)]
            await until(lambda: len(node.dml.waiting) == 5)
            assert all(one._stopped & Stop.LIMIT for one in server.connections)
            assert (server.in_flight, len(node.dml.waiting)) == (5, 5)
            assert "net_msg_max limit is reached" in node.log.lines[-1]
            assert re.match(r"stopping input on connection fd \d+, aka \S+, peer of \S+, net", node.log.of_iproto[-1])
            for done in range(20):
                await until(lambda done=done: len(node.dml.waiting) > done)
                node.dml.waiting[done].complete()
            assert [data_of(await write) for write in writes] == [[[key]] for key in range(20)]

    run(scenario())


def test_delayed_requests() -> None:
    """With ERRINJ_IPROTO_TX_DELAY some requests are answered after later ones."""

    async def scenario() -> None:
        async with serving() as (node, _, address), client(address) as connection:
            node.errinj.set("ERRINJ_IPROTO_TX_DELAY", True)
            order: list[int] = []
            for _ in range(100):
                connection.send(row(RequestType.SELECT, **SELECT_1)).add_done_callback(
                    lambda reply: order.append(reply.result().sync)
                )
            await until(lambda: len(order) == 100)
            assert order != sorted(order)
            assert sorted(order) == list(range(1, 101))

    run(scenario())


def test_slow_reader_is_not_read() -> None:
    """The server does not read from a client that does not read its replies."""

    async def scenario() -> None:
        async with serving() as (_, server, address):
            raw = await RawClient.connect(address)
            big = row(RequestType.REPLACE, tuple=[1, "x" * 100_000])
            await raw.ask(request(RequestType.REPLACE, 1, big.body))
            raw.writer.transport.pause_reading()
            for _ in range(200):
                raw.send(request(RequestType.SELECT, 2, body(limit=1, key=[1])) * 10)
            (connection,) = server.connections
            await until(lambda: bool(connection._stopped))
            raw.writer.transport.resume_reading()
            for _ in range(2000):
                await raw.read_row()
            assert not connection._stopped
            await raw.close()

    run(scenario())
