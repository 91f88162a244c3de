"""The history of a run: what clients asked for, when, and what they were told.

An operation has one of three ends: `OK` with a result, `FAILED` (it certainly has no effect) and `UNKNOWN` (it may have
an effect, at any time after it began: the answer was lost, or nobody could tell).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Any


class Ending(Enum):
    """The end of an operation, as its client sees it."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class ClientCall:
    """One call of a client. `began` and `ended` are simulated seconds; an operation without an answer never ended."""

    client: str
    name: str
    key: Hashable
    argument: Any
    began: float
    ended: float = inf
    ending: Ending = Ending.UNKNOWN
    result: Any = None

    def __str__(self) -> str:
        end = "never" if self.ended == inf else f"{self.ended:.6f}"
        call = f"{self.name}({self.key!r}, {self.argument!r})"
        return f"{self.began:.6f}-{end} {self.client}: {call} -> {self.ending.value} {self.result!r}"


class History:
    """All operations of a run, in the order in which they began."""

    def __init__(self) -> None:
        self.operations: list[ClientCall] = []

    def begin(self, client: str, name: str, key: Hashable, argument: Any, now: float) -> ClientCall:
        """A client makes a call."""
        operation = ClientCall(client, name, key, argument, now)
        self.operations.append(operation)
        return operation

    def end(self, operation: ClientCall, ending: Ending, now: float, result: Any = None) -> None:
        """The call has an answer, or gives up waiting for one (`UNKNOWN`)."""
        operation.ending = ending
        operation.result = result
        if ending is not Ending.UNKNOWN:
            operation.ended = now

    def by_key(self) -> dict[Hashable, list[ClientCall]]:
        """The operations of each key: objects of their own, which can be checked one by one."""
        result: dict[Hashable, list[ClientCall]] = {}
        for operation in self.operations:
            result.setdefault(operation.key, []).append(operation)
        return result

    def ok(self, name: str) -> Iterable[ClientCall]:
        """The operations of a name that succeeded."""
        return (one for one in self.operations if one.name == name and one.ending is Ending.OK)
