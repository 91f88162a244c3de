"""A workload: clients that call a cluster, the history of their calls, and what must be true of it.

```
without elections    the first node alone writes to synchronous spaces: it is the owner of the limbo
with elections       a client calls the node that it takes for the leader; one that refuses tells whom it takes for it,
                     and where nobody answers the client tries another node
```

A read of a synchronous space is an update that changes nothing of note: it is answered when everything that it saw is
confirmed.

The body of a call is a function of a module with its arguments (`functools.partial`), or an object of plain data: a
node may be another process, and calls a copy of it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from random import Random
from typing import Any, ClassVar, Final, Protocol, TypeVar

from box.errors import BoxError, ErrorCode
from box.testing.simulation.history import ClientCall, Ending, History
from box.testing.simulation.simulated_node import Changes, NodeDied

_T = TypeVar("_T")

SYNC, ASYNC, LEDGER, LOCAL = 512, 513, 514, 515
"""The spaces of all workloads: synchronous, asynchronous, synchronous for whatever a client notes, and local."""
_SPACE, _INDEX = 280, 288
_LOCAL_GROUP: Final = 1
_PATIENCE: Final = 4.0
"""Seconds that a client waits for an answer."""

NO_EFFECT: Final = frozenset(
    {
        ErrorCode.READONLY,
        ErrorCode.TUPLE_FOUND,
        ErrorCode.WAL_IO,
        ErrorCode.SYNC_QUORUM_TIMEOUT,
        ErrorCode.SYNC_ROLLBACK,
        ErrorCode.UNCOMMITTED_FOREIGN_SYNC_TXNS,
        ErrorCode.NO_SUCH_SPACE,
        ErrorCode.TRANSACTION_CONFLICT,
    }
)
"""Errors that say: nothing has happened, nor will."""

Body = Callable[[Changes], Any]


def ending_of(error: BoxError) -> Ending:
    """The ending of a call with an error: a timeout of a leader that may have been deposed leaves the
    outcome to the next leader, and says so in a field."""
    is_unknown = (error.fields or {}).get("outcome") == "unknown"
    return Ending.FAILED if error.code in NO_EFFECT and not is_unknown else Ending.UNKNOWN


class ClientWorld(Protocol):
    """Time and chance: a `Simulation`, or the real world."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    def random(self, purpose: str) -> Random:
        """A random source of its own."""

    def note(self, process: str, kind: str, text: str = "") -> None:
        """Something happened."""

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""

    async def within(self, seconds: float, work: Awaitable[_T]) -> _T:
        """Wait for something at most so long. TimeoutError."""


class ClusterNode(Protocol):
    """A node as clients see it."""

    @property
    def name(self) -> str: ...

    @property
    def is_running(self) -> bool:
        """Whether it answers."""

    @property
    def is_remote(self) -> bool:
        """Whether it calls a copy of what it is given, in a process of its own."""

    @property
    def instance_id(self) -> int:
        """Its id in the replica set."""

    @property
    def leader_id(self) -> int:
        """The node that it takes for the leader, 0 if it knows of none."""

    async def transaction(self, body: Body) -> Any:
        """Call `body`, maybe a coroutine function, as one transaction; its result. Raises what the commit does."""

    def rows(self, space: int) -> list[Any]:
        """All tuples of a space."""

    def has(self, space: int, key: Any) -> bool:
        """Whether a space has a tuple with a key."""


class Refused(Exception):
    """The client gave up before it changed anything."""


def insert_rows(space: int, rows: list[list[Any]], changes: Changes) -> None:
    """A body: insert some rows."""
    for row in rows:
        changes.insert(space, row)


def _create_spaces(changes: Changes) -> None:
    for space, name, options in (
        (SYNC, "sync", {"is_sync": True}),
        (ASYNC, "async", {}),
        (LEDGER, "ledger", {"is_sync": True}),
        (LOCAL, "local", {"group_id": _LOCAL_GROUP}),
    ):
        changes.insert(_SPACE, [space, 1, name, "memtx", 0, options, []])
        changes.insert(_INDEX, [space, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]])


class Workload(ABC):
    """Clients of a cluster. `stop_at` is the time of the loop at which they make no more calls."""

    name: ClassVar[str]
    clients: ClassVar[int] = 3
    pause: tuple[float, float] = (0.0, 0.1)
    """Seconds between two calls of a client."""
    options: ClassVar[dict[str, Any]] = {}
    """Options of `box.cfg` without which it makes no sense."""
    needs_rest: ClassVar[bool] = True
    """All nodes have the same in the end."""
    may_elect: ClassVar[bool] = True

    def __init__(self, surroundings: ClientWorld, nodes: Sequence[ClusterNode], *, has_elections: bool) -> None:
        self.surroundings = surroundings
        self.nodes = nodes
        self.owner = nodes[0]
        self.has_elections = has_elections
        self.history = History()
        self.stop_at = 0.0
        self.random = surroundings.random(f"workload {self.name}")
        self._last_value = 0
        self._guesses: dict[str, ClusterNode] = {}

    # -- before

    async def prepare(self) -> None:
        """Make the spaces and their first rows, before there are elections."""
        await self.owner.transaction(_create_spaces)
        first = self.first_rows()
        if first:
            await self.owner.transaction(partial(insert_rows, SYNC, first))

    def first_rows(self) -> list[list[Any]]:
        """Rows of the synchronous space before the clients begin."""
        return []

    # -- during

    def start(self) -> list[asyncio.Task[None]]:
        """Start all clients."""
        loop = self.surroundings.loop
        return [loop.create_task(self._client(f"client{number}")) for number in range(self.clients)]

    def slow_down(self, rate: float) -> None:
        """Make at most so many calls a second, all clients together, on the average."""
        self.pause = (0.0, 2 * self.clients / rate)

    async def _client(self, name: str) -> None:
        random = self.surroundings.random(f"{self.name} {name}")
        while self.surroundings.loop.time() < self.stop_at:
            await self.step(name, random)
            await self.surroundings.sleep(random.uniform(*self.pause))

    @abstractmethod
    async def step(self, client: str, random: Random) -> None:
        """One call of a client."""

    def next_value(self) -> int:
        """A number that no other call has."""
        self._last_value += 1
        return self._last_value

    def begin(self, client: str, name: str, key: Any, argument: Any) -> ClientCall:
        """A call begins now."""
        return self.history.begin(client, name, key, argument, self.surroundings.loop.time())

    def target(self, client: str) -> ClusterNode:
        """The node that a client calls; see the module's table."""
        return self._guesses.get(client, self.owner) if self.has_elections else self.owner

    def _guess_again(self, client: str, node: ClusterNode, *, has_answered: bool = False) -> None:
        leader = node.leader_id if has_answered and node.is_running else 0
        named = [one for one in self.nodes if leader and one.is_running and one.instance_id == leader]
        self._guesses[client] = named[0] if named else self.random.choice(self.nodes)

    async def call(self, node: ClusterNode, call: ClientCall, body: Body) -> None:
        """Make a call as one transaction, and note in the history what came of it."""
        loop, history = self.surroundings.loop, self.history
        if not node.is_running:
            history.end(call, Ending.FAILED, loop.time())
            self._guess_again(call.client, node)
            await self.surroundings.sleep(0.1)
            return
        try:
            result = await self.surroundings.within(_PATIENCE, node.transaction(body))
        except Refused:
            history.end(call, Ending.FAILED, loop.time())
        except BoxError as error:
            history.end(call, ending_of(error), loop.time(), error.code)
            self.surroundings.note(node.name, "refused", f"{call.name} {call.key} {error.code}")
            self._guess_again(call.client, node, has_answered=True)
        except (NodeDied, TimeoutError):
            history.end(call, Ending.UNKNOWN, loop.time())
            self._guess_again(call.client, node)
        else:
            history.end(call, Ending.OK, loop.time(), result)
            self.surroundings.note(node.name, "ok", f"{call.name} {call.key}")

    def watch(self) -> Iterable[str]:
        """Violations that show at this moment."""
        return ()

    # -- afterwards

    @abstractmethod
    def verdict(self) -> Iterable[str]:
        """Violations of what must be true when the cluster has come to rest."""

    def rows_everywhere(self, space: int) -> Iterable[tuple[ClusterNode, dict[int, Any]]]:
        """The rows of a space on every node by key."""
        for node in self.nodes:
            yield node, {row[0]: row for row in node.rows(space)}

    def kept(self, space: int, calls: Iterable[ClientCall]) -> Iterable[str]:
        """Violations of: acknowledged inserts are everywhere, refused ones nowhere."""
        calls = list(calls)
        for node, rows in self.rows_everywhere(space):
            for call in calls:
                if call.ending is Ending.OK and call.key not in rows:
                    yield f"{node.name}: acknowledged, and lost: {call}"
                elif call.ending is Ending.FAILED and call.key in rows:
                    yield f"{node.name}: refused, and there all the same: {call}"
