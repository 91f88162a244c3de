"""The writing half of the journal: writes each batch of transactions with one `write`. It blocks; one thread at a time.

```
           write fails: file cut back to the last good block, vclock as before
         +--------------------------------------------------------------------+
         v                                                                    |
CLOSED --(first write: new file)--> OPEN --(write)--> OPEN ...----------------+
   ^                                  |
   +---(checkpoint, wal_max_size: EOF marker)        cutting back fails: BROKEN, the node has to stop
```

A file is named after the signature of the vclock before its first row and is created only when that row comes.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from box.errinj import ErrorInjections
from box.errors import BoxError, ErrorCode, client_error
from box.journal.block_index import BlockIndex
from box.journal.directory import LogDirectory, LogFile, Logger
from box.journal.packet_runs import packet_runs
from box.journal.reader import BlockReader
from box.journal.rows import BrokenLsn, RowEncoder
from box.journal.storage import INPROGRESS, AppendFile, failed, remove_quietly, write_all
from box.journal.xlog import EOF_MARKER, FIXHEADER_SIZE, BlockEncoder, Meta
from box.journal.xlog_errors import XlogError
from box.wire.entry import JournalEntry
from box.wire.packet_run import PacketRun
from box.wire.vclock import VClock

DEFAULT_MAX_SIZE: Final = 256 << 20
"""The default of `wal_max_size`, in bytes."""
DEFAULT_QUEUE_SIZE: Final = 16 << 20
"""The default of `wal_queue_max_size`, in bytes."""


class CheckpointStart(NamedTuple):
    """The position of a checkpoint, and the bytes of WAL written since the previous one."""

    vclock: VClock
    wal_size: int


class Written(NamedTuple):
    """A batch on disk: the vclock after it (immutable), its bytes, the offset of its first block, and its rows.

    The rows are packets; they are missing if the journal has no followers.
    """

    vclock: VClock
    size: int
    signature: int
    """The signature of the file that holds the batch."""
    offset: int
    runs: list[PacketRun] | None = None


class FinishedBatch:
    """A handled batch on its way back to the tx thread, with the outcome of its entries."""

    __slots__ = ("entries", "messages", "problem", "written")

    def __init__(self, entries: list[JournalEntry], messages: int, written: Written | None) -> None:
        self.entries = entries
        self.messages = messages
        self.written = written
        self.problem: str | None = None
        """Set if the file is broken, so that nothing can be written any more."""


class WalFailure(Exception):
    """Raised if a batch was not written; nothing of it is in the file. The text is for the log."""


class WalBroken(WalFailure):
    """Raised if rows of a failed write could not be cut off: they must not be reported as refused."""


class WalWriter:
    """Writes the log: the current file and the vclock of its last row.

    `defer` runs a slow call (the sync of a finished file) elsewhere. When a full disk makes the writer remove old
    files, `on_files_removed` is called with the first remaining vclock.
    """

    def __init__(
        self,
        directory: LogDirectory,
        *,
        errinj: ErrorInjections,
        log: Logger,
        fsync: bool = False,
        max_size: int = DEFAULT_MAX_SIZE,
        defer: Callable[[Callable[[], None]], object] = lambda call: call(),
        on_files_removed: Callable[[VClock], None] = lambda vclock: None,
    ) -> None:
        self.vclock = VClock()
        self.checkpoint_vclock = VClock()
        self.checkpoint_size = 0
        self.max_size = max_size
        self.rows = RowEncoder()
        self.index = BlockIndex()
        self.directory = directory
        self._storage = directory.storage
        self._blocks = BlockEncoder()
        self._errinj = errinj
        self._log = log
        self._removal_log = log.of_cord("wal")
        self._fsync = fsync
        self._defer = defer
        self._on_files_removed = on_files_removed
        self._file: AppendFile | None = None
        self._signature = 0
        """The signature of the current file."""
        self._current: LogFile | None = None
        self._offset = 0
        self._next_note = 0
        """The offset of the first block that is worth a further note in `index`."""
        self._broken: WalBroken | None = None
        self.is_provisional = False
        """True while there is no snapshot. Files get their names only when there is one, because nothing could start
        from them before."""
        self.begins_anew = False
        """True if rows are missing between the existing files and the next one. The meta of that file then names its
        own vclock as `PrevVClock`, as for a file without a predecessor: Tarantool and all readers here go from one file
        to the next only where `PrevVClock` is the vclock of the first. (Tarantool itself chains its files after a new
        join, too. It then sends replicas the rows before and after those of the join, but not these.)"""
        self._nameless: list[str] = []
        """The paths that the provisional files will get."""

    # --- life ---------------------------------------------------------------------------------------------------------

    def open(self, vclock: VClock) -> None:
        """Open the log after `vclock`; a file with exactly that vclock is continued.

        Raises:
            BoxSystemError: the disk refuses.
            XlogError: the file is wrong.
        """
        self.vclock = vclock.copy()
        self.directory.remove_inprogress()
        self.directory.scan()
        path = self.directory.filename(vclock.signature)
        try:
            if not self._storage.exists(path):
                return
        except OSError as error:
            raise failed(f"failed to open file '{path}'", error) from error
        try:
            self._continue(path)
        except XlogError as error:
            self._log.problem(error)
            self._log.warn(f"renaming corrupted {path}")
            self._rename_corrupted(path)

    def _continue(self, path: str) -> None:
        """Open, after its meta, a file that has no rows, or only torn bytes of a row that was never acknowledged."""
        blocks = BlockReader(self._storage, path)
        try:
            meta = blocks.read_meta()
            end = blocks.position
            while blocks.next_block() is not None:
                end = blocks.position
        finally:
            blocks.close()
        try:
            file = self._storage.append(path)
            if self._storage.size(path) != end:
                file.truncate(end)
        except OSError as error:
            raise failed(f"failed to open file '{path}'", error) from error
        if self._fsync:  # a process that died may have created the file without syncing its name
            self.directory.sync_names()
        self._file, self._offset, self._signature, self._next_note = file, end, meta.vclock.signature, 0
        self._current = next((known for known in self.directory.files if known.path == path), LogFile(path, meta))

    def _rename_corrupted(self, path: str) -> None:
        try:
            self._storage.rename(path, path + ".corrupted")
        except OSError as error:
            raise failed(f"failed to rename {path}", error) from error
        self.directory.scan()

    def close(self) -> None:
        """Finish the current file and create an empty one, whose name tells the next start the vclock.

        An instance whose first snapshot failed creates none, because it will be another instance at the next start.
        """
        if self._broken is not None:
            return
        if self.is_provisional:
            self._finish_file()
            for path in self._nameless:
                remove_quietly(self._storage, path + INPROGRESS)
            return
        current = self._current
        if current is None or self.vclock != current.vclock:
            self._finish_file()
            try:
                self._create()
            except BoxError as error:
                self._log.problem(error)
        self._finish_file()

    # --- writing ------------------------------------------------------------------------------------------------------

    def write(self, entries: Sequence[JournalEntry]) -> Written:
        """Write the transactions in order, with one `write`, and move `vclock`.

        On failure the file and the vclock are unchanged. Rows may have got lsns, which the next batch reuses.

        Raises:
            WalFailure: nothing was written.
            WalBroken: the file may hold rows of the batch.
        """
        if self._broken is not None:
            raise self._broken
        is_armed = self._errinj.is_armed
        try:
            if is_armed or self._file is None or self._offset >= self.max_size:
                self._rotate()
                self._check_space()
            if is_armed:
                self._make_rows(entries)
            # A copy: the vclock itself moves only when the rows are in the file.
            clock = self.vclock.copy()
            blocks = self.rows.encode(entries, clock, self._storage.now())
            if is_armed:
                self._inject_into_rows(entries, blocks)
            # A single block that is not synced needs no mark, because readers see it whole or cannot read it.
            if len(blocks) == 1:
                is_pending, data = self._fsync or is_armed, self._blocks.encode(blocks[0])
            else:
                is_pending, data = True, b"".join(map(self._blocks.encode, blocks))
            self._append(data, is_pending=is_pending)
        except BrokenLsn as error:
            raise WalFailure(str(error)) from error
        except BoxError as error:
            raise WalFailure(error.message) from error
        runs = None
        if self.rows.made_packets:
            runs = packet_runs(b"".join(blocks)) if is_armed else self.rows.take_packets()
        size, offset = len(data), self._offset
        if offset >= self._next_note:
            self._next_note = self.index.note(self._signature, offset, self.vclock)
        # Without the function in Python that a NamedTuple puts around this call.
        written = tuple.__new__(Written, (clock, size, self._signature, offset, runs))
        self.vclock = clock
        self._offset = offset + size
        self.checkpoint_size += size
        if is_pending:
            self._mark_counted()
        return written

    def _rotate(self) -> None:
        """Make sure that a file with room is open."""
        if self._errinj.values["ERRINJ_WAL_ROTATE"]:
            raise client_error(ErrorCode.INJECTION, "wal rotate")
        if self._file is not None and self._offset >= self.max_size:
            self._finish_file()
        if self._file is None:
            self._create()

    def _create(self) -> None:
        directory = self.directory
        previous = directory.files[-1].vclock if directory.files else None
        if previous is not None and self.begins_anew:
            previous = self.vclock.copy()
        path = directory.filename(self.vclock.signature)
        assert directory.instance_uuid is not None
        meta = Meta(directory.kind.name, directory.instance_uuid, self.vclock.copy(), previous)
        if self._storage.exists(path):
            raise failed(f"file '{path}' already exists", FileExistsError(errno.EEXIST, "File exists"))
        file = self._create_complete(path, meta.encode())
        self._file, self._offset, self._next_note = file, len(meta.encode()), 0
        self._signature = self.vclock.signature
        self._current = LogFile(path, meta)
        self.begins_anew = False
        directory.add(self._current)

    def _create_complete(self, path: str, meta: bytes) -> AppendFile:
        """Create a file that has its meta when it gets its name, so that readers never see an incomplete meta."""
        temporary = path + INPROGRESS
        remove_quietly(self._storage, temporary)
        try:
            file = self._storage.create(temporary)
        except OSError as error:
            raise failed(f"failed to create file '{temporary}'", error) from error
        try:
            write_all(file, meta)
            # Otherwise a power failure could leave the name with half of the meta, and no start could use the file.
            if self._fsync:
                file.sync()
            if self.is_provisional:
                self._nameless.append(path)
            else:
                self._publish(path)
        except OSError as error:
            file.close()
            remove_quietly(self._storage, temporary)
            raise failed(f"{temporary}: failed to write xlog meta", error) from error
        file.path = path
        return file

    def has_file(self, signature: int) -> bool:
        """True if the file with this signature still exists."""
        try:
            return self._storage.exists(self.directory.filename(signature))
        except OSError:
            return False

    def _publish(self, path: str) -> None:
        self._storage.rename(path + INPROGRESS, path)
        if self._fsync:
            self._storage.sync_directory(self.directory.path)

    def _mark_counted(self) -> None:
        """Let the written bytes count, and mark the following ones as pending if every batch has to be synced."""
        if self._file is not None:
            self._file.mark_pending(self._offset if self._fsync else None)

    def _append(self, data: bytes, *, is_pending: bool) -> None:
        """Write after the last good block; on failure the file is unchanged.

        `is_pending`: readers might see whole blocks before it is known whether they stay.
        """
        assert self._file is not None
        try:
            if is_pending:
                self._file.mark_pending(self._offset)
            if self._errinj.is_armed:
                self._write_injected(data)
            else:
                self._write_or_make_room(data)
            if self._fsync:
                self._file.sync()
        except OSError as error:
            path = self._file.path
            self._cut_back()
            self._mark_counted()
            raise failed(f"failed to write to '{path}' file", error) from error
        except Exception:
            self._cut_back()
            self._mark_counted()
            raise

    def _write_injected(self, data: bytes) -> None:
        if self._errinj.values["ERRINJ_WAL_WRITE_DISK"]:
            raise client_error(ErrorCode.INJECTION, "xlog write injection")
        self._write_or_make_room(data)
        if self._errinj.values["ERRINJ_WAL_WRITE"]:
            raise client_error(ErrorCode.INJECTION, "xlog write injection")

    def _write_or_make_room(self, data: bytes) -> None:
        assert self._file is not None
        while True:
            try:
                written = self._file.write(data)
                if written < len(data):
                    write_all(self._file, data[written:])
                return
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                self._cut_back()
                if not self._remove_old_file():
                    raise

    def _cut_back(self) -> None:
        """Cut off the bytes of a failed write, which might be read as rows later.

        Raises:
            WalBroken: the file cannot be cut.
        """
        assert self._file is not None
        if self._broken is not None:
            raise self._broken
        try:
            self._file.truncate(self._offset)
        except Exception as error:
            reason = error.strerror if isinstance(error, OSError) else error
            self._broken = WalBroken(f"failed to truncate xlog after write error: {reason}")
            raise self._broken from error

    # --- injections ---------------------------------------------------------------------------------------------------

    def _make_rows(self, entries: Sequence[JournalEntry]) -> None:
        """Make the rows of all entries, because injections look at them and change them."""
        for entry in entries:
            _ = entry.rows

    def _inject_into_rows(self, entries: Sequence[JournalEntry], raw_blocks: list[bytes]) -> None:
        partial = self._errinj.values["ERRINJ_WAL_WRITE_PARTIAL"]
        if 0 <= partial < max(map(len, raw_blocks)) + FIXHEADER_SIZE:
            raise client_error(ErrorCode.INJECTION, "xlog write injection")
        broken = self._errinj.values["ERRINJ_WAL_BREAK_LSN"]
        if broken >= 0 and any(row.lsn == broken for entry in entries for row in entry.rows):
            self._log.warn(f"injected broken lsn: {broken - 1}")
            for entry in entries:
                for row in entry.rows:
                    if row.lsn == broken:
                        row.lsn -= 1
            raw_blocks[:] = self.rows.encode_assigned(entries)

    def _check_space(self) -> None:
        """Apply ERRINJ_WAL_FALLOCATE: a full disk that many times, with old files removed while there are any."""
        values = self._errinj.values
        while values["ERRINJ_WAL_FALLOCATE"] > 0:
            values["ERRINJ_WAL_FALLOCATE"] -= 1
            if not self._remove_old_file():
                raise client_error(ErrorCode.INJECTION, "xlog fallocate")

    # --- files --------------------------------------------------------------------------------------------------------

    def _remove_old_file(self) -> bool:
        """Remove the oldest file if the newest checkpoint does not need it. Returns True if it was removed."""
        files = self.directory.files
        if not files or files[0] is self._current or files[0].signature >= self.checkpoint_vclock.signature:
            return False
        self._log.crit("ran out of disk space, try to delete old WAL files")
        self.directory.remove_before(self.checkpoint_vclock.signature, self._removal_log, limit=1)
        self._on_files_removed(files[0].vclock.copy() if files else self.vclock.copy())
        return True

    def _finish_file(self) -> None:
        """Write the EOF marker, sync and close. Errors are only logged, because the rows are written and
        acknowledged.
        """
        file, self._file, self._current = self._file, None, None
        if file is None:
            return
        try:
            if self._errinj.values["ERRINJ_WAL_WRITE_EOF"]:
                raise OSError(errno.EIO, "xlog write injection")
            write_all(file, EOF_MARKER)
        except OSError as error:
            self._log.error(f"{file.path}: failed to write EOF marker: {error.strerror}")
        file.mark_pending(None)  # nothing in the file can fail any more, so readers may have all of it
        self._defer(lambda: self._sync_and_close(file))

    def _sync_and_close(self, file: AppendFile) -> None:
        try:
            file.sync()
        except OSError as error:
            self._log.error(f"{file.path}: fsync() failed: {error.strerror}")
        file.close()

    def begin_checkpoint(self) -> CheckpointStart:
        """Finish the current file unless it has no rows; the next write creates a new one."""
        if self._current is not None and self._current.vclock != self.vclock:
            self._finish_file()
        return CheckpointStart(self.vclock.copy(), self.checkpoint_size)

    def commit_checkpoint(self, start: CheckpointStart) -> None:
        """Note that the checkpoint is on disk: a start from it needs no older files.

        Raises:
            BoxSystemError: the disk refuses.
        """
        self.is_provisional = False
        while self._nameless:
            try:
                self._publish(self._nameless[0])
            except OSError as error:
                raise failed(f"failed to rename {self._nameless[0] + INPROGRESS}", error) from error
            del self._nameless[0]
        self.checkpoint_vclock = start.vclock.copy()
        self.checkpoint_size -= start.wal_size

    def collect_garbage(self, vclock: VClock) -> None:
        """Remove the files without a row later than `vclock`."""
        # The newest file that begins no later than `vclock` may hold later rows. It goes only if there are none at all.
        signature = vclock.signature
        if self._file is not None or signature < self.vclock.signature:
            keep = [file for file in self.directory.files if vclock.covers(file.vclock)]
            if not keep:
                return
            signature = keep[-1].signature
        self.directory.remove_before(signature, self._removal_log)
        self.index.forget_before(signature)
