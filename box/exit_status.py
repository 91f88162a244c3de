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
    _write_nowhere()
    return PIPE_CLOSED


def after_lost_output(command: str, error: OSError) -> int:
    """Return the exit status of a command whose output cannot be written, for instance to a full disk, and report the
    reason on standard error.
    """
    print(f"{command}: standard output: {error.strerror}", file=sys.stderr)
    _write_nowhere()
    return 1


def open_closed_streams() -> None:
    """Let a standard stream that is closed write to nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - it lives as long as the process


def _write_nowhere() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
