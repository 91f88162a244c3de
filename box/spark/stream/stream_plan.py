"""A batch of a stream, cut into parts that workers read each by itself."""

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


@dataclass(frozen=True, slots=True)
class StreamPart:
    """Rows of the log later than `since` and up to `until`, without those in `left_out`, which have no effect.

    They are in blocks of a file (`path`, `blocks`), or in `rows` themselves, as in a block of a log. `definitions` are
    those before the first row.
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
        """Batches of the wanted changes, with these columns. Raises XlogError with file and position."""
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
    """The error where rows that the stream needs exist no more."""
    return XlogError(
        f"{place}: the rows after {since} are gone: the instance has collected them. Read the table once more, and "
        "start a new query from there, with a checkpoint of its own and 'startingVclock'"
    )
