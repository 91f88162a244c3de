"""Transactions that wait in the middle (`memtx_use_mvcc_engine`), and have to be serialisable."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, ClassVar, Final

from box.testing.simulation.history import Ending
from box.testing.simulation.serializability import ListAppend, ListRead, Operation, check_serializability
from box.testing.simulation.simulated_node import Changes
from box.testing.simulation.workload import LEDGER, SYNC, Workload

_KEYS: Final = 5
"""Objects in use at a time."""
_LIFE: Final = 40
"""Calls after which the next object takes the place of the first: new ones have no row yet."""
_WAIT: Final = 0.01
"""Seconds that a transaction waits between two operations, at most."""


class TransactionWorkload(Workload):
    """Reads, appends and reads of all objects. A row: key, values.

    Every transaction writes something, so that its answer tells that all it has read is confirmed.
    """

    name = "transactions"
    clients = 5
    options: ClassVar = {"memtx_use_mvcc_engine": True}

    def _objects(self, number: int) -> range:
        first = number // _LIFE
        return range(first, first + _KEYS)

    async def step(self, client: str, random: Random) -> None:
        number = self.next_value()
        operations: list[Operation] = []
        call = self.begin(client, "transaction", number, operations)
        objects = self._objects(number)

        async def body(changes: Changes) -> None:
            begins_with_a_write = random.random() < 0.5
            if begins_with_a_write:
                changes.insert(LEDGER, [number])
            for _ in range(random.randint(1, 4)):
                self._operate(changes, random, objects, operations)
                await self.surroundings.sleep(random.uniform(0.0, _WAIT))
            if not begins_with_a_write:
                changes.insert(LEDGER, [number])

        await self.call(self.target(client), call, body)

    def _operate(self, changes: Changes, random: Random, objects: range, operations: list[Operation]) -> None:
        choice = random.random()
        if choice < 0.2:
            rows = {row[0]: row for row in changes.select(SYNC)}
            operations += [ListRead(key, _values(rows.get(key))) for key in objects]
            return
        key = random.choice(objects)
        values = _values(changes.get(SYNC, key))
        operations.append(ListRead(key, values))
        if choice < 0.6:
            value = self.next_value()
            operations.append(ListAppend(key, value))
            if values:
                changes.update(SYNC, key, [["=", 2, [*values, value]]])
            else:
                changes.insert(SYNC, [key, [value]])

    def verdict(self) -> Iterable[str]:
        yield from self.kept(LEDGER, [call for call in self.history.operations if call.ending is not Ending.UNKNOWN])
        for node in self.nodes[:1]:
            final = {row[0]: _values(row) for row in node.rows(SYNC)}
            yield from check_serializability(self.history.operations, final)


def _values(row: Any) -> tuple[int, ...]:
    return () if row is None else tuple(row[1])
