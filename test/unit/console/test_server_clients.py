"""The server of the text protocol with clients that are slow, greedy, many or gone."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from console.suite.wire import ConsoleClient
from lua.text_console import console_connection
from test.support import until

from .conftest import listening

GREETING_SIZE = 128

FIBERS = "local n = 0 for _ in pairs(require('fiber').info()) do n = n + 1 end return n"
"""A Lua text that returns the number of fibers, with the one that asks."""


async def _connect(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_unix_connection(str(path))
    await reader.readexactly(GREETING_SIZE)
    return reader, writer


async def _silent(path: Path) -> socket.socket:
    """A client that sends and never reads, without a buffer of its own."""
    loop = asyncio.get_running_loop()
    client = socket.socket(socket.AF_UNIX)
    client.setblocking(False)
    await loop.sock_connect(client, str(path))
    await loop.sock_recv(client, GREETING_SIZE)
    return client


def test_a_command_of_many_pieces(short_path: Path) -> None:
    """A single command may exceed the limit of waiting commands."""

    async def run() -> bytes:
        async with listening(short_path) as (_, path):
            reader, writer = await _connect(path)
            piece = b"x" * (console_connection._MAX_BUFFER // 4)
            writer.write(b"#'")
            for _ in range(20):
                writer.write(piece)
                await writer.drain()
            writer.write(b"'\n")
            reply = await asyncio.wait_for(reader.readuntil(b"...\n"), 20)
            writer.close()
            return reply

    assert asyncio.run(run()) == b"---\n- %d\n...\n" % (console_connection._MAX_BUFFER * 5)


def test_a_command_without_an_end(short_path: Path) -> None:
    """A client whose command never ends is disconnected before it fills memory; others go on."""

    async def run() -> bytes:
        async with listening(short_path) as (_, path):
            _, writer = await _connect(path)
            piece = b"x" * (1 << 22)
            try:
                for _ in range(2 * console_connection._MAX_COMMAND // len(piece)):
                    writer.write(piece)
                    await writer.drain()
                raise AssertionError("never cut off")
            except ConnectionError:
                pass
            writer.close()
            other = await ConsoleClient.connect(path)
            reply = await other.execute("1")
            other.close()
            return reply.encode()

    assert asyncio.run(run()) == b"---\n- 1\n...\n"


def test_a_client_that_does_not_read(short_path: Path) -> None:
    """Commands of a client that does not read wait in limited memory, and are dropped at its end; others are answered."""

    async def run() -> tuple[int, str]:
        async with listening(short_path) as (_, path):
            other = await ConsoleClient.connect(path)
            await other.execute("count = 0")
            fibers = await other.execute(FIBERS)
            client = await _silent(path)
            command, sent = b"count = count + 1 return ('z'):rep(100000)\n" * 100, 0
            try:
                while sent < 64 << 20:
                    client.setblocking(True)
                    client.settimeout(0)
                    sent += client.send(command)
                    await asyncio.sleep(0)
            except BlockingIOError:
                pass
            client.close()

            async def is_forgotten() -> bool:
                return await other.execute(FIBERS) == fibers

            await until(is_forgotten, "the end of the client's fibers")
            count = await other.execute("count")
            other.close()
            return sent, count

    sent, count = asyncio.run(run())
    assert sent < 8 << 20
    assert int(count.split()[2]) < 100


def test_pushes_wait_for_the_reader(short_path: Path) -> None:
    """A command whose pushed values are not read waits, and ends with its client."""

    async def run() -> tuple[str, str]:
        async with listening(short_path) as (_, path):
            client, other = await _silent(path), await ConsoleClient.connect(path)
            client.send(b"for i = 1, 1000 do pushed = i box.session.push(('p'):rep(100000)) end\n")

            async def has_begun() -> bool:
                return "null" not in await other.execute("pushed")

            await until(has_begun)
            pushed = await other.execute("pushed")
            client.close()

            async def has_ended() -> bool:
                return "1000" in await other.execute("pushed")

            await until(has_ended)
            other.close()
            return pushed, "ended"

    pushed, _ = asyncio.run(run())
    assert int(pushed.split()[2]) < 100


def test_commands_that_were_sent_at_once(short_path: Path) -> None:
    """Thousands of commands sent at once do not delay another client."""

    async def run() -> tuple[bool, int]:
        async with listening(short_path) as (_, path):
            reader, writer = await _connect(path)
            other = await ConsoleClient.connect(path)
            await other.execute("done = 0")
            writer.write(b"done = done + 1\n" * 20_000)
            await writer.drain()
            reply = await other.execute("done")
            answers = await reader.readexactly(20_000 * len(b"---\n...\n"))
            writer.close()
            other.close()
            return int(reply.split()[2]) < 20_000, len(answers)

    assert asyncio.run(run()) == (True, 160_000)


def test_a_client_that_only_asks(short_path: Path) -> None:
    """A client that closes its sending side still gets all answers."""

    async def run() -> bytes:
        async with listening(short_path) as (_, path):
            reader, writer = await _connect(path)
            writer.write(b"require('fiber').sleep(0.05) return 1\nbox.session.push(2) return 3\nunfinished")
            writer.write_eof()
            reply = await asyncio.wait_for(reader.read(), 20)
            writer.close()
            return reply

    push = b"%TAG !push! tag:tarantool.io/push,2018\n--- 2\n...\n"
    assert asyncio.run(run()) == b"---\n- 1\n...\n" + push + b"---\n- 3\n...\n"


def test_clients_that_vanish(short_path: Path) -> None:
    """The session of a client that disconnects in the middle of an answer ends."""

    async def run() -> None:
        async with listening(short_path) as (instance, path):
            for command in (b"('v'):rep(3000000)\n", b"require('fiber').sleep(0.05)\n", b"1\n" * 1000, b"half"):
                for _ in range(3):
                    client = await _silent(path)
                    client.send(command)
                    client.close()

            async def are_gone() -> bool:
                return not any(session.type == "console" for session in instance.node.sessions.by_id.values())

            await until(are_gone)

    asyncio.run(run())


def test_five_hundred_clients(short_path: Path) -> None:
    """Each of five hundred clients has its own session and gets its own answers."""

    async def run() -> list[str]:
        async with listening(short_path) as (_, path):
            clients = [await ConsoleClient.connect(path) for _ in range(500)]
            await asyncio.gather(*(client.execute(f"box.session.storage.n = {n}") for n, client in enumerate(clients)))
            replies = await asyncio.gather(*(client.execute("box.session.storage.n") for client in clients))
            for client in clients:
                client.close()
            return replies

    assert asyncio.run(run()) == [f"---\n- {n}\n...\n" for n in range(500)]
