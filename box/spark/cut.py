"""Makes a consistent cut through the files of an instance: a snapshot, and the rows of the log that count on top of it.

The cut is made once, when a table is opened, in one pass over the log. It is small and is sent to every worker: how far
to read each file, and which rows before that have no effect. So all workers see the same moment, whatever the instance
writes meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from box.errors import BoxError
from box.journal.rows import decode_rows
from box.journal.xlog_errors import XlogError
from box.spark.blocks import Block, BlockFile
from box.spark.decoder import grouped, is_compiled, joined
from box.spark.definitions import INDEX_ID, SPACE_ID, TRUNCATE_ID, Definitions
from box.spark.log_files import LogPiece, log_files
from box.spark.log_rows import Decisions, RowId, transactions
from box.spark.moments import Moment
from box.spark.paths import snapshots_in
from box.spark.snapshot import read_definitions
from box.wire.change import decode_row
from box.wire.constants import DML_TYPES
from box.wire.row import Row
from box.wire.vclock import VClock


class LogBlocks(NamedTuple):
    """A range of consecutive blocks of a log file."""

    path: str
    blocks: list[Block]

    def decoded(self, rows: bytes) -> list[Row]:
        """Return the decoded rows, which are the rows of all blocks or some of them.

        Raises:
            XlogError: a row is broken; the text has file and offset.
        """
        try:
            return decode_rows(rows)
        except XlogError:
            for block in self.blocks:
                _decoded(self.path, block.position, block.rows)
            raise


@dataclass(frozen=True, slots=True)
class Cut:
    """The rows of `pieces` that are later than `since` and not in `left_out`.

    `vclock` is the vclock after these rows.
    """

    since: VClock
    pieces: tuple[LogPiece, ...] = ()
    left_out: frozenset[RowId] = frozenset()
    vclock: VClock = field(default_factory=VClock)

    def groups(self) -> Iterator[LogBlocks]:
        """Return the blocks that contain the rows of the cut, in the order of the log, several small blocks at a time.

        Raises:
            XlogError: a block is broken, or its file has been removed.
            BoxError: SYSTEM, a file cannot be read.
        """
        for piece in self.pieces:
            for group in grouped(piece.blocks()):
                yield LogBlocks(piece.path, group)

    def counting(self, blocks: LogBlocks, rows: bytes) -> Iterator[Row]:
        """Return those of the rows that belong to the cut; `rows` are all rows of the blocks or some of them.

        Raises:
            XlogError: a row is broken.
        """
        since, left_out = self.since, self.left_out
        for row in blocks.decoded(rows):
            if row.lsn > since[row.replica_id] and (row.replica_id, row.lsn) not in left_out:
                yield row


def _decoded(path: str, position: int, rows: bytes) -> list[Row]:
    try:
        return decode_rows(rows)
    except XlogError as error:
        raise XlogError(f"{path}: {error.message} in the block at {position}") from None


def find_snapshot(directory: str, moment: Moment) -> str:
    """Return the path of the newest snapshot of a directory that is not later than the moment.

    Raises:
        BoxError: MISSING_SNAPSHOT, there is no snapshot.
        XlogError: all snapshots are later, or one is broken.
    """
    paths = snapshots_in(directory)
    for path in reversed(paths):
        with BlockFile(path) as file:
            if moment.is_after(file.meta.vclock, _written_at(file) if moment.time is not None else None):
                return path
    raise XlogError(f"{paths[0]}: the oldest snapshot is later than {moment.text}: what was before is not known")


def _written_at(file: BlockFile) -> float | None:
    """Return the timestamp of the first row of a snapshot, None if it has no rows."""
    block = next(iter(file.blocks(file.data)), None)
    rows = [] if block is None else _decoded(file.path, block.position, block.rows)
    return rows[0].tm if rows else None


class _Pass:
    """The pass over the log that makes a cut; definitions change with the rows that count."""

    def __init__(self, since: VClock, moment: Moment, definitions: Definitions) -> None:
        self._since = since
        self._definitions = definitions.copy()
        self._synchronous = definitions.synchronous()
        self._moment = moment
        self._left_out: set[RowId] = set()
        self._schema_changes: list[Row] = []
        self.vclock = since.copy()
        self.decisions = Decisions()
        self._is_over = False

    def is_over(self) -> bool:
        """Return whether the moment is reached, so that no later row of the log counts."""
        return self._is_over

    def take_blocks(self, path: str, blocks: Sequence[Block], *, compiled: bool) -> int:
        """Take the next blocks; return the offset of the last block that was read before the moment was reached.

        With `compiled` a summary by compiled code replaces the decoding of rows where it suffices.
        """
        if compiled and self._take_summary(joined(blocks)):
            return blocks[-1].position
        for block in blocks:
            self._take_block(path, block.position, block.rows, compiled=compiled and len(blocks) > 1)
            if self._is_over:
                break
        return block.position

    def _take_block(self, path: str, position: int, rows: bytes, *, compiled: bool) -> None:
        if compiled and self._take_summary(rows):
            return
        try:
            self.take(_decoded(path, position, rows))
        except XlogError:
            raise
        except BoxError as error:
            raise XlogError(f"{path}: {error.message} in the block at {position}") from None

    def _take_summary(self, rows: bytes) -> bool:
        """Take a block by its summary; return False if its rows have to be read one by one."""
        from box.spark.compiled_log import summarize

        is_quiet = not (self.decisions.is_waiting or self._is_over)
        summary = summarize(rows, self._since, self._synchronous) if is_quiet else None
        if summary is None:
            return False
        vclock = self.vclock.copy()
        for replica_id, lsn in summary.lsns.items():
            vclock.reset(replica_id, max(lsn, vclock[replica_id]))
        if not self._moment.is_after(vclock, summary.time):
            return False
        self.vclock = vclock
        self._is_over = self._moment.vclock is not None and self._moment.is_reached(vclock)
        return True

    def take(self, rows: list[Row]) -> None:
        """Take the rows of the next block."""
        fresh = [row for row in rows if row.lsn > self._since[row.replica_id]]
        for transaction in transactions(fresh):
            if not self.is_over():
                self._take_transaction(transaction)
            else:
                self._leave_out(transaction)

    def _take_transaction(self, transaction: list[Row]) -> None:
        vclock = self.vclock.copy()
        for row in transaction:
            vclock.reset(row.replica_id, max(row.lsn, vclock[row.replica_id]))
        moment = self._moment
        if moment.is_past(vclock, transaction):
            self._is_over = True
        elif moment.leaves_out(transaction):
            self.vclock = vclock
        else:
            self.vclock = vclock
            self._take_effect(transaction)
            if moment.vclock is not None and moment.is_reached(vclock):
                self._is_over = True
            return
        self._leave_out(transaction)

    def _take_effect(self, transaction: list[Row]) -> None:
        spaces = [_space_of(row) for row in transaction]
        self.decisions.take(transaction, is_synchronous=not self._synchronous.isdisjoint(spaces))
        for row, space_id in zip(transaction, spaces, strict=True):
            if space_id in _SCHEMA_SPACES:
                self._schema_changes.append(row)
            if space_id == SPACE_ID:
                self._definitions.change(*decode_row(row))
                self._synchronous = self._definitions.synchronous()

    def _leave_out(self, transaction: list[Row]) -> None:
        self._left_out.update((row.replica_id, row.lsn) for row in transaction)

    def left_out(self) -> frozenset[RowId]:
        """Return the ids of all rows so far that have no effect."""
        return self.decisions.without_effect() | self._left_out

    def schema_changes(self) -> list[Row]:
        """Return the rows of `_space`, `_index` and `_truncate` that count."""
        left_out = self.left_out()
        return [row for row in self._schema_changes if (row.replica_id, row.lsn) not in left_out]


_SCHEMA_SPACES: Final = frozenset({SPACE_ID, INDEX_ID, TRUNCATE_ID})


def _space_of(row: Row) -> int:
    """Return the id of the space that a row changes, -1 for none."""
    return decode_row(row)[0] if row.type in DML_TYPES and row.body else -1


class MadeCut(NamedTuple):
    """A cut with the definitions in the snapshot, the rows that change them, and the definitions at its end."""

    cut: Cut
    before: Definitions
    schema_changes: list[Row]
    after: Definitions


def make_cut(file: BlockFile, directory: str, moment: Moment, decoder: str = "auto") -> MadeCut:
    """Make the cut at a moment on top of a snapshot, with the log files in `directory`.

    `decoder` is the option of this name.

    Raises:
        XlogError: the log has a gap, belongs to another instance or ends before the moment.
    """
    since, instance = file.meta.vclock, file.meta.instance_uuid
    if not moment.is_after(since, _written_at(file) if moment.time is not None else None):
        raise XlogError(f"{file.path}: the snapshot is later than {moment.text}: name its directory, or an older one")
    definitions = read_definitions(file)
    log = _Pass(since, moment, definitions)
    pieces: list[LogPiece] = []
    starts = log_files(directory, since, instance)
    compiled = is_compiled(decoder, sum(start.size for start in starts))
    for start in starts:
        if log.is_over():
            break
        end = 0
        with BlockFile(start.path, file_type="XLOG", is_open=True) as log_file:
            for group in grouped(log_file.blocks(log_file.data)):
                end = log.take_blocks(start.path, group, compiled=compiled) + 1
                if log.is_over():
                    break
        pieces.append(LogPiece(start.path, end))
    if not log.is_over() and not moment.is_reached(log.vclock):
        last = pieces[-1].path if pieces else file.path
        raise XlogError(f"{last}: the log ends at {log.vclock}, {moment.text} is not reached yet")
    schema_changes, after = log.schema_changes(), definitions.copy()
    for row in schema_changes:
        after.change(*decode_row(row))
    return MadeCut(Cut(since, tuple(pieces), log.left_out(), log.vclock), definitions, schema_changes, after)
