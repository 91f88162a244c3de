"""Fills one space with the tuples of a snapshot."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import partial
from typing import Final

from box.data.codec import unpack
from box.data.keydef import SortKey
from box.errors import BoxError, ErrorCode, client_error, out_of_memory
from box.index import Index, IteratorType
from box.index.bulk import SLICE, Keyed, fill
from box.index.duplicate_key import duplicate_key
from box.index.functional import DisabledIndex
from box.index.ordered import OrderedIndex
from box.index.sorted_build import SortedBuild
from box.index.untracked import collector_paused, untrack_index
from box.log import Log
from box.schema.space import Space
from box.txn.write_plan import TUPLE_OVERHEAD

_KEYS_AT_ONCE: Final = 1_000_000
"""The number of keys of several indexes that are collected in one pass, which decodes each tuple once; they take some
hundred MB."""
_SEARCHED_MAX: Final = 4 * SLICE
"""The number of loaded tuples among which one turn looks for the tuples of a slice."""


class SpaceLoad:
    """Fills the empty indexes of one space: the primary index at once, the others at the end.

    A snapshot has the order of the primary key. Exceptions are HASH indexes with slots, and those in snapshots of
    another kind of instance; then tuples are inserted one by one, in the order of the snapshot. The keys of the first
    secondary index, if each tuple has one, are extracted while the tuples are decoded.
    """

    def __init__(self, space: Space) -> None:
        primary = space.primary
        if primary is None:
            raise client_error(ErrorCode.NO_SUCH_INDEX_ID, 0, space.name)
        assert isinstance(primary, OrderedIndex)
        self.space = space
        self._primary = primary
        self._secondary = [
            index for index in space.indexes.values() if index is not primary and not isinstance(index, DisabledIndex)
        ]
        self._count = 0
        self._build: SortedBuild | None = None if primary.has_slots else SortedBuild(primary)
        self._keyed = Keyed()
        """The keys of the first secondary index, collected while the primary index is built of sorted tuples."""
        self._keys_follow = bool(self._secondary) and not self._secondary[0].has_many_keys
        """True if `_keyed` is collected, which needs one key per tuple. Keys of an index with several keys per tuple
        take longer to make, so they are made in turns of their own."""

    def add(self, tuples: list[bytes]) -> None:
        """Add tuples.

        Raises:
            DuplicateKeyError: TUPLE_FOUND, a key is repeated.
            OutOfMemory: the memory limit is reached.
            BoxError: the format refuses a tuple.
        """
        self._take_room(tuples)
        if self._build is None:
            self._insert(tuples)
            return
        # Each decoded tuple is a list, so that the collector would run several times, and visit all else that is young.
        with collector_paused():
            is_sorted = self._append(self._build, tuples)
        if not is_sorted:
            self._end_build()
            self._insert(tuples)

    def _take_room(self, tuples: list[bytes]) -> None:
        primary, memory = self._primary, self._primary.memory
        if memory is None or memory.extend(sum(map(len, tuples)) + primary.weight * len(tuples)):
            primary.take_room(tuples)
            return
        room = memory.available
        for raw in tuples:
            if len(raw) > room:
                raise out_of_memory(TUPLE_OVERHEAD + len(raw), "slab allocator", "memtx_tuple")
            room -= len(raw) + primary.weight
        raise out_of_memory(TUPLE_OVERHEAD + len(tuples[-1]), "slab allocator", "memtx_tuple")

    def _append(self, build: SortedBuild, tuples: list[bytes]) -> bool:
        """Append tuples to the index being built. Returns False, and does nothing, if a tuple or the order is wrong."""
        try:
            decoded = self.space.format.validate_many(tuples)
            if not build.append(list(map(self._primary.key_of, decoded)), tuples):
                return False
        except BoxError:
            return False
        if self._keys_follow:
            self._keyed.add(list(map(self._secondary[0].key_of, decoded)), tuples)
        self._count += len(tuples)
        return True

    def _end_build(self) -> None:
        build, self._build = self._build, None
        assert build is not None
        for _ in build.finish():
            pass
        self._keyed = Keyed()

    def _insert(self, tuples: list[bytes]) -> None:
        space, primary = self.space, self._primary
        validate, key_of, insert = space.format.validate, primary.key_of, primary.insert
        for raw in tuples:
            key = key_of(validate(raw))
            if not insert(key, raw):
                old = primary.find(key)
                assert old is not None
                raise duplicate_key(primary, space.name, old, raw)
        self._count += len(tuples)

    def steps(self, log: Log) -> Iterator[None]:
        """Finish the primary index and build the others, a slice in every step.

        Raises:
            DuplicateKeyError: TUPLE_FOUND, a key is repeated.
        """
        yield from self.primary_steps()
        yield from self.secondary_steps(log, has_changed=False)

    def primary_steps(self) -> Iterator[None]:
        """Finish the primary index, a slice in every step."""
        is_sorted = self._build is not None
        if self._build is not None:
            yield from self._build.finish()
        self._primary.end_load(self._count)
        if not is_sorted:
            yield from untrack_index(self._primary)

    def secondary_steps(self, log: Log, *, has_changed: bool) -> Iterator[None]:
        """Build the secondary indexes, a slice in every step.

        `has_changed`: the primary index has other tuples by now than those that were added here.

        Raises:
            DuplicateKeyError: TUPLE_FOUND, a key is repeated.
        """
        space, rest, keyed = self.space, self._secondary, self._keyed
        has_keys = bool(self._count) and len(keyed.entries) == self._count
        if has_changed and not has_keys:
            yield from fill_secondary(space, log)
            return
        count = len(self._primary)
        if not rest or not count:
            return
        log.info(f"Building secondary indexes in space '{space.name}'...")
        if self._build is not None and self._keys_follow:
            if has_changed:
                keyed = Keyed()
                yield from self._keys_after_changes(keyed)
            yield from _fill(space, rest[0], keyed, count, log)
            rest = rest[1:]
        yield from _fill_all(space, rest, count, log)
        log.info(f"Space '{space.name}': done")

    def _keys_after_changes(self, found: Keyed) -> Iterator[None]:
        """Collect the keys of the first secondary index from changed tuples; those of other tuples are known."""
        primary, index, keys, entries = self._primary, self._secondary[0], self._keyed.keys, self._keyed.entries
        self._keyed = Keyed()

        def place(raw: bytes) -> SortKey:
            return primary.key_of(unpack(raw))

        for part in _slices(primary):
            start = bisect_left(entries, place(part[0]), key=place)
            stop = bisect_right(entries, place(part[-1]), start, key=place)
            known: dict[int, SortKey] = {}
            if stop - start <= _SEARCHED_MAX:
                known.update(zip(map(id, entries[start:stop]), keys[start:stop], strict=True))
            part_keys = list(map(known.get, map(id, part)))
            if None in part_keys:
                changed = [raw for raw, key in zip(part, part_keys, strict=True) if key is None]
                made = map(index.key_of, self.space.format.indexed_fields(changed))
                part_keys = [next(made) if key is None else key for key in part_keys]
            found.add(part_keys, part)
            yield


def fill_secondary(space: Space, log: Log) -> Iterator[None]:
    """Fill the empty secondary indexes of a space from its primary index, a slice in every step.

    Raises:
        DuplicateKeyError: TUPLE_FOUND, a key is repeated.
    """
    primary = space.index(0)
    if not len(primary):
        return
    log.info(f"Building secondary indexes in space '{space.name}'...")
    rest = [index for index in space.indexes.values() if index is not primary]
    yield from _fill_all(space, rest, len(primary), log)
    log.info(f"Space '{space.name}': done")


def rearrange_slots(space: Space, log: Log | None) -> None:
    """Bring secondary indexes with slots into the order that they have when they are filled from the primary index.

    With a log, say there what `fill_secondary` says.
    """
    primary = space.primary
    slotted = [index for index in space.indexes.values() if index.has_slots and index.iid]
    if primary is None or not slotted or not len(primary):
        return
    from box.index.slotted_hash import SlottedHashIndex

    tuples = primary.values_list()
    if log is not None:
        log.info(f"Building secondary indexes in space '{space.name}'...")
    for index in space.indexes.values():
        if log is not None and index is not primary:
            _log_keys(index, len(tuples), log)
        if index in slotted:
            assert isinstance(index, SlottedHashIndex)
            index.rearrange(zip(map(index.key_of, space.format.indexed_fields(tuples)), tuples, strict=True))
    if log is not None:
        log.info(f"Space '{space.name}': done")


def _fill_all(space: Space, indexes: list[Index], count: int, log: Log) -> Iterator[None]:
    """Fill indexes from the primary one, which has `count` tuples."""
    at_once = max(1, _KEYS_AT_ONCE // max(1, count))
    for start in range(0, len(indexes), at_once):
        group = [(index, Keyed()) for index in indexes[start : start + at_once]]
        for part in _slices(space.index(0)):
            fields = space.format.indexed_fields(part)
            yield
            for index, keyed in group:
                yield from keyed.add_tuples(index, part, fields)
        for index, keyed in group:
            yield from _fill(space, index, keyed, count, log)


def _fill(space: Space, index: Index, keyed: Keyed, count: int, log: Log) -> Iterator[None]:
    _log_keys(index, count, log)
    assert isinstance(index, OrderedIndex)
    return fill(index, keyed, partial(duplicate_key, index, space.name))


def _log_keys(index: Index, count: int, log: Log) -> None:
    log.info(f"Adding {count} keys to {index.definition.type} index '{index.name}' ...")


def _slices(primary: Index) -> Iterator[list[bytes]]:
    cursor = primary.cursor(IteratorType.ALL, [])
    while part := cursor.fetch(SLICE):
        yield part
