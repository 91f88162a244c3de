"""The modes of the log, which the options name."""

from __future__ import annotations

from typing import Final

WAL_MODES: Final = ("none", "write", "fsync")
"""The values of `box.cfg.wal_mode`."""
