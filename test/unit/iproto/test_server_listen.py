"""The server's addresses, and clients from PyPI."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

import pytest

from box.errors import BoxError, ErrorCode
from box.iproto.server import IprotoServer
from box.wire.constants import RequestType
from box.wire.row import Row

from .fakes import INSTANCE_UUID, SPACE_ID, FakeNode
from .serving import (
    client,
    run,
    serving,
)


def test_taken_port_and_bad_addresses() -> None:
    """A listen that fails has Tarantool's texts, for a taken port and for bad addresses."""

    async def scenario() -> None:
        async with serving() as (node, _, address):
            other = IprotoServer(node)
            for bad, text in (
                (address, ": failed to bind, called on fd -1"),
                ("nowhere", "Incorrect value for option 'listen': expected host:service or /unix.socket"),
                ("256.256.256.256:nosuchservice", "can't resolve uri for bind, called on fd -1"),
            ):
                with pytest.raises(BoxError) as failure:
                    await other.listen(bad)
                assert failure.value.message == text
            assert other.bound_address is None
            with pytest.raises(BoxError, match=r"bind, called on fd \d+, aka unix/:\(socket\)"):
                await other.listen("unix/:/nonexistent/directory/socket")

    run(scenario())


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_many_connections_wait_to_be_accepted(tmp_path: Any, kind: str) -> None:
    """Many connections that come while the loop is busy are all accepted: the backlog has room for them."""

    async def scenario() -> None:
        async with serving() as (_, server, _):
            address: Any = f"{tmp_path}/s"
            await server.listen(f"unix/:{address}" if kind == "unix" else "127.0.0.1:0")
            if kind == "tcp":
                host, _, port = (server.bound_address or "").rpartition(":")
                address = host, int(port)
            clients = []
            for _ in range(300):  # the loop does not run meanwhile
                clients.append(socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET))
                clients[-1].settimeout(0.5)
                clients[-1].connect(address)
            for sock in clients:
                sock.setblocking(False)
                greeting = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(sock, 128), 10)
                assert greeting.startswith(b"Tarantool 2.8.1 (Binary)")
                sock.close()

    run(scenario())


def test_what_refuses_connections_is_replaced(tmp_path: Any) -> None:
    """A stale socket and an ordinary file in its place are replaced, as in Tarantool, with a log line; a directory is
    an error.
    """

    async def scenario() -> None:
        async with serving() as (node, server, _):
            file, empty, abandoned, directory = (
                tmp_path / name for name in ("file", "empty", "abandoned", "directory")
            )
            file.write_text("precious")
            empty.touch()
            directory.mkdir()
            with socket.socket(socket.AF_UNIX) as old:
                old.bind(str(abandoned))
            for path in (file, empty, abandoned):
                await server.listen(f"unix/:{path}")
                assert path.is_socket()
            with pytest.raises(BoxError, match="unlink, called on fd"):
                await server.listen(f"unix/:{directory}")
            assert directory.is_dir()
            (told,) = (text for text in node.log.lines if "ordinary file" in text)
            assert told == f"{file} was an ordinary file of 8 bytes; the unix socket has replaced it"

    run(scenario())


def test_unix_socket(tmp_path: Any) -> None:
    """UNIX sockets work, a stale file is replaced, and the file is removed with the server."""

    async def scenario() -> None:
        path = tmp_path / "s.sock"
        async with serving(f"unix/:{path}") as (node, server, address):
            async with client(address) as connection:
                assert connection.greeting.uuid == INSTANCE_UUID
            assert server.bound_address == "unix/:(socket)"
            with pytest.raises(BoxError, match="unlink, called on fd"):
                await IprotoServer(node).listen(str(path))
        assert not path.exists()
        with socket.socket(socket.AF_UNIX) as abandoned:
            abandoned.bind(str(path))
        async with serving(str(path)) as (_, _, address), client(address) as connection:
            await connection.request(Row(RequestType.PING))

    run(scenario())


def test_relisten_keeps_connections() -> None:
    """`listen` with another address keeps open connections."""

    async def scenario() -> None:
        async with serving() as (_, server, address), client(address) as connection:
            await server.listen("127.0.0.1:0")
            assert server.bound_address != address
            await connection.request(Row(RequestType.PING))
            await server.listen(None)
            assert server.bound_address is None
            await connection.request(Row(RequestType.PING))

    run(scenario())


def test_asynctnt_client() -> None:
    """The client `asynctnt` works with the server."""
    asynctnt = pytest.importorskip("asynctnt")

    async def scenario() -> None:
        async with serving() as (_, _, address):
            host, _, port = address.rpartition(":")
            connection = asynctnt.Connection(
                host=host,
                port=int(port),
                fetch_schema=False,
                auto_refetch_schema=False,
                username="alice",
                password="secret",
            )
            await connection.connect()
            assert [tuple(t) for t in (await connection.replace(SPACE_ID, [1, "a"])).body] == [(1, "a")]
            replies = await asyncio.gather(*(connection.replace(SPACE_ID, [key, "x"]) for key in range(500)))
            assert [reply.body[0][0] for reply in replies] == list(range(500))
            assert [tuple(t) for t in (await connection.select(SPACE_ID, [7])).body] == [(7, "x")]
            assert (await connection.call("echo", [1, "two"])).body == [1, "two"]
            with pytest.raises(asynctnt.exceptions.TarantoolDatabaseError) as failure:
                await connection.insert(SPACE_ID, [1])
            assert failure.value.code == ErrorCode.TUPLE_FOUND
            await connection.disconnect()

    run(scenario())


def test_tarantool_client() -> None:
    """The client `tarantool`, which blocks and writes short lengths, works with the server."""
    tarantool = pytest.importorskip("tarantool")

    def talk(address: str) -> None:
        host, _, port = address.rpartition(":")
        connection = tarantool.Connection(host, int(port), user="alice", password="secret", fetch_schema=False)
        connection.ping()
        assert connection.call("echo", (1, "two")).data == [1, "two"]
        assert connection.eval("return 1", (5,)).data == ["return 1", [5]]
        with pytest.raises(tarantool.DatabaseError, match="as you wish") as failure:
            connection.call("fail")
        assert failure.value.extra_info.type == "ClientError"
        connection.close()

    async def scenario() -> None:
        async with serving() as (_, _, address):
            await asyncio.to_thread(talk, address)

    run(scenario())


@pytest.mark.parametrize("turns", range(4))
def test_a_connection_that_is_being_accepted_while_the_server_is_closed(tmp_path: Any, turns: int) -> None:
    """The loop makes a connection in several turns; one that is complete after the end of the server is broken off."""

    async def scenario() -> None:
        node = FakeNode(asyncio.get_running_loop())
        server = IprotoServer(node)
        await server.listen(f"unix/:{tmp_path}/s")
        with socket.socket(socket.AF_UNIX) as visitor:
            visitor.settimeout(10)
            visitor.connect(f"{tmp_path}/s")
            for _ in range(turns):
                await asyncio.sleep(0)
            await server.close()
            for _ in range(6):
                await asyncio.sleep(0)
            assert not server.connections
            with contextlib.suppress(ConnectionResetError):
                while visitor.recv(1000):
                    pass

    asyncio.run(scenario())
