"""Differences between two processes that do the same: their numbers, and what they take for random."""

from __future__ import annotations

import os
from typing import Protocol


class Identity(Protocol):
    """Of one process."""

    def process_id(self) -> int:
        """Its number on its machine."""

    def random_bytes(self, size: int) -> bytes:
        """So many of them."""


class SystemIdentity:
    """The operating system's: fit for keys."""

    process_id = staticmethod(os.getpid)
    random_bytes = staticmethod(os.urandom)
