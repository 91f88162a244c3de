"""Workloads of many rows: what was acknowledged is there, what was refused is not."""

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
    # In two steps: a transaction that changes a row twice has an order in which it is undone.
    changes.update(SYNC, source, [["-", 2, amount - 1]])
    changes.update(SYNC, source, [["-", 2, 1]])
    changes.update(SYNC, target, [["+", 2, amount]])
    changes.insert(LEDGER, [number, source, target, amount])


class BankWorkload(Workload):
    """Transfers. A row: account, balance; each transfer leaves a row in the ledger."""

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
    """Synchronous inserts."""

    name = "set"

    async def step(self, client: str, random: Random) -> None:
        key = self.next_value()
        call = self.begin(client, "insert", key, None)
        await self.call(self.target(client), call, partial(insert_rows, SYNC, [[key]]))

    def verdict(self) -> Iterable[str]:
        yield from self.kept(SYNC, self.history.operations)


class AsyncWorkload(Workload):
    """Asynchronous inserts at every node, one or a few in a transaction, of keys of its own."""

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
    """Rows that the node that has them changes and gives to another one: whoever writes has seen all writes before.

    So there is one order, though every node writes and nobody waits for anybody. A node that applies two changes the
    other way round has another row in the end.
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
        """A change that is acknowledged is there, or a later one."""
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
    """Rows of a local space at every node, which no other one has, beside asynchronous ones of the first.

    A node that is too far behind must not be joined anew while it has such rows: it stays behind."""

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
