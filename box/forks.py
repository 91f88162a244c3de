"""Forks: files, locks and sockets of nodes stay with the parent process.

The child of `os.fork()` has a copy of every object, and at its exit runs their clean-up code, perhaps in a loop that
still has work to do. Objects that own something outside of the process are notified in the child, before anything else
runs there.
"""

from __future__ import annotations

import os
import select
from asyncio import AbstractEventLoop
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol
from weakref import WeakSet


class Owner(Protocol):
    """An object that owns something outside of the process, such as a file or a lock."""

    def leave_to_parent(self) -> None:
        """Give up the owned thing in a forked child. Must not fail, and must not wait for a lock."""


_owners: Final[WeakSet[Owner]] = WeakSet()


def own(owner: Owner) -> None:
    """Register an owner, so that it is notified if this process is forked."""
    _owners.add(owner)


def lead_nowhere(descriptor: int) -> None:
    """Redirect a descriptor of the child to the null device."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, descriptor, inheritable=False)
    os.close(null)


def separate(loop: AbstractEventLoop) -> None:
    """Give an asyncio loop in a forked child its own epoll descriptor.

    Parent and child share the kernel's state of an epoll descriptor: a child that closes its loop would take the
    parent's wake-ups away. uvloop handles forks itself.
    """
    selector = getattr(loop, "_selector", None)
    shared = getattr(selector, "_selector", None)
    if isinstance(shared, select.epoll):
        selector._selector = select.epoll()  # type: ignore[union-attr]


@contextmanager
def keeping() -> Iterator[None]:
    """Let the child of a fork keep everything, because the parent ends at once."""
    global _are_kept
    _are_kept = True
    try:
        yield
    finally:
        _are_kept = False


_are_kept = False


def _in_child() -> None:
    if _are_kept:
        return
    for owner in list(_owners):
        owner.leave_to_parent()
    _owners.clear()


os.register_at_fork(after_in_child=_in_child)
