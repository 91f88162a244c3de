"""The history of a run: what clients asked for, when, and which answers they got.

An operation ends in one of three ways: `OK` with a result, `FAILED` (it certainly has no effect) or `UNKNOWN` (it may
take effect at any time after it began, because the answer was lost or did not tell).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Any


class Ending(Enum):
    """How an operation ended, as far as its client knows."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class ClientCall:
    """One call of a client. `began` and `ended` are simulated seconds; a call of unknown outcome never ended."""

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
        """Record the beginning of a call."""
        operation = ClientCall(client, name, key, argument, now)
        self.operations.append(operation)
        return operation

    def end(self, operation: ClientCall, ending: Ending, now: float, result: Any = None) -> None:
        """Record the end of a call, which is `UNKNOWN` if the client gave up waiting."""
        operation.ending = ending
        operation.result = result
        if ending is not Ending.UNKNOWN:
            operation.ended = now

    def by_key(self) -> dict[Hashable, list[ClientCall]]:
        """Return the operations of each key. Keys are independent objects, so each list can be checked by itself."""
        result: dict[Hashable, list[ClientCall]] = {}
        for operation in self.operations:
            result.setdefault(operation.key, []).append(operation)
        return result

    def ok(self, name: str) -> Iterable[ClientCall]:
        """Return the operations of a name that succeeded."""
        return (one for one in self.operations if one.name == name and one.ending is Ending.OK)
