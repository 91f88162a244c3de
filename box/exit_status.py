"""Exit statuses of commands that are ended from outside: the numbers that a shell reports for signals."""

from __future__ import annotations

import os
import sys
from typing import Final

INTERRUPTED: Final = 130
"""128 + SIGINT."""
PIPE_CLOSED: Final = 141
"""128 + SIGPIPE."""


def after_closed_pipe() -> int:
    """Return the exit status of a command whose reader has closed the pipe (`| head`). Call it when BrokenPipeError is
    caught.

    Python would report the same error once more when it flushes at the end, so standard output is redirected to
    nowhere.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED
