"""A workload: clients that call a cluster, the history of their calls, and what must be true of it.

```
without elections    only the first node, the owner of the limbo, writes to synchronous spaces
with elections       a client calls the node that it considers the leader. A node that refuses names the leader that it
                     knows; if no node answers, the client tries another one
```

To read a synchronous space a client makes an update that changes only a counter: its answer comes when everything that
it read is confirmed.

The body of a call is a function of a module with its arguments (`functools.partial`), or an object of plain data,
because a node may be another process that calls a copy of it.
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
"""The numbers of the workloads' spaces: synchronous, asynchronous, a synchronous one for notes of clients, local."""
_SPACE, _INDEX = 280, 288
"""The numbers of the spaces `_space` and `_index`."""
_LOCAL_GROUP: Final = 1
"""The `group_id` of local spaces."""
_PATIENCE: Final = 4.0
"""The seconds that a client waits for an answer."""

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
"""Codes of errors which guarantee that the call has no effect."""

Body = Callable[[Changes], Any]


def ending_of(error: BoxError) -> Ending:
    """Return the ending of a call that got an error.

    A timeout of a leader that may have been deposed leaves the outcome to the next leader, and says so in a field.
    """
    is_unknown = (error.fields or {}).get("outcome") == "unknown"
    return Ending.FAILED if error.code in NO_EFFECT and not is_unknown else Ending.UNKNOWN


class ClientWorld(Protocol):
    """Time and chance: a `Simulation`, or the real world."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    def random(self, purpose: str) -> Random:
        """Return the random source for a purpose."""

    def note(self, process: str, kind: str, text: str = "") -> None:
        """Record an event."""

    async def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""

    async def within(self, seconds: float, work: Awaitable[_T]) -> _T:
        """Wait for an awaitable and return its result.

        Raises:
            TimeoutError: it takes longer than `seconds`.
        """


class ClusterNode(Protocol):
    """A node as clients see it."""

    @property
    def name(self) -> str: ...

    @property
    def is_running(self) -> bool:
        """True if the node answers."""

    @property
    def is_remote(self) -> bool:
        """True if the node runs in another process, and calls copies of bodies."""

    @property
    def instance_id(self) -> int:
        """The node's id in the replica set."""

    @property
    def leader_id(self) -> int:
        """The id of the node that this one considers the leader, or 0."""

    async def transaction(self, body: Body) -> Any:
        """Call `body`, maybe a coroutine function, as one transaction and return its result.

        Raises:
            BoxError: a change or the commit fails.
        """

    def rows(self, space: int) -> list[Any]:
        """Return all tuples of a space."""

    def has(self, space: int, key: Any) -> bool:
        """Return True if a space has a tuple with a key."""


class Refused(Exception):
    """The client gave up before it changed anything."""


def insert_rows(space: int, rows: list[list[Any]], changes: Changes) -> None:
    """A transaction body that inserts rows."""
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
    """The clients of a cluster. `stop_at` is the time of the loop after which they make no more calls."""

    name: ClassVar[str]
    clients: ClassVar[int] = 3
    pause: tuple[float, float] = (0.0, 0.1)
    """The range of seconds between two calls of a client."""
    options: ClassVar[dict[str, Any]] = {}
    """Options of `box.cfg` that the workload requires."""
    needs_rest: ClassVar[bool] = True
    """True if all nodes must have the same rows in the end."""
    may_elect: ClassVar[bool] = True
    """True if the workload can run with elections, which make all nodes but the leader read-only."""

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
        """Create the spaces and their first rows, before elections begin."""
        await self.owner.transaction(_create_spaces)
        first = self.first_rows()
        if first:
            await self.owner.transaction(partial(insert_rows, SYNC, first))

    def first_rows(self) -> list[list[Any]]:
        """Return the rows of the synchronous space before the clients begin."""
        return []

    # -- during

    def start(self) -> list[asyncio.Task[None]]:
        """Start all clients, and return their tasks."""
        loop = self.surroundings.loop
        return [loop.create_task(self._client(f"client{number}")) for number in range(self.clients)]

    def slow_down(self, rate: float) -> None:
        """Limit the average number of calls a second of all clients together."""
        self.pause = (0.0, 2 * self.clients / rate)

    async def _client(self, name: str) -> None:
        random = self.surroundings.random(f"{self.name} {name}")
        while self.surroundings.loop.time() < self.stop_at:
            await self.step(name, random)
            await self.surroundings.sleep(random.uniform(*self.pause))

    @abstractmethod
    async def step(self, client: str, random: Random) -> None:
        """Make one call of a client."""

    def next_value(self) -> int:
        """Return a number that no other call uses."""
        self._last_value += 1
        return self._last_value

    def begin(self, client: str, name: str, key: Any, argument: Any) -> ClientCall:
        """Record the beginning of a call."""
        return self.history.begin(client, name, key, argument, self.surroundings.loop.time())

    def target(self, client: str) -> ClusterNode:
        """Return the node that a client calls; see the module's table."""
        return self._guesses.get(client, self.owner) if self.has_elections else self.owner

    def _guess_again(self, client: str, node: ClusterNode, *, has_answered: bool = False) -> None:
        leader = node.leader_id if has_answered and node.is_running else 0
        named = [one for one in self.nodes if leader and one.is_running and one.instance_id == leader]
        self._guesses[client] = named[0] if named else self.random.choice(self.nodes)

    async def call(self, node: ClusterNode, call: ClientCall, body: Body) -> None:
        """Make a call as one transaction, and record its end in the history."""
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
        """Return the violations that show at this moment."""
        return ()

    # -- afterwards

    @abstractmethod
    def verdict(self) -> Iterable[str]:
        """Yield violations of what must be true when the cluster has come to rest."""

    def rows_everywhere(self, space: int) -> Iterable[tuple[ClusterNode, dict[int, Any]]]:
        """Yield each node with the rows of a space by key."""
        for node in self.nodes:
            yield node, {row[0]: row for row in node.rows(space)}

    def kept(self, space: int, calls: Iterable[ClientCall]) -> Iterable[str]:
        """Yield acknowledged inserts that a node lacks, and refused ones that a node has."""
        calls = list(calls)
        for node, rows in self.rows_everywhere(space):
            for call in calls:
                if call.ending is Ending.OK and call.key not in rows:
                    yield f"{node.name}: acknowledged, and lost: {call}"
                elif call.ending is Ending.FAILED and call.key in rows:
                    yield f"{node.name}: refused, and there all the same: {call}"
