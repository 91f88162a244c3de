"""A node in a process of its own, which does what the test at the other end of its control channel asks for.

```
ends by     SIGTERM (in order), SIGKILL, a crash that was ordered, a panic, the end of the channel: the test is gone
```

What Python says of exceptions that nobody catches goes to the file `stderr` beside the node's directory.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
import traceback
from contextlib import suppress
from inspect import isawaitable
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socket
from typing import Any, Final

import uvloop

from box.errors import BoxError
from box.instance.node import Instance
from box.replication.raft import Role
from box.replication.state import ApplierState
from box.testing.simulation.simulated_node import Changes, transact
from box.testing.simulation.workload import Body, Refused
from test.soak.reality.channel import NEWS, Answer, Channel, Request, Standing

PANIC: Final = 70
"""Exit status of a node that has ended because nobody may be told anything any more."""
_PR_SET_PDEATHSIG: Final = 1
_ROUND: Final = 0.02
"""Seconds between two looks for news."""


class Servant:
    """Serves one instance. Its public methods are what a test may ask for."""

    def __init__(self, directory: Path, channel: Channel) -> None:
        self._instance = Instance(directory)
        self._instance.on_panic.append(lambda: os._exit(PANIC))
        self._channel = channel
        self._told = Standing()
        self._over = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    # -- what a test asks for

    async def start(self, options: dict[str, Any], injections: dict[str, Any]) -> None:
        """`box.cfg` of a node with error injections."""
        for name, value in injections.items():
            self.inject(name, value)
        await self._instance.configure(options)

    async def configure(self, options: dict[str, Any]) -> None:
        """`box.cfg` of a running node."""
        await self._instance.configure(options)

    async def transaction(self, body: Body) -> Any:
        """Call `body` as one transaction."""
        return await transact(self._instance, body)

    async def snapshot(self) -> None:
        """`box.snapshot`."""
        await self._instance.checkpoints.make()

    def inject(self, name: str, value: object) -> None:
        """Set an error injection."""
        outcome = self._instance.errinj.set(f"ERRINJ_{name}", value)
        assert outcome == "ok", outcome

    def crash_after(self, seconds: float) -> None:
        """End after so many seconds more of the processor's time, at whatever instruction that is; 0: not any more."""
        signal.setitimer(signal.ITIMER_PROF, seconds)

    def rows(self, *spaces: int) -> list[list[Any]]:
        """All tuples of some spaces at one moment."""
        changes = Changes(self._instance, self._instance.new_context())
        return [changes.select(space) for space in spaces]

    def standing(self) -> Standing:
        """How the node stands."""
        instance = self._instance
        if not instance.state.is_configured:
            return Standing()
        raft = instance.elections.raft
        stopped = [one for one in instance.replication.replicaset.appliers if one.state is ApplierState.STOPPED]
        return Standing(
            True,
            instance.status,
            instance.state.instance_id,
            instance.mode.is_read_only,
            raft.term,
            raft.leader_id,
            raft.role is Role.LEADER,
            dict(instance.state.vclock),
            len(instance.limbo.entries),
            tuple((one.address, one.error.code, one.error.message) for one in stopped if one.error is not None),
        )

    # -- the process

    async def run(self) -> None:
        """Serve until SIGTERM."""
        self._begin(self._end_with_the_test())
        self._begin(self._tell_news())
        await self._over.wait()
        await self._instance.close()
        for _ in range(3):
            await asyncio.sleep(0)  # whoever waited for a commit says what became of it
        with suppress(OSError):
            await self._channel.flush()

    def end(self) -> None:
        """End in order."""
        self._over.set()

    def _begin(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end_with_the_test(self) -> None:
        async for request in self._channel.messages():
            self._begin(self._serve(request))
        os._exit(0)

    async def _serve(self, request: Request) -> None:
        result: Any = None
        error: Exception | None = None
        try:
            result = getattr(self, request.name)(*request.arguments)
            if isawaitable(result):
                result = await result
        except (BoxError, Refused) as refusal:
            error = refusal
        except Exception:
            error = RuntimeError(traceback.format_exc())
        self._told = self.standing()
        self._channel.send(Answer(request.number, self._told, None if error else result, error))

    async def _tell_news(self) -> None:
        while True:
            standing = self.standing()
            if standing != self._told:
                self._told = standing
                self._channel.send(Answer(NEWS, standing))
            await asyncio.sleep(_ROUND)


async def _serve(directory: Path, end: socket) -> None:
    servant = Servant(directory, await Channel.open(end))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, servant.end)
    await servant.run()


def _die_with_the_parent() -> None:
    """Whoever stands still does not see the end of the channel; the kernel ends it all the same, on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _keep_only(control: Connection) -> socket:
    """The control channel, and no other descriptor: the server that this process was forked from, its parent, ends when
    the test and all who have certain descriptors are gone."""
    kept = os.dup(control.fileno())
    control.close()
    os.closerange(sys.stderr.fileno() + 1, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
    return socket(fileno=kept)


def run(directory: str, control: Connection) -> None:
    """Serve in this process."""
    end = _keep_only(control)
    _die_with_the_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the test that gets it as well ends this process
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    output = os.open(f"{directory}.stderr", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, sys.stdout.fileno())
    os.dup2(output, sys.stderr.fileno())
    uvloop.run(_serve(Path(directory), end))
    os._exit(0)
