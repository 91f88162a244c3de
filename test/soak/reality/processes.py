"""The operating-system process of a node, as the test that starts it sees it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from test.soak.forking import PROCESSES
from test.soak.reality import node_server


class NodeProcess:
    """One process of a node, and the test's end of its control channel.

    It is forked from a process that has imported everything, because imports take longer than the rest of a start.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        here, there = PROCESSES.Pipe()
        self._process: ForkServerProcess = PROCESSES.Process(
            target=node_server.run, args=(str(directory), there), daemon=True
        )
        self._process.start()
        there.close()
        self.control = socket.socket(fileno=os.dup(here.fileno()))
        here.close()
        assert self._process.pid is not None
        self.pid: int = self._process.pid
        self.may_end = False
        """True if the test has sent a signal that ends the process; without one an end is a violation."""
        self._gone = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._process.sentinel, self._see_end)

    def _see_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        self._process.join()
        self._gone.set()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if not self._gone.is_set():
            os.kill(self.pid, number)

    async def gone(self) -> int:
        """Wait for the end and return the exit status, which is the negative number of a signal that killed it."""
        await self._gone.wait()
        assert self._process.exitcode is not None
        return self._process.exitcode
