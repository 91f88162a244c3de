"""The admin console of embedded nodes: `require('console')` without the command."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from box import BoxError, Node
from box.errors import ErrorCode
from console.suite.wire import ConsoleClient


@pytest.fixture
def path() -> Iterator[Path]:
    """A short path for sockets, whose paths are limited."""
    directory = Path(tempfile.mkdtemp(prefix="lb-"))
    yield directory / "admin.sock"
    shutil.rmtree(directory)


async def listen(node: Node, path: Path) -> None:
    await node.eval("require('console').listen(...) return true", str(path))


async def ask(path: Path, *commands: str) -> list[str]:
    client = await ConsoleClient.connect(path)
    try:
        return [await client.execute(command) for command in commands]
    finally:
        client.close()
        await client.wait_closed()


def test_an_administrator_comes_to_an_embedded_node(path: Path) -> None:
    """An administrator sees what the program has done; the node's stop ends the session and leaves nothing behind."""

    async def run() -> None:
        async with Node() as node:
            space = await node.schema.create_space("s", format=["id", "name"])
            await space.create_index("pk")
            await space.insert([1, "pear"])
            await listen(node, path)
            assert await ask(path, "box.space.s:get(1)", "box.session.type()", "box.session.user()") == [
                "---\n- [1, 'pear']\n...\n",
                "---\n- console\n...\n",
                "---\n- admin\n...\n",
            ]
            await ask(path, "box.space.s:insert{2, 'fig'}")
            assert await space.count() == 2
            idle = await ConsoleClient.connect(path)
        assert await idle.execute("1") == ""
        idle.close()
        await idle.wait_closed()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
    assert not path.exists()


def test_answers_as_tables(path: Path) -> None:
    async def run() -> str:
        async with Node() as node:
            await listen(node, path)
            client = await ConsoleClient.connect(path)
            client.close()
            reader, writer = await asyncio.open_unix_connection(str(path))
            await reader.readexactly(128)
            writer.write(b"\\set output table\nbox.tuple.new{1, 'pear'}\n\\quit\n")
            answer = (await reader.read()).decode()
            writer.close()
            return answer

    assert "1 │ pear" in asyncio.run(run())


def test_from_one_node_to_another(path: Path) -> None:
    """`console.connect` inside a session works over the text protocol and the binary one."""

    async def run() -> list[str]:
        async with Node() as one, Node(listen=f"{path}.binary") as other:
            await other.eval("name = 'other' box.schema.user.grant('guest', 'super')")
            await listen(one, path)
            await listen(other, path.with_suffix(".other"))
            missing = await ask(path, f"require('console').connect('{path}.missing')")
            text = await ask(path, f"require('console').connect('{path.with_suffix('.other')}')", "name")
            binary = await ask(path, f"require('console').connect('{path}.binary')", "name")
            return [*missing, *text, *binary]

    missing, *rest = asyncio.run(run())
    assert "Connection is not established" in missing
    assert rest == ["---\n- true\n...\n", "---\n- other\n...\n"] * 2


def test_there_is_no_terminal() -> None:
    async def run() -> None:
        async with Node() as node:
            with pytest.raises(BoxError) as caught:
                await node.eval("require('console').start()")
            assert caught.value.code == ErrorCode.UNSUPPORTED
            assert caught.value.message == "A node without a terminal does not support console.start()"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("unix/:/no/such/directory/s", "failed to create server unix/:/no/such/directory/s: No such file or directory"),
        ("no.such.host.invalid:3301", "failed to create server no.such.host.invalid:3301: Input/output error"),
        ("admin.sock", 'Usage: console.listen("[host:]port")'),
    ],
)
def test_addresses_that_cannot_be_listened_on(address: str, reason: str) -> None:
    async def run() -> None:
        async with Node() as node:
            with pytest.raises(BoxError) as caught:
                await node.eval("require('console').listen(...)", address)
            assert caught.value.message.endswith(reason)

    asyncio.run(run())


def test_services_have_names(path: Path) -> None:
    """A service of a port that is taken raises an error with its name."""

    async def run() -> list[str]:
        async with Node() as node:
            await listen(node, path)
            return await ask(path, "require('console').listen('127.0.0.1:http'):close()")

    assert asyncio.run(run())[0] in {
        "---\n- true\n...\n",
        "---\n- error: 'failed to create server 127.0.0.1:http: Permission denied'\n...\n",
        "---\n- error: 'failed to create server 127.0.0.1:http: Address already in use'\n...\n",
    }
