"""Transactions that wait in the middle (`memtx_use_mvcc_engine`), and have to be serialisable.

Some only read, a few objects and some of them twice: whoever writes meanwhile sends them into a read view. Nobody tells
them that all they have read is confirmed, so that they are not compared with the others; but what they have read is one
state, with every transaction whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, ClassVar, Final

from box.testing.simulation.history import ClientCall, Ending
from box.testing.simulation.serializability import ListAppend, ListRead, Operation, check_serializability
from box.testing.simulation.simulated_node import Changes
from box.testing.simulation.workload import LEDGER, SYNC, Workload

_KEYS: Final = 5
"""Objects in use at a time."""
_LIFE: Final = 40
"""Calls after which the next object takes the place of the first: new ones have no row yet."""
_WAIT: Final = 0.01
"""Seconds that a transaction waits between two operations, at most."""
_REPORTS: Final = 0.25
"""The share of calls that only read."""
_LOOKS: Final = (3, 8)
"""Reads of one that only reads."""


class TransactionWorkload(Workload):
    """Reads, appends and reads of all objects. A row: key, values.

    Every transaction but reports writes something, so that its answer tells that all it has read is confirmed.
    """

    name = "transactions"
    clients = 5
    options: ClassVar = {"memtx_use_mvcc_engine": True}

    def _objects(self, number: int) -> range:
        first = number // _LIFE
        return range(first, first + _KEYS)

    async def step(self, client: str, random: Random) -> None:
        number = self.next_value()
        if random.random() < _REPORTS:
            await self._report(client, random, self._objects(number))
            return
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

    async def _report(self, client: str, random: Random, objects: range) -> None:
        reads: list[ListRead] = []
        call = self.begin(client, "report", objects.start, reads)

        async def body(changes: Changes) -> None:
            for _ in range(random.randint(*_LOOKS)):
                key = random.choice(objects)
                reads.append(ListRead(key, _values(changes.get(SYNC, key))))
                await self.surroundings.sleep(random.uniform(0.0, _WAIT))

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
        changes = [call for call in self.history.operations if call.name == "transaction"]
        yield from self.kept(LEDGER, [call for call in changes if call.ending is not Ending.UNKNOWN])
        yield from torn_reports(self.history.ok("report"), changes)
        for node in self.nodes[:1]:
            final = {row[0]: _values(row) for row in node.rows(SYNC)}
            yield from check_serializability(changes, final)


def _values(row: Any) -> tuple[int, ...]:
    return () if row is None else tuple(row[1])


def torn_reports(reports: Iterable[ClientCall], transactions: Iterable[ClientCall]) -> Iterable[str]:
    """Reports that did not read one state: an object was another one the second time, or half of a transaction's
    appends were there."""
    appends: dict[int, list[ListAppend]] = {}
    for call in transactions:
        own = [one for one in call.argument if isinstance(one, ListAppend)]
        for one in own:
            appends[one.value] = own
    for call in reports:
        seen: dict[Any, tuple[int, ...]] = {}
        for read in call.argument:
            if seen.setdefault(read.key, read.values) != read.values:
                yield f"object {read.key} has changed: {call}"
        for values in list(seen.values()):
            for value in values:
                missing = [one for one in appends.get(value, ()) if one.key in seen and one.value not in seen[one.key]]
                if missing:
                    yield f"{value} is there, {missing[0]} is not: {call}"
