"""Finds and reads the log files of one instance, also while the instance writes them.

A file has an EOF marker if its writer has closed it. Without the marker it ends after its last whole block: its writer
has died there or is still writing. The files form a chain: the `PrevVClock` of each is the `VClock` of the one before.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final
from uuid import UUID

from box.errors import BoxError
from box.journal.xlog import Meta
from box.journal.xlog_errors import XlogError
from box.spark.blocks import Block, BlockFile
from box.spark.paths import names_in
from box.wire.vclock import VClock

_LOG_NAME: Final = re.compile(r"(\d{20})\.xlog")


@dataclass(frozen=True, slots=True)
class LogPiece:
    """The blocks of a log file that begin before the offset `end`."""

    path: str
    end: int

    def blocks(self) -> Iterator[Block]:
        """Return the blocks.

        Raises:
            XlogError: a block is broken, or the instance has removed the file; the text has the path.
            BoxError: SYSTEM, the file cannot be read.
        """
        try:
            with BlockFile(self.path, file_type="XLOG", is_open=True) as file:
                for block in file.blocks(file.data):
                    if block.position >= self.end:
                        return
                    yield block
        except BoxError as error:
            raise _gone(self.path) if error.errno == errno.ENOENT else error from None


@dataclass(frozen=True, slots=True)
class LogStart:
    """A log file, its size in bytes when it was opened, and its meta with the vclock at its beginning."""

    path: str
    size: int
    meta: Meta


def log_files(directory: str, since: VClock, instance: UUID) -> list[LogStart]:
    """Return the files that contain all rows later than `since`, in order; [] if there are no log files at all.

    Raises:
        XlogError: a file is of another instance, a file between two others is missing, or no file has the rows just
            after `since`, because the log was removed or is in another directory.
    """
    wanted = _from(all_log_files(directory), since)
    if wanted and not since.covers(wanted[0].meta.vclock):
        raise XlogError(
            f"{wanted[0].path}: the log begins at {wanted[0].meta.vclock}, rows after {since} are in no file of "
            f"{directory}: read from a later snapshot or name the directory of the log"
        )
    for start in wanted:
        if start.meta.instance_uuid != instance:
            raise XlogError(
                f"{start.path}: written by instance {start.meta.instance_uuid}, the snapshot by {instance}: "
                "each instance needs a directory of its own"
            )
    _check_chain(wanted)
    return wanted


def all_log_files(directory: str) -> list[LogStart]:
    """Return all log files of a directory in order.

    Raises:
        XlogError: a file is broken.
        BoxError: SYSTEM, the directory or a file cannot be read.
    """
    found: list[LogStart] = []
    for name in names_in(directory):
        if _LOG_NAME.fullmatch(name):
            path = f"{directory}/{name}"
            with BlockFile(path, file_type="XLOG", is_open=True) as file:
                found.append(LogStart(path, file.size, file.meta))
    return sorted(found, key=lambda start: start.meta.vclock.signature)


def chain_after(files: list[LogStart], since: VClock) -> list[LogStart]:
    """Return those of the files that contain the rows later than `since`.

    Raises:
        XlogError: a file between two others is missing.
    """
    wanted = _from(files, since)
    _check_chain(wanted)
    return wanted


def _from(files: list[LogStart], since: VClock) -> list[LogStart]:
    first = max((number for number, start in enumerate(files) if since.covers(start.meta.vclock)), default=0)
    return files[first:]


def _check_chain(files: list[LogStart]) -> None:
    for before, start in pairwise(files):
        previous = start.meta.prev_vclock
        if previous is not None and previous != before.meta.vclock:
            raise XlogError(
                f"{start.path}: follows a file that begins at {previous}, but the one before it begins at "
                f"{before.meta.vclock}: a log file is missing between {before.path} and this one"
            )


def _gone(path: str) -> BoxError:
    return XlogError(f"{path}: the file is gone: the instance has collected it; load the table anew")
