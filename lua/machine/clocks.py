"""The clocks of a process."""

from __future__ import annotations

from typing import Protocol


class Clocks(Protocol):
    """The clocks of one process."""


class SystemClocks:
    """The operating system's."""
