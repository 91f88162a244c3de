"""A full mesh of Lunabox and Tarantool processes that replicate over proxies, which count the bytes."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from box.data.codec import pack, unpack
from box.errors import BoxError
from box.journal.rows import decode_rows
from box.journal.xlog import XlogDecoder
from box.net.dial import connect
from box.net.peer_connection import PeerConnection
from box.net.sockets import SocketNetwork
from box.wire.constants import GROUP_LOCAL, Key, RequestType
from box.wire.row import Row, encode_packet
from test.unit.replication.cluster import Proxy

_START = 120.0
"""Seconds until a process answers; a start needs a second of processor time, and a busy machine is slow to give it."""
POLL = 0.1
"""The pause between two questions to all nodes, in seconds: without one, answers take most of their time."""
LUNABOX = str(Path(sys.executable).with_name("lunabox"))

_SCRIPT = """
local fiber = require('fiber')
box.cfg{
    listen = '%(listen)s', replication = {%(replication)s}, log = 'node.log', memtx_memory = 64 * 1024 * 1024,
    replication_timeout = %(timeout)s, replication_connect_timeout = 30, replication_sync_timeout = 30,
    replication_connect_quorum = %(quorum)d, checkpoint_count = 1000, %(options)s
}
if box.info.id == 1 then
    box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})
    box.schema.space.create('test', {id = 512, if_not_exists = true})
    box.space.test:create_index('pk', {if_not_exists = true})
end

-- Transactions of several rows by several fibers, until `is_writing` is false.
is_writing = false
written = 0
local function write()
    while is_writing do
        local ok = pcall(box.atomic, function()
            for _ = 1, 4 do
                written = written + 1
                box.space.test:replace{written * 32 + box.info.id, string.rep('x', 60), box.info.id}
            end
        end)
        if not ok then
            box.rollback()
        end
        fiber.sleep(0.1)
    end
end

function start_writing()
    is_writing = true
    for _ = 1, 2 do
        fiber.create(write)
    end
end
"""


class CountingProxy(Proxy):
    """A proxy that counts the bytes that its target sends."""

    def __init__(self, path: str, target: str) -> None:
        super().__init__(path, target)
        self.received = 0

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_backward: bool) -> None:
        while data := await reader.read(65536):
            if is_backward:
                self.received += len(data)
            writer.write(data)
            await writer.drain()


class NodeProcess:
    """A process of an executable, Lunabox or Tarantool, that listens on a UNIX socket and answers EVAL."""

    def __init__(self, directory: Path, executable: str, timeout: float) -> None:
        self.directory = directory
        self.executable = executable
        self.socket = f"{directory}.sock"
        self.uri = f"unix/:{self.socket}"
        self.links: dict[int, CountingProxy] = {}
        """The proxies over which this node follows the others, by the other node's index in the mesh."""
        self.options = ""
        self._timeout = timeout
        self._process: asyncio.subprocess.Process | None = None
        self._client: PeerConnection | None = None

    @property
    def is_ours(self) -> bool:
        return self.executable == LUNABOX

    @property
    def is_running(self) -> bool:
        return self._process is not None

    async def start(self, sources: list[str], quorum: int) -> None:
        self.directory.mkdir(exist_ok=True)
        settings = {
            "listen": self.uri,
            "replication": ", ".join(f"'{uri}'" for uri in sources),
            "timeout": self._timeout,
            "quorum": quorum,
            "options": self.options,
        }
        (self.directory / "node.lua").write_text(_SCRIPT % settings)
        with self._output.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                self.executable,
                "node.lua",
                cwd=self.directory,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        await self._connect()

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _START
        while True:
            try:
                self._client = await connect(loop, SocketNetwork(loop), self.uri, timeout=5)
                if await self.eval("return box.info.status, start_writing ~= nil") == ["running", True]:
                    return
            except (BoxError, OSError):
                pass  # it does not listen yet, or guests have no rights yet
            self._disconnect()
            assert loop.time() < deadline, f"{self.executable} does not start: {self._state()}\n{self.log}"
            await asyncio.sleep(0.05)

    @property
    def _output(self) -> Path:
        return self.directory / "node.out"

    def _state(self) -> str:
        """Describe the process for a failure: its state, its processor time and the end of its output."""
        assert self._process is not None
        said = self._output.read_text(errors="replace")[-2000:]
        if self._process.returncode is not None:
            return f"it ended with {self._process.returncode}: {said}"
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        return f"{fields[0]}, {ticks / os.sysconf('SC_CLK_TCK')} s of processor time in {_START} s: {said}"

    @property
    def log(self) -> str:
        path = self.directory / "node.log"
        return path.read_text(errors="replace") if path.exists() else ""

    async def eval(self, expression: str, *arguments: Any) -> list[Any]:
        assert self._client is not None
        body = pack({int(Key.EXPR): expression, int(Key.TUPLE): list(arguments)})
        answer = await self._client.request(Row(RequestType.EVAL, body=body), timeout=30)
        result: list[Any] = unpack(answer.body)[Key.DATA]
        return result

    async def vclock(self) -> dict[int, int]:
        (answer,) = await self.eval("return setmetatable(box.info.vclock, {__serialize = 'map'})")
        return {replica_id: lsn for replica_id, lsn in answer.items() if replica_id}

    async def fetches(self) -> dict[int, Any]:
        """Return `box.info.replication[id].upstream.fetches` of each upstream, by the replica's id."""
        (answer,) = await self.eval(
            "local found = setmetatable({}, {__serialize = 'map'}) "
            "for id, replica in pairs(box.info.replication) do "
            "found[id] = replica.upstream ~= nil and replica.upstream.fetches or nil end return found"
        )
        found: dict[int, Any] = answer
        return found

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    async def end(self, *, kills: bool = False) -> None:
        self._disconnect()
        process, self._process = self._process, None
        if process is not None:
            process.kill() if kills else process.terminate()
            try:
                async with asyncio.timeout(20):
                    await process.communicate()
            except TimeoutError:
                process.kill()
                raise

    @property
    def received(self) -> int:
        """The bytes that the others have sent to this node so far."""
        return sum(link.received for link in self.links.values())

    def rows(self) -> list[Row]:
        """Return all rows of the log files but those of local spaces."""
        found = []
        for path in sorted(self.directory.glob("*.xlog")):
            decoder = XlogDecoder()
            decoder.feed(path.read_bytes())
            while (block := decoder.next_block()) is not None:
                found += [row for row in decode_rows(block) if row.group_id != GROUP_LOCAL]
        return found


def bytes_of(rows: list[Row], *, without: int, since: dict[int, int]) -> int:
    """Return the encoded size of rows in bytes, without those of origin `without` and those up to vclock `since`."""
    return sum(
        len(encode_packet(row)) for row in rows if row.replica_id != without and row.lsn > since.get(row.replica_id, 0)
    )


class ProcessMesh:
    """A full mesh: processes that all follow each other."""

    def __init__(self, nodes: list[NodeProcess]) -> None:
        self.nodes = nodes

    def sources_of(self, node: NodeProcess) -> list[str]:
        return [node.uri, *(link.uri for link in node.links.values())]

    async def start(self, node: NodeProcess) -> None:
        await node.start(self.sources_of(node), len(self.nodes))

    async def are_equal(self) -> bool:
        clocks = [await node.vclock() for node in self.nodes]
        return all(clock == clocks[0] for clock in clocks)

    async def same_rows(self) -> bool:
        answers = [await node.eval("return box.space.test:select(nil, {limit = 10000000})") for node in self.nodes]
        return all(answer == answers[0] for answer in answers)

    async def eval_all(self, expression: str) -> list[Any]:
        return [await node.eval(expression) for node in self.nodes]


@asynccontextmanager
async def process_mesh(
    executables: list[str], *, timeout: float = 1.5, options: str = ""
) -> AsyncIterator[ProcessMesh]:
    """Run a full mesh for this context; `options` is text for `box.cfg` of the Lunabox processes."""
    directory = Path(tempfile.mkdtemp(prefix="mesh-", dir="/tmp"))
    nodes = [NodeProcess(directory / str(number), path, timeout) for number, path in enumerate(executables)]
    mesh = ProcessMesh(nodes)
    proxies = []
    try:
        for one, node in enumerate(nodes):
            node.options = options if node.is_ours else ""
            for other, target in enumerate(nodes):
                if other != one:
                    node.links[other] = CountingProxy(f"{directory}/{one}-{other}.sock", target.uri)
                    proxies.append(node.links[other])
                    await node.links[other].start()
        await nodes[0].start([nodes[0].uri], 1)
        for node in nodes[1:]:
            await node.start([link.uri for other, link in node.links.items() if other == 0], 1)
        for node in nodes:
            sources = ", ".join(f"'{uri}'" for uri in mesh.sources_of(node))
            await node.eval(f"box.cfg{{replication_connect_quorum = {len(nodes) - 1}, replication = {{{sources}}}}}")
        yield mesh
    finally:
        await asyncio.gather(*(node.end() for node in nodes), return_exceptions=True)
        for proxy in proxies:
            await proxy.stop()
        shutil.rmtree(directory, ignore_errors=True)
