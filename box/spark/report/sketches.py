"""Summaries of many values in little memory; summaries of two parts can be joined."""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Iterable
from typing import Any, Final

_SMALLEST: Final = 512
"""The number of hashes that are kept."""
_SPACE: Final = 1 << 64
"""The number of possible hashes."""
_SAMPLE: Final = 2000
"""The size of a sample."""
_LARGEST: Final = 20
"""The number of largest tuples."""


class DistinctCount:
    """An estimate of the number of distinct values by the smallest hashes.

    It is exact up to 512 distinct values, above with an error of about 10 %.
    """

    def __init__(self) -> None:
        self._hashes: set[int] = set()
        self._limit = _SPACE

    def add(self, values: Iterable[Any]) -> None:
        """Add values, which are distinguished by their `repr`; without repetitions this is faster."""
        for value in values:
            data = value if isinstance(value, bytes) else repr(value).encode("utf-8", "replace")
            number = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")
            if number < self._limit:
                self._hashes.add(number)
        self._trim()

    def _trim(self) -> None:
        if len(self._hashes) > _SMALLEST:
            self._hashes = set(heapq.nsmallest(_SMALLEST, self._hashes))
            self._limit = max(self._hashes)

    def join(self, other: DistinctCount) -> None:
        """Add the values that another object has seen."""
        self._hashes |= other._hashes
        self._trim()

    @property
    def is_exact(self) -> bool:
        """True if the number is exact."""
        return self._limit == _SPACE

    @property
    def count(self) -> int:
        """The number of distinct values.

        If the 512 least of n evenly distributed hashes reach up to `_limit`, n is about 511 / (_limit / 2^64).
        """
        return len(self._hashes) if self.is_exact else round((_SMALLEST - 1) * _SPACE / self._limit)


class Sample:
    """A sample of up to 2,000 values, each with the same probability; `count` is the number of all values."""

    def __init__(self, seed: int = 0) -> None:
        self.values: list[float] = []
        self.count = 0
        self._random = random.Random(seed)

    def add(self, values: Iterable[float]) -> None:
        for value in values:
            self.count += 1
            if len(self.values) < _SAMPLE:
                self.values.append(value)
            elif (place := self._random.randrange(self.count)) < _SAMPLE:
                self.values[place] = value

    def join(self, other: Sample) -> None:
        """Merge another sample into this one; each contributes values in proportion to its count."""
        total = self.count + other.count
        if len(self.values) + len(other.values) > _SAMPLE:
            own = round(_SAMPLE * self.count / total)
            self.values = self._random.sample(self.values, min(own, len(self.values)))
            self.values += self._random.sample(other.values, min(_SAMPLE - own, len(other.values)))
        else:
            self.values += other.values
        self.count = total


class Largest:
    """The 20 largest tuples with their size, space and the beginning of their text."""

    def __init__(self) -> None:
        self.items: list[tuple[int, str, str]] = []

    def wants(self, size: int) -> bool:
        """Return whether a tuple of this size is among the largest so far."""
        return len(self.items) < _LARGEST or size > self.items[0][0]

    def add(self, size: int, space: str, text: str) -> None:
        heapq.heappush(self.items, (size, space, text))
        if len(self.items) > _LARGEST:
            heapq.heappop(self.items)

    def join(self, other: Largest) -> None:
        for item in other.items:
            self.add(*item)
