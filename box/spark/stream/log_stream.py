"""The log files of a directory as a stream, which an instance may be writing.

A batch is divided by one pass over the blocks after its beginning: compiled code summarizes blocks without special
rows, the others are read row by row. The last block and its definitions are remembered. So the next pass begins there,
and nothing is read while no file has grown.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from box.errors import BoxError, ErrorCode, illegal_params
from box.journal.rows import decode_rows
from box.journal.xlog_errors import XlogError
from box.spark.blocks import Block, BlockFile, BlockRange
from box.spark.decoder import is_compiled
from box.spark.definitions import Definitions
from box.spark.log_files import LogStart, all_log_files, chain_after
from box.spark.log_rows import RowId, transactions
from box.spark.paths import names_in, size_of, snapshots_in
from box.spark.snapshot import read_definitions
from box.spark.stream.cut_points import CutFinder, changed
from box.spark.stream.stream_offset import StreamOffset
from box.spark.stream.stream_parts import StreamPart, log_is_gone
from box.wire.row import Row
from box.wire.vclock import VClock

_PART_BYTES: Final = 8 << 20
"""The bytes of the blocks in a part."""
_TRIES: Final = 5
"""The attempts to read a directory from which files vanish meanwhile."""


@dataclass(frozen=True, slots=True)
class _BlockPlace:
    """A block of the log, with the vclock and the definitions before it.

    `content` is the hash of its rows, by which a changed block is recognized; None if the block was not read yet.
    """

    path: str
    position: int
    end: int
    vclock: VClock
    definitions: Definitions
    content: int | None = None


@dataclass(frozen=True, slots=True)
class _Scan:
    """One pass: the blocks from the position `since` on, and the position `until` where the batch ends."""

    since: VClock
    until: VClock
    blocks: tuple[_BlockPlace, ...]
    left_out: frozenset[RowId]
    files: tuple[tuple[str, int], ...]
    """The names of the log files of the directory, the last one with its size."""


class DirectoryLog:
    """The log of one directory. It must not be used by several threads at a time."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._last: _Scan | None = None

    # -- beginnings -----------------------------------------------------------------------------

    def begin(self, start: VClock | str) -> StreamOffset:
        """Return the position where a new stream begins: a vclock, `earliest` or `latest`.

        Raises:
            XlogError: a file is broken.
            BoxError: ILLEGAL_PARAMS, there are no log files; SYSTEM, a file cannot be read.
        """
        files = self._files()
        if not files:
            raise illegal_params(f"{self._directory} holds no log files")
        source = files[0].meta.instance_uuid
        if isinstance(start, VClock):
            return StreamOffset(_with_local_rows(start, files), source)
        if start == "earliest":
            return StreamOffset(files[0].meta.vclock, source)
        return self.next(StreamOffset(self._quiet_place(files), source), None)

    def _files(self) -> list[LogStart]:
        for _ in range(_TRIES - 1):
            try:
                return all_log_files(self._directory)
            except BoxError as error:
                if error.errno != errno.ENOENT:
                    raise
        return all_log_files(self._directory)

    def newest(self, since: StreamOffset) -> VClock:
        """Return the position where a query ends that takes the rows that exist now."""
        return self._scan(since, None, None).until

    def close(self) -> None:
        """Do nothing, because no file stays open between two calls."""

    def _quiet_place(self, files: list[LogStart]) -> VClock:
        """Return a position near the end where no transaction waits: that of a snapshot, or the beginning of the
        log."""
        for _, vclock in self._snapshots():
            if any(vclock.covers(start.meta.vclock) for start in files):
                return vclock
        return files[0].meta.vclock

    def _snapshots(self) -> Iterator[tuple[str, VClock]]:
        """Return the snapshots with their vclocks, the newest first."""
        try:
            paths = snapshots_in(self._directory)
        except BoxError as error:
            if error.code != ErrorCode.MISSING_SNAPSHOT:
                raise
            return
        for path in reversed(paths):
            try:
                with BlockFile(path) as file:
                    yield path, file.meta.vclock
            except BoxError as error:
                if error.errno != errno.ENOENT:  # the instance has removed it meanwhile
                    raise

    # -- batches --------------------------------------------------------------------------------

    def next(self, since: StreamOffset, limit: int | None) -> StreamOffset:
        """Return the end of the batch of about `limit` rows after `since`, `since` itself if there is no new row.

        Raises:
            XlogError: the log is damaged, or the rows after `since` have been removed.
        """
        last = self._last
        if last is not None and last.until == since.vclock == last.since and last.files == self._state():
            return since
        scan = self._last = self._scan(since, limit, None)
        return since if scan.until == since.vclock else StreamOffset(scan.until, since.source)

    def parts(self, since: StreamOffset, until: StreamOffset) -> list[StreamPart]:
        """Return the parts of a batch.

        Raises:
            XlogError: the log is damaged or ends before `until`.
            BoxError: ILLEGAL_PARAMS, the two positions are of different instances.
        """
        if since.source != until.source:
            raise illegal_params(f"the checkpoint goes from instance {since.source} to {until.source}")
        scan = self._last
        if scan is None or scan.since != since.vclock or scan.until != until.vclock:
            scan = self._scan(since, None, until.vclock)
            if not scan.until.covers(until.vclock):
                raise XlogError(f"{self._directory}: the log ends at {scan.until}, the batch at {until.vclock}")
            self._last = None
        blocks = [block for block in scan.blocks if not block.vclock.covers(until.vclock)]
        left_out = frozenset(item for item in scan.left_out if item[1] <= until.vclock[item[0]])
        return [
            StreamPart(
                since.vclock,
                until.vclock,
                group[0].definitions,
                left_out,
                group[0].path,
                BlockRange(group[0].position, group[-1].end),
            )
            for group in _groups(blocks)
        ]

    def _state(self) -> tuple[tuple[str, int], ...]:
        names = [name for name in names_in(self._directory) if name.endswith(".xlog")]
        try:
            size = size_of(f"{self._directory}/{names[-1]}") if names else 0
        except BoxError:
            size = -1
        return tuple((name, size if name == names[-1] else 0) for name in names)

    def _scan(self, since: StreamOffset, limit: int | None, until: VClock | None) -> _Scan:
        state = self._state()
        vclock = since.vclock
        files = self._chain(since)
        place = self._place(vclock, files)
        definitions = place.definitions
        finder = CutFinder(vclock, definitions.synchronous(), limit)
        compiled = is_compiled("auto", sum(start.size for start in files))
        blocks: list[_BlockPlace] = []
        is_known = place.content is None
        for path, block, end in _blocks(files, place):
            if finder.vclock == vclock:
                blocks.clear()  # So far there was no row later than `since`
            before = finder.vclock if blocks else VClock()
            content = hash(block.rows)
            if not is_known:
                _check_same(place, path, block.position, content)
                is_known = True
            blocks.append(_BlockPlace(path, block.position, end, before, definitions, content))
            is_whole = compiled and len(blocks) > 1
            definitions = _take(finder, path, block, vclock, definitions, compiled=is_whole)
            if finder.is_over or (until is not None and finder.found.vclock.covers(until)):
                break
        if not is_known:
            raise _taken_back(place)
        return _Scan(vclock, finder.found.vclock, tuple(blocks), finder.decisions.without_effect(), state)

    def _chain(self, since: StreamOffset) -> list[LogStart]:
        """Return the files that have the rows after a position.

        Raises:
            XlogError: a file is of another instance or missing.
        """
        files = self._files()
        for start in files:
            if start.meta.instance_uuid != since.source:
                raise XlogError(
                    f"{start.path}: written by instance {start.meta.instance_uuid}, the stream is of {since.source}: "
                    "each instance needs a directory and a checkpoint of its own"
                )
        if files and not any(since.vclock.covers(start.meta.vclock) for start in files):
            raise log_is_gone(self._directory, since.vclock)
        return chain_after(files, since.vclock)

    def _place(self, vclock: VClock, files: list[LogStart]) -> _BlockPlace:
        """Return the block where the last pass has found this position, or the beginning of the first file."""
        last, paths = self._last, {start.path for start in files}
        if last is not None and vclock in (last.since, last.until):
            known = [block for block in last.blocks if not block.vclock.covers(vclock)] or list(last.blocks[-1:])
            if vclock == last.since:
                known = known[:1]
            if known and known[-1].path in paths:
                return known[-1]
        path = files[0].path if files else ""
        return _BlockPlace(path, 0, 0, VClock(), self._definitions_at(vclock, files))

    def _definitions_at(self, vclock: VClock, files: list[LogStart]) -> Definitions:
        """Return the definitions before the first row of the first file: those of a snapshot, updated by the log.

        If that snapshot or the log after it has been removed, these are the definitions of the oldest snapshot.
        """
        first = files[0].meta.vclock if files else vclock
        for path, taken in self._snapshots():
            if first.covers(taken):
                try:
                    with BlockFile(path) as file:
                        found = read_definitions(file)
                    return self._moved(found, taken, first)
                except BoxError:
                    break
        return self._oldest_definitions()

    def _moved(self, definitions: Definitions, since: VClock, until: VClock) -> Definitions:
        """Return the definitions after the rows between two positions."""
        for start in chain_after(self._files(), since):
            if start.meta.vclock.covers(until):
                break
            with BlockFile(start.path, file_type="XLOG", is_open=True) as file:
                for block in file.blocks(file.data):
                    rows = [row for row in _decoded(start.path, block) if row.lsn > since[row.replica_id]]
                    definitions = changed(definitions, rows)
        return definitions

    def _oldest_definitions(self) -> Definitions:
        """Return the definitions of the oldest snapshot, because names of that time are better than none."""
        for path, _ in reversed(list(self._snapshots())):
            with BlockFile(path) as file:
                return read_definitions(file)
        return Definitions()


def _with_local_rows(vclock: VClock, files: list[LogStart]) -> VClock:
    """Return the vclock with the component 0, which users do not give, from the log: earlier rows of local spaces are
    skipped."""
    found = vclock.copy()
    if not found[0]:
        known = [start.meta.vclock[0] for start in files if vclock.covers(start.meta.vclock, ignore_zero=True)]
        found.reset(0, max(known, default=0))
    return found


def _blocks(files: list[LogStart], place: _BlockPlace) -> Iterator[tuple[str, Block, int]]:
    """Return path, block and the offset of the block's end, from a position on.

    Raises:
        XlogError: a block is broken, or its file has been removed.
    """
    is_before = any(start.path == place.path for start in files)
    for start in files:
        is_place = start.path == place.path
        if is_before and not is_place:
            continue
        is_before = False
        try:
            with BlockFile(start.path, file_type="XLOG", is_open=True) as file:
                first = max(place.position, file.data.start) if is_place else file.data.start
                for block in file.blocks(BlockRange(first, file.data.end)):
                    yield start.path, block, block.end
        except BoxError as error:
            raise log_is_gone(start.path, start.meta.vclock) if error.errno == errno.ENOENT else error from None


def _decoded(path: str, block: Block) -> list[Row]:
    try:
        return decode_rows(block.rows)
    except XlogError as error:
        raise XlogError(f"{path}: {error.message} in the block at {block.position}") from None


def _take(
    finder: CutFinder, path: str, block: Block, since: VClock, definitions: Definitions, *, compiled: bool
) -> Definitions:
    """Pass a block to the finder; return the definitions after it."""
    if compiled and finder.is_quiet:
        from box.spark.compiled_log import summarize

        summary, room = summarize(block.rows, since, finder.synchronous), finder.room()
        if summary is not None and (room is None or summary.rows <= room):
            finder.pass_rows(summary.rows, summary.lsns)
            return definitions
    rows = _decoded(path, block)
    try:
        for transaction in transactions(rows):
            before = definitions
            definitions = changed(definitions, transaction)
            if definitions is not before:
                finder.synchronous = definitions.synchronous()
            fresh = [row for row in transaction if row.lsn > since[row.replica_id]]
            if fresh and not finder.is_over:
                finder.take(fresh)
    except XlogError:
        raise
    except BoxError as error:
        raise XlogError(f"{path}: {error.message} in the block at {block.position}") from None
    return definitions


def _check_same(place: _BlockPlace, path: str, position: int, content: int) -> None:
    """Check that the last block of the batch before is still there.

    Raises:
        XlogError: it is not.
    """
    if (path, position, content) != (place.path, place.position, place.content):
        raise _taken_back(place)


def _taken_back(place: _BlockPlace) -> XlogError:
    """Return the error for a block that was read and then removed by its writer.

    A Lunabox node marks the bytes that it may still remove, so that they are not read. Tarantool does not.
    """
    return XlogError(
        f"{place.path}: the block at {place.position} is not the one that was read there: its writer has taken it "
        "back, as after a failed write, and the stream has shown changes that never were. Read the table once more, "
        "and start a new query from there; the option 'uri' does not show such changes"
    )


def _groups(blocks: list[_BlockPlace]) -> Iterator[list[_BlockPlace]]:
    """Return the blocks in groups of one file and of about the bytes of a part."""
    group: list[_BlockPlace] = []
    for block in blocks:
        if group and (block.path != group[-1].path or block.end - group[0].position > _PART_BYTES):
            yield group
            group = []
        group.append(block)
    if group:
        yield group
