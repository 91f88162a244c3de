"""Finds rows by the values of columns that no index begins with.

A join by such columns would read the inner table once for each row of the outer one. So the rows of the inner table are
put into a hash table when they are needed for the first time, and SQLite gets only the rows with equal values. SQLite
calls this an automatic index, Tarantool an ephemeral one.

The values are compared as SQLite stores them: numbers by value, texts and BLOBs by their bytes. SQLite checks the
condition itself as well.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from box.index.untracked import untracked_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from box.sql.row_decoder import RowDecoder

    Batches = Iterator[list[bytes]]

_PART: Final = 5_000
"""The rows of a table for each of the dictionaries. To fill or free a dictionary with a million keys would be a turn of
tens of milliseconds.
"""
_END: Final = -1
"""Stands for the position before the first row with a value."""


def value_of(columns: Sequence[int]) -> Callable[[list[Any]], Any]:
    """Return a function that gives the value of a row in the columns: a tuple if there are several."""
    return itemgetter(*columns)


def _as_key(value: Any) -> Any:
    """Return what stands for a value in a dictionary: for a tuple its hash, because the garbage collector visits
    tuples.
    """
    return hash(value) if type(value) is tuple else value


class AutomaticIndex:
    """The tuples of one scan by the values of some columns. Tuples with equal values keep the order of the scan.

    Positions take the place of a list for each value, which the garbage collector would have to visit.
    """

    __slots__ = ("_before", "_last", "_tuples", "key")

    def __init__(self, key: tuple[Any, ...], count: int) -> None:
        self.key = key
        """What the scan depends on besides its plan: the bounds of a range."""
        self._tuples: list[bytes] = untracked_list()
        self._before = array("q")
        """For each tuple the position of the former one with the same value."""
        # Odd, so that even numbers fill all of them.
        self._last: list[dict[Any, int]] = [{} for _ in range(count // _PART | 1)]

    def fill(self, batches: Batches, decoder: RowDecoder, columns: Sequence[int]) -> int:
        """Read all tuples. Returns their number."""
        tuples, before, last = self._tuples, self._before, self._last
        parts = len(last)
        get, is_tuple = value_of(columns), len(columns) > 1
        for raws in batches:
            position = len(tuples)
            tuples += raws
            for row in decoder.rows(raws):
                value = _as_key(get(row)) if is_tuple else get(row)
                part = last[hash(value) % parts]
                before.append(part.get(value, _END))
                part[value] = position
                position += 1
        return len(tuples)

    def find(self, value: Any) -> list[bytes]:
        """Return the tuples with a value, and perhaps a few others if it is a tuple. A value that is nil, or contains a
        nil, equals nothing: do not ask for it.
        """
        value = _as_key(value)
        position = self._last[hash(value) % len(self._last)].get(value, _END)
        found = []
        while position != _END:
            found.append(self._tuples[position])
            position = self._before[position]
        found.reverse()
        return found

    @property
    def is_great(self) -> bool:
        """Return whether it takes a while to free the index."""
        return len(self._last) > 1

    def free_some(self) -> bool:
        """Free a part of the memory. Returns whether there is more."""
        self._last.pop()
        del self._tuples[-_PART:]
        return bool(self._last)
