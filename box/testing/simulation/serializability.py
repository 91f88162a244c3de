"""Serialisability: do the reads agree with some order of the transactions that is consistent with real time?

Objects are lists to which unique values are appended. So a read shows the whole history of its object, and with it the
order of its versions. Transactions depend on each other:

```
ww    the writer of a value               -> the writer of the next one
wr    the writer of a read's last value   -> the reader
rw    a reader                            -> the writer of the first value that it has not seen
real  a transaction that has ended        -> one that began later
```

A cycle means that there is no such order. Besides, no read may see refused values, the middle of a transaction, or a
second history of an object; and acknowledged values are there in the end.

Source: K. Kingsbury, P. Alvaro, Elle: inferring isolation anomalies from experimental observations (2020).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from box.testing.simulation.history import ClientCall, Ending

Values = tuple[int, ...]


class ListRead(NamedTuple):
    """A transaction has read these values, which include its own."""

    key: Hashable
    values: Values


class ListAppend(NamedTuple):
    """A transaction has appended a value that no other transaction appends."""

    key: Hashable
    value: int


Operation = ListRead | ListAppend
Edges = dict[int, dict[int, str]]
"""For each transaction the later ones that depend on it, with the kind of the dependency."""


def check_serializability(calls: Sequence[ClientCall], final: Mapping[Hashable, Values]) -> Iterator[str]:
    """Yield violations in a history of calls with a list of operations as `argument`.

    `final` has the values of each list in the end.
    """
    checker = _Checker(calls, final)
    found = list(checker.broken_reads())
    yield from found
    if not found:
        yield from checker.cycles()


class _Checker:
    def __init__(self, calls: Sequence[ClientCall], final: Mapping[Hashable, Values]) -> None:
        self._calls = [call for call in calls if call.ending is not Ending.FAILED]
        self._refused = {value for call in calls if call.ending is Ending.FAILED for _, value in _appends(call)}
        self._final = final
        self._writer: dict[int, int] = {}
        self._last_of: dict[tuple[int, Hashable], int] = {}
        """The last value that a transaction appends to an object: other transactions see it, or none of its values
        there.
        """
        for number, call in enumerate(self._calls):
            for key, value in _appends(call):
                self._writer[value] = number
                self._last_of[number, key] = value

    def _reads(self) -> Iterator[tuple[int, ListRead]]:
        """Yield the reads of committed transactions, and those of the final state with the number -1."""
        for number, call in enumerate(self._calls):
            if call.ending is Ending.OK:
                yield from ((number, one) for one in call.argument if isinstance(one, ListRead))
        yield from ((-1, ListRead(key, values)) for key, values in self._final.items())

    def broken_reads(self) -> Iterator[str]:
        """Yield reads that no order explains, and acknowledged values that are lost."""
        for number, read in self._reads():
            who = "the end" if number < 0 else str(self._calls[number])
            final = self._final.get(read.key, ())
            if final[: len(read.values)] != read.values:
                yield f"{who} has read {read}, and in the end there is {final}"
            for value in read.values:
                if value in self._refused:
                    yield f"{who} has read {value} of {read.key!r}, which was refused"
                elif value not in self._writer:
                    yield f"{who} has read {value} of {read.key!r}, which nobody has written"
            last = read.values[-1] if read.values else None
            writer = self._writer.get(last, number) if last is not None else number
            if writer != number and self._last_of[writer, read.key] != last:
                yield f"{who} has read {read} in the middle of {self._calls[writer]}"
        for call in self._calls:
            if call.ending is Ending.OK:
                lost = [one for one in _appends(call) if one.value not in self._final.get(one.key, ())]
                if lost:
                    yield f"acknowledged, and lost: {lost} of {call}"

    # -- dependencies

    def _edges(self) -> Edges:
        edges: Edges = {}

        def add(one: int, other: int, reason: str) -> None:
            if one != other:
                edges.setdefault(one, {}).setdefault(other, reason)

        for values in self._final.values():
            writers = [self._writer[value] for value in values]
            for one, other in itertools.pairwise(writers):
                add(one, other, "ww")
        for number, read in self._reads():
            if number < 0:
                continue
            others = [value for value in read.values if self._writer[value] != number]
            if others:
                add(self._writer[others[-1]], number, "wr")
            behind = self._final.get(read.key, ())[len(read.values) :]
            if behind:
                add(number, self._writer[behind[0]], "rw")
        self._add_real_time(add)
        return edges

    def _add_real_time(self, add: Callable[[int, int, str], None]) -> None:
        """Add moments as nodes: each end leads to the next moment, a moment to the next one and to what begins then.

        This takes far fewer edges than one from every end to every later beginning.
        """
        ends = sorted((call.ended, number) for number, call in enumerate(self._calls) if call.ending is Ending.OK)
        begins = sorted((call.began, number) for number, call in enumerate(self._calls))
        place, moment = 0, -1
        for began, number in begins:
            before = moment
            while place < len(ends) and ends[place][0] < began:
                if moment == before:
                    moment -= 1
                    if before < -1:
                        add(before, moment, "real")
                add(ends[place][1], moment, "real")
                place += 1
            if moment < -1:
                add(moment, number, "real")

    def cycles(self) -> Iterator[str]:
        """Yield one cycle, if there is any."""
        edges = self._edges()
        cycle = _find_cycle(edges)
        if cycle:
            steps = zip(cycle, [*cycle[1:], cycle[0]], strict=True)
            lines = [f"  {self._name(one)}\n    {edges[one][other]}" for one, other in steps]
            yield "not serialisable:\n" + "\n".join(lines)

    def _name(self, number: int) -> str:
        return str(self._calls[number]) if number >= 0 else "a moment"


def _appends(call: ClientCall) -> Iterator[ListAppend]:
    return (one for one in call.argument if isinstance(one, ListAppend))


def _find_cycle(edges: Edges) -> list[int]:
    """Return a cycle, or an empty list. The search is depth first, without recursion because histories are long."""
    finished: set[int] = set()
    for start in list(edges):
        if start in finished:
            continue
        path, on_path = [start], {start: 0}
        choices: list[Iterator[int]] = [iter(edges.get(start, ()))]
        while path:
            following = next(choices[-1], None)
            if following is None:
                finished.add(path[-1])
                del on_path[path.pop()]
                choices.pop()
            elif following in on_path:
                return path[on_path[following] :]
            elif following not in finished:
                on_path[following] = len(path)
                path.append(following)
                choices.append(iter(edges.get(following, ())))
    return []
