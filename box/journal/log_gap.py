"""Finds rows that are missing between the files of a log: "Missing .xlog file between LSN ...".

```
snapshot or replica at {1: 10}     files, by the vclock at their beginning
         |                         {1: 8}      {1: 20}     {1: 30}
         |-------- read from ------|-----------|-----------|------ end of the log at {1: 35}

before the first file    it begins later than the reader: {1: 12} for a reader at {1: 10}
between two files        the later one names another predecessor than the file read before it
after the last file      its end is not the vclock that the log is known to have
```

`LogReader` checks the first two, and ignores a gap with `force_recovery`. A follower of the log and a replay know where
the log has to end, so they check the third.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from box.errors import ErrorCode
from box.journal.xlog_errors import XlogError
from box.wire.vclock import VClock

if TYPE_CHECKING:
    from box.journal.directory import LogFile


class XlogGapError(XlogError):
    """Rows between two vclocks are in no file: the log has a gap."""

    __slots__ = ()

    def __init__(self, before: VClock, after: VClock) -> None:
        super().__init__(f"Missing .xlog file between LSN {before.signature} {before} and {after.signature} {after}")
        self.code = ErrorCode.XLOG_GAP
        self.type = "XlogGapError"


def gap_before(first: LogFile, vclock: VClock) -> XlogGapError | None:
    """Return the error of a gap between a reader's vclock and the first file that it reads, or None."""
    return None if vclock.covers(first.vclock) else XlogGapError(vclock, first.vclock)


def gap_between(before: LogFile, after: LogFile, vclock: VClock) -> XlogGapError | None:
    """Return the error of a gap between two files, or None. `vclock` is the reader's at the end of the first."""
    return None if after.follows(before) else XlogGapError(vclock, after.vclock)


def check_reached(vclock: VClock, end: VClock) -> None:
    """Check that a reader that has read all files is at the end of the log.

    Raises:
        XlogGapError: rows are missing.
    """
    if not vclock.covers(end, ignore_zero=True):
        raise XlogGapError(vclock, end)
