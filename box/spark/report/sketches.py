"""Summaries of many values in little memory. Two summaries of two parts are one of both."""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Iterable
from typing import Any, Final

_SMALLEST: Final = 512
_SPACE: Final = 1 << 64
_SAMPLE: Final = 2000
_LARGEST: Final = 20


class DistinctCount:
    """Keeps the smallest hashes: exact below 512 distinct values, else within some 10 %."""

    def __init__(self) -> None:
        self._hashes: set[int] = set()
        self._limit = _SPACE

    def add(self, values: Iterable[Any]) -> None:
        """Values by their `repr`; best without repetitions."""
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
        """Take over what another one has seen."""
        self._hashes |= other._hashes
        self._trim()

    @property
    def is_exact(self) -> bool:
        return self._limit == _SPACE

    @property
    def count(self) -> int:
        """The number of distinct values."""
        return len(self._hashes) if self.is_exact else round((_SMALLEST - 1) * _SPACE / self._limit)


class Sample:
    """Up to 2,000 values, each with the same chance; `count` is how many there were."""

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
        """Take over another sample: as many of each as its share of all values."""
        total = self.count + other.count
        if len(self.values) + len(other.values) > _SAMPLE:
            own = round(_SAMPLE * self.count / total)
            self.values = self._random.sample(self.values, min(own, len(self.values)))
            self.values += self._random.sample(other.values, min(_SAMPLE - own, len(other.values)))
        else:
            self.values += other.values
        self.count = total


class Largest:
    """The 20 largest tuples: size, space and the beginning of their text."""

    def __init__(self) -> None:
        self.items: list[tuple[int, str, str]] = []

    def wants(self, size: int) -> bool:
        """Whether a tuple of so many bytes is among the largest so far."""
        return len(self.items) < _LARGEST or size > self.items[0][0]

    def add(self, size: int, space: str, text: str) -> None:
        heapq.heappush(self.items, (size, space, text))
        if len(self.items) > _LARGEST:
            heapq.heappop(self.items)

    def join(self, other: Largest) -> None:
        for item in other.items:
            self.add(*item)
