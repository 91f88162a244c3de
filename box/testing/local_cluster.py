"""A replica set inside the test's process, on its loop, over real sockets and files: `async with Cluster(3) as c`.

```
await c.partition(c[0])     cut c[0] off from the others     connections between them end, new ones fail
await c.kill(c.leader)      end a node abruptly              its directory stays
await c.heal()              remove cuts, start all nodes, wait until they are in sync
```

`box.testing.Simulation` injects failures at every `await`, reproducibly from one seed.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Final, Self, Unpack

from box.embed.arguments import checked_flag, checked_integer, checked_path
from box.embed.embedded_node import Node
from box.embed.lua_instance import LuaInstance
from box.embed.node_options import NodeOptions, check_names
from box.instance.node import Instance
from box.testing.cut_network import CutNetwork, Cuts
from box.testing.free_ports import free_ports

TIMEOUT: Final = 30.0
"""The seconds to wait for an election, a start or a sync: many times what each takes, so that only a hang fails."""
_MOST: Final = 31
"""The members that a replica set may have."""
_POLL: Final = 0.01
"""Seconds between two checks of a condition."""

_OPTIONS: Final[NodeOptions] = {"replication_timeout": 0.2, "replication_sync_timeout": TIMEOUT, "log_level": 4}
"""Options of all nodes: short heartbeats let tests see a broken connection soon; the log shows warnings and errors."""
_SYNCHRONOUS: Final[NodeOptions] = {
    "election_mode": "candidate",
    "election_timeout": 0.5,
    "replication_synchro_quorum": "N / 2 + 1",
    "replication_synchro_timeout": TIMEOUT,
}
"""Options of nodes that elect their leader. Transactions wait long, so that a slow machine does not roll them back."""


class KillableNode(Node):
    """A `box.Node` of a cluster that can be killed. `name` is `node1`, `node2` and so on; `address` is `host:port`."""

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
        """Set options that apply from the next start on."""
        self._options = self._options | {**options}

    @property
    def is_writable(self) -> bool:
        """True if the node is up and accepts changes."""
        return self.is_running and not self._embedding.core.mode.is_read_only

    @property
    def term(self) -> int:
        """The current election term that the node knows."""
        return self._embedding.core.elections.raft.term

    async def kill(self) -> None:
        """End the node abruptly: shutdown triggers do not run, and connections are aborted."""
        self._is_stopping = True
        try:
            if self._network is not None:
                self._network.abort()
            await self.stop()
        finally:
            self._is_stopping = False


class Cluster:
    """A replica set of `size` nodes in the test's process: `async with Cluster(3) as cluster`.

    With `synchronous` the nodes elect their leader, and transactions on spaces with `is_sync` wait for a majority.
    Without it the first node accepts changes and the others are read-only, until `promote` is called. `directory` keeps
    the files of each node in a directory of its name; without it they are removed at the end. `options` are `box.cfg`
    options for all nodes.

    The user `guest` has all rights, so that clients need no password.

    Raises:
        TypeError: an option does not exist, or an argument has a wrong type.
        ValueError: `size` is less than 1 or more than 31, or a node that is not of this cluster is passed to a method.
        RuntimeError: a node is asked for before the start.
        BoxError, TimeoutError: a node does not start (at the beginning of `async with`).
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
        checked_flag("synchronous", synchronous)
        checked_path("directory", directory)
        if not 1 <= checked_integer("size", size) <= _MOST:
            raise ValueError(f"a cluster has 1 to {_MOST} nodes, not {size}")
        self._size = size
        self._is_synchronous = synchronous
        self._given_directory = None if directory is None else Path(directory)
        self._options: NodeOptions = {**_OPTIONS, **(_SYNCHRONOUS if synchronous else {}), **options}
        self._directory = Path()
        self._cuts = Cuts()
        self.nodes: tuple[KillableNode, ...] = ()
        """All nodes of the cluster, including those that are down."""

    def __repr__(self) -> str:
        return f"<cluster of {self._size} nodes: {', '.join(map(_state, self.nodes)) or 'not started'}>"

    def __getitem__(self, number: int) -> KillableNode:
        return self._started()[number]

    def _started(self) -> tuple[KillableNode, ...]:
        if not self.nodes:
            raise RuntimeError("the cluster is not started: use `async with`")
        return self.nodes

    def _own(self, node: KillableNode) -> KillableNode:
        if node not in self._started():
            raise ValueError(f"{node!r} is no node of this cluster: pass c[0] or c.leader, for example")
        return node

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
        """The node that accepts changes. If a partition leaves several, it is the one with the highest term.

        Raises:
            LookupError: no node accepts changes now, for example right after a kill. `wait_leader()` waits for one.
        """
        writable = [node for node in self._started() if node.is_writable]
        if not writable:
            remedy = "`await cluster.wait_leader()`" if self._is_synchronous else "`await cluster.promote(node)`"
            states = ", ".join(map(_state, self.nodes))
            raise LookupError(f"no node takes changes now; call {remedy} ({states})")
        return max(writable, key=lambda node: node.term)

    @property
    def followers(self) -> list[KillableNode]:
        """The nodes that are up, without the leader."""
        leader = self.leader
        return [node for node in self.nodes if node.is_running and node is not leader]

    async def wait_leader(
        self, *, among: Iterable[KillableNode] | None = None, timeout: float = TIMEOUT
    ) -> KillableNode:
        """Wait up to `timeout` seconds for a leader, among some nodes if `among` is given.

        Raises:
            TimeoutError: there is no leader in time.
        """
        chosen = set(self._started() if among is None else among)
        await self._until(lambda: any(node.is_writable for node in chosen), timeout, "a leader")
        return max((node for node in chosen if node.is_writable), key=lambda node: node.term)

    async def promote(self, node: KillableNode) -> None:
        """Make a node the leader, and wait until it accepts changes.

        With `synchronous` the node starts an election; without it, all other running nodes become read-only.

        Raises:
            BoxError: the node is down, or the election is lost.
            TimeoutError: the node has won the election but does not accept changes in time.
        """
        self._own(node)
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
        """Cut the network into groups of nodes.

        The nodes that are not named form one more group. Clients reach all nodes.

        Raises:
            ValueError: a node is in two groups.
        """
        sides = [[group] if isinstance(group, KillableNode) else list(group) for group in groups]
        named = [node for side in sides for node in side]
        if len(set(named)) != len(named):
            raise ValueError("a node is on two sides")
        sides.append([node for node in self._started() if node not in list(map(self._own, named))])
        self._cuts.divide([{node.address for node in side} for side in sides])
        await asyncio.sleep(0)

    async def kill(self, node: KillableNode) -> None:
        """End a node abruptly. Whatever it has acknowledged is in its directory."""
        await self._own(node).kill()

    async def start(self, node: KillableNode) -> None:
        """Start a node that was killed or stopped, from its directory.

        Raises:
            ClientError: ALREADY_RUNNING, the node is up. See `box.Node` for the other errors of a start.
        """
        await self._own(node).start()

    async def heal(self, *, timeout: float = TIMEOUT) -> None:
        """Remove all cuts, start all nodes, and wait until there is a leader and all nodes are in sync.

        Raises:
            TimeoutError: this takes longer than `timeout` seconds.
        """
        self._cuts.clear()
        down = [node for node in self._started() if not node.is_running]
        async with asyncio.timeout(timeout):
            await asyncio.gather(*(node.start() for node in down))
        if self._is_synchronous:
            await self.wait_leader(timeout=timeout)
        await self.wait_synced(timeout=timeout)

    async def wait_synced(self, *, timeout: float = TIMEOUT) -> None:
        """Wait until all nodes that are up have the same changes; with `synchronous`, until they have the leader's.

        Followers need not have the changes that a former leader wrote without a majority, because these were rolled
        back.

        Raises:
            TimeoutError: this takes longer than `timeout` seconds.
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
        self._directory = self._given_directory or Path(tempfile.mkdtemp(prefix="lb-cluster-"))
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
        for number, port in enumerate(free_ports(self._size), 1):
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
            if self._given_directory is None and self._directory != Path():
                shutil.rmtree(self._directory, ignore_errors=True)

    async def _until(self, condition: Callable[[], bool], timeout: float, what: str) -> None:
        try:
            async with asyncio.timeout(timeout):
                while not condition():  # noqa: ASYNC110 - many parts of several nodes change it
                    await asyncio.sleep(_POLL)
        except TimeoutError:
            raise TimeoutError(f"{what}: not within {timeout:g} s; {', '.join(map(_state, self.nodes))}") from None


def _replicated(node: KillableNode) -> dict[int, int]:
    """Return the vclock without component 0, which counts the local rows of the node."""
    return {id: lsn for id, lsn in node._embedding.core.state.vclock.items() if id}


def _state(node: KillableNode) -> str:
    if not node.is_running:
        return f"{node.name} down"
    mode = "rw" if node.is_writable else "ro"
    return f"{node.name} {node._embedding.core.status} {mode} {_replicated(node)}"
