"""Answers of the binary protocol that the 2.8 line gives: places of errors, and what a node says before it has started.

The expected values are those of Tarantool 2.8.1; where it is installed the tests run on it as well.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from box.data.codec import pack, unpack
from box.errors import BoxError, ErrorCode
from box.net.dial import connect
from box.net.peer_connection import PeerConnection
from box.net.sockets import SocketNetwork
from box.wire.constants import RequestType
from box.wire.row import Row

from .processes import LUNABOX

TARANTOOL = shutil.which("tarantool")


def _is_of_the_line() -> bool:
    if TARANTOOL is None:
        return False
    told = subprocess.run([TARANTOOL, "--version"], capture_output=True, text=True, check=True, timeout=20)
    return told.stdout.startswith("Tarantool 2.8.")


executables = pytest.mark.parametrize(
    "executable",
    [
        pytest.param(LUNABOX, id="lunabox"),
        pytest.param(
            TARANTOOL,
            id="tarantool",
            marks=[
                pytest.mark.tarantool,
                pytest.mark.skipif(not _is_of_the_line(), reason="Tarantool 2.8 is not installed"),
            ],
        ),
    ],
)

UUID = "11111111-1111-4111-8111-111111111111"

FUNCTIONS = """
box.cfg{listen = 'unix/:./sock', log = 'log', wal_mode = 'none'}
box.schema.user.grant('guest', 'super')
box.schema.space.create('s', {format = {{'a', 'unsigned'}}}):create_index('pk')
box.space.s:insert{1}
function plain() error('plain') end
function coded()
    box.error(box.error.ILLEGAL_PARAMS, 'coded')
end
function custom() box.error({type = 'Mine', code = 7, reason = 'why'}) end
function chain()
    local cause = box.error.new(box.error.UNKNOWN)
    local effect = box.error.new(box.error.ILLEGAL_PARAMS, 'b')
    effect:set_prev(cause)
    effect:raise()
end
is_ready = true
"""

WAITING = """
box.cfg{log = 'log', listen = 'unix/:./sock', replication = {'unix/:./nobody'}, replication_connect_timeout = 100}
"""


class Server:
    """A process that runs a script and listens at the socket `sock` of its directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def connect(self) -> PeerConnection:
        """Open a connection as soon as the process listens."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(60):
            while True:
                try:
                    return await connect(loop, SocketNetwork(loop), f"unix/:{self._directory}/sock", timeout=30)
                except (BoxError, OSError):
                    await asyncio.sleep(0.02)

    async def error_of(self, request: Row) -> BoxError:
        """Return the error that the server answers on a connection of its own."""
        peer = await self.connect()
        try:
            with pytest.raises(BoxError) as caught:
                await peer.request(request, timeout=30)
            return caught.value
        finally:
            peer.close()


@asynccontextmanager
async def running(executable: str, script: str, directory: Path) -> AsyncIterator[Server]:
    """Run a script in a process of an executable."""
    (directory / "node.lua").write_text(script)
    with (directory / "out").open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            executable, "node.lua", cwd=directory, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield Server(directory)
    finally:
        process.kill()
        await process.wait()


def call(name: str) -> Row:
    return Row(RequestType.CALL, body=pack({0x22: name, 0x21: []}))


def evaluate(expression: str) -> Row:
    return Row(RequestType.EVAL, body=pack({0x27: expression, 0x21: []}))


def select(space_id: int) -> Row:
    return Row(RequestType.SELECT, body=pack({0x10: space_id, 0x12: 1, 0x20: []}))


async def is_ready(server: Server) -> None:
    """Wait until the script of a server has run to its end."""
    peer = await server.connect()
    async with asyncio.timeout(60):
        while True:
            try:
                answer = await peer.request(evaluate("return is_ready"), timeout=30)
                if unpack(answer.body)[0x30] == [True]:
                    break
            except BoxError:
                pass  # no rights yet
            await asyncio.sleep(0.02)
    peer.close()


@executables
def test_errors_name_the_statement_that_raised_them(executable: str, tmp_path: Path) -> None:
    """The place of an error in a script is that of the user's statement; the place of other errors is in the server's
    source.
    """

    async def main() -> None:
        async with running(executable, FUNCTIONS, tmp_path) as server:
            await is_ready(server)
            error = await server.error_of(call("coded"))
            assert (error.type, error.file, error.line) == ("ClientError", "node.lua", 8)
            error = await server.error_of(call("custom"))
            assert (error.custom_type, error.file, error.line) == ("Mine", "node.lua", 10)
            error = await server.error_of(call("chain"))
            assert error.prev is not None
            assert (error.message, error.file, error.line) == ("Illegal parameters, b", "node.lua", 13)
            assert (error.prev.message, error.prev.file, error.prev.line) == ("Unknown error", "node.lua", 12)
            error = await server.error_of(evaluate("\nbox.error(box.error.UNKNOWN)"))
            assert (error.file, error.line) == ("eval", 2)
            error = await server.error_of(call("plain"))
            assert (error.type, error.message) == ("LuajitError", "node.lua:6: plain")
            assert error.file.endswith("/src/lua/utils.c")
            for request in (
                select(999),
                call("missing"),
                Row(RequestType.INSERT, body=pack({0x10: 512, 0x21: [1]})),
                Row(RequestType.INSERT, body=pack({0x10: 512, 0x21: ["x"]})),
                Row(RequestType.INSERT, body=pack({0x10: 512})),
                Row(RequestType.EXECUTE, body=pack({0x40: "SELEC 1"})),
                Row(RequestType.AUTH, body=pack({0x23: "nobody", 0x21: ["chap-sha1", b"0" * 20]})),
            ):
                error = await server.error_of(request)
                assert error.type == "ClientError"
                assert Path(error.file).suffix in (".c", ".cc", ".h", ".y", ".lua", ".py"), (error.message, error.file)
                assert error.line > 0

    asyncio.run(main())


WAITING_ANSWERS = [
    (select(512), ErrorCode.NO_SUCH_SPACE),
    (select(281), ErrorCode.NO_SUCH_SPACE),
    (Row(RequestType.INSERT, body=pack({0x10: 512, 0x21: [1]})), ErrorCode.NO_SUCH_SPACE),
    (Row(RequestType.UPSERT, body=pack({0x10: 512, 0x28: [], 0x21: [1]})), ErrorCode.NO_SUCH_SPACE),
    (call("f"), ErrorCode.ACCESS_DENIED),
    (evaluate("x x"), ErrorCode.ACCESS_DENIED),
    (Row(RequestType.EXECUTE, body=pack({0x40: "SELEC 1"})), ErrorCode.SQL_SYNTAX_NEAR_TOKEN),
    (Row(RequestType.AUTH, body=pack({0x23: "alice", 0x21: ["chap-sha1", b"0" * 20]})), ErrorCode.LOADING),
    (Row(RequestType.AUTH, body=pack({0x23: "guest", 0x21: []})), ErrorCode.LOADING),
    (Row(RequestType.JOIN, body=pack({0x24: UUID})), ErrorCode.LOADING),
    (Row(RequestType.SUBSCRIBE, body=pack({0x24: UUID, 0x25: UUID, 0x26: {}})), ErrorCode.LOADING),
]
"""Requests, each with the error code that a server returns before its users and spaces are loaded."""


@executables
def test_a_node_that_waits_for_its_sources_answers(executable: str, tmp_path: Path) -> None:
    """A node that waits for its sources serves PING, and statements of SQL without a space; it has no users, no
    functions and no spaces yet.
    """

    async def main() -> None:
        async with running(executable, WAITING, tmp_path) as server:
            peer = await server.connect()
            await peer.request(Row(RequestType.PING), timeout=30)
            await peer.request(Row(RequestType.EXECUTE, body=pack({0x40: "SELECT 1", 0x41: []})), timeout=30)
            peer.close()
            for request, code in WAITING_ANSWERS:
                assert (await server.error_of(request)).code == code, request

    asyncio.run(main())
