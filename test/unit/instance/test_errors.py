"""Errors in the log."""

from __future__ import annotations

import errno

import pytest

from box.errors import BoxError, ErrorCode, access_denied, client_error, system_error, timed_out
from box.journal.log_gap import XlogGapError
from box.wire.vclock import VClock


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (client_error(ErrorCode.CFG, "x", "why"), "ER_CFG: Incorrect value for option 'x': why"),
        (
            access_denied("Read", "space", "s", "guest"),
            "ER_ACCESS_DENIED: Read access to space 's' is denied for user 'guest'",
        ),
        (
            XlogGapError(VClock({1: 1}), VClock({1: 3})),
            "XlogGapError: Missing .xlog file between LSN 1 {1: 1} and 3 {1: 3}",
        ),
        (system_error("connect to x", errno.ECONNREFUSED), "SystemError connect to x: Connection refused"),
        (timed_out(), "SystemError timed out: Connection timed out"),
        (BoxError(0, "why", type="CustomError", custom_type="Mine"), "Custom type %s: why"),
        (BoxError(ErrorCode.PROC_LUA, "why", type="LuajitError"), "LuajitError: why"),
    ],
)
def test_log_text(error: BoxError, text: str) -> None:
    """Errors of box show their code, others their type, and system errors the system's text."""
    assert error.log_text == text
