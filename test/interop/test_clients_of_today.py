"""Clients use features of Tarantool 2.11 if the option `iproto_greeting_version` makes the greeting name 2.11."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import asynctnt
import pytest
import tarantool

from box import BoxError
from box.sync import Node

LUA = """
box.schema.create_space('s', {format = {{'id', 'unsigned'}, {'at', 'datetime', is_nullable = true}}}):create_index('pk')
box.schema.user.grant('guest', 'super')
"""


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(listen="127.0.0.1:0", iproto_greeting_version="2.11.0", memtx_use_mvcc_engine=True) as node:
        node.eval(LUA)
        yield node


def address_of(node: Node) -> tuple[str, int]:
    host, _, port = str(node.info["listen"]).rpartition(":")
    return host, int(port)


def greeting_of(node: Node) -> bytes:
    with socket.create_connection(address_of(node), timeout=10) as sock:
        return sock.recv(128, socket.MSG_WAITALL)


def test_the_greeting_names_the_version_that_is_set(node: Node) -> None:
    """The option changes the greeting of later connections, not `box.info.version`; nil restores 2.8.1."""
    assert greeting_of(node).startswith(b"Tarantool 2.11.0 (Binary) ")
    assert node.eval("return box.info.version").startswith("2.8.1-")
    node.eval("box.cfg{iproto_greeting_version = '3.2.1'}")
    assert greeting_of(node).startswith(b"Tarantool 3.2.1 (Binary) ")
    node.eval("box.cfg{iproto_greeting_version = box.NULL}")
    assert greeting_of(node).startswith(b"Tarantool 2.8.1 (Binary) ")


@pytest.mark.parametrize("version", ["2.11", "2.11.0.1", "2.256.0", "2.11.0-x", "02.1.0", "2.1.-1", " 2.1.0"])
def test_what_is_no_version_is_refused(node: Node, version: str) -> None:
    with pytest.raises(BoxError, match="'iproto_greeting_version': expected a version such as"):
        node.eval("box.cfg{iproto_greeting_version = ...}", version)
    assert greeting_of(node).startswith(b"Tarantool 2.11.0 ")


class StreamingConnection(asynctnt.Connection):
    """A connection that keeps `stream`.

    The first connection to a server of the 2.8 line replaces `asynctnt.Connection.stream` for the whole process,
    and such a connection may have been made by another test.
    """

    stream = asynctnt.Connection.stream


def with_asynctnt(node: Node, body: Callable[[asynctnt.Connection], Any]) -> None:
    async def scenario() -> None:
        host, port = address_of(node)
        async with StreamingConnection(host=host, port=port) as connection:
            await body(connection)

    asyncio.run(scenario())


def test_asynctnt_has_streams(node: Node) -> None:
    async def body(connection: asynctnt.Connection) -> None:
        stream = connection.stream()
        await stream.begin()
        await stream.insert("s", [1])
        assert list(await connection.select("s")) == []
        await stream.commit()
        assert len(await connection.select("s")) == 1
        stream = connection.stream()
        await stream.begin()
        await stream.insert("s", [2])
        await stream.rollback()
        assert len(await connection.select("s")) == 1

    with_asynctnt(node, body)


def test_asynctnt_has_errors_as_values(node: Node) -> None:
    async def body(connection: asynctnt.Connection) -> None:
        with pytest.raises(asynctnt.exceptions.TarantoolDatabaseError) as caught:
            await connection.eval("box.error{code = 5000, reason = 'own'}")
        assert caught.value.error.trace[0].message == "own"
        (error,) = await connection.eval("return box.error.new{code = 5001, reason = 'as a value'}")
        assert error.trace[0].message == "as a value"

    with_asynctnt(node, body)


def test_tarantool_has_dates_and_errors_as_values(node: Node) -> None:
    connection = tarantool.Connection(*address_of(node))
    try:
        moment = tarantool.Datetime(year=2022, month=8, day=31, hour=18)
        assert list(connection.insert("s", (1, moment))) == [[1, moment]]
        assert list(node.space.s.select()) == [[1, datetime(2022, 8, 31, 18, tzinfo=UTC)]]
        with pytest.raises(tarantool.DatabaseError) as caught:
            connection.insert("s", (1, moment))
        assert caught.value.extra_info.errcode == 3
    finally:
        connection.close()
