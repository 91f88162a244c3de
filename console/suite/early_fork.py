"""A fork of the runner, made before it has imported anything, that becomes the process which nodes are forked from.

It makes itself ready beside the runner. This module imports hardly anything: what comes before the fork, both wait for.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from typing import NamedTuple

_WITHOUT_NODES = ("-h", "--h", "--v", "--exe", "--no")
"""Beginnings of options with which it would have nothing to do."""


class EarlyFork(NamedTuple):
    """The other process, and the runner's end of the connection to it."""

    pid: int
    connection: socket.socket

    def end(self) -> None:
        """Kill it, and nodes that are left with it. Nothing happens the second time."""
        if self.connection.fileno() < 0:
            return
        self.connection.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def fork_early(arguments: list[str]) -> EarlyFork | None:
    """None where these arguments of the command, or this system, have no use for it."""
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
    """Put /dev/null where a standard descriptor is closed: the connection must not get its number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < 3:
        continue
    os.close(descriptor)


def _leave_runner(descriptor: int) -> None:
    """A session, standard streams and descriptors of its own; `descriptor` stays."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nothing, number)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:  # the runner has none; nodes have them all
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - it lives as long as the process
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, os.sysconf("SC_OPEN_MAX"))


def become_warm(descriptor: int, runner: int) -> None:
    """Import all that a node starts with, and serve the runner at this end of the connection until it is gone."""
    gc.disable()  # what the imports make stays; each node switches it on again
    from console.suite.warm_process import import_node, serve

    import_node()
    serve(descriptor, runner)
