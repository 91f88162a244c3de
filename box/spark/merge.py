"""A snapshot merged with the log, share by share: each worker applies the changes of its own keys.

A space whose primary key is a tree is sorted by it, so a share of the snapshot's blocks holds the keys between its
first tuple and the first tuple of the next share, and takes the changes of these keys only. Without an order (a hash
index) there is one share. Where the log has emptied the space, or made it, the snapshot's blocks do not count: then
keys are dealt out by a number made from them.
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
    """The keys of a share: from that of the tuple `low` to before that of the tuple `high`, or a bucket of several."""

    low: bytes | None = None
    high: bytes | None = None
    bucket: int = 0
    buckets: int = 1

    def may_hold(self, keys: KeyRange, field: int) -> bool:
        """Whether keys of a range can be here; `field` is their place in the tuples."""
        if self.low is not None and keys.is_before(sort_key(unpack(self.low)[field])):
            return False
        return self.high is None or not keys.is_after(sort_key(unpack(self.high)[field]))


@dataclass(frozen=True, slots=True)
class MergedSpace:
    """One space in a snapshot and in a log: the cut, the definitions in the snapshot, and whether the snapshot's tuples
    still count at the end."""

    space_id: int
    cut: Cut
    definitions: Definitions
    has_base: bool

    @classmethod
    def of(cls, space: SpaceInfo, cut: Cut, definitions: Definitions, schema_changes: Sequence[Row]) -> MergedSpace:
        """`space` is as at the end, the definitions are the snapshot's. Raises UNSUPPORTED for an order of keys that
        is not known."""
        if space.primary is not None:
            primary_key(space)
        changes = SpaceChanges(space.id, definitions, lambda key, encoded: False)
        for row in schema_changes:
            changes.take(row)
        return cls(space.id, cut, definitions.only(space.id), changes.has_base)

    @property
    def log_size(self) -> int:
        """Bytes of the log that count."""
        return sum(piece.end for piece in self.cut.pieces)

    def shares(self, file: BlockFile, size: int) -> list[tuple[KeySpan, tuple[BlockRange, ...]]]:
        """Shares of about `size` bytes of the snapshot."""
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
        """The changes of the span's keys, by one pass over the log."""
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
        """Compiled code that finds the changes in some blocks, under the definitions as they are then."""
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
        """Batches of `schema` with the rows of one share at the end of the cut."""
        decoder = new_decoder(self.space_id, columns, schema, conditions, compiled=compiled, misfits=misfits)
        changes = self.changes(span, compiled=compiled)
        base = (block for item in ranges for block in file.blocks(item)) if self.has_base else iter(())
        if not changes.has_keys:  # A space that nothing can be in but what the snapshot has.
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
        """The way to lay changes over the tuples of a share, which are used up where they have to be sorted."""
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
        """The snapshot has the tuples in the order of the bytes of their keys."""
        info = self.definitions.by_id(self.space_id)
        return info is not None and info.primary is not None and PrimaryKeys(info).is_ordered


class SpanFilter:
    """Tells which keys belong to a span; `keys` are those of the snapshot's tuples, None where these do not count."""

    def __init__(self, span: KeySpan, keys: PrimaryKeys | None) -> None:
        self._span = span
        self._is_plain = keys is None or keys.plain is not None
        self._low, self._high = (self._place(raw, keys) for raw in (span.low, span.high))

    @staticmethod
    def _place(raw: bytes | None, keys: PrimaryKeys | None) -> Any:
        """The key of a tuple as `holds` compares it."""
        if raw is None or keys is None:
            return None
        return keys.of_tuple(raw) if keys.plain is not None else keys.key_def.extract(unpack(raw))

    def holds(self, key: SortKey, encoded: bytes) -> bool:
        """Whether a key belongs here."""
        span, place = self._span, encoded if self._is_plain else key
        if span.buckets > 1 and bucket_of(encoded, span.buckets) != span.bucket:
            return False
        return (self._low is None or not place < self._low) and (self._high is None or place < self._high)

    def of(self, found: FoundChanges) -> FoundChanges:
        """The changes whose keys belong here."""
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
    """A share begins where a block begins with a tuple of the space, the first one before all."""
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
