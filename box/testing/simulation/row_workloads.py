"""Workloads of many rows: acknowledged changes must be there, refused ones must not."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import partial
from random import Random
from typing import ClassVar

from box.testing.simulation.history import Ending
from box.testing.simulation.simulated_node import Changes
from box.testing.simulation.workload import ASYNC, LEDGER, LOCAL, SYNC, ClusterNode, Refused, Workload, insert_rows


def _transfer(number: int, source: int, target: int, amount: int, changes: Changes) -> None:
    if changes.get(SYNC, source)[1] < amount:
        raise Refused
    # In two steps, because undoing a transaction that changes a row twice is right in one order only.
    changes.update(SYNC, source, [["-", 2, amount - 1]])
    changes.update(SYNC, source, [["-", 2, 1]])
    changes.update(SYNC, target, [["+", 2, amount]])
    changes.insert(LEDGER, [number, source, target, amount])


class BankWorkload(Workload):
    """Clients transfer money between accounts. A row: account, balance. Each transfer also inserts a row into the
    ledger.
    """

    name = "bank"
    accounts: ClassVar[int] = 10
    balance: ClassVar[int] = 100

    def first_rows(self) -> list[list[int]]:
        return [[account, self.balance] for account in range(self.accounts)]

    async def step(self, client: str, random: Random) -> None:
        number = self.next_value()
        source, target = random.sample(range(self.accounts), 2)
        amount = random.randint(1, 20)
        call = self.begin(client, "transfer", number, (source, target, amount))
        await self.call(self.target(client), call, partial(_transfer, number, source, target, amount))

    def watch(self) -> Iterable[str]:
        for node in self.nodes:
            if node.is_running:
                balances = [row[1] for row in node.rows(SYNC)]
                if balances and (sum(balances) != self.accounts * self.balance or min(balances) < 0):
                    yield f"{node.name}: the balances are {balances}"

    def verdict(self) -> Iterable[str]:
        yield from self.watch()
        yield from self.kept(LEDGER, self.history.operations)
        for node, ledger in self.rows_everywhere(LEDGER):
            expected = dict.fromkeys(range(self.accounts), self.balance)
            for _, source, target, amount in ledger.values():
                expected[source] -= amount
                expected[target] += amount
            found = {row[0]: row[1] for row in node.rows(SYNC)}
            if found != expected:
                yield f"{node.name}: the balances {found} are not those of the ledger {expected}"


class SetWorkload(Workload):
    """Clients insert rows into a synchronous space."""

    name = "set"

    async def step(self, client: str, random: Random) -> None:
        key = self.next_value()
        call = self.begin(client, "insert", key, None)
        await self.call(self.target(client), call, partial(insert_rows, SYNC, [[key]]))

    def verdict(self) -> Iterable[str]:
        yield from self.kept(SYNC, self.history.operations)


class AsyncWorkload(Workload):
    """Clients insert rows asynchronously at every node. A transaction has one or a few rows, whose keys no other
    transaction uses.
    """

    name = "async"
    clients = 5
    may_elect = False

    async def step(self, client: str, random: Random) -> None:
        node = self.nodes[int(client.removeprefix("client")) % len(self.nodes)]
        keys = [self.next_value() for _ in range(random.choice((1, 1, 3)))]
        call = self.begin(client, "insert", keys[0], keys)
        await self.call(node, call, partial(insert_rows, ASYNC, [[key, node.name] for key in keys]))

    def verdict(self) -> Iterable[str]:
        for node, rows in self.rows_everywhere(ASYNC):
            for call in self.history.operations:
                present = sum(key in rows for key in call.argument)
                if call.ending is Ending.OK and present < len(call.argument):
                    yield f"{node.name}: acknowledged, and lost: {call}"
                elif call.ending is Ending.FAILED and present:
                    yield f"{node.name}: refused, and there all the same: {call}"
                elif 0 < present < len(call.argument):
                    yield f"{node.name}: half of it is there: {call}"


def _pass_token(key: int, holder: str, heir: str, first: str, changes: Changes) -> int:
    row = changes.get(ASYNC, key)
    number, found = (0, first) if row is None else (row[1], row[2])
    if found != holder:
        raise Refused
    changes.replace(ASYNC, [key, number + 1, heir])
    return int(number) + 1


class TokenWorkload(Workload):
    """Clients pass rows to another node; only the present holder of a row changes it.

    A node changes a row only after it has seen all earlier changes of it. So the changes have one order, though every
    node writes and none waits for another. A node that applies two changes in the wrong order has another row in the
    end.
    """

    name = "token"
    clients = 5
    may_elect = False
    tokens = 6

    async def step(self, client: str, random: Random) -> None:
        node = self.nodes[int(client.removeprefix("client")) % len(self.nodes)]
        key = random.randrange(self.tokens)
        heir = random.choice(self.nodes).name
        call = self.begin(client, "pass", key, heir)
        await self.call(node, call, partial(_pass_token, key, node.name, heir, self.owner.name))

    def verdict(self) -> Iterable[str]:
        """Yield the tokens whose last acknowledged change, or a later one, is missing."""
        last: dict[Hashable, int] = {}
        for call in self.history.operations:
            if call.ending is Ending.OK:
                last[call.key] = max(last.get(call.key, 0), call.result)
        for node, rows in self.rows_everywhere(ASYNC):
            for key, number in last.items():
                found = next((row[1] for row in rows.values() if row[0] == key), 0)
                if found < number:
                    yield f"{node.name}: token {key} stands at {found}, though {number} was acknowledged"


class LocalWorkload(Workload):
    """Clients insert rows into a local space of every node, and asynchronously at the first node.

    A node that is too far behind must not join anew while it has local rows: it stays behind.
    """

    name = "local"
    clients = 4
    options: ClassVar = {"checkpoint_count": 1, "wal_cleanup_delay": 0.5}
    needs_rest = False
    may_elect = False

    def _node_of(self, client: str) -> ClusterNode:
        return self.nodes[int(client.removeprefix("client")) % len(self.nodes)]

    async def step(self, client: str, random: Random) -> None:
        node = self._node_of(client)
        key, is_local = self.next_value(), random.random() < 0.5
        if not is_local:
            node = self.owner
        call = self.begin(client, "local" if is_local else "insert", key, node.name)
        await self.call(node, call, partial(insert_rows, LOCAL if is_local else ASYNC, [[key]]))

    def verdict(self) -> Iterable[str]:
        for node in self.nodes:
            found = {row[0] for row in node.rows(LOCAL)}
            for call in self.history.operations:
                if call.name == "local" and call.argument == node.name:
                    if call.ending is Ending.OK and call.key not in found:
                        yield f"{node.name}: acknowledged, and lost: {call}"
                    elif call.ending is Ending.FAILED and call.key in found:
                        yield f"{node.name}: refused, and there all the same: {call}"
