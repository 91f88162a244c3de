"""Transactions that wait in the middle (`memtx_use_mvcc_engine`), and have to be serialisable.

Reports only read a few objects, some of them twice; a writer in between moves them to a read view. Nothing confirms
that all they have read was committed, so they are not compared with the other transactions. But what they have read
must be one state, with each transaction there as a whole or not at all.

A transaction is a script. Its steps are drawn as it runs, so that the order of numbers is that of values; if it runs in
another process, they are all drawn before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any, ClassVar, Final, NamedTuple

from box.testing.simulation.history import ClientCall, Ending
from box.testing.simulation.serializability import ListAppend, ListRead, Operation, check_serializability
from box.testing.simulation.simulated_node import Changes
from box.testing.simulation.workload import LEDGER, SYNC, ClusterNode, Workload

_KEYS: Final = 5
"""The number of objects in use at a time."""
_LIFE: Final = 40
"""The number of calls after which a new object, which has no row yet, replaces the oldest one."""
_WAIT: Final = 0.01
"""The longest wait between two operations of a transaction, in seconds."""
_REPORTS: Final = 0.25
"""The share of calls that are reports."""
_LOOKS: Final = (3, 8)
"""The range of the number of reads of a report."""


class _Note(NamedTuple):
    """A step that inserts the number of the transaction."""

    number: int


class _ReadOne(NamedTuple):
    """A step that reads one object."""

    key: int


class _ReadAll(NamedTuple):
    """A step that reads all objects."""

    keys: range


class _Append(NamedTuple):
    """A step that appends to the object that was read last."""

    key: int
    value: int


class _Wait(NamedTuple):
    """A step that lets other transactions run."""

    seconds: float


_Step = _Note | _ReadOne | _ReadAll | _Append | _Wait


class Script:
    """The body of a transaction. `done`, its result, lists the operations so far, including one being tried."""

    def __init__(self, steps: Iterator[_Step], done: list[Operation]) -> None:
        self.done = done
        self._steps: Iterable[_Step] = steps

    def draw(self) -> None:
        """Draw all steps now, for a run in another process.

        The caller does not learn how far the transaction comes, so all its appends count as tried.
        """
        self._steps = list(self._steps)
        self.done += [ListAppend(*step) for step in self._steps if isinstance(step, _Append)]

    async def __call__(self, changes: Changes) -> list[Operation]:
        done = self.done
        done.clear()
        values: tuple[int, ...] = ()
        for step in self._steps:
            match step:
                case _Wait(seconds):
                    await asyncio.sleep(seconds)
                case _Note(number):
                    changes.insert(LEDGER, [number])
                case _ReadOne(key):
                    values = _values(changes.get(SYNC, key))
                    done.append(ListRead(key, values))
                case _ReadAll(keys):
                    rows = {row[0]: row for row in changes.select(SYNC)}
                    done += [ListRead(key, _values(rows.get(key))) for key in keys]
                case _Append(key, value):
                    done.append(ListAppend(key, value))
                    if values:
                        changes.update(SYNC, key, [["=", 2, [*values, value]]])
                    else:
                        changes.insert(SYNC, [key, [value]])
        return done


class TransactionWorkload(Workload):
    """Clients read objects, append to them, and read all of them. A row: key, values.

    Each transaction other than a report writes something, so that its answer shows that all it has read is confirmed.
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
        call = self.begin(client, "transaction", number, [])
        await self._play(self.target(client), call, self._steps(number, random))

    async def _report(self, client: str, random: Random, objects: range) -> None:
        call = self.begin(client, "report", objects.start, [])
        await self._play(self.target(client), call, _looks(random, objects))

    async def _play(self, node: ClusterNode, call: ClientCall, steps: Iterator[_Step]) -> None:
        script = Script(steps, call.argument)
        if node.is_remote:
            script.draw()
        await self.call(node, call, script)
        if call.ending is Ending.OK:
            call.argument, call.result = call.result, None

    def _steps(self, number: int, random: Random) -> Iterator[_Step]:
        begins_with_a_write = random.random() < 0.5
        if begins_with_a_write:
            yield _Note(number)
        for _ in range(random.randint(1, 4)):
            yield from self._operation(random, self._objects(number))
            yield _Wait(random.uniform(0.0, _WAIT))
        if not begins_with_a_write:
            yield _Note(number)

    def _operation(self, random: Random, objects: range) -> Iterator[_Step]:
        choice = random.random()
        if choice < 0.2:
            yield _ReadAll(objects)
            return
        key = random.choice(objects)
        yield _ReadOne(key)
        if choice < 0.6:
            yield _Append(key, self.next_value())

    def verdict(self) -> Iterable[str]:
        changes = [call for call in self.history.operations if call.name == "transaction"]
        yield from self.kept(LEDGER, [call for call in changes if call.ending is not Ending.UNKNOWN])
        yield from torn_reports(self.history.ok("report"), changes)
        for node in self.nodes[:1]:
            final = {row[0]: _values(row) for row in node.rows(SYNC)}
            yield from check_serializability(changes, final)


def _looks(random: Random, objects: range) -> Iterator[_Step]:
    for _ in range(random.randint(*_LOOKS)):
        yield _ReadOne(random.choice(objects))
        yield _Wait(random.uniform(0.0, _WAIT))


def _values(row: Any) -> tuple[int, ...]:
    return () if row is None else tuple(row[1])


def torn_reports(reports: Iterable[ClientCall], transactions: Iterable[ClientCall]) -> Iterable[str]:
    """Yield reports that did not read one state.

    Either an object has changed between two reads, or a part of a transaction's appends is missing.
    """
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
