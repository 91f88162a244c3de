"""Reads the files of a starting node: the newest snapshot, then every later row of the WAL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final
from uuid import UUID

from box.errinj import ErrorInjections
from box.errors import BoxError, ErrorCode
from box.journal.directory import LogDirectory, LogFile, Logger, LogKind, SilentLog
from box.journal.packet_runs import packet_runs
from box.journal.plain_runs import PlainRun
from box.journal.reader import BlockReader, LogReader
from box.journal.rows import decode_rows
from box.journal.storage import Storage
from box.journal.xlog_errors import XlogError
from box.wire.change import request_text
from box.wire.row import Row
from box.wire.vclock import VClock

_SCANNED_BYTES: Final = 1 << 20
"""The number of bytes whose rows are followed together while the last row is looked for."""
_UNFINISHED: Final = "found a not finished transaction in the log"


def find_snapshots(
    storage: Storage, directory: str, *, force_recovery: bool = False, log: Logger | None = None
) -> list[LogFile]:
    """List the snapshots of a directory, the oldest first.

    Raises:
        BoxSystemError: the directory does not exist (`error reading directory '...'`).
        XlogError: a file is wrong.
    """
    snapshots = LogDirectory(storage, directory, LogKind.SNAP, force_recovery=force_recovery, log=log)
    snapshots.scan()
    return snapshots.files


class Recovery:
    """The rows of the WAL later than `vclock`, in the order of writing.

    Call `scan`, then read `rows` or `transactions` to the end; afterwards `vclock` is the node's position. After the
    scan `end_vclock` is that of the last row on disk, and `gc_vclock` that of the first file after which none is
    missing.
    """

    def __init__(
        self,
        storage: Storage,
        wal_dir: str,
        vclock: VClock,
        *,
        instance_uuid: UUID | None = None,
        force_recovery: bool = False,
        log: Logger | None = None,
        errinj: ErrorInjections | None = None,
    ) -> None:
        self.vclock = vclock.copy()
        self.end_vclock = vclock.copy()
        self.gc_vclock = vclock.copy()
        self._log = log or SilentLog()
        self._directory = LogDirectory(
            storage, wal_dir, LogKind.XLOG, instance_uuid=instance_uuid, force_recovery=force_recovery, log=log
        )
        self._force = force_recovery
        self._errinj = errinj
        self._reader: LogReader | None = None

    def scan(self) -> None:
        """List the files and find the last row.

        Raises:
            BoxSystemError: a file cannot be read.
            XlogError: a file is wrong.
            BoxError: `follow` refuses a row.
        """
        self._directory.scan()
        files = self._directory.files
        if not files or self.vclock.compare(files[-1].vclock) == 1:
            return
        self.gc_vclock = self._directory.first_of_last_chain().vclock.copy()
        self.end_vclock = files[-1].vclock.copy()
        blocks = BlockReader(self._directory.storage, files[-1].path, force_recovery=True, log=self._log)
        try:
            while found := blocks.next_blocks(_SCANNED_BYTES):
                self._follow_block(b"".join(found))
        except XlogError as error:
            self._log.error(error.message)
        finally:
            blocks.close()

    def _follow_block(self, block: bytes) -> None:
        """Move `end_vclock` past the rows of a block. Raises the errors of `scan`."""
        clock, runs = self.end_vclock, packet_runs(block)
        origins = [run.replica_id for run in runs]
        if len(set(origins)) == len(runs) and all(run.first > clock[run.replica_id] for run in runs):
            clock.update((run.replica_id, run.last) for run in runs)
            return
        for row in decode_rows(block):
            follow(clock, row)

    def sync(self) -> None:
        """Make the existing files durable.

        Raises:
            BoxSystemError: the disk refuses.
        """
        self._directory.sync()

    def reader(self) -> LogReader:
        """Return a reader of the rows later than `vclock`, which moves with it. It can continue when more is
        written.
        """
        self._reader = LogReader(self._directory, self.vclock, counted_only=True, log=self._log, errinj=self._errinj)
        return self._reader

    @property
    def lacks_rows(self) -> bool:
        """True if the files, after reading, end before `vclock`; see `LogReader.lacks_rows`."""
        return self._reader is not None and self._reader.lacks_rows

    def _parts(self) -> Iterator[list[PlainRun | list[Row]]]:
        """Yield the rows of some blocks at a time. Raises the errors of `parts`, but for that of an unfinished
        transaction.
        """
        reader = self.reader()
        try:
            while (parts := reader.next_parts()) is not None:
                yield parts
            reader.finish()
        finally:
            reader.close()

    def rows(self) -> Iterator[Row]:
        """Yield the rows one by one. Raises the errors of `parts`."""
        for transaction in self.transactions():
            yield from transaction

    def transactions(self) -> Iterator[list[Row]]:
        """Yield the rows of one transaction at a time. Raises the errors of `parts`."""
        for part in self.parts():
            yield from part.transactions() if isinstance(part, PlainRun) else [part]

    def parts(self) -> Iterator[PlainRun | list[Row]]:
        """Yield runs of plain transactions, and the rows of one other transaction at a time.

        A file that ends in a torn block, as a killed writer leaves it, is read up to that block: its rows were never
        acknowledged. With `force_recovery` wrong blocks and missing files are logged and skipped.

        Raises:
            XlogError: a block is wrong, or the last transaction has no end.
            XlogGapError: a file is missing.
            BoxSystemError: a file cannot be read.
        """
        begun: list[Row] = []
        for parts in self._parts():
            for part in parts:
                if isinstance(part, PlainRun) and not begun:
                    yield part
                    continue
                for row in part.rows() if isinstance(part, PlainRun) else part:
                    begun.append(row)
                    if row.is_commit:
                        yield begun
                        begun = []
        if begun:
            error = XlogError(_UNFINISHED)
            if not self._force:
                raise error
            self._log.error(error.message)


def follow(vclock: VClock, row: Row) -> None:
    """Move `vclock` to a row.

    Raises:
        BoxError: the vclock includes the row already, so the history cannot be trusted.
    """
    known = vclock[row.replica_id]
    if row.lsn <= known:
        raise BoxError(
            ErrorCode.UNKNOWN,
            f"LSN for {row.replica_id} is used twice or COMMIT order is broken: "
            f"confirmed: {known}, new: {row.lsn}, req: {request_text(row)}",
        )
    vclock[row.replica_id] = row.lsn


def group_transactions(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Split a stream of rows after every row with the commit mark.

    Raises:
        XlogError: rows remain at the end.
    """
    transaction: list[Row] = []
    for row in rows:
        transaction.append(row)
        if row.is_commit:
            yield transaction
            transaction = []
    if transaction:
        raise XlogError(_UNFINISHED)
