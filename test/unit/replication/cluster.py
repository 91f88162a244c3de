"""Nodes of the replication tests, which run in one process on one loop, and a proxy that makes their network bad."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from box.data.codec import pack, unpack
from box.errors import BoxError
from box.instance.node import Instance
from box.journal.storage import MemoryStorage, Storage
from box.replication.applier import Applier
from box.replication.state import ApplierState
from box.schema.ids import SpaceId
from box.session import Context
from box.txn.pending import Outcome, Pending
from box.wire.change import Request
from test.support import until

TIMEOUT = 0.1
"""The option `replication_timeout` of these nodes, in seconds: after it an applier reconnects, after four of it a peer
is considered gone.
"""

SPACE = 512
TREE_PK = [SPACE, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]]


class Member:
    """One instance: a node, and a disk in memory that survives its restarts."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.uri = f"unix/:{cluster.directory}/{name}.sock"
        self.disk: Storage = MemoryStorage()
        self.log_path = cluster.directory / f"{name}.log"
        self.options: dict[str, Any] = {}
        self.on_schema_init: list[Any] = []
        """Triggers of `_space` (before_replace) that are set at the start, before recovery."""
        self._node: Instance | None = None

    # -- life -------------------------------------------------------------------------------------

    @property
    def node(self) -> Instance:
        assert self._node is not None, f"{self.name} is not running"
        return self._node

    @property
    def is_running(self) -> bool:
        return self._node is not None

    async def start(self, *sources: Member | Proxy | str, **options: Any) -> Member:
        """Start a new node on the disk; options of the last start apply unless `options` override them."""
        self.options |= options
        if sources:
            self.options["replication"] = [uri_of(source) for source in sources]
        node = self._node = Instance(disk=self.disk)
        node.on_schema_init.append(lambda: node.schema.space(SpaceId.SPACE).before_replace.extend(self.on_schema_init))
        node.log.open(str(self.log_path))
        defaults = {
            "listen": self.uri,
            "replication_timeout": TIMEOUT,
            "replication_connect_timeout": 5,
            "replication_sync_timeout": 5,
        }
        await node.configure(defaults | self.options)
        return self

    async def stop(self) -> None:
        if self._node is not None:
            node, self._node = self._node, None
            await node.close()

    async def restart(self, *sources: Member | Proxy | str, **options: Any) -> Member:
        await self.stop()
        return await self.start(*sources, **options)

    async def replicate(self, *sources: Member | Proxy | str) -> None:
        """Set `box.cfg.replication`."""
        self.options["replication"] = [uri_of(source) for source in sources]
        await self.node.configure({"replication": self.options["replication"]})

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def copy_disk(self) -> MemoryStorage:
        """Return a copy of the disk as a power failure would leave it now, for another start."""
        copy = MemoryStorage()
        for name in self.disk.names("."):
            source, file = self.disk.open(name), copy.create(name)
            file.write(source.read(0, self.disk.size(name)))
            file.close()
            source.close()
        return copy

    # -- data -------------------------------------------------------------------------------------

    def begin_put(self, *rows: list[Any], space: int = SPACE, operation: str = "insert") -> Pending | None:
        """Write rows in one transaction; return its pending commit, None if it is complete."""
        ctx = self.node.new_context()
        many = len(rows) > 1
        if many:
            self.node.txns.begin(ctx)
        outcome: Outcome = None
        for row in rows:
            request = getattr(Request, operation)(pack(row))
            outcome = self.node.dml.write(ctx, self.node.schema.space(space), request)
        if many:
            outcome = self.node.txns.commit(ctx)
        return outcome if isinstance(outcome, Pending) else None

    async def put(self, *rows: list[Any], space: int = SPACE, operation: str = "insert") -> None:
        """Write rows in one transaction, and wait for its commit."""
        commit = self.begin_put(*rows, space=space, operation=operation)
        if commit is not None:
            await commit.wait()

    async def make_space(self, space_id: int = SPACE, name: str = "test", **options: Any) -> None:
        await self.put([space_id, 1, name, "memtx", 0, options, []], space=SpaceId.SPACE)
        await self.put([space_id, *TREE_PK[1:]], space=SpaceId.INDEX)

    async def grant_guest(self) -> None:
        """Grant guests everything, as `box.schema.user.grant('guest', 'super')` does, so that other members may
        replicate.
        """
        await self.put([1, 0, "universe", 0, 0xFFFFFFFF], space=SpaceId.PRIV, operation="replace")

    def rows(self, space: int = SPACE) -> list[Any]:
        node = self.node
        if space not in node.schema.spaces:
            return []
        ctx = node.new_context()
        return [unpack(raw) for raw in node.dml.reads.select(ctx, node.schema.space(space), 0, 2, 0, 2**32 - 1, [])]

    def keys(self, space: int = SPACE) -> list[int]:
        return [row[0] for row in self.rows(space)]

    def new_context(self) -> Context:
        return self.node.new_context()

    # -- replication ------------------------------------------------------------------------------

    @property
    def id(self) -> int:
        return self.node.state.instance_id

    def applier(self, source: Member) -> Applier:
        """Return this member's applier that follows another member."""
        found = next(
            (a for a in self.node.replication.replicaset.appliers if a.uuid == source.node.state.instance_uuid), None
        )
        assert found is not None, f"{self.name} has no applier for {source.name}"
        return found

    def only_applier(self) -> Applier:
        (applier,) = self.node.replication.replicaset.appliers
        return applier

    def follows(self, source: Member) -> bool:
        uuid = source.node.state.instance_uuid
        return any(a.uuid == uuid and a.state is ApplierState.FOLLOW for a in self.node.replication.replicaset.appliers)

    def has_rows_of(self, other: Member) -> bool:
        return self.node.state.vclock.covers(other.node.state.vclock, ignore_zero=True)

    def inject(self, name: str, value: object) -> None:
        assert self.node.errinj.set(f"ERRINJ_{name}", value) == "ok"

    def injected(self, name: str) -> Any:
        return self.node.errinj.get(f"ERRINJ_{name}")


def uri_of(source: Member | Proxy | str) -> str:
    return source if isinstance(source, str) else source.uri


class Cluster:
    """The members and proxies of one test."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.members: list[Member] = []
        self.proxies: list[Proxy] = []

    def member(self, name: str | None = None) -> Member:
        member = Member(self, name or "abcdefgh"[len(self.members)])
        self.members.append(member)
        return member

    async def proxy(self, target: Member, **settings: Any) -> Proxy:
        proxy = Proxy(f"{self.directory}/proxy-{len(self.proxies)}.sock", target.uri, **settings)
        self.proxies.append(proxy)
        await proxy.start()
        return proxy

    async def master(self, **options: Any) -> Member:
        """Start a member that bootstraps a replica set, grants guests everything and has the test space."""
        master = await self.member().start(**options)
        await master.grant_guest()
        await master.make_space()
        return master

    async def pair(self, **options: Any) -> tuple[Member, Member]:
        """Start a master, and a replica that follows it."""
        master = await self.master()
        return master, await self.member().start(master, **options)

    async def mesh(self, count: int = 3, **options: Any) -> list[Member]:
        """Start members that all follow each other."""
        members = [await self.master(**options)]
        while len(members) < count:
            members.append(await self.member().start(members[0], **options))
        for member in members:
            await member.replicate(*members)
        return members

    async def close(self) -> None:
        for member in self.members:
            await member.stop()
        for proxy in self.proxies:
            await proxy.stop()


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    """Yield an empty cluster, and close its members and proxies at the end."""
    directory = Path(tempfile.mkdtemp(prefix="box-", dir="/tmp"))
    running = Cluster(directory)
    try:
        yield running
    finally:
        await running.close()
        shutil.rmtree(directory)


async def equal(members: Iterable[Member], space: int = SPACE) -> None:
    """Wait until all members have equal rows and vclocks."""
    first, *others = members

    def are_equal() -> bool:
        clocks = [member.node.state.vclock.without_zero() for member in (first, *others)]
        return all(clock == clocks[0] for clock in clocks) and all(m.rows(space) == first.rows(space) for m in others)

    await until(are_equal, "equality")


class Proxy:
    """A loopback proxy between UNIX sockets that delays, fragments, holds and cuts streams.

    `delay` seconds are added to every piece, `fragment` is the greatest size of a piece in bytes. `hold()` stops both
    directions without closing anything, `cut()` breaks every connection; while `refuse` is set, new ones are closed.
    """

    def __init__(self, path: str, target: str, *, delay: float = 0.0, fragment: int = 0) -> None:
        self.uri = f"unix/:{path}"
        self.delay = delay
        self.fragment = fragment
        self.refuse = False
        self.connection_count = 0
        self.forwarded = 0
        self._path = path
        self._target = target.removeprefix("unix/:")
        self._open = asyncio.Event()
        self._open.set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self._path)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._connect(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # either side may vanish at any time; that is what the proxy is for
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuse:
            return
        self.connection_count += 1
        far_reader, far_writer = await asyncio.open_unix_connection(self._target)
        pair = {writer, far_writer}
        self._writers |= pair
        pumps = [
            asyncio.ensure_future(self._pump(reader, far_writer, is_backward=False)),
            asyncio.ensure_future(self._pump(far_reader, writer, is_backward=True)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self._writers -= pair
            for end in pair:
                end.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_backward: bool) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                for start in range(0, len(data), self.fragment or len(data)):
                    await self._open.wait()
                    await asyncio.sleep(self.delay)
                    writer.write(data[start : start + (self.fragment or len(data))])
                    self.forwarded += 1
                    await writer.drain()


async def fails(awaitable: Any) -> BoxError:
    """Return the error that an awaitable raises."""
    try:
        await awaitable
    except BoxError as error:
        return error
    raise AssertionError("no error was raised")
