"""The program of a node process: serves the requests that the test sends over the control channel.

```
the process ends by   SIGTERM, in order; SIGKILL; a crash that the test has ordered; a panic of the instance;
                      the end of the channel, because the test has ended then
```

stdout and stderr go to `DIRECTORY.stderr` beside the node's directory, so that uncaught exceptions are found.
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
from test.soak.reality.channel import NEWS, Answer, Channel, NodeState, Request

PANIC: Final = 70
"""The exit status after a panic of the instance: its state is unknown, and no client may get an answer."""
_PR_SET_PDEATHSIG: Final = 1  # from <linux/prctl.h>
_ROUND: Final = 0.02
"""Seconds between two checks whether the node's state has changed."""


class NodeServer:
    """Serves one instance; tests call its public methods over the control channel."""

    def __init__(self, directory: Path, channel: Channel) -> None:
        self._instance = Instance(directory)
        self._instance.on_panic.append(lambda: os._exit(PANIC))
        self._channel = channel
        self._reported = NodeState()
        self._over = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    # -- called by the test

    async def start(self, options: dict[str, Any], injections: dict[str, Any]) -> None:
        """Set error injections (names without ERRINJ_), then configure the instance for the first time."""
        for name, value in injections.items():
            self.inject(name, value)
        await self._instance.configure(options)

    async def configure(self, options: dict[str, Any]) -> None:
        """Change options of the running instance."""
        await self._instance.configure(options)

    async def transaction(self, body: Body) -> Any:
        """Run `body` as one transaction and return its result."""
        return await transact(self._instance, body)

    async def snapshot(self) -> None:
        """Make a checkpoint, as `box.snapshot()` does."""
        await self._instance.checkpoints.make()

    def inject(self, name: str, value: object) -> None:
        """Set the error injection ERRINJ_`name`."""
        outcome = self._instance.errinj.set(f"ERRINJ_{name}", value)
        assert outcome == "ok", outcome

    def crash_after(self, seconds: float) -> None:
        """Let SIGPROF kill the process after `seconds` more of processor time, at any instruction; 0 cancels that."""
        signal.setitimer(signal.ITIMER_PROF, seconds)

    def rows(self, *spaces: int) -> list[list[Any]]:
        """Return all tuples of each space, read at one moment."""
        changes = Changes(self._instance, self._instance.new_context())
        return [changes.select(space) for space in spaces]

    def state(self) -> NodeState:
        """Return what the node reports of itself."""
        instance = self._instance
        if not instance.state.is_configured:
            return NodeState()
        raft = instance.elections.raft
        stopped = [one for one in instance.replication.replicaset.appliers if one.state is ApplierState.STOPPED]
        return NodeState(
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
        """Serve requests until `end` is called, then close the instance."""
        self._begin(self._end_with_the_test())
        self._begin(self._tell_news())
        await self._over.wait()
        await self._instance.close()
        for _ in range(3):
            await asyncio.sleep(0)  # lets tasks that waited for a commit send their answers
        with suppress(OSError):
            await self._channel.flush()

    def end(self) -> None:
        """Let `run` close the instance and return."""
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
        self._reported = self.state()
        self._channel.send(Answer(request.number, self._reported, None if error else result, error))

    async def _tell_news(self) -> None:
        while True:
            state = self.state()
            if state != self._reported:
                self._reported = state
                self._channel.send(Answer(NEWS, state))
            await asyncio.sleep(_ROUND)


async def _serve(directory: Path, end: socket) -> None:
    server = NodeServer(directory, await Channel.open(end))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.end)
    await server.run()


def _die_with_the_parent() -> None:
    """Have Linux kill this process when its parent ends: a process that is stopped does not see the channel end."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _keep_only(control: Connection) -> socket:
    """Return the control channel's socket and close all other descriptors but stdin, stdout and stderr.

    The fork server, this process's parent, ends only when every copy of its descriptors is closed.
    """
    kept = os.dup(control.fileno())
    control.close()
    os.closerange(sys.stderr.fileno() + 1, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
    return socket(fileno=kept)


def run(directory: str, control: Connection) -> None:
    """Serve a node in this process until it ends; `control` is this end of the control channel."""
    end = _keep_only(control)
    _die_with_the_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the test that gets it as well ends this process
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    output = os.open(f"{directory}.stderr", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, sys.stdout.fileno())
    os.dup2(output, sys.stderr.fileno())
    uvloop.run(_serve(Path(directory), end))
    os._exit(0)
