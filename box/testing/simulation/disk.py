"""A simulated disk: files that know which of their bytes are durable, and calls that fail on demand.

```
operation                    visible                     durable after
write, truncate              at once, in the file        sync of the file
create, rename, remove       at once, in the directory   sync_directory
```

A sync takes time, and its data is durable only at its end. Simulated time stands still during a callback, so the disk
itself adds up the seconds that the calls of one callback take.

A killed process loses nothing that it wrote, because the operating system has the data. When the power fails, each file
keeps what was synced and a random part of the rest, maybe cut within a write (`inodes.py`). A random number of
directory operations that were not synced are undone, the newest first, and with them all operations that the process
would still have waited for (`file_tree.py`). Truncations by the journal take effect at once.

Faults are set by name in `faults` and affect every call until they are removed. `capacity` limits the bytes of all
files together. `latency` is the range of seconds that a write or sync takes, `sync_delay` the additional seconds of a
sync. `rot` changes a byte that a checksum covers.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from random import Random
from stat import S_IFREG
from typing import Final

from box.journal.directory import LogDirectory, LogKind
from box.journal.reader import BlockReader
from box.journal.storage import AppendFile, DirectoryLock, ReadFile
from box.journal.xlog import FIXHEADER_SIZE
from box.testing.simulation.file_tree import FileTree, PathEnd, failure
from box.testing.simulation.inodes import Content, Directory, Inode

WRITE_FAILS: Final = "write fails"
"""A fault: writes and changes of names fail with EIO."""
TRUNCATE_FAILS: Final = "truncate fails"
"""A fault: truncations fail with EIO."""
SYNC_FAILS: Final = "sync fails"
"""A fault: syncs of files and directories fail with EIO."""
SHORT_WRITES: Final = "short writes"
"""A fault: each write takes only a random part of its data."""
OPERATIONS: Final = ("create", "write", "sync", "rename", "remove", "sync of a directory")
"""The operations that `on_operation` reports."""
READ_FAILS: Final = "read fails"
"""A fault: reads fail with EIO."""
LATENCY: Final = (0.00005, 0.001)
"""The range of seconds that a write or a sync takes on a healthy disk."""
_RESOLUTION: Final = 1e-9
"""The seconds by which a process that ends at a sync ends before the sync does, so that its data is not durable."""
_KEPT_PATHS: Final = 10_000
"""The number of normalised paths in the cache; a run uses fewer."""
FAULTS: Final = frozenset({WRITE_FAILS, TRUNCATE_FAILS, SYNC_FAILS, SHORT_WRITES, READ_FAILS})


@lru_cache(_KEPT_PATHS)
def _plain(path: str) -> str:
    return str(PurePosixPath(path))


@dataclass(eq=False, slots=True)
class _Lock:
    locked: set[str]
    directory: str

    def release(self) -> None:
        self.locked.discard(self.directory)


class _File:
    """An open file. It stays usable after it is renamed or removed."""

    __slots__ = ("_content", "_disk", "path")

    def __init__(self, disk: SimulatedDisk, path: str, content: Content) -> None:
        self.path = path
        self._disk = disk
        self._content = content

    def write(self, data: bytes) -> int:
        size = self._disk.room_for(len(data), self.path)
        self._content.data += data[:size]
        self._content.mtime = self._content.ctime = self._disk.now()
        self._disk.grow(size)
        self._disk.tell("write")
        return size

    def truncate(self, size: int) -> None:
        self._disk.check(TRUNCATE_FAILS, self.path)
        self._disk.grow(min(size - len(self._content.data), 0))
        self._content.cut(size)

    def sync(self) -> None:
        self._disk.sync_file(self._content, self.path)

    def mark_pending(self, start: int | None) -> None:
        """Do nothing: this is a hint for readers in other processes, and a simulated file has none."""

    def read(self, offset: int, size: int) -> bytes:
        self._disk.check(READ_FAILS, self.path)
        return bytes(self._content.data[offset : offset + size])

    def counted_size(self) -> int:
        return len(self._content.data)

    def close(self) -> None:
        """Do nothing: the disk owns the content."""


class SimulatedDisk:
    """The disk of one simulated process, a `Storage`. After the process has ended every call fails.

    `now` is the clock of the process, `time` that of the simulation. `spent` counts the seconds that the calls have
    taken within the present moment of simulated time.
    """

    def __init__(self, now: Callable[[], float], time: Callable[[], float], random: Random) -> None:
        self.now = now
        self.spent = 0.0
        self.latency = LATENCY
        self.sync_delay = 0.0
        self.faults: set[str] = set()
        self.failures = 0
        """The number of calls that a fault has made fail, including those of earlier processes."""
        self.on_operation: Callable[[str], None] | None = None
        """Called with the name of each operation that happens (`OPERATIONS`); a sync is in progress then."""
        self._time = time
        self._is_gone = False
        self._metered_at = 0.0
        self.capacity: int | None = None
        """The limit in bytes for all files together, or None."""
        self._random = random
        self.tree = FileTree()
        """The files, which outlive the process."""
        self._ended_at: float | None = None
        """The time of the operation at which the process ended."""
        self._locked: set[str] = set()

    # -- what happens to the machine

    def successor(self) -> SimulatedDisk:
        """Return a disk with the same files for the next process. This one becomes unusable."""
        self._is_gone = True
        disk = SimulatedDisk(self.now, self._time, self._random)
        disk.latency, disk.faults, disk.capacity = self.latency, self.faults, self.capacity
        disk.sync_delay, disk.failures = self.sync_delay, self.failures
        disk.tree = self.tree
        disk._ended_at = self._ended_at
        return disk

    def detach(self, last: str) -> None:
        """Make every call fail from now on: the process ends at the operation `last`, which it has begun."""
        self._ended_at = self.time() - (_RESOLUTION if last == "sync" else 0.0)
        self._is_gone = True

    def lose_power(self) -> None:
        """Undo a random part of what is not durable; see the module's text."""
        now, self._ended_at = max(self._time(), self._ended_at or 0.0), None
        self.tree.lose_power(now, self._random)

    def rot(self, share: float) -> Callable[[], None] | None:
        """Change one byte of a log file that a start has to read, and return a function that restores it.

        `share`, below 1, chooses the byte. Return None if there is no such byte.
        """
        places = [place for path in self._needed_logs() for place in self._checked_bytes(path)]
        if not places:
            return None
        path, begin, end = places[int(share * len(places))]
        # The digits of the share that have not chosen the place choose the byte. A change by 0 would be none.
        data, offset = self._content(path).data, begin + int(share * 1e6) % (end - begin)
        right = data[offset]
        data[offset] ^= self._random.randint(1, 255)

        def put_right() -> None:
            data[offset] = right

        return put_right

    def heal(self) -> None:
        """Remove all faults."""
        self.faults.clear()
        self.capacity, self.latency, self.sync_delay = None, LATENCY, 0.0

    @property
    def newest_snapshot(self) -> int:
        """The signature of the newest snapshot, or 0 if there is none."""
        snapshots = LogDirectory(self, ".", LogKind.SNAP)
        snapshots.scan()
        return snapshots.files[-1].signature if snapshots.files else 0

    def _needed_logs(self) -> list[str]:
        """Return the paths of the log files that begin at the newest snapshot or later."""
        newest, logs = self.newest_snapshot, LogDirectory(self, ".", LogKind.XLOG)
        logs.scan()
        return [file.path for file in logs.files if file.signature >= newest]

    def _checked_bytes(self, path: str) -> list[tuple[str, int, int]]:
        """Return path, begin and end of each block of a file, without the headers of the blocks."""
        reader, found = BlockReader(self, path), []
        reader.read_meta()
        begin = reader.position
        while reader.next_block() is not None:
            found.append((path, begin + FIXHEADER_SIZE, reader.position))
            begin = reader.position
        return found

    # -- faults

    @property
    def used(self) -> int:
        """The bytes of all files together."""
        return self.tree.used

    def check_process(self, path: str) -> None:
        """Check that the process has not ended.

        Raises:
            OSError: EIO if it has.
        """
        if self._is_gone:
            raise failure(errno.EIO, path)

    def check(self, fault: str, path: str) -> None:
        """Check that a fault is not set, and that the process has not ended.

        Raises:
            OSError: EIO otherwise.
        """
        if self._is_gone or fault in self.faults:
            self.failures += not self._is_gone
            raise failure(errno.EIO, path)

    def room_for(self, size: int, path: str, *, kept: int = 0) -> int:
        """Return how many of `size` bytes a write takes. `kept` of them replace older bytes and need no room.

        Raises:
            OSError: EIO if writes fail, ENOSPC if the disk is full.
        """
        self.check(WRITE_FAILS, path)
        self.spend()
        if self.capacity is not None:
            free = self.capacity - self.tree.used + kept
            if free <= 0:
                self.failures += 1
                raise failure(errno.ENOSPC, path)
            size = min(size, free)
        if SHORT_WRITES in self.faults and size > 1:
            size = self._random.randint(1, size)
        return size

    def check_room(self, size: int, path: str) -> None:
        """Check that `size` more bytes fit.

        Raises:
            OSError: ENOSPC if they do not.
        """
        if self.capacity is not None and self.tree.used + size > self.capacity:
            self.failures += 1
            raise failure(errno.ENOSPC, path)

    def tell(self, operation: str) -> None:
        """Report that an operation (`OPERATIONS`) has happened."""
        if self.on_operation is not None:
            self.on_operation(operation)

    def grow(self, size: int) -> None:
        """Count `size` more bytes, or fewer if it is negative."""
        self.tree.used += size

    def time(self) -> float:
        """Return simulated time plus the seconds that calls have taken since the callback began."""
        now = self._time()
        if now != self._metered_at:
            self._metered_at, self.spent = now, 0.0
        return now + self.spent

    def spend(self, delay: float = 0.0) -> float:
        """Count one more call, which takes `delay` seconds besides the latency, and return the time after it."""
        low, high = self.latency
        if high or delay:
            self.time()
            self.spent += low + (high - low) * self._random.random() + delay
        return self.time()

    def restart_meter(self) -> float:
        """Return the seconds that calls have taken since the last restart, and begin to count anew."""
        spent, self.spent = self.spent, 0.0
        return spent

    # -- Storage

    def _content(self, path: str) -> Content:
        inode = self.tree.root.entries.get(_plain(path))
        if not isinstance(inode, Content):
            inode = self.tree.find(path, self.tree.root).existing()
        if not isinstance(inode, Content):
            raise failure(errno.EISDIR, path)
        return inode

    def _directory(self, path: str) -> Directory | None:
        """Return the directory at a path, or None. The journal's directory is made with its first file."""
        if _plain(path) == ".":
            return self.tree.root
        try:
            inode = self.tree.find(path, self.tree.root).inode
        except OSError:
            return None
        return inode if isinstance(inode, Directory) else None

    def names(self, directory: str) -> list[str]:
        found = self._directory(directory)
        return [] if found is None else sorted(found.entries)

    def create(self, path: str) -> AppendFile:
        end = self.tree.make_way(_plain(path))
        if end.inode is not None:
            raise failure(errno.EEXIST, path)
        return _File(self, path, self.create_file(end, 0o644))

    def append(self, path: str) -> AppendFile:
        return _File(self, path, self._content(path))

    def open(self, path: str) -> ReadFile:
        return _File(self, path, self._content(path))

    def size(self, path: str) -> int:
        return len(self._content(path).data)

    def exists(self, path: str) -> bool:
        try:
            return self.tree.find(path, self.tree.root).inode is not None
        except OSError:
            return False

    def rename(self, old: str, new: str) -> None:
        self.check(WRITE_FAILS, old)
        self._content(old)
        target = self.tree.make_way(_plain(new))
        if isinstance(target.inode, Directory):
            raise failure(errno.EISDIR, new)
        self.move(self.tree.find_name(_plain(old), self.tree.root), target)

    def remove(self, path: str) -> None:
        self.check(WRITE_FAILS, path)
        self._content(path)
        self.take(self.tree.find_name(_plain(path), self.tree.root))

    def touch(self, path: str) -> None:
        self._content(path).mtime = self.now()

    def sync_directory(self, directory: str) -> None:
        self.sync_names(self._directory(directory) or Directory(number=0), directory)

    def lock(self, directory: str) -> DirectoryLock | None:
        if directory in self._locked:
            return None
        self._locked.add(directory)
        return _Lock(self._locked, directory)

    # -- operations on files, for the journal and for `SimulatedFiles`

    def add(self, end: PathEnd, inode: Inode) -> None:
        """Add a name for a file; the name must be free.

        Raises:
            OSError: ENOSPC if the disk is full.
        """
        self.room_for(1, end.path)
        inode.ctime = end.directory.mtime = self.now()
        self.tree.add(end.directory, end.name, inode, self.time())
        self.tell("create")

    def create_file(self, end: PathEnd, mode: int) -> Content:
        """Create an empty file."""
        content = Content(number=self.tree.next_number(), mode=S_IFREG | mode)
        content.atime = content.mtime = self.now()
        self.add(end, content)
        return content

    def move(self, source: PathEnd, target: PathEnd) -> None:
        """Rename a file, replacing what had the name. If both names belong to one file, do nothing, as POSIX says."""
        if source.inode is target.inode:
            return
        source.directory.mtime = target.directory.mtime = self.now()
        self.tree.move(source, target, self.time())
        self.tell("rename")

    def take(self, end: PathEnd) -> None:
        """Remove a name from its directory."""
        end.directory.mtime = self.now()
        self.tree.take(end.directory, end.name, self.time())
        self.tell("remove")

    def sync_file(self, content: Content, path: str) -> None:
        """Begin a sync of a file: its bytes become durable when the sync ends."""
        self.check(SYNC_FAILS, path)
        content.settle(self.time())
        content.begin_sync(self.spend(self.sync_delay))
        self.tell("sync")

    def sync_names(self, directory: Directory | None, path: str) -> None:
        """Begin a sync of a directory, or of all if it is None: its names become durable when the sync ends."""
        self.check(SYNC_FAILS, path)
        begin = self.time()
        self.tree.begin_sync(directory, begin, self.spend())
        self.tree.settle(self._time())
        self.tell("sync of a directory")
