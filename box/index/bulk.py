"""Fills an empty index with many entries in any order, a slice at a time.

Sorting two million keys takes one call of a second or more, and inserting them one by one misses the cache each time.
Therefore a sample of the keys gives the limits of buckets. Every entry goes to its bucket, and each bucket is sorted
and appended in one turn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any, Final

from box.data.keydef import SortKey
from box.index.base import Entry, Index
from box.index.ordered import OrderedIndex
from box.index.placed import PlacedIndex
from box.index.sorted_build import SortedBuild
from box.index.untracked import untracked_list

SLICE: Final = 1024
"""The number of entries that are handled in one turn, which takes one or two milliseconds."""
PREPARED: Final = 64
"""The number of tuples for which an index prepares at once."""
_SAMPLES: Final = 4
"""Sampled keys per bucket. With four, few buckets become more than twice as large as intended."""
_MOST_BUCKETS: Final = 4096
"""The number of buckets at most: from four million entries on buckets become larger than a slice."""
_PLACED_SLICE: Final = 128
"""The number of entries that are put into a bitset in one turn, which takes one or two milliseconds."""


class Keyed:
    """Entries and their keys in parallel lists, which the garbage collector does not visit."""

    __slots__ = ("entries", "keys")

    def __init__(self) -> None:
        self.keys: list[SortKey] = untracked_list()
        self.entries: list[Entry] = untracked_list()

    def add_tuples(self, index: Index, tuples: list[bytes], decoded: list[list[Any]]) -> Iterator[None]:
        """Add at most `SLICE` tuples with the keys that they have in an index, one turn's share with each step.

        Raises the errors of `Index.keys_of`.
        """
        if not index.has_many_keys:
            self.add(list(map(index.key_of, decoded)), tuples)
            yield
            return
        effort = 0
        for start in range(0, len(tuples), PREPARED):
            part = tuples[start : start + PREPARED]
            index.prepare(part)
            for raw, fields in zip(part, decoded[start : start + PREPARED], strict=True):
                keys = index.keys_of(raw, fields)
                self.keys += keys
                self.entries += [raw] * len(keys)
                effort += index.effort * (len(keys) or 1)
                if effort >= SLICE:
                    effort = 0
                    yield
        yield

    def add(self, keys: list[SortKey], entries: list[Entry]) -> None:
        """Add entries. One without a key does not belong to the index and is skipped."""
        if None in keys:
            entries = [entry for key, entry in zip(keys, entries, strict=True) if key is not None]
            keys = [key for key in keys if key is not None]
        self.keys += keys
        self.entries += entries


def fill(index: OrderedIndex, keyed: Keyed, repeated: Callable[[Entry, Entry], Exception]) -> Iterator[None]:
    """Add the entries to the index, one turn's share with each step; `keyed` is empty at the end.

    Raises `repeated(entry, entry)` for the two entries of a repeated key.
    """
    keys, entries = keyed.keys, keyed.entries
    count = len(keys)
    if isinstance(index, PlacedIndex) or index.has_slots:
        yield from _add_all(index, keyed, repeated)
        return
    bucket_count = min(_MOST_BUCKETS, count // SLICE + 1)
    stride = max(1, count // (bucket_count * _SAMPLES))
    sample: list[SortKey] = []
    for sample in _sorted_sample(keys, stride):  # noqa: B007 - the last one is the result
        yield
    cuts = sample[_SAMPLES::_SAMPLES]
    buckets: list[list[Any]] = untracked_list(untracked_list() for _ in range(len(cuts) + 1))
    yield
    while keys:
        for key, entry in zip(keys[-SLICE:], entries[-SLICE:], strict=True):
            buckets[bisect_right(cuts, key)] += (key, entry)
        del keys[-SLICE:], entries[-SLICE:]
        yield
    build = SortedBuild(index)
    for number, bucket in enumerate(buckets):
        buckets[number] = []
        pairs = sorted(zip(bucket[::2], bucket[1::2], strict=True), key=itemgetter(0))
        for start in range(0, len(pairs), SLICE):
            flat = list(chain.from_iterable(pairs[start : start + SLICE]))
            if not build.append(flat[::2], flat[1::2]):
                raise repeated(*_repeated(pairs))
            index.follow_load(flat[::2])
            yield
    yield from build.finish()
    index.end_load(count)


def _add_all(index: OrderedIndex, keyed: Keyed, repeated: Callable[[Entry, Entry], Exception]) -> Iterator[None]:
    """Add the entries in the given order, on which the numbers of a bitset and the slots of a hash depend."""
    keyed.keys.reverse()
    keyed.entries.reverse()
    while keyed.keys:
        for _ in range(min(_PLACED_SLICE, len(keyed.keys))):
            key, entry = keyed.keys.pop(), keyed.entries.pop()
            if not index.add(key, entry):
                raise repeated(index.find(key), entry)
        yield


def _sorted_sample(keys: list[SortKey], stride: int) -> Iterator[list[SortKey]]:
    """Sort every `stride`-th key in steps (parts are sorted, then merged); the last list that it yields is the sorted
    sample.
    """
    parts = deque[list[SortKey]]()
    for start in range(0, len(keys), stride * SLICE):
        parts.append(sorted(keys[start : start + stride * SLICE : stride]))
        yield parts[-1]
    while len(parts) > 1:
        parts.append(sorted(parts.popleft() + parts.popleft()))
        yield parts[-1]


def _repeated(pairs: list[tuple[SortKey, Entry]]) -> tuple[Entry, Entry]:
    """Return the first two entries with the same key."""
    return next((one[1], other[1]) for one, other in pairwise(pairs) if one[0] == other[0])
