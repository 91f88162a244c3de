"""Workloads of a few objects, whose calls have to be linearisable: registers, lists, unique keys."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from functools import partial
from random import Random
from typing import Any, ClassVar

from box.testing.simulation.history import ClientCall, Ending
from box.testing.simulation.linearizability import AppendList, Model, Register, Unique, check
from box.testing.simulation.simulated_node import Changes
from box.testing.simulation.workload import LEDGER, SYNC, Body, Refused, Workload


class ObjectWorkload(Workload):
    """Calls to a few objects, each checked against its model."""

    keys: ClassVar[int] = 4
    reads: ClassVar[frozenset[str]] = frozenset({"read"})

    @abstractmethod
    def model(self, calls: list[ClientCall]) -> Model:
        """Return the model for the calls to one object."""

    def verdict(self) -> Iterable[str]:
        for key, calls in self.history.by_key().items():
            told = [one for one in calls if not (one.name in self.reads and one.ending is Ending.UNKNOWN)]
            violation = check(told, self.model(told))
            if violation is not None:
                yield f"key {key} is not linearisable: {violation}"


def _write(key: int, value: int, changes: Changes) -> None:
    changes.update(SYNC, key, [["=", 2, value]])


def _read(key: int, changes: Changes) -> Any:
    return changes.update(SYNC, key, [["+", 3, 1]])[1]


def _compare_and_set(key: int, old: int, value: int, changes: Changes) -> bool:
    if _read(key, changes) != old:
        return False
    _write(key, value, changes)
    return True


class RegisterWorkload(ObjectWorkload):
    """Clients write, read, and compare-and-set registers. A row: key, value, number of reads."""

    name = "register"

    def model(self, calls: list[ClientCall]) -> Model:
        return Register(0)

    def first_rows(self) -> list[list[Any]]:
        return [[key, 0, 0] for key in range(self.keys)]

    async def step(self, client: str, random: Random) -> None:
        key, value, name = random.randrange(self.keys), self.next_value(), random.choice(("write", "read", "cas"))
        old = random.randint(max(0, value - 8), value)  # a recent value, which often enough is the present one
        argument = {"write": value, "read": None, "cas": (old, value)}[name]
        call = self.begin(client, name, key, argument)
        bodies: dict[str, Body] = {
            "write": partial(_write, key, value),
            "read": partial(_read, key),
            "cas": partial(_compare_and_set, key, old, value),
        }
        await self.call(self.target(client), call, bodies[name])


def _append(key: int, value: int, changes: Changes) -> None:
    values = changes.get(SYNC, key)[1]
    changes.update(SYNC, key, [["=", 2, [*values, value]]])


def _read_list(key: int, changes: Changes) -> Any:
    return tuple(_read(key, changes))


class ListWorkload(ObjectWorkload):
    """Clients append to lists and read them. A row: key, values, number of reads."""

    name = "list"
    pause = (0.05, 0.3)

    def model(self, calls: list[ClientCall]) -> Model:
        return AppendList.of(calls)

    def first_rows(self) -> list[list[Any]]:
        return [[key, [], 0] for key in range(self.keys)]

    async def step(self, client: str, random: Random) -> None:
        key, value, name = random.randrange(self.keys), self.next_value(), random.choice(("append", "read"))
        call = self.begin(client, name, key, value if name == "append" else None)
        body = partial(_append, key, value) if name == "append" else partial(_read_list, key)
        await self.call(self.target(client), call, body)


def _insert_unique(key: int, value: int, changes: Changes) -> bool:
    changes.insert(SYNC, [key, value])
    return True


def _delete(key: int, changes: Changes) -> None:
    if changes.delete(SYNC, key) is None:
        raise Refused


def _read_unique(key: int, value: int, changes: Changes) -> Any:
    changes.replace(LEDGER, [key, value])
    row = changes.get(SYNC, key)
    return None if row is None else row[1]


class UniqueWorkload(ObjectWorkload):
    """Clients insert, delete and read unique keys. A row: key, value.

    An insert that finds a row counts as failed, which the check leaves out, because that row may still be rolled back.
    """

    name = "unique"

    def model(self, calls: list[ClientCall]) -> Model:
        return Unique()

    async def step(self, client: str, random: Random) -> None:
        key, value, name = random.randrange(self.keys), self.next_value(), random.choice(("insert", "delete", "read"))
        call = self.begin(client, name, key, value if name == "insert" else None)
        bodies: dict[str, Body] = {
            "insert": partial(_insert_unique, key, value),
            "delete": partial(_delete, key),
            "read": partial(_read_unique, key, value),
        }
        await self.call(self.target(client), call, bodies[name])
