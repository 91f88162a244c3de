"""The error of wrong content in a log file. Missing files are `XlogGapError` (`log_gap.py`)."""

from __future__ import annotations

from box.errors import BoxError, ErrorCode


class XlogError(BoxError):
    """Wrong content of a log file: the only kind of error that `force_recovery` skips."""

    __slots__ = ()

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.PROC_LUA, message, type="XlogError")
