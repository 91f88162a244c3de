"""Starts child processes that end with the runner, however it ends."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from console.suite.bound_child import bind_to_parent


async def spawn(
    command: tuple[str, ...], *, cwd: Path, env: Mapping[str, str], stdout: int | IO[bytes], stderr: int | IO[bytes]
) -> asyncio.subprocess.Process:
    """Start a command in a new session, without input. The kernel kills it when the runner is gone (Linux)."""
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
