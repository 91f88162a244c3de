"""The server of the text protocol: sockets, many clients, and a clean end."""

from __future__ import annotations

import asyncio
import re
import socket
from pathlib import Path

import pytest

from box.embed import LuaInstance
from box.log import Log
from box.testing.free_ports import free_ports
from console.suite.wire import ConsoleClient
from lua.bindings.console import ConsoleBinding

from .conftest import listening


def _exists(path: str) -> bool:
    return Path(path).exists()


def test_greeting(short_path: Path) -> None:
    """The greeting has two lines of 64 bytes."""

    async def run() -> bytes:
        async with listening(short_path) as (_, path):
            reader, writer = await asyncio.open_unix_connection(str(path))
            greeting = await reader.readexactly(128)
            writer.close()
            await writer.wait_closed()
            return greeting

    greeting = asyncio.run(run())
    assert greeting[:64] == b"Tarantool 2.8.1 (Lua console)".ljust(63) + b"\n"
    assert greeting[64:] == b"type 'help' for interactive help".ljust(63) + b"\n"


def test_line_ends_and_pieces(short_path: Path) -> None:
    """LF and CR end a command, in pieces of any size; several commands may come at once.

    As in Tarantool, CRLF ends two commands, of which the second is empty.
    """

    async def run() -> bytes:
        async with listening(short_path) as (_, path):
            reader, writer = await asyncio.open_unix_connection(str(path))
            await reader.readexactly(128)
            for piece in (b"1\n2\r", b"3\r\n4", b"4\n\\q", b"uit\n"):
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
            replies = await reader.read()
            writer.close()
            await writer.wait_closed()
            return replies

    assert asyncio.run(run()) == b"".join(
        b"---\n...\n" if number == 0 else b"---\n- %d\n...\n" % number for number in (1, 2, 3, 0, 44)
    )


def test_many_clients_and_large_values(short_path: Path) -> None:
    """Many clients do not disturb each other, and commands and answers of megabytes pass."""

    async def run() -> list[str]:
        async with listening(short_path) as (_, path):
            clients = await asyncio.gather(*(ConsoleClient.connect(path) for _ in range(30)))
            sizes = await asyncio.gather(*(client.execute("#('" + "x" * 200_000 + "')") for client in clients))
            assert set(sizes) == {"---\n- 200000\n...\n"}
            large = await clients[0].execute("('y'):rep(3000000)")
            assert len(large) == len("---\n- \n...\n") + 3_000_000
            replies = [await client.execute(f"return {number}") for number, client in enumerate(clients)]
            for client in clients:
                client.close()
                await client.wait_closed()
            return replies

    assert asyncio.run(run()) == [f"---\n- {number}\n...\n" for number in range(30)]


def test_stale_socket_file_is_replaced(short_path: Path) -> None:
    """A socket file that nobody serves is replaced; one that is served makes listen fail."""
    path = short_path / "c"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))

    async def run() -> tuple[str, str]:
        async with listening(short_path) as (_, path):
            client = await ConsoleClient.connect(path)
            taken = await client.execute(f"require('console').listen('{path}')")
            wrong = await client.execute("require('console').listen('a b')")
            client.close()
            await client.wait_closed()
            return taken, wrong

    taken, wrong = asyncio.run(run())
    assert f"failed to create server unix/:{path}: Address already in use" in " ".join(taken.split())
    assert "Usage: console.listen(" in wrong
    assert not path.exists()


def test_ordinary_files_make_room_for_sockets(short_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An ordinary file in the socket's place is removed, as in Tarantool, and lost content is logged; a directory is an
    error.
    """
    (short_path / "file0").write_text("precious")
    (short_path / "file1").write_text("precious")
    (short_path / "directory0").mkdir()
    (short_path / "directory1").mkdir()

    async def run() -> list[str]:
        async with listening(short_path) as (_, path):
            client = await ConsoleClient.connect(path)
            replies = [
                await client.execute(call.format(path=short_path / f"{name}{number}"))
                for name in ("file", "directory")
                for number, call in enumerate(
                    (
                        "require('console').listen('{path}'):name().port",
                        "require('socket').tcp_server('unix/', '{path}', function() end) ~= nil",
                    )
                )
            ]
            client.close()
            await client.wait_closed()
            return replies

    listened, served, *failed = (" ".join(reply.split()) for reply in asyncio.run(run()))
    assert (listened, served) == (f"--- - {short_path / 'file0'} ...", "--- - true ...")
    assert "Address already in use" in failed[0]
    assert failed[1] == "--- - false ..."
    told = [line for line in capfd.readouterr().err.splitlines() if "was an ordinary file of 8 bytes" in line]
    assert len(told) == 2


def test_an_error_at_the_end_of_a_session_is_logged_with_its_type(
    short_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def run() -> None:
        async with listening(short_path) as (_, path):
            client = await ConsoleClient.connect(path)
            await client.execute("require('box.session').on_disconnect(function() error('a bad end') end)")
            client.close()
            await client.wait_closed()
            await asyncio.sleep(0.1)

    asyncio.run(run())
    assert re.search(r"^LuajitError: .*a bad end$", capfd.readouterr().err, re.MULTILINE)


def test_server_can_be_closed(short_path: Path) -> None:
    """close() of the object that listen() returns ends the server and removes the socket file."""

    async def run() -> str:
        async with listening(short_path) as (_, path):
            client = await ConsoleClient.connect(path)
            await client.execute(f"server = require('console').listen('{path}2')")
            assert _exists(f"{path}2")
            reply = await client.execute("server:close()")
            client.close()
            await client.wait_closed()
            assert not _exists(f"{path}2")
            return reply

    assert asyncio.run(run()) == "---\n- true\n...\n"


def test_the_listening_socket_is_shown(short_path: Path) -> None:
    """What listen() returns looks like a socket, and cannot be used after close()."""

    async def run() -> list[str]:
        async with listening(short_path) as (_, path):
            client = await ConsoleClient.connect(path)
            replies = [
                await client.execute(statement)
                for statement in (
                    f"server = require('console').listen('{path}2') return server",
                    "server:name().port",
                    "tcp = require('console').listen('127.0.0.1:0') return tcp:name().family, tcp:name().protocol",
                    "tcp:name().port > 0, tcp:fd() > 0, tcp:close()",
                    "tcp",
                    "tcp:close()",
                    "server:close()",
                )
            ]
            client.close()
            await client.wait_closed()
            return [re.sub(r"fd: \d+", "fd: N", reply).replace(str(path), "PATH") for reply in replies]

    replies = asyncio.run(run())
    assert replies[:4] == [
        "---\n- fd: N\n  name:\n    host: unix/\n    family: AF_UNIX\n    type: SOCK_STREAM\n    protocol: 0\n"
        "    port: PATH2\n...\n",
        "---\n- PATH2\n...\n",
        "---\n- AF_INET\n- tcp\n...\n",
        "---\n- true\n- true\n- true\n...\n",
    ]
    assert all("builtin/socket.lua" in reply and "attempt to use closed socket" in reply for reply in replies[4:6])
    assert replies[6] == "---\n- true\n...\n"


def test_tcp(short_path: Path) -> None:
    """The server accepts an address host:port."""
    (port,) = free_ports(1)

    async def run() -> str:
        async with listening(short_path) as (instance, _):
            await instance.runtime.eval(f"require('console').listen('127.0.0.1:{port}')".encode())
            client = await ConsoleClient.connect(("127.0.0.1", port))
            reply = await client.execute("require('fiber').self():name()")
            client.close()
            await client.wait_closed()
            return reply

    assert asyncio.run(run()).startswith("---\n- console/127.0.0.1:")


def test_connect_to_another_console(short_path: Path) -> None:
    """After console.connect commands run on the other node, whose pushed values are shown."""

    async def run() -> list[str]:
        async with listening(short_path) as (_, path):
            second = LuaInstance(None)
            await second.runtime.eval(f"name = 'second' require('console').listen('{path}2')".encode())
            client = await ConsoleClient.connect(path)
            replies = [
                await client.execute(command)
                for command in (
                    f"require('console').connect('{path}missing')",
                    "require('console').connect('')",
                    f"require('console').connect('{path}2')",
                    "name",
                    "error('there')",
                )
            ]
            client.close()
            await client.wait_closed()
            await second.stop()
            return replies

    missing, wrong, connected, name, failure = asyncio.run(run())
    assert "- error:" in missing
    assert "Usage: console.connect(" in wrong
    assert connected == "---\n- true\n...\n"
    assert name == "---\n- second\n...\n"
    assert failure == "---\n- error: there\n...\n"


@pytest.mark.parametrize("abrupt", [False, True])
def test_stop_ends_sessions(short_path: Path, abrupt: bool) -> None:
    """Stopping the instance ends its sessions, idle or busy, and leaves no task."""

    async def run() -> int:
        async with listening(short_path) as (_, path):
            client = await ConsoleClient.connect(path)
            if abrupt:
                busy = asyncio.ensure_future(client.execute("require('fiber').sleep(100)"))
                await asyncio.sleep(0)
        if abrupt:
            assert await busy == ""
        client.close()
        await client.wait_closed()
        return len(asyncio.all_tasks()) - 1

    assert asyncio.run(run()) == 0


def test_a_bug_in_a_session_is_logged_with_its_place(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the session ends."""
    lines: list[str] = []
    monkeypatch.setattr(Log, "error", lambda log, text: lines.append(text))

    async def fail(binding: ConsoleBinding, connection: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(ConsoleBinding, "_serve", fail)

    async def run() -> None:
        async with listening(short_path) as (_, path):
            for _ in range(2):
                reader, writer = await asyncio.open_unix_connection(str(path))
                assert await reader.read() == b""
                writer.close()
                await writer.wait_closed()

    asyncio.run(run())
    assert len(lines) == 2
    assert lines[0].startswith("console: Traceback")
    assert lines[0].endswith("ZeroDivisionError: a bug")
