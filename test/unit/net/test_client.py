"""The client connection: failures, timeouts, streams; and against Tarantool if it is installed."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from box.data.codec import pack
from box.errors import BoxError, ErrorCode
from box.net import dial
from box.net.sockets import SocketNetwork
from box.wire.ballot import Ballot
from box.wire.constants import RequestType
from box.wire.error import raise_if_error
from box.wire.greeting import encode_greeting
from box.wire.messages import decode_replication, subscribe_row, vclock_row, vote_row
from box.wire.row import Row, encode_packet
from box.wire.vclock import VClock
from test.support import until
from test.unit.iproto.fakes import INSTANCE_UUID
from test.unit.iproto.serving import client, data_of, run, serving

Handler = Any
POSITION = encode_packet(vclock_row(VClock()))


async def answering(handler: Handler) -> tuple[asyncio.Server, str]:
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    return server, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


def connect(address: str, **options: Any) -> Any:
    loop = asyncio.get_running_loop()
    return dial.connect(loop, SocketNetwork(loop), address, **options)


def test_no_server() -> None:
    async def scenario() -> None:
        server, address = await answering(lambda r, w: None)
        server.close()
        await server.wait_closed()
        with pytest.raises(BoxError, match=r"connect to 127\.0\.0\.1") as failure:
            await connect(address)
        assert (failure.value.type, failure.value.errno) == ("SocketError", 111)
        with pytest.raises(BoxError, match="invalid uri: localhost"):
            await connect("localhost")

    run(scenario())


@pytest.mark.parametrize(
    ("greeting", "text"),
    [
        (b"x" * 128, "Invalid greeting"),
        (
            b"Tarantool 2.8.1 (Lua console)".ljust(63) + b"\n" + b"x".ljust(63) + b"\n",
            "Unsupported protocol: Lua console",
        ),
        (b"", "unexpected EOF when reading from socket"),
    ],
)
def test_strange_servers(greeting: bytes, text: str) -> None:
    async def scenario() -> None:
        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(greeting)
            await writer.drain()
            writer.close()

        server, address = await answering(handler)
        with pytest.raises(BoxError, match=text):
            await connect(address, timeout=5)
        server.close()

    run(scenario())


def test_timeouts() -> None:
    """Connecting and each request have their own timeouts, and a late reply is dropped."""

    async def scenario() -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server, address = await answering(silent)
        with pytest.raises(BoxError, match="timed out"):
            await connect(address, timeout=0.01)
        server.close()
        async with serving() as (node, _, address), client(address) as connection:
            call = Row(RequestType.CALL, body=pack({0x22: "wait"}))
            with pytest.raises(BoxError, match="timed out"):
                await connection.request(call, timeout=0.01)
            assert node.functions.gate is not None
            node.functions.gate.set_result(None)
            await connection.request(Row(RequestType.PING))
            assert connection.error is None
            assert connection.schema_version == 77

    run(scenario())


@pytest.mark.parametrize(("kind", "code"), [(0x8000 | 20, 20), (0x4000, 0x4000), (0x81, 0x81)])
def test_any_status_above_that_of_pushes_is_an_error(kind: int, code: int) -> None:
    """The upper bit only keeps the codes of errors apart from other statuses."""

    async def scenario() -> None:
        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(encode_greeting(INSTANCE_UUID, b"s" * 32))
            await reader.readexactly(5)
            writer.write(encode_packet(Row(kind, sync=1, body=pack({0x30: [1]}))))
            await reader.read()
            writer.close()

        server, address = await answering(handler)
        connection = await connect(address)
        with pytest.raises(BoxError) as refused:
            await asyncio.wait_for(connection.request(Row(RequestType.PING)), 10)
        assert (refused.value.code, str(refused.value)) == (code, "")
        connection.close()
        server.close()

    run(scenario())


def test_end_of_connection() -> None:
    """At the end of a connection all waiting callers, and later ones, get an error, whichever side closed it."""

    async def scenario() -> None:
        async with serving() as (node, server, address), client(address) as connection:
            ends: list[BoxError] = []
            connection.on_close = ends.append
            waiting = connection.send(Row(RequestType.CALL, body=pack({0x22: "wait"})))
            await until(lambda: node.functions.gate is not None)
            (accepted,) = server.connections
            accepted.close()
            with pytest.raises(BoxError, match="unexpected EOF"):
                await waiting
            with pytest.raises(BoxError, match="unexpected EOF"):
                await connection.request(Row(RequestType.PING))
            with pytest.raises(BoxError, match="unexpected EOF"):
                await connection.read_row()
            with pytest.raises(BoxError, match="unexpected EOF"):
                connection.write_rows([Row(RequestType.PING)])
            assert ends == [connection.error]
            assert node.functions.gate is not None
            node.functions.gate.set_result(None)

    run(scenario())


def test_streams() -> None:
    """Rows of a stream come in order, errors among them, and silence has a timeout."""

    async def scenario() -> None:
        async def master(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(encode_greeting(INSTANCE_UUID, bytes(32)))
            await reader.readexactly(len(POSITION))
            rows = [Row(RequestType.REPLACE, 1, lsn, 1.0, body=b"\x80") for lsn in range(1, 101)]
            writer.write(b"".join(encode_packet(row) for row in rows))
            await reader.readexactly(len(POSITION))
            writer.write(encode_packet(Row(0x8000 | ErrorCode.LOADING, body=pack({0x31: "not yet"}))))
            await reader.read()
            writer.close()

        server, address = await answering(master)
        connection = await connect(address, keeps_rows=True)
        connection.write_rows([vclock_row(VClock())])
        await connection.drain()
        assert [(await connection.read_row(5)).lsn for _ in range(100)] == list(range(1, 101))
        with pytest.raises(BoxError, match="timed out") as failure:
            await connection.read_row(0.01)
        assert (failure.value.type, failure.value.errno) == ("TimedOut", errno.ETIMEDOUT)
        connection.write_rows([vclock_row(VClock())])
        with pytest.raises(BoxError, match="not yet"):
            raise_if_error(await connection.read_row(5))
        assert (connection.peer, connection.local != "") == (address, True)
        connection.close()
        with pytest.raises(BoxError, match="Connection is not established"):
            await connection.read_row()
        server.close()

    run(scenario())


SCRIPT = """
box.cfg{listen = '%s', wal_mode = 'write', log = 'tarantool.log', memtx_memory = 33554432}
local space = box.schema.space.create('test', {id = 512})
space:create_index('pk')
box.schema.user.create('alice', {password = 'secret'})
box.schema.user.grant('alice', 'super')
space:replace{1, 'a'}
function echo(...) box.session.push('pushed') return ... end
print('ready')
io.stdout:flush()
"""


@pytest.fixture
def tarantool(tmp_path: Path) -> Iterator[str]:
    """The address of a running Tarantool."""
    if shutil.which("tarantool") is None:
        pytest.skip("the executable `tarantool` is not installed")
    path = tmp_path / "tarantool.sock"
    script = tmp_path / "init.lua"
    script.write_text(SCRIPT % path)
    with subprocess.Popen(["tarantool", str(script)], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while "ready" not in process.stdout.readline():
            assert process.poll() is None
        yield f"alice:secret@unix/:{path}"
        os.kill(process.pid, signal.SIGKILL)


@pytest.mark.tarantool
def test_original_server(tarantool: str) -> None:
    """With Tarantool: authentication, data, pushed messages, extended errors, a ballot and a subscription."""

    async def scenario() -> None:
        async with client(tarantool, keeps_rows=True) as connection:
            select = pack({0x10: 512, 0x12: 10, 0x20: []})
            assert data_of(await connection.request(Row(RequestType.SELECT, body=select))) == [[1, "a"]]
            pushed: list[Any] = []
            call = Row(RequestType.CALL, body=pack({0x22: "echo", 0x21: [5]}))
            reply = await connection.request(call, on_push=lambda push: pushed.append(data_of(push)))
            assert (data_of(reply), pushed) == ([5], [["pushed"]])
            with pytest.raises(BoxError, match="Space '9' does not exist") as failure:
                await connection.request(Row(RequestType.SELECT, body=pack({0x10: 9, 0x12: 1, 0x20: []})))
            assert (failure.value.type, failure.value.line > 0) == ("ClientError", True)
            ballot = Ballot.decode((await connection.request(vote_row())).body)
            assert ballot.vclock.signature > 1
            with pytest.raises(BoxError, match="Incorrect password supplied for user 'alice'"):
                await connection.authenticate("alice", "wrong")
            cluster = pack({0x10: 272, 0x12: 10, 0x20: ["cluster"]})
            ((_, uuid),) = data_of(await connection.request(Row(RequestType.SELECT, body=cluster)))
            connection.write_rows([subscribe_row(UUID(uuid), INSTANCE_UUID, VClock(), anon=True)])
            answer = decode_replication(await connection.read_row(5))
            assert (answer.replicaset_uuid, answer.vclock) == (UUID(uuid), ballot.vclock)
            first = await connection.read_row(5)
            assert (first.replica_id, first.lsn, first.is_commit) == (1, 1, True)

    run(scenario())
