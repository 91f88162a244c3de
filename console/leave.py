"""The end of a process whose work is done."""

from __future__ import annotations

import atexit
import os
import sys
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End the process with this exit code, without taking the interpreter apart: that takes longer than many a program.

    What is registered for the exit runs. The streams are flushed; who wants to know whether that fails does it before.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # nobody reads it any more; closed; none at all
            continue
    os._exit(code)
