"""Errors of log files: `XlogError` for what is wrong inside a file, `XlogGapError` for files that are missing."""

from __future__ import annotations

from box.errors import BoxError, ErrorCode
from box.wire.vclock import VClock


class XlogError(BoxError):
    """Wrong content of a log file: the only kind of error that `force_recovery` skips."""

    __slots__ = ()

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.PROC_LUA, message, type="XlogError")


class XlogGapError(XlogError):
    """Rows between two vclocks are in no file: the log has a gap."""

    __slots__ = ()

    def __init__(self, before: VClock, after: VClock) -> None:
        super().__init__(f"Missing .xlog file between LSN {before.signature} {before} and {after.signature} {after}")
        self.code = ErrorCode.XLOG_GAP
        self.type = "XlogGapError"
