"""Linearisability: is there an order of the operations, consistent with real time, that a single object would allow?

```
state            the operations that have taken effect, and the object's state after them
step             an operation takes effect that began before the first end of those that are left
dead end         the model refuses each of them: the last step is taken back
```

The search is the one of Wing and Gong, with Lowe's memory of configurations tried before. Failed operations are left
out; one of unknown outcome may take effect at any time after it began, or never.

Source: J. M. Wing, C. Gong, Testing and verifying concurrent objects (1993); G. Lowe, Testing for linearizability
(2017).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from math import inf
from typing import Any, NamedTuple, Protocol, Self

from box.testing.simulation.history import ClientCall, Ending


class Model(Protocol):
    """A sequential object. States are immutable and hashable."""

    initial: Hashable

    def step(self, state: Any, operation: ClientCall) -> tuple[bool, Any]:
        """Return whether the operation's result is possible in a state, and the state after the operation.

        The result of an operation of unknown outcome is ignored.
        """


class Register:
    """A register: `write` sets the value, `read` returns it, `cas` (argument: old, new) sets it if it is the old one.

    The result of `cas` is True if it has set the value.
    """

    def __init__(self, initial: Hashable = None) -> None:
        self.initial = initial

    def step(self, state: Any, operation: ClientCall) -> tuple[bool, Any]:
        known = operation.ending is Ending.OK
        match operation.name:
            case "write":
                return True, operation.argument
            case "read":
                return not known or operation.result == state, state
            case "cas":
                old, new = operation.argument
                is_done = state == old
                return not known or operation.result == is_done, new if is_done else state
        raise ValueError(f"a register has no {operation.name!r}")


class AppendList:
    """A list: `append` adds a value at the end, each value once; `read` returns all values as a tuple.

    `longest` is the longest result of the checked reads. Up to that read every state is a prefix of it, and afterwards
    an append of unknown outcome changes nothing that any read has seen. Without this the search would try each such
    append at every place.
    """

    initial: Hashable = ()

    def __init__(self, longest: Sequence[Hashable]) -> None:
        self._longest = tuple(longest)

    @classmethod
    def of(cls, operations: Iterable[ClientCall]) -> Self:
        """Return the model for a history."""
        reads = (one.result for one in operations if one.name == "read" and one.ending is Ending.OK)
        return cls(max(reads, key=len, default=()))

    def step(self, state: Any, operation: ClientCall) -> tuple[bool, Any]:
        if operation.name == "append":
            length, value = len(state), operation.argument
            if length < len(self._longest):
                return self._longest[length] == value, (*state, value)
            return operation.ending is Ending.OK, (*state, value)
        if operation.name == "read":
            return operation.ending is not Ending.OK or tuple(operation.result) == state, state
        raise ValueError(f"a list has no {operation.name!r}")


class Unique:
    """A unique key: `insert` takes the key if it is free, `delete` frees it, `read` returns its value or None.

    The result of `insert` is True if the key was free.
    """

    initial: Hashable = None

    def step(self, state: Any, operation: ClientCall) -> tuple[bool, Any]:
        known = operation.ending is Ending.OK
        match operation.name:
            case "insert":
                is_free = state is None
                return not known or operation.result == is_free, operation.argument if is_free else state
            case "delete":
                return True, None
            case "read":
                return not known or operation.result == state, state
        raise ValueError(f"a unique key has no {operation.name!r}")


class Violation(NamedTuple):
    """A history that no order explains: `longest` is the longest order found, `stuck` what could not follow."""

    longest: list[ClientCall]
    stuck: list[ClientCall]

    def __str__(self) -> str:
        lines = ["no order explains these operations; the longest one that was found:"]
        lines += [f"  {operation}" for operation in self.longest[-8:]]
        lines.append("none of these can follow:")
        lines += [f"  {operation}" for operation in self.stuck]
        return "\n".join(lines)


class _Step(NamedTuple):
    """An operation that took effect, and the state before it."""

    number: int
    before: Any


def check(operations: Sequence[ClientCall], model: Model) -> Violation | None:
    """Check the history of one object; return None if it is linearisable."""
    return _Search([one for one in operations if one.ending is not Ending.FAILED], model).run()


class _Search:
    """A depth-first search for an order. Operations are numbered in the order in which they began."""

    def __init__(self, operations: list[ClientCall], model: Model) -> None:
        self._operations = sorted(operations, key=lambda one: (one.began, one.ended))
        self._model = model
        self._is_left = [True] * len(operations)
        self._first = 0
        """All operations before this number have taken effect."""
        self._ends_left = sum(one.ended != inf for one in operations)
        """The operations with a known end that are left; those without an end need not take effect."""
        self._done = 0
        """The operations that have taken effect, as bits."""
        self._tried: set[tuple[int, Any]] = set()
        """Configurations that were reached before: the operations that took effect, and the state."""
        self._steps: list[_Step] = []
        self._longest: list[int] = []

    def run(self) -> Violation | None:
        state: Any = self._model.initial
        choices = [iter(self._candidates())]
        while self._ends_left:
            found = self._next_step(choices[-1], state)
            if found is not None:
                number, after = found
                self._steps.append(_Step(number, state))
                self._take(number)
                state = after
                choices.append(iter(self._candidates()))
                continue
            choices.pop()
            if len(self._steps) > len(self._longest):
                self._longest = [step.number for step in self._steps]
            if not self._steps:
                return self._violation()
            number, state = self._steps.pop()
            self._take_back(number)
        return None

    def _take(self, number: int) -> None:
        self._is_left[number] = False
        self._ends_left -= self._operations[number].ended != inf
        self._done |= 1 << number
        while self._first < len(self._is_left) and not self._is_left[self._first]:
            self._first += 1

    def _take_back(self, number: int) -> None:
        self._is_left[number] = True
        self._ends_left += self._operations[number].ended != inf
        self._done &= ~(1 << number)
        self._first = min(self._first, number)

    def _candidates(self) -> list[int]:
        """Return the operations that are left and began before any other of them ended."""
        first_end = inf
        found = []
        for number in range(self._first, len(self._operations)):
            if self._is_left[number]:
                operation = self._operations[number]
                if operation.began > first_end:
                    break
                first_end = min(first_end, operation.ended)
                found.append(number)
        return [number for number in found if self._operations[number].began <= first_end]

    def _next_step(self, choices: Iterator[int], state: Any) -> tuple[int, Any] | None:
        for number in choices:
            is_possible, after = self._model.step(state, self._operations[number])
            configuration = (self._done | 1 << number, after)
            if is_possible and configuration not in self._tried:
                self._tried.add(configuration)
                return number, after
        return None

    def _violation(self) -> Violation:
        """Replay the longest order that was found, and report what could not follow it."""
        for number in self._longest:
            self._take(number)
        stuck = [self._operations[number] for number in self._candidates()]
        return Violation([self._operations[number] for number in self._longest], stuck)
