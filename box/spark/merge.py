"""Reads a snapshot merged with the log, share by share: each worker applies the changes of its own keys.

A space whose primary key is a tree is sorted by it. So a share of the snapshot's blocks has the keys from its first
tuple up to the first tuple of the next share, and gets only the changes of these keys. Without an order (a hash index)
there is only one share. If the log has emptied or created the space, the tuples of the snapshot do not count. Then the
keys are distributed over the shares by their hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from box.data.codec import unpack
from box.spark.base_tuples import BaseTuples, FindTuples, tuple_finder
from box.spark.blocks import BlockFile, BlockRange, SkipLog
from box.spark.change_runs import ChangeRuns, concatenated, merged
from box.spark.changes import FoundChanges, SpaceChanges, bucket_of
from box.spark.columns import Column
from box.spark.conditions import Condition
from box.spark.cut import Cut
from box.spark.decoder import decode_blocks, decode_rest, found_tuples, joined, new_decoder
from box.spark.definitions import Definitions, SpaceInfo, primary_key
from box.spark.key_ranges import KeyRange, sort_key
from box.spark.misfits import Misfits
from box.spark.outcomes import Folder
from box.spark.overlay import LookupOverlay, SortedOverlay
from box.spark.primary_keys import PlainParts, PrimaryKeys, SortKey
from box.spark.snapshot import Scope, first_tuple, narrow
from box.wire.row import Row


@dataclass(frozen=True, slots=True)
class KeySpan:
    """The keys of a share: from the key of the tuple `low` up to, but not including, that of `high`, or a hash bucket.

    None for `low` or `high` means no bound; `bucket` is one of `buckets`.
    """

    low: bytes | None = None
    high: bytes | None = None
    bucket: int = 0
    buckets: int = 1

    def may_hold(self, keys: KeyRange, field: int) -> bool:
        """Return whether the share may have keys of a range; `field` is the field number of the key."""
        if self.low is not None and keys.is_before(sort_key(unpack(self.low)[field])):
            return False
        return self.high is None or not keys.is_after(sort_key(unpack(self.high)[field]))


@dataclass(frozen=True, slots=True)
class MergedSpace:
    """One space in a snapshot and in a log.

    `definitions` are those of the snapshot. `has_base` is False if the log has emptied or created the space, so that
    the snapshot's tuples do not count at the end of the cut.
    """

    space_id: int
    cut: Cut
    definitions: Definitions
    has_base: bool

    @classmethod
    def of(cls, space: SpaceInfo, cut: Cut, definitions: Definitions, schema_changes: Sequence[Row]) -> MergedSpace:
        """Return the merged space; `space` is its definition at the end of the cut, `definitions` are those of the
        snapshot.

        Raises:
            BoxError: UNSUPPORTED, the order of its keys is unknown.
        """
        if space.primary is not None:
            primary_key(space)
        changes = SpaceChanges(space.id, definitions, lambda key, encoded: False)
        for row in schema_changes:
            changes.take(row)
        return cls(space.id, cut, definitions.only(space.id), changes.has_base)

    @property
    def log_size(self) -> int:
        """The number of bytes of the log to read."""
        return sum(piece.end for piece in self.cut.pieces)

    def shares(self, file: BlockFile, size: int) -> list[tuple[KeySpan, tuple[BlockRange, ...]]]:
        """Return shares of about `size` bytes of the snapshot, each with its keys and its blocks."""
        if not self.has_base:
            count = max(1, -(-self.log_size // size))
            return [(KeySpan(bucket=number, buckets=count), ()) for number in range(count)]
        ranges = narrow(file, Scope(self.space_id))
        info = self.definitions.by_id(self.space_id)
        if info is None or info.primary is None or info.primary.type != "tree":
            return [(KeySpan(), tuple(ranges))]
        return _sorted_shares(self.space_id, file, ranges, size)

    def _filter(self, span: KeySpan) -> SpanFilter:
        info = self.definitions.by_id(self.space_id) if self.has_base else None
        return SpanFilter(span, None if info is None or info.primary is None else PrimaryKeys(info))

    def changes(self, span: KeySpan, *, compiled: bool) -> SpaceChanges:
        """Return the changes of the keys of a share, found by one pass over the log."""
        wanted = self._filter(span)
        changes = SpaceChanges(self.space_id, self.definitions, wanted.holds)
        find = self._finding(changes) if compiled else lambda rows: rows
        for blocks in self.cut.groups():
            found = find(joined(blocks.blocks))
            if isinstance(found, bytes):
                for row in self.cut.counting(blocks, found):
                    changes.take(row)
            else:
                changes.take_found(wanted.of(found))
        return changes

    def _finding(self, changes: SpaceChanges) -> Callable[[bytes], FoundChanges | bytes]:
        """Return a function that finds changes in the rows of blocks by compiled code, with the definitions of that
        moment."""
        from box.spark.compiled_log import ChangeFinder

        finders: dict[PlainParts | None, ChangeFinder] = {}

        def find(rows: bytes) -> FoundChanges | bytes:
            parts = changes.keys.plain if changes.has_keys else None
            if parts not in finders:
                finders[parts] = ChangeFinder(self.space_id, parts, self.cut.since, self.cut.left_out)
            return finders[parts].find(rows)

        return find

    def read(
        self,
        file: BlockFile,
        span: KeySpan,
        ranges: Sequence[BlockRange],
        columns: Sequence[Column],
        schema: pa.Schema,
        conditions: Sequence[Condition],
        *,
        compiled: bool,
        on_skip: SkipLog | None,
        misfits: Misfits | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Return batches of `schema` with the rows of one share at the end of the cut.

        Raises:
            XlogError: a block is broken and there is no `on_skip`.
            BoxError: ILLEGAL_PARAMS, a value does not fit its column.
        """
        decoder = new_decoder(self.space_id, columns, schema, conditions, compiled=compiled, misfits=misfits)
        changes = self.changes(span, compiled=compiled)
        base = (block for item in ranges for block in file.blocks(item)) if self.has_base else iter(())
        if not changes.has_keys:  # Without a primary key no row can be written: the space has what is in the snapshot
            yield from decode_blocks(decoder, file.path, base, on_skip)
            return
        find = tuple_finder(self.space_id, changes.keys, compiled=compiled)
        folder = Folder(self.space_id, changes.keys, changes.formats)
        overlay = self._overlay(find, folder, changes.runs, found_tuples(find, file.path, base, on_skip))
        yield from decode_blocks(decoder, file.path, base, on_skip, overlay)
        yield from decode_rest(decoder, overlay)

    def _overlay(
        self, find: FindTuples, folder: Folder, runs: ChangeRuns, tuples: Iterator[BaseTuples]
    ) -> LookupOverlay | SortedOverlay:
        """Return an overlay that applies the changes to the tuples of a share.

        If there are too many changes for memory, and the tuples are not sorted, this sorts the tuples too and consumes
        `tuples`.
        """
        if not self.has_base or self._is_sorted():
            return SortedOverlay(find, folder, merged(runs))
        if not runs.is_spilled:
            pieces = [piece.changes for piece in merged(runs).until(None)]
            return LookupOverlay(find, folder, concatenated(pieces))
        older = ChangeRuns()
        for some in tuples:
            older.add(folder.as_changes(some))
        return SortedOverlay(find, folder, merged(older, runs))

    def _is_sorted(self) -> bool:
        """Return whether the snapshot has the tuples in the order of their encoded keys."""
        info = self.definitions.by_id(self.space_id)
        return info is not None and info.primary is not None and PrimaryKeys(info).is_ordered


class SpanFilter:
    """The test for keys that belong to a share.

    `keys` are the primary keys of the snapshot's tuples, None if these do not count.
    """

    def __init__(self, span: KeySpan, keys: PrimaryKeys | None) -> None:
        self._span = span
        self._is_plain = keys is None or keys.plain is not None
        self._low, self._high = (self._place(raw, keys) for raw in (span.low, span.high))

    @staticmethod
    def _place(raw: bytes | None, keys: PrimaryKeys | None) -> Any:
        """Return the key of a tuple in the form in which `holds` compares it."""
        if raw is None or keys is None:
            return None
        return keys.of_tuple(raw) if keys.plain is not None else keys.key_def.extract(unpack(raw))

    def holds(self, key: SortKey, encoded: bytes) -> bool:
        """Return whether a key belongs to the share."""
        span, place = self._span, encoded if self._is_plain else key
        if span.buckets > 1 and bucket_of(encoded, span.buckets) != span.bucket:
            return False
        return (self._low is None or not place < self._low) and (self._high is None or place < self._high)

    def of(self, found: FoundChanges) -> FoundChanges:
        """Return the changes whose keys belong to the share."""
        span, keys = self._span, found.keys
        if self._low is None and self._high is None and span.buckets == 1:
            return found
        mask = pa.array(np.ones(len(keys), np.bool_))
        if span.buckets > 1:
            mask = pa.array([bucket_of(key, span.buckets) == span.bucket for key in keys.to_pylist()], pa.bool_())
        if self._low is not None:
            mask = pc.and_(mask, pc.greater_equal(keys, pa.scalar(self._low, pa.binary())))
        if self._high is not None:
            mask = pc.and_(mask, pc.less(keys, pa.scalar(self._high, pa.binary())))
        return FoundChanges(*(column.filter(mask) for column in found))


def _sorted_shares(
    space_id: int, file: BlockFile, ranges: Sequence[BlockRange], size: int
) -> list[tuple[KeySpan, tuple[BlockRange, ...]]]:
    """Return shares that begin with a tuple of the space at the beginning of a block; the first has no lower bound."""
    pieces = [piece for item in ranges for piece in file.shares(max(1, round((item.end - item.start) / size)), item)]
    groups: list[list[BlockRange]] = [[]]
    lows: list[bytes | None] = [None]
    for piece in pieces:
        found_id, raw = first_tuple(file, piece.start)
        if found_id == space_id and groups[-1]:
            groups.append([])
            lows.append(raw)
        groups[-1].append(piece)
    spans = [KeySpan(low, high) for low, high in zip(lows, [*lows[1:], None], strict=True)]
    return [(span, tuple(group)) for span, group in zip(spans, groups, strict=True)]
