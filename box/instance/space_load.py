"""Filling one space with the tuples of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from box.data.codec import unpack
from box.errors import ErrorCode, client_error
from box.index import IteratorType
from box.index.bulk import SLICE, fill
from box.index.ordered import OrderedIndex
from box.index.untracked import untrack_index, untracked_list
from box.log import Log
from box.schema.space import Space
from box.txn.storage import duplicate


class SpaceLoad:
    """Fills the empty indexes of one space: the primary one at once, the others at the end."""

    def __init__(self, space: Space) -> None:
        primary = space.primary
        if primary is None:
            raise client_error(ErrorCode.NO_SUCH_INDEX_ID, 0, space.name)
        assert isinstance(primary, OrderedIndex)
        self.space = space
        self._primary = primary
        self._count = 0

    def add(self, tuples: list[bytes]) -> None:
        """Raises what a wrong tuple raises, TUPLE_FOUND for a repeated key."""
        space, primary = self.space, self._primary
        validate, key_of, insert = space.format.validate, primary.key_of, primary.insert
        for raw in tuples:
            key = key_of(validate(raw))
            if not insert(key, raw):
                old = primary.find(key)
                assert old is not None
                raise duplicate(primary, space, old, raw)
        self._count += len(tuples)

    def steps(self, log: Log) -> Iterator[None]:
        """The secondary indexes, a slice in every step. TUPLE_FOUND."""
        self._primary.end_load(self._count)
        yield from untrack_index(self._primary)
        secondary = [index for index in self.space.indexes.values() if index is not self._primary]
        if not secondary:
            return
        log.info(f"Building secondary indexes in space '{self.space.name}'...")
        for index in secondary:
            log.info(f"Adding {self._count} keys to {index.definition.type} index '{index.name}' ...")
            assert isinstance(index, OrderedIndex)
            pairs: list[tuple[Any, bytes]] = untracked_list()
            for part in self._slices():
                keyed = ((index.key_of(unpack(raw)), raw) for raw in part)
                pairs += [pair for pair in keyed if pair[0] is not None]  # None: it does not belong to the index
                yield
            yield from fill(index, pairs, partial(duplicate, index, self.space))
            yield from untrack_index(index)
        log.info(f"Space '{self.space.name}': done")

    def _slices(self) -> Iterator[list[bytes]]:
        cursor = self._primary.cursor(IteratorType.ALL, [])
        while part := cursor.fetch(SLICE):
            yield part
