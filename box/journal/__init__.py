"""The journal: write-ahead log, snapshots, recovery, garbage collection and the file format they share.

Names are imported on first use, because readers of files (`box.spark`) need the formats and not the writer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from box.journal.follow import Follower
    from box.journal.gc import Consumer, GarbageCollector
    from box.journal.journal import Journal
    from box.journal.log_gap import XlogGapError
    from box.journal.recovery import Recovery, find_snapshots, group_transactions
    from box.journal.snapshot import SnapshotReader, SnapshotSpace, SnapshotWriter, write_snapshot
    from box.journal.storage import FileStorage, MemoryStorage, Storage
    from box.journal.wal import CheckpointStart
    from box.journal.wal_modes import WAL_MODES
    from box.journal.xlog_errors import XlogError
    from box.wire.entry import JournalEntry

__all__ = [
    "WAL_MODES",
    "CheckpointStart",
    "Consumer",
    "FileStorage",
    "Follower",
    "GarbageCollector",
    "Journal",
    "JournalEntry",
    "MemoryStorage",
    "Recovery",
    "SnapshotReader",
    "SnapshotSpace",
    "SnapshotWriter",
    "Storage",
    "XlogError",
    "XlogGapError",
    "find_snapshots",
    "group_transactions",
    "write_snapshot",
]

_MODULES = {
    "box.journal.follow": ("Follower",),
    "box.journal.gc": ("Consumer", "GarbageCollector"),
    "box.journal.journal": ("Journal",),
    "box.journal.log_gap": ("XlogGapError",),
    "box.journal.recovery": ("Recovery", "find_snapshots", "group_transactions"),
    "box.journal.snapshot": ("SnapshotReader", "SnapshotSpace", "SnapshotWriter", "write_snapshot"),
    "box.journal.storage": ("FileStorage", "MemoryStorage", "Storage"),
    "box.journal.wal": ("CheckpointStart",),
    "box.journal.wal_modes": ("WAL_MODES",),
    "box.journal.xlog_errors": ("XlogError",),
    "box.wire.entry": ("JournalEntry",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'box.journal' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
