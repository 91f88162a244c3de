"""Exit statuses of commands that are ended from outside: the numbers that a shell reports for signals."""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

INTERRUPTED: Final = 130
"""128 + SIGINT."""
PIPE_CLOSED: Final = 141
"""128 + SIGPIPE."""


def end_at_interrupt() -> None:
    """Let Ctrl-C end the process at once, without a traceback. Call it before the imports of a command, where nothing
    is worth a clean-up. An ignored Ctrl-C stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_at_interrupt() -> None:
    """Undo `end_at_interrupt`: Ctrl-C raises KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
