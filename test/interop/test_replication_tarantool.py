"""Lunabox and Tarantool replicate in one replica set, in both directions."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from box.data.codec import pack, unpack
from box.errors import BoxError
from box.net.dial import connect
from box.net.peer_connection import PeerConnection
from box.net.sockets import SocketNetwork
from box.testing.free_ports import free_ports
from box.wire.constants import Key, RequestType
from box.wire.row import Row
from test.support import until
from test.unit.replication.cluster import SPACE, Cluster, Member, cluster

pytestmark = [
    pytest.mark.tarantool,
    pytest.mark.skipif(shutil.which("tarantool") is None, reason="Tarantool's executable is not installed"),
]

SCRIPT = """
box.cfg{
    listen = '%(port)d', replication = {%(replication)s}, log = 'tarantool.log', memtx_memory = 64 * 1024 * 1024,
    replication_timeout = 0.2, replication_connect_timeout = 10, replication_sync_timeout = 10,
    replication_synchro_quorum = %(quorum)d, replication_synchro_timeout = 10,
}
if box.info.id == 1 then
    box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})
end
"""


class Tarantool:
    """A process of Tarantool, and a connection for EVAL."""

    executable = "tarantool"
    is_ready = "return box.info.status == 'running' and not box.info.ro"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_ports(1)[0]
        self.uri = f"127.0.0.1:{self.port}"
        self._process: asyncio.subprocess.Process | None = None
        self._client: PeerConnection | None = None

    async def start(self, *sources: str, quorum: int = 1) -> Tarantool:
        self.directory.mkdir(exist_ok=True)
        settings = {"port": self.port, "replication": ", ".join(f"'{uri}'" for uri in sources), "quorum": quorum}
        (self.directory / "tarantool.lua").write_text(SCRIPT % settings)
        self._process = await asyncio.create_subprocess_exec(
            self.executable,
            "tarantool.lua",
            cwd=self.directory,
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        await self._connect()
        return self

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 20
        while True:
            try:
                self._client = await connect(loop, SocketNetwork(loop), self.uri, timeout=5)
                if await self.eval(self.is_ready) == [True]:
                    return
            except (BoxError, OSError):
                pass  # it does not listen yet, or guests have no rights yet
            self._disconnect()
            assert loop.time() < deadline, f"Tarantool does not start:\n{self.log}"
            await asyncio.sleep(0.02)

    @property
    def log(self) -> str:
        path = self.directory / "tarantool.log"
        return path.read_text() if path.exists() else ""

    async def eval(self, expression: str, *arguments: Any) -> list[Any]:
        assert self._client is not None
        body = pack({int(Key.EXPR): expression, int(Key.TUPLE): list(arguments)})
        answer = await self._client.request(Row(RequestType.EVAL, body=body), timeout=20)
        result: list[Any] = unpack(answer.body)[Key.DATA]
        return result

    async def becomes(self, expression: str, value: Any) -> None:
        """Wait until a Lua expression has a value."""

        async def has_value() -> bool:
            return await self.eval(expression) == [value]

        try:
            await until(has_value, expression)
        except AssertionError as error:
            raise AssertionError(f"{error}: {await self.eval(expression)}\n{self.log}") from None

    async def vclock(self) -> dict[int, int]:
        (answer,) = await self.eval("return setmetatable(box.info.vclock, {__serialize = 'map'})")
        return {replica_id: lsn for replica_id, lsn in answer.items() if replica_id}

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    async def stop(self) -> None:
        self._disconnect()
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                async with asyncio.timeout(10):
                    await process.communicate()
            except TimeoutError:
                process.kill()
                raise


async def _same(tarantool: Tarantool, *members: Member) -> None:
    """Wait until Tarantool and the members have equal vclocks, then assert that they have equal rows."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 15
    while True:
        clock = await tarantool.vclock()
        if all(member.node.state.vclock.without_zero() == clock for member in members):
            break
        clocks = [str(member.node.state.vclock) for member in members]
        assert loop.time() < deadline, f"tarantool {clock}, members {clocks}\n{tarantool.log}\n{members[0].log}"
        await asyncio.sleep(0.01)
    (rows,) = await tarantool.eval("return box.space[...]:select()", SPACE)
    for member in members:
        assert member.rows() == rows
        for space in (272, 280, 288, 304, 312, 320, 296, 330):
            (theirs,) = await tarantool.eval("return box.space[...]:select()", space)
            assert member.rows(space) == theirs, space


DDL = """
local s = box.schema.space.create('ddl', {id = 700, format = {{'id', 'unsigned'}, {'name', 'string'}}})
s:create_index('pk', {sequence = true})
s:create_index('name', {parts = {{'name', 'string', collation = 'unicode_ci'}}, unique = false})
box.schema.user.create('someone', {password = 'secret'})
box.schema.user.grant('someone', 'read,write', 'space', 'ddl')
box.schema.func.create('f', {setuid = true})
box.schema.sequence.create('seq', {start = 5})
box.begin() for i = 1, 3 do s:insert{box.NULL, 'name ' .. i} end box.commit()
s:update(1, {{'=', 2, 'other'}}) s:upsert({7, 'new'}, {{'=', 2, 'old'}}) s:delete(2)
box.space.test:truncate()
for i = 1, 10 do box.space.test:replace{i, 'tarantool', {a = i}, 1.5, -i, true} end
s:rename('renamed')
"""


@asynccontextmanager
async def _both() -> AsyncIterator[tuple[Cluster, Tarantool]]:
    async with cluster() as running:
        tarantool = Tarantool(running.directory / "tarantool")
        try:
            yield running, tarantool
        finally:
            await tarantool.stop()


def test_we_join_tarantool_and_follow() -> None:
    async def main() -> None:
        async with _both() as (running, tarantool):
            await tarantool.start()
            await tarantool.eval("box.schema.space.create('test', {id = 512}):create_index('pk')")
            await tarantool.eval("for i = 1, 100 do box.space.test:replace{i, 'before'} end")
            member = await running.member().start(tarantool.uri)
            await _same(tarantool, member)
            await tarantool.eval(DDL)
            await _same(tarantool, member)
            await tarantool.stop()
            await tarantool.start()
            await tarantool.eval("box.space.test:replace{500, 'after the restart'}")
            await _same(tarantool, member)
            await member.stop()
            await tarantool.eval("box.space.test:replace{501, 'while it was down'} box.snapshot()")
            await member.start()
            await _same(tarantool, member)
            assert member.id == 2
            await tarantool.becomes("return box.info.replication[2].downstream.status", "follow")

    asyncio.run(main())


def test_tarantool_joins_us_and_follows() -> None:
    async def main() -> None:
        async with _both() as (running, tarantool):
            master = await running.master(listen=f"127.0.0.1:{free_ports(1)[0]}")
            address = master.options["listen"]
            for key in range(100):
                await master.put([key, "before", {"a": [1, None, True, -5, 1.25]}])
            await tarantool.start(address)
            await _same(tarantool, master)
            await tarantool.becomes("return box.info.replication[1].upstream.status", "follow")
            await master.make_space(600, "here", group_id=1)
            await master.put([1], space=600)
            await master.put([1000, "a"], [1001, "b"])
            await master.put([5, "x"], operation="replace")
            await _same(tarantool, master)
            await master.restart()
            await master.put([2000, "after the restart"])
            await _same(tarantool, master)
            await tarantool.stop()
            await master.put([2001, "while it was down"])
            await master.node.checkpoints.make()
            await tarantool.start(address)
            await _same(tarantool, master)
            await tarantool.becomes("return box.info.status", "running")
            assert (await tarantool.eval("return box.info.id")) == [2]

    asyncio.run(main())


def test_a_mesh_of_both() -> None:
    async def main() -> None:
        async with _both() as (running, tarantool):
            one = await running.master(listen=f"127.0.0.1:{free_ports(1)[0]}")
            address = one.options["listen"]
            await tarantool.start(address)
            two = await running.member().start(address)
            await one.replicate(tarantool.uri, two)
            await two.replicate(address, tarantool.uri)
            for number in range(5):
                await one.put([number, "one"])
                await two.put([100 + number, "two"])
                await tarantool.eval("box.space.test:replace{...}", 200 + number, "tarantool")
            await _same(tarantool, one, two)
            await tarantool.eval(DDL)
            await _same(tarantool, one, two)
            await two.restart()
            await two.put([300, "two"])
            await _same(tarantool, one, two)
            await tarantool.stop()
            await one.put([301, "one"])
            await tarantool.start(address)
            await tarantool.eval("box.space.test:replace{302, 'tarantool'}")
            await _same(tarantool, one, two)

    asyncio.run(main())


def test_synchronous_transactions_of_both() -> None:
    """Each program acknowledges synchronous transactions of the other and applies its CONFIRM and ROLLBACK rows."""

    async def main() -> None:
        async with _both() as (running, tarantool):
            settings: dict[str, Any] = {"replication_synchro_quorum": 2, "replication_synchro_timeout": 10}
            one = await running.master(
                listen=f"127.0.0.1:{free_ports(1)[0]}", **(settings | {"replication_synchro_quorum": 1})
            )
            await one.make_space(600, "sync", is_sync=True)
            await tarantool.start(one.options["listen"], quorum=2)
            await one.replicate(tarantool.uri)
            await one.node.configure({"replication_synchro_quorum": 2})
            await one.put([1], space=600)
            await _same(tarantool, one)
            assert (await tarantool.eval("return box.space.sync:select()")) == [[[1]]]
            await tarantool.eval("box.space.sync:replace{2}")
            await _same(tarantool, one)
            assert one.keys(600) == [1, 2]
            await one.node.configure({"replication_synchro_quorum": 3, "replication_synchro_timeout": 0.1})
            with pytest.raises(BoxError, match="Quorum collection for a synchronous transaction is timed out"):
                await one.put([3], space=600)
            await _same(tarantool, one)
            await tarantool.eval("box.cfg{replication_synchro_quorum = 3, replication_synchro_timeout = 0.1}")
            with pytest.raises(BoxError, match="Quorum collection for a synchronous transaction is timed out"):
                await tarantool.eval("box.space.sync:replace{4}")
            await _same(tarantool, one)
            assert one.keys(600) == [1, 2]
            assert (await tarantool.eval("return box.space.sync:select()")) == [[[1], [2]]]

    asyncio.run(main())


def test_we_are_an_anonymous_replica_of_tarantool() -> None:
    async def main() -> None:
        async with _both() as (running, tarantool):
            await tarantool.start()
            await tarantool.eval("box.schema.space.create('test', {id = 512}):create_index('pk'):drop()")
            await tarantool.eval("box.space.test:create_index('pk') box.space.test:replace{1}")
            member = await running.member().start(tarantool.uri, replication_anon=True, read_only=True)
            await _same(tarantool, member)
            await until(lambda: member.node.status == "running")
            await member.node.configure({"replication_anon": False})
            assert member.id == 2
            await tarantool.eval("box.space.test:replace{2}")
            await _same(tarantool, member)

    asyncio.run(main())
