"""The journal: write-ahead log, snapshots, recovery, garbage collection and the file format they share."""

from box.journal.follow import Follower
from box.journal.gc import Consumer, GarbageCollector
from box.journal.journal import WAL_MODES, Journal
from box.journal.recovery import Recovery, find_snapshots, group_transactions
from box.journal.rows import TupleRun
from box.journal.snapshot import SnapshotReader, SnapshotSpace, SnapshotWriter, write_snapshot
from box.journal.storage import FileStorage, MemoryStorage, Storage
from box.journal.wal import CheckpointStart
from box.journal.xlog_errors import XlogError, XlogGapError
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
    "TupleRun",
    "XlogError",
    "XlogGapError",
    "find_snapshots",
    "group_transactions",
    "write_snapshot",
]
