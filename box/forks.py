"""Forks: files, locks and sockets of nodes stay those of the parent.

The child of `os.fork()` has a copy of every object, and runs what cleans up when it exits, perhaps with a loop that has
work to do. An owner of something outside of the process is told in the child, before anything else runs there.
"""

from __future__ import annotations

import os
import select
from asyncio import AbstractEventLoop
from typing import Final, Protocol
from weakref import WeakSet


class Owner(Protocol):
    """Has something that stays the parent's."""

    def leave_to_parent(self) -> None:
        """In the child: touch it no more. Must not fail, and must not wait for a lock."""


_owners: Final[WeakSet[Owner]] = WeakSet()


def own(owner: Owner) -> None:
    """Tell the owner if this process is forked."""
    _owners.add(owner)


def lead_nowhere(descriptor: int) -> None:
    """Let a descriptor of the child lead to the null device."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, descriptor, inheritable=False)
    os.close(null)


def separate(loop: AbstractEventLoop) -> None:
    """Let a loop of asyncio wait for its files by itself.

    Parent and child share what the kernel knows of an epoll descriptor: a child that closes its loop takes the parent's
    wake-ups away. uvloop minds its forks itself.
    """
    selector = getattr(loop, "_selector", None)
    shared = getattr(selector, "_selector", None)
    if isinstance(shared, select.epoll):
        selector._selector = select.epoll()  # type: ignore[union-attr]


def _in_child() -> None:
    for owner in list(_owners):
        owner.leave_to_parent()
    _owners.clear()


os.register_at_fork(after_in_child=_in_child)
