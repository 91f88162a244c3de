"""Workloads of few objects, the calls to each of which have to be linearisable: registers, lists, unique keys."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from random import Random
from typing import Any, ClassVar

from box.testing.simulation.history import ClientCall, Ending
from box.testing.simulation.linearizability import AppendList, Model, Register, Unique, check
from box.testing.simulation.simulated_node import Changes
from box.testing.simulation.workload import LEDGER, SYNC, Refused, Workload


class ObjectWorkload(Workload):
    """Calls to few objects, each checked against its model."""

    keys: ClassVar[int] = 4
    reads: ClassVar[frozenset[str]] = frozenset({"read"})

    @abstractmethod
    def model(self, calls: list[ClientCall]) -> Model:
        """The model that the calls to one object are checked against."""

    def verdict(self) -> Iterable[str]:
        for key, calls in self.history.by_key().items():
            told = [one for one in calls if not (one.name in self.reads and one.ending is Ending.UNKNOWN)]
            violation = check(told, self.model(told))
            if violation is not None:
                yield f"key {key} is not linearisable: {violation}"


class RegisterWorkload(ObjectWorkload):
    """A row: key, value, number of reads."""

    name = "register"

    def model(self, calls: list[ClientCall]) -> Model:
        return Register(0)

    def first_rows(self) -> list[list[Any]]:
        return [[key, 0, 0] for key in range(self.keys)]

    async def step(self, client: str, random: Random) -> None:
        key, value, name = random.randrange(self.keys), self.next_value(), random.choice(("write", "read", "cas"))
        old = random.randint(max(0, value - 8), value)
        argument = {"write": value, "read": None, "cas": (old, value)}[name]
        call = self.begin(client, name, key, argument)

        def write(changes: Changes) -> None:
            changes.update(SYNC, key, [["=", 2, value]])

        def read(changes: Changes) -> Any:
            return changes.update(SYNC, key, [["+", 3, 1]])[1]

        def cas(changes: Changes) -> bool:
            if read(changes) != old:
                return False
            write(changes)
            return True

        await self.call(self.target(client), call, {"write": write, "read": read, "cas": cas}[name])


class ListWorkload(ObjectWorkload):
    """A row: key, values, number of reads."""

    name = "list"
    pause = (0.05, 0.3)

    def model(self, calls: list[ClientCall]) -> Model:
        return AppendList.of(calls)

    def first_rows(self) -> list[list[Any]]:
        return [[key, [], 0] for key in range(self.keys)]

    async def step(self, client: str, random: Random) -> None:
        key, value, name = random.randrange(self.keys), self.next_value(), random.choice(("append", "read"))
        call = self.begin(client, name, key, value if name == "append" else None)

        def append(changes: Changes) -> None:
            values = changes.get(SYNC, key)[1]
            changes.update(SYNC, key, [["=", 2, [*values, value]]])

        def read(changes: Changes) -> Any:
            return tuple(changes.update(SYNC, key, [["+", 3, 1]])[1])

        await self.call(self.target(client), call, append if name == "append" else read)


class UniqueWorkload(ObjectWorkload):
    """A row: key, value. An insert that meets a row says nothing: the row may yet go."""

    name = "unique"

    def model(self, calls: list[ClientCall]) -> Model:
        return Unique()

    async def step(self, client: str, random: Random) -> None:
        key, value, name = random.randrange(self.keys), self.next_value(), random.choice(("insert", "delete", "read"))
        call = self.begin(client, name, key, value if name == "insert" else None)

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

        await self.call(self.target(client), call, {"insert": insert, "delete": delete, "read": read}[name])
