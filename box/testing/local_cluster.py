"""A replica set inside the test's process, on its loop, over real sockets and files: `async with Cluster(3) as c`.

```
await c.partition(c[0])     c[0] on one side, the others on the other     connections between them end, new ones fail
await c.kill(c.leader)      the node is gone in the middle of its work    its directory stays
await c.heal()              one network, all nodes up and in sync
```

For a failure at every `await`, and from one seed, see `box.testing.Simulation`.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Final, Self, Unpack

from box.embed.embedded_node import Node
from box.embed.lua_instance import LuaInstance
from box.embed.node_options import NodeOptions, check_names
from box.instance.node import Instance
from box.testing.cut_network import CutNetwork, Cuts

TIMEOUT: Final = 30.0
"""Seconds for an election, a start or a sync: many times what they take."""
_POLL: Final = 0.01

_OPTIONS: Final[NodeOptions] = {"replication_timeout": 0.2, "replication_sync_timeout": TIMEOUT, "log_level": 4}
_SYNCHRONOUS: Final[NodeOptions] = {
    "election_mode": "candidate",
    "election_timeout": 0.5,
    "replication_synchro_quorum": "N / 2 + 1",
    "replication_synchro_timeout": TIMEOUT,
}


class KillableNode(Node):
    """One node of a cluster: a `box.Node` that can be killed. `name` is `node1`, ...; `address` is `host:port`."""

    def __init__(self, name: str, address: str, directory: Path, cuts: Cuts, **options: Unpack[NodeOptions]) -> None:
        super().__init__(directory, **options)
        self._options["listen"] = address
        self.name = name
        self.address = address
        self._cuts = cuts
        self._network: CutNetwork | None = None

    def __repr__(self) -> str:
        return f"<{self.name} {self.address} {'up' if self.is_running else 'down'}>"

    def _make_instance(self) -> LuaInstance:
        loop = asyncio.get_running_loop()
        self._network = CutNetwork(loop, self.address, self._cuts)
        return LuaInstance(None, node=Instance(self._directory, loop=loop, network=self._network))

    def change_options(self, **options: Unpack[NodeOptions]) -> None:
        """Set options for the next start."""
        self._options = self._options | {**options}

    @property
    def is_writable(self) -> bool:
        """Whether the node is up and takes changes."""
        return self.is_running and not self._embedding.core.mode.is_read_only

    @property
    def term(self) -> int:
        """The election's term, as far as the node knows."""
        return self._embedding.core.elections.raft.term

    async def kill(self) -> None:
        """End the node without a word to anybody: no trigger of the shutdown runs, no connection is closed well."""
        self._is_stopping = True
        try:
            if self._network is not None:
                self._network.abort()
            await self.stop()
        finally:
            self._is_stopping = False


class Cluster:
    """A replica set of `size` nodes in the test's process: `async with Cluster(3) as cluster`.

    `synchronous`: the nodes elect their leader, and transactions of spaces with `is_sync` wait for a majority. Else the
    first node takes changes and the others are read-only, until `promote`. `directory` keeps the nodes' files, each
    below its name; without it they are removed at the end. `options` are those of `box.cfg`, for all nodes.

    The user `guest` may do everything, so that clients need no password.
    """

    def __init__(
        self,
        size: int = 3,
        *,
        synchronous: bool = False,
        directory: str | PathLike[str] | None = None,
        **options: Unpack[NodeOptions],
    ) -> None:
        check_names("Cluster()", options)
        if size < 1:
            raise ValueError(f"a cluster has at least one node: {size}")
        self._size = size
        self._is_synchronous = synchronous
        self._given = None if directory is None else Path(directory)
        self._options: NodeOptions = {**_OPTIONS, **(_SYNCHRONOUS if synchronous else {}), **options}
        self._directory = Path()
        self._cuts = Cuts()
        self.nodes: tuple[KillableNode, ...] = ()
        """All nodes, those that are down too."""

    def __getitem__(self, number: int) -> KillableNode:
        return self.nodes[number]

    def __iter__(self) -> Iterator[KillableNode]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return self._size

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    # ---- who is who

    @property
    def leader(self) -> KillableNode:
        """The node that takes changes; of several, which a partition may leave, that of the last election.

        Raises:
            LookupError: no node takes changes now, as after a kill; `wait_leader()` waits for one.
        """
        writable = [node for node in self.nodes if node.is_writable]
        if not writable:
            remedy = "`await cluster.wait_leader()`" if self._is_synchronous else "`await cluster.promote(node)`"
            states = ", ".join(map(_state, self.nodes))
            raise LookupError(f"no node takes changes now; call {remedy} ({states})")
        return max(writable, key=lambda node: node.term)

    @property
    def followers(self) -> list[KillableNode]:
        """Nodes that are up, without the leader."""
        leader = self.leader
        return [node for node in self.nodes if node.is_running and node is not leader]

    async def wait_leader(
        self, *, among: Iterable[KillableNode] | None = None, timeout: float = TIMEOUT
    ) -> KillableNode:
        """Wait for a leader (among some nodes), for `timeout` seconds.

        Raises:
            TimeoutError: there is none in time.
        """
        chosen = set(self.nodes if among is None else among)
        await self._until(lambda: any(node.is_writable for node in chosen), timeout, "a leader")
        return max((node for node in chosen if node.is_writable), key=lambda node: node.term)

    async def promote(self, node: KillableNode) -> None:
        """Make a node the leader, and wait for it.

        Without `synchronous` it takes changes from now on, and no other does; with it, it stands for election at once.
        """
        if self._is_synchronous:
            await node.eval("box.ctl.promote()")
            await self._until(lambda: node.is_writable, TIMEOUT, f"{node.name} as leader")
            return
        for other in self.nodes:
            if other is not node and other.is_running:
                await other.configure(read_only=True)
        await node.configure(read_only=False)

    # ---- what goes wrong

    async def partition(self, *groups: KillableNode | Iterable[KillableNode]) -> None:
        """Cut the network into groups of nodes; nodes that are not named are one more group. Clients reach all."""
        sides = [[group] if isinstance(group, KillableNode) else list(group) for group in groups]
        named = [node for side in sides for node in side]
        if len(set(named)) != len(named):
            raise ValueError("a node is on two sides")
        sides.append([node for node in self.nodes if node not in named])
        self._cuts.divide([{node.address for node in side} for side in sides])
        await asyncio.sleep(0)

    async def kill(self, node: KillableNode) -> None:
        """End a node in the middle of its work; what it has acknowledged is in its directory."""
        await node.kill()

    async def start(self, node: KillableNode) -> None:
        """Start a node again that was killed or stopped."""
        await node.start()

    async def heal(self, *, timeout: float = TIMEOUT) -> None:
        """Join the network, start all nodes, and wait for a leader and for the same changes everywhere.

        Raises:
            TimeoutError: not within `timeout` seconds.
        """
        self._cuts.clear()
        down = [node for node in self.nodes if not node.is_running]
        async with asyncio.timeout(timeout):
            await asyncio.gather(*(node.start() for node in down))
        if self._is_synchronous:
            await self.wait_leader(timeout=timeout)
        await self.wait_synced(timeout=timeout)

    async def wait_synced(self, *, timeout: float = TIMEOUT) -> None:
        """Wait until all nodes that are up have the same changes; with `synchronous`, all of the leader's.

        What a leader has written without a majority, others never take: it was rolled back.

        Raises:
            TimeoutError: not within `timeout` seconds.
        """
        await self._until(self._is_synced, timeout, "nodes in sync")

    def _is_synced(self) -> bool:
        clocks = [_replicated(node) for node in self.nodes if node.is_running]
        if not self._is_synchronous or not any(node.is_writable for node in self.nodes):
            return all(clock == clocks[0] for clock in clocks)
        wanted = _replicated(self.leader)
        return all(clock.get(origin, 0) >= lsn for clock in clocks for origin, lsn in wanted.items())

    # ---- life

    async def _start(self) -> None:
        self._directory = self._given or Path(tempfile.mkdtemp(prefix="lb-cluster-"))
        self.nodes = tuple(self._make_nodes())
        first = self.nodes[0]
        await first.start()
        await self.wait_leader()
        await first.eval("box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})")
        for number, node in enumerate(self.nodes[1:], 2):
            await self._join(node, [other.address for other in self.nodes[:number]])
        addresses = [node.address for node in self.nodes]
        for node in self.nodes:
            node.change_options(replication=addresses)
            await node.configure(replication=addresses)
        await self.wait_leader()
        await self.wait_synced()

    def _make_nodes(self) -> Iterator[KillableNode]:
        for number, port in enumerate(_free_ports(self._size), 1):
            directory = self._directory / f"node{number}"
            directory.mkdir(parents=True, exist_ok=True)
            address = f"127.0.0.1:{port}"
            read_only = not self._is_synchronous and number > 1
            own: NodeOptions = {"read_only": read_only, "replication": address if number == 1 else None}
            options: NodeOptions = {**own, **self._options}
            yield KillableNode(f"node{number}", address, directory, self._cuts, **options)

    @staticmethod
    async def _join(node: KillableNode, addresses: list[str]) -> None:
        node.change_options(replication=addresses)
        await node.start()

    async def _close(self) -> None:
        try:
            for node in self.nodes:
                await node.stop()
        finally:
            if self._given is None and self._directory != Path():
                shutil.rmtree(self._directory, ignore_errors=True)

    async def _until(self, condition: Callable[[], bool], timeout: float, what: str) -> None:
        try:
            async with asyncio.timeout(timeout):
                while not condition():  # noqa: ASYNC110 - many parts of several nodes change it
                    await asyncio.sleep(_POLL)
        except TimeoutError:
            raise TimeoutError(f"{what}: not within {timeout:g} s; {', '.join(map(_state, self.nodes))}") from None


def _replicated(node: KillableNode) -> dict[int, int]:
    """The vclock without rows of the node's own."""
    return {id: lsn for id, lsn in node._embedding.core.state.vclock.items() if id}


def _state(node: KillableNode) -> str:
    if not node.is_running:
        return f"{node.name} down"
    mode = "rw" if node.is_writable else "ro"
    return f"{node.name} {node._embedding.core.status} {mode} {_replicated(node)}"


def _free_ports(count: int) -> list[int]:
    """Ports that nobody serves now; all are held until the last is found, so that they differ."""
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports
