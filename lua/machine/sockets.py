"""Sockets as `socket` uses them, by descriptor."""

from __future__ import annotations

from typing import Protocol


class Sockets(Protocol):
    """The sockets of one process."""


class SystemSockets:
    """The operating system's."""
