"""A snapshot merged with the log, share by share: each worker applies the changes of its own keys.

A space whose primary key is a tree is sorted by it, so a share of the snapshot's blocks holds the keys between its
first tuple and the first tuple of the next share, and takes the changes of these keys only. Without an order (a hash
index) there is one share. Where the log has emptied the space, or made it, the snapshot's blocks do not count: then
keys are dealt out by a number made from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from box.data.codec import unpack
from box.spark.blocks import BlockFile, BlockRange, SkipLog
from box.spark.changes import SpaceChanges, bucket_of
from box.spark.columns import Column
from box.spark.conditions import Condition, KeyRange, sort_key
from box.spark.cut import Cut
from box.spark.decoder import decode_blocks, new_decoder
from box.spark.definitions import Definitions, SpaceInfo, primary_key
from box.spark.misfits import Misfits
from box.spark.overlay import Overlay, plain_first_part
from box.spark.reference import ReferenceDecoder
from box.spark.snapshot import Scope, first_tuple, narrow
from box.wire.row import Row

_BATCH_ROWS: Final = 10_000


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
        changes = SpaceChanges(space.id, definitions, lambda key: False)
        for row in schema_changes:
            changes.take(row)
        return cls(space.id, cut, definitions.only(space.id), changes.has_base)

    def shares(self, file: BlockFile, size: int) -> list[tuple[KeySpan, tuple[BlockRange, ...]]]:
        """Shares of about `size` bytes of the snapshot."""
        if not self.has_base:
            count = max(1, -(-sum(piece.end for piece in self.cut.pieces) // size))
            return [(KeySpan(bucket=number, buckets=count), ()) for number in range(count)]
        ranges = narrow(file, Scope(self.space_id))
        info = self.definitions.by_id(self.space_id)
        if info is None or info.primary is None or info.primary.type != "tree":
            return [(KeySpan(), tuple(ranges))]
        return _sorted_shares(self.space_id, file, ranges, size)

    def _wants(self, span: KeySpan) -> Callable[[Any], bool]:
        """Whether a key belongs to the span."""
        if not self.has_base:
            return lambda key: bucket_of(key, span.buckets) == span.bucket
        info = self.definitions.by_id(self.space_id)
        assert info is not None
        extract = primary_key(info).extract if info.primary is not None else unpack
        low = None if span.low is None else extract(unpack(span.low))
        high = None if span.high is None else extract(unpack(span.high))
        if low is None and high is None:
            return lambda key: True
        return lambda key: (low is None or not key < low) and (high is None or key < high)

    def changes(self, span: KeySpan, *, compiled: bool) -> SpaceChanges:
        """The changes of the span's keys, by one pass over the log."""
        changes = SpaceChanges(self.space_id, self.definitions, self._wants(span))
        for rows in self.cut.rows(self._selection(span) if compiled else None):
            for row in rows:
                changes.take(row)
        return changes

    def _selection(self, span: KeySpan) -> Callable[[bytes], bytes]:
        """Compiled code that drops most rows which do not concern the span."""
        from box.spark.compiled_log import RowSelector

        info = self.definitions.by_id(self.space_id) if self.has_base else None
        part = None if info is None else plain_first_part(info.primary)
        field, kind = (0, None) if part is None else part
        low, high = (None if raw is None or part is None else unpack(raw)[field] for raw in (span.low, span.high))
        return RowSelector(self.space_id, self.cut.since, field, kind, low, high).select

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
        changes = self.changes(span, compiled=compiled)
        python = ReferenceDecoder(self.space_id, columns, schema, conditions, misfits)
        if self.has_base:
            info = self.definitions.by_id(self.space_id)
            overlay = Overlay(changes, None if info is None else info.primary)
            decoder = new_decoder(
                self.space_id,
                columns,
                schema,
                conditions,
                compiled=compiled,
                key_field=overlay.key_field,
                misfits=misfits,
            )
            for item in ranges:
                for batch in decode_blocks(decoder, file.path, file.blocks(item), on_skip, overlay):
                    yield batch
                    yield from _batches(python, iter(overlay.drain()))
            yield from _batches(python, iter(overlay.drain()))
        yield from _batches(python, changes.rest())


def _batches(python: ReferenceDecoder, tuples: Iterator[bytes]) -> Iterator[pa.RecordBatch]:
    while some := list(islice(tuples, _BATCH_ROWS)):
        batch = python.raw_batch(some)
        if batch.num_rows:
            yield batch


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
