"""A batch of a stream, divided into parts that the workers read independently."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from box.errors import BoxError
from box.journal.rows import decode_rows
from box.journal.xlog_errors import XlogError
from box.spark.blocks import BlockFile, BlockRange
from box.spark.definitions import Definitions
from box.spark.log_rows import RowId
from box.spark.stream.change_rows import ChangeRows
from box.spark.stream.stream_options import StreamOptions
from box.wire.row import Row
from box.wire.vclock import VClock

_BATCH_ROWS: Final = 10_000
"""The rows that are converted at a time."""


@dataclass(frozen=True, slots=True)
class StreamPart:
    """A part of a batch: rows of the log after `since` and up to `until`, without `left_out`, which have no effect.

    The rows are in the blocks `blocks` of the file `path` or, without a path, in `rows`. `definitions` are those before
    the first row.
    """

    since: VClock
    until: VClock
    definitions: Definitions
    left_out: frozenset[RowId] = field(default_factory=frozenset)
    path: str = ""
    blocks: BlockRange = field(default_factory=lambda: BlockRange(0, 0))
    rows: bytes = b""

    def _blocks(self) -> Iterator[list[Row]]:
        if not self.path:
            yield decode_rows(self.rows)
            return
        try:
            with BlockFile(self.path, file_type="XLOG", is_open=True) as file:
                for block in file.blocks(self.blocks):
                    try:
                        yield decode_rows(block.rows)
                    except XlogError as error:
                        raise XlogError(f"{self.path}: {error.message} in the block at {block.position}") from None
        except BoxError as error:
            raise log_is_gone(self.path, self.since) if error.errno == errno.ENOENT else error from None

    def _is_wanted(self, row: Row) -> bool:
        is_inside = self.since[row.replica_id] < row.lsn <= self.until[row.replica_id]
        return is_inside and (row.replica_id, row.lsn) not in self.left_out

    def read(self, options: StreamOptions, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Return batches of the wanted changes with the columns `names`.

        Raises:
            XlogError: a block is broken, or its file has been removed; the text has file and offset.
            BoxError: a row cannot be decoded.
        """
        changes = ChangeRows(self.definitions, options.spaces, options.shows_system)
        for rows in self._blocks():
            for start in range(0, len(rows), _BATCH_ROWS):
                some = rows[start : start + _BATCH_ROWS]
                wanted = []
                for row in some:
                    if self._is_wanted(row):
                        wanted.append(row)
                    elif row.lsn <= self.since[row.replica_id]:
                        changes.pass_over(row)
                batch = changes.batch(wanted, names)
                if batch.num_rows:
                    yield batch


def log_is_gone(place: str, since: VClock) -> XlogError:
    """Return the error for rows that the stream needs and that have been removed."""
    return XlogError(
        f"{place}: the rows after {since} are gone: the instance has collected them. Read the table once more, and "
        "start a new query from there, with a checkpoint of its own and 'startingVclock'"
    )
