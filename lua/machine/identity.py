"""The differences between two processes that do the same: process ids and random bytes."""

from __future__ import annotations

import os
from typing import Protocol


class Identity(Protocol):
    """The identity of one process: its id and its random bytes."""

    def process_id(self) -> int:
        """Return the id of the process on its machine."""

    def random_bytes(self, size: int) -> bytes:
        """Return `size` random bytes."""


class SystemIdentity:
    """The operating system's identity; its random bytes are fit for keys."""

    process_id = staticmethod(os.getpid)
    random_bytes = staticmethod(os.urandom)
