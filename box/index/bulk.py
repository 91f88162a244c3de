"""Filling an empty index with many entries in any order, a slice at a time.

Sorting two million keys is one call of a second or more, and inserting them one by one misses the cache each time. So a
sample of the keys says where to cut; every entry goes to its bucket, and each bucket is sorted and appended in a turn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import pairwise
from operator import itemgetter
from typing import Final

from box.data.keydef import SortKey
from box.index.base import Entry
from box.index.ordered import OrderedIndex
from box.index.sorted_build import SortedBuild
from box.index.untracked import untracked_list

SLICE: Final = 1024
"""Entries that are handled in one turn: one or two milliseconds."""
_SAMPLES: Final = 4
"""Keys of the sample for each bucket: then few buckets are more than twice as large as they should be."""
_MOST_BUCKETS: Final = 4096

Pair = tuple[SortKey, Entry]


def fill(index: OrderedIndex, pairs: list[Pair], repeated: Callable[[Entry, Entry], Exception]) -> Iterator[None]:
    """Add the pairs; a step of the iterator is a turn. The list is empty at the end.

    Raises what `repeated` makes of the two entries of a key that comes twice.
    """
    count = len(pairs)
    bucket_count = min(_MOST_BUCKETS, count // SLICE + 1)
    stride = max(1, count // (bucket_count * _SAMPLES))
    sample = sorted(key for key, _ in pairs[::stride])
    cuts = sample[_SAMPLES::_SAMPLES]
    buckets: list[list[Pair]] = [untracked_list() for _ in range(len(cuts) + 1)]
    yield
    while pairs:
        part = pairs[-SLICE:]
        del pairs[-SLICE:]
        for pair in part:
            buckets[bisect_right(cuts, pair[0])].append(pair)
        yield
    build = SortedBuild(index)
    for number, bucket in enumerate(buckets):
        buckets[number] = []
        bucket.sort(key=itemgetter(0))
        for start in range(0, len(bucket), SLICE):
            keys, entries = zip(*bucket[start : start + SLICE], strict=True)
            if not build.append(keys, entries):
                raise repeated(*_repeated(bucket))
            yield
    yield from build.finish()
    index.end_load(count)


def _repeated(bucket: list[Pair]) -> tuple[Entry, Entry]:
    """The first two entries with the same key."""
    return next((one[1], other[1]) for one, other in pairwise(bucket) if one[0] == other[0])
