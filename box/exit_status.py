"""Exit statuses of commands that others end: what a shell reports for the signals."""

from __future__ import annotations

import os
import sys
from typing import Final

INTERRUPTED: Final = 130
"""128 + SIGINT."""
PIPE_CLOSED: Final = 141
"""128 + SIGPIPE."""


def after_closed_pipe() -> int:
    """The status of a command whose reader has enough: `| head`. Call it in the handler of BrokenPipeError.

    Python would report the same error once more when it flushes at the end, so the output goes nowhere from here on.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED
