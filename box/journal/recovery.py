"""Reads the files of a node that starts: the newest snapshot, then every later row of the WAL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID

from box.errinj import ErrorInjections
from box.errors import BoxError, ErrorCode
from box.journal.directory import LogDirectory, LogFile, Logger, LogKind, SilentLog
from box.journal.reader import BlockReader, LogReader
from box.journal.rows import decode_rows
from box.journal.storage import Storage
from box.journal.xlog_errors import XlogError
from box.wire.change import request_text
from box.wire.row import Row
from box.wire.vclock import VClock


def find_snapshots(
    storage: Storage, directory: str, *, force_recovery: bool = False, log: Logger | None = None
) -> list[LogFile]:
    """The snapshots of a directory, the oldest first.

    Raises SystemError (`error reading directory '...'`) if there is no such directory, XlogError for a wrong file.
    """
    snapshots = LogDirectory(storage, directory, LogKind.SNAP, force_recovery=force_recovery, log=log)
    snapshots.scan()
    return snapshots.files


class Recovery:
    """Rows of the WAL that are later than `vclock`, in the order they were written.

    Steps: `scan`, then read `rows` or `transactions` to their end. Afterwards `vclock` is where the node is.
    `end_vclock` (of the last row on disk) and `gc_vclock` (of the first file behind which none is missing) are known
    from the scan on.
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
        """List the files and look for the last row. Raises SystemError, XlogError, BoxError of `follow`."""
        self._directory.scan()
        files = self._directory.files
        if not files or self.vclock.compare(files[-1].vclock) == 1:
            return
        self.gc_vclock = self._directory.first_of_last_chain().vclock.copy()
        self.end_vclock = files[-1].vclock.copy()
        blocks = BlockReader(self._directory.storage, files[-1].path, force_recovery=True, log=self._log)
        try:
            while (block := blocks.next_block()) is not None:
                for row in decode_rows(block):
                    follow(self.end_vclock, row)
        except XlogError as error:
            self._log.error(error.message)
        finally:
            blocks.close()

    def sync(self) -> None:
        """Make durable what is there. Raises SystemError."""
        self._directory.sync()

    def reader(self) -> LogReader:
        """A reader of what is later than `vclock`, which moves with it. It goes on when there is more to read."""
        self._reader = LogReader(self._directory, self.vclock, counted_only=True, log=self._log, errinj=self._errinj)
        return self._reader

    @property
    def lacks_rows(self) -> bool:
        """After reading: the files end before `vclock`; see `LogReader.lacks_rows`."""
        return self._reader is not None and self._reader.lacks_rows

    def blocks(self) -> Iterator[list[Row]]:
        """Rows many at a time; a transaction is never split. Raises XlogError, XlogGapError, SystemError.

        A file that ends in a torn block, as a killed writer leaves it, is read up to there: those rows were never
        acknowledged. With `force_recovery` wrong blocks and missing files are logged and passed over.
        """
        reader = self.reader()
        try:
            while (rows := reader.next_rows()) is not None:
                if rows:
                    yield rows
            reader.finish()
        finally:
            reader.close()

    def rows(self) -> Iterator[Row]:
        """The rows one by one; errors as `blocks`."""
        for block in self.blocks():
            yield from block

    def transactions(self) -> Iterator[list[Row]]:
        """The rows of one transaction at a time; errors as `blocks`, and XlogError if the last one has no end."""
        try:
            yield from group_transactions(self.rows())
        except XlogError as error:
            if not self._force:
                raise
            self._log.error(error.message)


def follow(vclock: VClock, row: Row) -> None:
    """Move `vclock` to a row; raises BoxError if its origin has got as far already: history cannot be trusted."""
    known = vclock[row.replica_id]
    if row.lsn <= known:
        raise BoxError(
            ErrorCode.UNKNOWN,
            f"LSN for {row.replica_id} is used twice or COMMIT order is broken: "
            f"confirmed: {known}, new: {row.lsn}, req: {request_text(row)}",
        )
    vclock[row.replica_id] = row.lsn


def group_transactions(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Cut a stream of rows behind every row with the commit mark. Raises XlogError for rows left over at the end."""
    transaction: list[Row] = []
    for row in rows:
        transaction.append(row)
        if row.is_commit:
            yield transaction
            transaction = []
    if transaction:
        raise XlogError("found a not finished transaction in the log")
