"""Workloads: what clients do to a cluster, and what must be true of it afterwards.

```
workload   space          clients                                        checked
register   synchronous    write, read, compare and set of few keys       linearisable
list       synchronous    append, read                                   linearisable
unique     synchronous    insert, delete, read                           linearisable
bank       synchronous    transfers between ten accounts                 the sum stays on every node, at every moment
set        synchronous    inserts at the owner                           acknowledged ones are there, refused ones not;
                                                                         a quorum has them when they are acknowledged
async      asynchronous   inserts at every node, of keys of its own      the same
```

The first node alone writes to synchronous spaces. A read there is an update that changes nothing of note: it is
answered when everything that it saw is confirmed.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, ClassVar, Final

from box.errors import BoxError, ErrorCode
from box.testing.simulation.history import ClientCall, Ending, History
from box.testing.simulation.linearizability import AppendList, Model, Register, Unique, check
from box.testing.simulation.simulated_node import Changes, NodeDied, SimulatedNode
from box.testing.simulation.simulation import Simulation

SYNC, ASYNC, LEDGER = 512, 513, 514
_SPACE, _INDEX = 280, 288
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


class Refused(Exception):
    """The client gave up before it changed anything."""


class Workload(ABC):
    """Clients of a cluster. `stop_at` is the simulated time at which they make no more calls."""

    name: ClassVar[str]
    sync: ClassVar[bool] = True
    clients: ClassVar[int] = 3
    pause: ClassVar[tuple[float, float]] = (0.0, 0.05)

    def __init__(self, simulation: Simulation, nodes: list[SimulatedNode]) -> None:
        self.simulation = simulation
        self.nodes = nodes
        self.owner = nodes[0]
        self.history = History()
        self.stop_at = 0.0
        self.violations: list[str] = []
        """Found while the clients were at work."""
        self.random = simulation.random(f"workload {self.name}")
        self._last_value = 0

    # -- before

    async def prepare(self) -> None:
        """Make the spaces and their first rows."""

        def create(changes: Changes) -> None:
            for space, name, is_sync in ((SYNC, "sync", True), (ASYNC, "async", False), (LEDGER, "ledger", True)):
                changes.insert(_SPACE, [space, 1, name, "memtx", 0, {"is_sync": is_sync}, []])
                changes.insert(_INDEX, [space, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]])

        await self.owner.transaction(create)
        first = self.first_rows()
        if first:
            await self.owner.transaction(lambda changes: [changes.insert(SYNC, row) for row in first])

    def first_rows(self) -> list[list[Any]]:
        """Rows of the synchronous space before the clients begin."""
        return []

    # -- during

    def start(self) -> list[asyncio.Task[None]]:
        """Start all clients."""
        loop = self.simulation.loop
        return [loop.create_task(self._client(f"client{number}")) for number in range(self.clients)]

    async def _client(self, name: str) -> None:
        random = self.simulation.random(f"{self.name} {name}")
        while self.simulation.loop.time() < self.stop_at:
            await self.step(name, random)
            await self.simulation.sleep(random.uniform(*self.pause))

    @abstractmethod
    async def step(self, client: str, random: Random) -> None:
        """One call of a client."""

    def next_value(self) -> int:
        """A number that no other call has."""
        self._last_value += 1
        return self._last_value

    async def call(self, node: SimulatedNode, call: ClientCall, body: Body) -> None:
        """Make a call as one transaction, and note in the history what came of it."""
        loop, history = self.simulation.loop, self.history
        if not node.is_running:
            history.end(call, Ending.FAILED, loop.time())
            await self.simulation.sleep(0.1)
            return
        try:
            result = await self.simulation.within(_PATIENCE, node.transaction(body))
        except Refused:
            history.end(call, Ending.FAILED, loop.time())
        except BoxError as error:
            ending = Ending.FAILED if error.code in NO_EFFECT else Ending.UNKNOWN
            history.end(call, ending, loop.time(), error.code)
            self.simulation.note(node.name, "refused", f"{call.name} {call.key} {error.code}")
        except (NodeDied, TimeoutError):
            history.end(call, Ending.UNKNOWN, loop.time())
        else:
            history.end(call, Ending.OK, loop.time(), result)
            self.simulation.note(node.name, "ok", f"{call.name} {call.key}")
            self.acknowledged(call)

    def acknowledged(self, call: ClientCall) -> None:  # noqa: B027 - most have nothing to look at
        """A call has succeeded at this moment."""

    def watch(self) -> Iterable[str]:
        """Violations that show at this moment."""
        return ()

    # -- afterwards

    @abstractmethod
    def verdict(self) -> Iterable[str]:
        """Violations of what must be true when the cluster has come to rest."""

    def rows_everywhere(self, space: int) -> Iterable[tuple[SimulatedNode, dict[int, Any]]]:
        """The rows of a space on every node by key."""
        for node in self.nodes:
            yield node, {row[0]: row for row in node.rows(space)}


class _Objects(Workload):
    """Calls to few objects, each checked against its model."""

    keys: ClassVar[int] = 4
    reads: ClassVar[frozenset[str]] = frozenset({"read"})

    @abstractmethod
    def model(self) -> Model: ...

    def verdict(self) -> Iterable[str]:
        for key, calls in self.history.by_key().items():
            told = [one for one in calls if not (one.name in self.reads and one.ending is Ending.UNKNOWN)]
            violation = check(told, self.model())
            if violation is not None:
                yield f"key {key} is not linearisable: {violation}"


class RegisterWorkload(_Objects):
    """See the module's table. A row: key, value, number of reads."""

    name = "register"

    def model(self) -> Model:
        return Register(0)

    def first_rows(self) -> list[list[Any]]:
        return [[key, 0, 0] for key in range(self.keys)]

    async def step(self, client: str, random: Random) -> None:
        key, value, name = random.randrange(self.keys), self.next_value(), random.choice(("write", "read", "cas"))
        old = random.randint(max(0, value - 8), value)
        argument = {"write": value, "read": None, "cas": (old, value)}[name]
        call = self.history.begin(client, name, key, argument, self.simulation.loop.time())

        def write(changes: Changes) -> None:
            changes.update(SYNC, key, [["=", 2, value]])

        def read(changes: Changes) -> Any:
            return changes.update(SYNC, key, [["+", 3, 1]])[1]

        def cas(changes: Changes) -> bool:
            if read(changes) != old:
                return False
            write(changes)
            return True

        await self.call(self.owner, call, {"write": write, "read": read, "cas": cas}[name])


class ListWorkload(_Objects):
    """See the module's table. A row: key, values, number of reads."""

    name = "list"
    pause = (0.05, 0.3)

    def model(self) -> Model:
        return AppendList()

    def first_rows(self) -> list[list[Any]]:
        return [[key, [], 0] for key in range(self.keys)]

    async def step(self, client: str, random: Random) -> None:
        key, value, name = random.randrange(self.keys), self.next_value(), random.choice(("append", "read"))
        call = self.history.begin(client, name, key, value if name == "append" else None, self.simulation.loop.time())

        def append(changes: Changes) -> None:
            values = changes.get(SYNC, key)[1]
            changes.update(SYNC, key, [["=", 2, [*values, value]]])

        def read(changes: Changes) -> Any:
            return tuple(changes.update(SYNC, key, [["+", 3, 1]])[1])

        await self.call(self.owner, call, append if name == "append" else read)


class UniqueWorkload(_Objects):
    """See the module's table. A row: key, value. An insert that meets a row says nothing: the row may yet go."""

    name = "unique"

    def model(self) -> Model:
        return Unique()

    async def step(self, client: str, random: Random) -> None:
        key, value, name = random.randrange(self.keys), self.next_value(), random.choice(("insert", "delete", "read"))
        call = self.history.begin(client, name, key, value if name == "insert" else None, self.simulation.loop.time())

        def insert(changes: Changes) -> bool:
            changes.insert(SYNC, [key, value])
            return True

        def delete(changes: Changes) -> None:
            if changes.delete(SYNC, key) is None:
                raise Refused

        def read(changes: Changes) -> Any:
            changes.replace(LEDGER, [key, value])
            row = changes.get(SYNC, key)
            return None if row is None else row[1]

        await self.call(self.owner, call, {"insert": insert, "delete": delete, "read": read}[name])


class BankWorkload(Workload):
    """See the module's table. A row: account, balance; each transfer leaves a row in the ledger."""

    name = "bank"
    accounts: ClassVar[int] = 10
    balance: ClassVar[int] = 100

    def first_rows(self) -> list[list[Any]]:
        return [[account, self.balance] for account in range(self.accounts)]

    async def step(self, client: str, random: Random) -> None:
        number = self.next_value()
        source, target = random.sample(range(self.accounts), 2)
        amount = random.randint(1, 20)
        call = self.history.begin(client, "transfer", number, (source, target, amount), self.simulation.loop.time())

        def transfer(changes: Changes) -> None:
            if changes.get(SYNC, source)[1] < amount:
                raise Refused
            changes.update(SYNC, source, [["-", 2, amount]])
            changes.update(SYNC, target, [["+", 2, amount]])
            changes.insert(LEDGER, [number, source, target, amount])

        await self.call(self.owner, call, transfer)

    def watch(self) -> Iterable[str]:
        for node in self.nodes:
            if node.is_running:
                balances = [row[1] for row in node.rows(SYNC)]
                if balances and (sum(balances) != self.accounts * self.balance or min(balances) < 0):
                    yield f"{node.name}: the balances are {balances}"

    def verdict(self) -> Iterable[str]:
        yield from self.watch()
        yield from _kept(self, LEDGER, self.history.operations)
        for node, ledger in self.rows_everywhere(LEDGER):
            expected = dict.fromkeys(range(self.accounts), self.balance)
            for _, source, target, amount in ledger.values():
                expected[source] -= amount
                expected[target] += amount
            found = {row[0]: row[1] for row in node.rows(SYNC)}
            if found != expected:
                yield f"{node.name}: the balances {found} are not those of the ledger {expected}"


def _kept(workload: Workload, space: int, calls: Iterable[ClientCall]) -> Iterable[str]:
    """Acknowledged inserts are everywhere, refused ones nowhere."""
    calls = list(calls)
    for node, rows in workload.rows_everywhere(space):
        for call in calls:
            if call.ending is Ending.OK and call.key not in rows:
                yield f"{node.name}: acknowledged, and lost: {call}"
            elif call.ending is Ending.FAILED and call.key in rows:
                yield f"{node.name}: refused, and there all the same: {call}"


class SetWorkload(Workload):
    """See the module's table."""

    name = "set"

    async def step(self, client: str, random: Random) -> None:
        key = self.next_value()
        call = self.history.begin(client, "insert", key, None, self.simulation.loop.time())
        await self.call(self.owner, call, lambda changes: changes.insert(SYNC, [key]) and None)

    def acknowledged(self, call: ClientCall) -> None:
        """A quorum has it, or at least nobody can tell of so many that they do not."""
        without = [node.name for node in self.nodes if node.is_running and not node.has(SYNC, call.key)]
        if len(without) > (len(self.nodes) - 1) // 2:
            self.violations.append(f"acknowledged, while {', '.join(without)} have not got it: {call}")

    def verdict(self) -> Iterable[str]:
        yield from self.violations
        yield from _kept(self, SYNC, self.history.operations)


class AsyncWorkload(Workload):
    """See the module's table."""

    name = "async"
    clients = 5

    async def step(self, client: str, random: Random) -> None:
        node = self.nodes[int(client.removeprefix("client")) % len(self.nodes)]
        key = self.next_value()
        call = self.history.begin(client, "insert", key, node.name, self.simulation.loop.time())
        await self.call(node, call, lambda changes: changes.insert(ASYNC, [key, node.name]) and None)

    def verdict(self) -> Iterable[str]:
        yield from _kept(self, ASYNC, self.history.operations)


WORKLOADS: Final[dict[str, type[Workload]]] = {
    workload.name: workload
    for workload in (RegisterWorkload, ListWorkload, UniqueWorkload, BankWorkload, SetWorkload, AsyncWorkload)
}

__all__ = ["WORKLOADS", "Workload"]
