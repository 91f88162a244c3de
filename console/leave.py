"""Ends the process without waiting for the interpreter's own end."""

from __future__ import annotations

import atexit
import os
import sys
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End the process without tearing the interpreter down, which takes longer than many programs run.

    Functions registered for the exit run, and the streams are flushed. Callers that care about a failed flush flush
    before.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        # Nobody reads the stream any more, it is closed, or there is none.
        except (OSError, ValueError, AttributeError):
            continue
    os._exit(code)
