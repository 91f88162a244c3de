"""Binds child processes to their parent, so that they end with it however it ends (Linux)."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_LIBC = ctypes.CDLL(None)


def bind_to_parent(parent: int) -> Callable[[], None]:
    """Return a function that prepares the child, for the time before it executes a program. The setting survives
    exec.
    """

    def bind() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:  # the parent died before the call above
            os._exit(1)

    return bind
