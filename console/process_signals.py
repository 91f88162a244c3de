"""What a process of `lunabox` does when a signal arrives.

| signal | effect |
|---|---|
| SIGTERM | the program ends with 0: `box.ctl.on_shutdown` triggers run, writes end, the log is closed |
| SIGINT (Ctrl-C) | at the interactive console it interrupts the statement; else as SIGTERM |
| SIGHUP | the log file is opened again, after a rotation |
| SIGUSR1 | a snapshot is made; the log says what failed |
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from box.errors import BoxError
from box.log import Level

if TYPE_CHECKING:
    from box.instance.node import Instance
    from console.bindings import TerminalConsole


class ProcessSignals:
    """Handlers of the process for one node. `end` ends the program."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, node: Instance, end: Callable[[], None], console: TerminalConsole
    ) -> None:
        self._loop = loop
        self._node = node
        self._end = end
        self._console = console
        self._snapshots: set[asyncio.Task[None]] = set()

    def handle(self) -> None:
        """Install the handlers."""
        self._on(signal.SIGTERM, partial(self._end_by, signal.SIGTERM))
        self._on(signal.SIGINT, self._interrupt)
        self._on(signal.SIGHUP, self._node.log.rotate)
        self._on(signal.SIGUSR1, self._start_snapshot)
        for number in (signal.SIGHUP, signal.SIGUSR1):
            signal.siginterrupt(number, False)  # these must not make a read of Lua's `io` fail

    def _on(self, number: signal.Signals, act: Callable[[], None]) -> None:
        """Handle a signal in Python instead of the loop.

        The loop trusts the pipe that wakes it. A child forked by a script also writes its signals there, until it
        executes another program.
        """
        signal.signal(number, lambda *_: self._loop.call_soon_threadsafe(act))

    def _interrupt(self) -> None:
        if not self._console.owns_interrupt:
            self._end_by(signal.SIGINT)

    def _end_by(self, number: signal.Signals) -> None:
        """End the program. As in Tarantool, the log of a service, which has a `pid_file`, tells why."""
        if self._node.is_configured and self._node.config["pid_file"]:
            self._node.log.say(Level.CRIT, f"got signal {int(number)} - {signal.strsignal(number)}", fiber="")
        self._end()

    def _start_snapshot(self) -> None:
        task = self._loop.create_task(self._snapshot())
        self._snapshots.add(task)  # the loop holds tasks weakly
        task.add_done_callback(self._snapshots.discard)

    async def _snapshot(self) -> None:
        node = self._node
        if not node.is_configured:
            node.log.warn("snapshot: the node is not configured")
            return
        try:
            await node.checkpoints.make_now()
        except BoxError as error:
            node.log.error(f"snapshot: {error.message}")
