"""A fork of the runner, made before any other import, which becomes the process that nodes are forked from.

It prepares itself in parallel with the runner. This module imports hardly anything, because both wait for everything
before the fork.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from typing import NamedTuple

_WITHOUT_NODES = ("-h", "--h", "--v", "--exe", "--no")
"""Prefixes of the options with which no nodes are forked."""


class EarlyFork(NamedTuple):
    """The forked process, and the runner's end of the connection to it."""

    pid: int
    connection: socket.socket

    def end(self) -> None:
        """Kill the process and the nodes left with it; safe to call again."""
        if self.connection.fileno() < 0:
            return
        self.connection.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def fork_early(arguments: list[str]) -> EarlyFork | None:
    """Fork the process, or return None if these arguments or this system have no use for it."""
    if not hasattr(os, "pidfd_open") or any(text.startswith(_WITHOUT_NODES) for text in arguments):
        return None
    _open_missing()
    mine, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    runner = os.getpid()
    pid = os.fork()
    if pid != 0:
        other.close()
        return EarlyFork(pid, mine)
    try:
        mine.close()
        descriptor = other.detach()
        _leave_runner(descriptor)
        become_warm(descriptor, runner)
    finally:
        os._exit(1)


def _open_missing() -> None:
    """Open /dev/null for closed standard descriptors, so that the connection does not get their numbers."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < 3:
        continue
    os.close(descriptor)


def _leave_runner(descriptor: int) -> None:
    """Detach from the runner: new session, new standard streams, no other descriptors except `descriptor`."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nothing, number)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:  # the runner has no such stream, but nodes have all three
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - it lives as long as the process
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, os.sysconf("SC_OPEN_MAX"))


def become_warm(descriptor: int, runner: int) -> None:
    """Import everything that a node needs to start, and serve the runner through the connection until it is gone."""
    gc.disable()  # imported objects stay; each node enables the collector again
    from console.suite.warm_process import import_node, serve

    import_node()
    serve(descriptor, runner)
