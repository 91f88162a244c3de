"""Child processes that do not outlive the runner, however that ends."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_LIBC = ctypes.CDLL(None)


async def spawn(
    command: tuple[str, ...], *, cwd: Path, env: Mapping[str, str], stdout: int | IO[bytes], stderr: int | IO[bytes]
) -> asyncio.subprocess.Process:
    """Start a command in a session of its own, without input. The kernel kills it when the runner is gone (Linux)."""
    return await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        preexec_fn=bind_to_parent(os.getpid()) if sys.platform == "linux" else None,
    )


def bind_to_parent(runner: int) -> Callable[[], None]:
    """A function that prepares the child before it becomes the command. The setting stays through exec."""

    def bind() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != runner:  # it has died in between
            os._exit(1)

    return bind
