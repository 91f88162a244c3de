"""Moves this process into the background: `box.cfg{background = true}`.

The process forks. The child continues the program, in a session of its own and without a terminal. The parent ends with
0, so that a shell goes on. Facts of a running Tarantool: standard input leads nowhere, standard output and
error lead to the log.
"""

from __future__ import annotations

import asyncio
import os
import signal
import warnings
from concurrent.futures import ThreadPoolExecutor

from box import forks
from console import streams


def go_into_background(loop: asyncio.AbstractEventLoop, output: int | None) -> None:
    """Continue in a child of this process, whose standard output and error are `output`, or nothing.

    It is called on the loop, and the child keeps the loop with everything on it. Threads do not survive: those of the
    default executor are made anew; the log's and others do not exist before the first start.

    Raises:
        OSError: there can be no more processes.
    """
    streams.finish(0)
    wake_up = signal.set_wakeup_fd(-1)
    if _fork() != 0:
        os._exit(0)
    os.setsid()
    asyncio._set_running_loop(loop)  # the interpreter forgets both in a child
    signal.set_wakeup_fd(wake_up, warn_on_full_buffer=False)
    loop.set_default_executor(ThreadPoolExecutor(thread_name_prefix="asyncio"))
    _redirect(output)


def _fork() -> int:
    with forks.keeping(), warnings.catch_warnings():
        # The interpreter warns of threads whose locks nobody would release.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _redirect(output: int | None) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    for number in (1, 2):
        os.dup2(nowhere if output is None else output, number)
    os.close(nowhere)
