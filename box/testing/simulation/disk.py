"""A simulated disk: files that remember what is durable, and fail when they are told to.

```
operation                    at once                     durable after
write, truncate              in the file                 sync of the file
create, rename, remove       in the directory            sync_directory
```

A sync takes time, and what it makes durable is so when it is over: a callback of the process does several things to its
disk, one after the other, while the clock of the simulation stands.

A process that is killed loses nothing that it wrote: the operating system has it. When the power goes, each file keeps
what was synced and, of the rest, a part that chance decides, maybe cut within a write; directory operations that were
not synced are undone from the newest back, as many as chance decides, and all for which the process would still have
waited.

Faults are set by name in `faults` and count for every call until they are taken out; `capacity` bounds the bytes of all
files together; `latency` is the range of seconds that a write or sync takes, `sync_delay` what a sync takes besides. A
sync counts as over when its time is. `rot` changes a byte that a checksum covers.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from pathlib import PurePosixPath
from random import Random
from typing import Final

from box.journal.directory import LogDirectory, LogKind
from box.journal.reader import BlockReader
from box.journal.storage import AppendFile, DirectoryLock, ReadFile
from box.journal.xlog import FIXHEADER_SIZE

WRITE_FAILS: Final = "write fails"
TRUNCATE_FAILS: Final = "truncate fails"
SYNC_FAILS: Final = "sync fails"
SHORT_WRITES: Final = "short writes"
OPERATIONS: Final = ("create", "write", "sync", "rename", "remove", "sync of a directory")
READ_FAILS: Final = "read fails"
LATENCY: Final = (0.00005, 0.001)
"""Seconds that a write or a sync takes on a healthy disk."""
_RESOLUTION: Final = 1e-9
"""Seconds by which an end comes before the end of a sync that is under way."""
_KEPT_PATHS: Final = 10_000
FAULTS: Final = frozenset({WRITE_FAILS, TRUNCATE_FAILS, SYNC_FAILS, SHORT_WRITES, READ_FAILS})


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


@lru_cache(_KEPT_PATHS)
def _plain(path: str) -> str:
    return str(PurePosixPath(path))


@lru_cache(_KEPT_PATHS)
def _place(path: str) -> tuple[str, str]:
    """The directory and the name of a plain path."""
    plain = PurePosixPath(path)
    return str(plain.parent), plain.name


@dataclass(eq=False, slots=True)
class _Content:
    """The bytes of one file; the first `durable` of them survive a power failure for certain. `syncs` under way: the
    time at which each is over, and so many bytes. Two threads may sync a file at the same time."""

    data: bytearray = field(default_factory=bytearray)
    durable: int = 0
    syncs: list[tuple[float, int]] = field(default_factory=list)

    def settle(self, now: float) -> None:
        """Syncs may be over."""
        for end, size in self.syncs:
            if end <= now:
                self.durable = max(self.durable, size)
        self.syncs = [sync for sync in self.syncs if sync[0] > now]

    def cut(self, size: int) -> None:
        """Forget what is behind."""
        del self.data[size:]
        self.durable = min(self.durable, size)
        self.syncs = [(end, min(synced, size)) for end, synced in self.syncs]


@dataclass(eq=False, slots=True)
class _Change:
    """A directory operation, and how it is taken back."""

    directory: str
    take_back: Callable[[], None]
    made_at: float
    durable_at: float = inf


@dataclass(eq=False, slots=True)
class _Lock:
    locked: set[str]
    directory: str

    def release(self) -> None:
        self.locked.discard(self.directory)


class _File:
    """An open file. It stays usable when it is renamed or removed."""

    __slots__ = ("_content", "_disk", "path")

    def __init__(self, disk: SimulatedDisk, path: str, content: _Content) -> None:
        self.path = path
        self._disk = disk
        self._content = content

    def write(self, data: bytes) -> int:
        size = self._disk.room_for(len(data), self.path)
        self._content.data += data[:size]
        self._disk.grow(size)
        self._disk.tell("write")
        return size

    def truncate(self, size: int) -> None:
        self._disk.check(TRUNCATE_FAILS, self.path)
        self._disk.grow(min(size - len(self._content.data), 0))
        self._content.cut(size)

    def sync(self) -> None:
        disk, content = self._disk, self._content
        disk.check(SYNC_FAILS, self.path)
        content.settle(disk.time())
        size = len(content.data)
        content.syncs.append((disk.spend(disk.sync_delay), size))
        disk.tell("sync")

    def mark_pending(self, start: int | None) -> None:
        """No other process reads it."""

    def read(self, offset: int, size: int) -> bytes:
        self._disk.check(READ_FAILS, self.path)
        return bytes(self._content.data[offset : offset + size])

    def counted_size(self) -> int:
        return len(self._content.data)

    def close(self) -> None:
        """The content belongs to the disk."""


class SimulatedDisk:
    """The disk of one simulated process: a `Storage`. `now` is the clock of the process, `time` that of the simulation;
    `spent` counts the seconds that its calls have taken at this moment. After the end of the process every call fails
    (`successor`)."""

    def __init__(self, now: Callable[[], float], time: Callable[[], float], random: Random) -> None:
        self.now = now
        self.spent = 0.0
        self.latency = LATENCY
        self.sync_delay = 0.0
        self.faults: set[str] = set()
        self.failures = 0
        """Calls that a fault has made fail, those of former processes included."""
        self.on_operation: Callable[[str], None] | None = None
        """Told of each of `OPERATIONS` that has happened; a sync is under way then."""
        self._time = time
        self._is_gone = False
        self._used = 0
        self._metered_at = 0.0
        self.capacity: int | None = None
        """Bytes of all files together; None for no bound."""
        self._random = random
        self._files: dict[str, _Content] = {}
        self._undo: list[_Change] = []
        """The directory operations that are not durable, oldest first."""
        self._ended_at: float | None = None
        """The time of the operation at which the process ended."""
        self._locked: set[str] = set()

    # -- what happens to the machine

    def successor(self) -> SimulatedDisk:
        """The same files for the next process. Whatever is left of this one has no disk any more."""
        self._is_gone = True
        disk = SimulatedDisk(self.now, self._time, self._random)
        disk.latency, disk.faults, disk.capacity = self.latency, self.faults, self.capacity
        disk.sync_delay, disk.failures = self.sync_delay, self.failures
        disk._files, disk._undo, disk._used = self._files, self._undo, self._used
        disk._ended_at = self._ended_at
        return disk

    def detach(self, last: str) -> None:
        """From now on every call fails: the process ends, with an operation the last one that it has begun."""
        self._ended_at = self.time() - (_RESOLUTION if last == "sync" else 0.0)
        self._is_gone = True

    def lose_power(self) -> None:
        """See the module's text."""
        now, self._ended_at = max(self._time(), self._ended_at or 0.0), None
        self._settle_directories(now)
        while any(change.made_at > now for change in self._undo):  # behind a sync that is not over yet
            self._undo.pop().take_back()
        for _ in range(self._random.randint(0, len(self._undo))):
            self._undo.pop().take_back()
        self._undo.clear()
        for content in self._files.values():
            content.settle(now)
            content.cut(self._random.randint(content.durable, len(content.data)))
            content.durable = len(content.data)
        self._used = sum(len(content.data) for content in self._files.values())

    def rot(self, share: float) -> Callable[[], None] | None:
        """Change one byte of a log file that a start has to read; returns what puts it right again, None if there is
        no such byte. `share`, below 1, tells which one."""
        places = [place for path in self._needed_logs() for place in self._checked_bytes(path)]
        if not places:
            return None
        path, begin, end = places[int(share * len(places))]
        data, offset = self._content(path).data, begin + int(share * 1e6) % (end - begin)
        right = data[offset]
        data[offset] ^= self._random.randint(1, 255)

        def put_right() -> None:
            data[offset] = right

        return put_right

    def heal(self) -> None:
        """No fault any more."""
        self.faults.clear()
        self.capacity, self.latency, self.sync_delay = None, LATENCY, 0.0

    @property
    def newest_snapshot(self) -> int:
        """Its signature, 0 if there is none."""
        snapshots = LogDirectory(self, ".", LogKind.SNAP)
        snapshots.scan()
        return snapshots.files[-1].signature if snapshots.files else 0

    def _needed_logs(self) -> list[str]:
        """The files that begin at the newest snapshot or later."""
        newest, logs = self.newest_snapshot, LogDirectory(self, ".", LogKind.XLOG)
        logs.scan()
        return [file.path for file in logs.files if file.signature >= newest]

    def _checked_bytes(self, path: str) -> list[tuple[str, int, int]]:
        """The blocks of a file: path, begin and end, without their headers."""
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
        """Bytes of all files together."""
        return self._used

    def check(self, fault: str, path: str) -> None:
        """OSError if the fault is set."""
        if self._is_gone or fault in self.faults:
            self.failures += not self._is_gone
            raise _error(errno.EIO, path)

    def room_for(self, size: int, path: str) -> int:
        """Bytes that a write of so many takes. OSError if there is no room or writes fail."""
        self.check(WRITE_FAILS, path)
        self.spend()
        if self.capacity is not None:
            free = self.capacity - self._used
            if free <= 0:
                self.failures += 1
                raise _error(errno.ENOSPC, path)
            size = min(size, free)
        if SHORT_WRITES in self.faults and size > 1:
            size = self._random.randint(1, size)
        return size

    def tell(self, operation: str) -> None:
        """One of `OPERATIONS` has happened."""
        if self.on_operation is not None:
            self.on_operation(operation)

    def grow(self, size: int) -> None:
        """The files have so many bytes more."""
        self._used += size

    def time(self) -> float:
        """Simulated time, and what calls have taken since the callback began."""
        now = self._time()
        if now != self._metered_at:
            self._metered_at, self.spent = now, 0.0
        return now + self.spent

    def spend(self, delay: float = 0.0) -> float:
        """The time after one more call, which takes so many seconds besides the latency."""
        low, high = self.latency
        if high or delay:
            self.time()
            self.spent += low + (high - low) * self._random.random() + delay
        return self.time()

    def restart_meter(self) -> float:
        """Seconds that calls have taken since the last time."""
        spent, self.spent = self.spent, 0.0
        return spent

    # -- Storage

    def _content(self, path: str) -> _Content:
        try:
            return self._files[_plain(path)]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None

    def names(self, directory: str) -> list[str]:
        wanted = _plain(directory)
        return sorted(name for parent, name in map(_place, self._files) if parent == wanted)

    def create(self, path: str) -> AppendFile:
        name = _plain(path)
        if name in self._files:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self.room_for(1, path)
        content = self._files[name] = _Content()
        self._remember(name, lambda: self._forget(name, content))
        self.tell("create")
        return _File(self, path, content)

    def append(self, path: str) -> AppendFile:
        return _File(self, path, self._content(path))

    def open(self, path: str) -> ReadFile:
        return _File(self, path, self._content(path))

    def size(self, path: str) -> int:
        return len(self._content(path).data)

    def exists(self, path: str) -> bool:
        return _plain(path) in self._files

    def rename(self, old: str, new: str) -> None:
        self.check(WRITE_FAILS, old)
        source, target = _plain(old), _plain(new)
        content, replaced = self._content(old), self._files.get(target)
        del self._files[source]
        self._files[target] = content

        def take_back() -> None:
            self._forget(target, content)
            self._files[source] = content
            if replaced is not None:
                self._files[target] = replaced

        if replaced is not None:
            self.grow(-len(replaced.data))
        self._remember(target, take_back)
        self.tell("rename")

    def remove(self, path: str) -> None:
        self.check(WRITE_FAILS, path)
        name, content = _plain(path), self._content(path)
        del self._files[name]
        self.grow(-len(content.data))
        self._remember(name, lambda: self._files.__setitem__(name, content))
        self.tell("remove")

    def _remember(self, name: str, take_back: Callable[[], None]) -> None:
        self._undo.append(_Change(_place(name)[0], take_back, self.time()))

    def _forget(self, name: str, content: _Content) -> None:
        if self._files.get(name) is content:
            del self._files[name]

    def _settle_directories(self, now: float) -> None:
        """Forget how to take back what is durable."""
        self._undo[:] = [change for change in self._undo if change.durable_at > now]

    def touch(self, path: str) -> None:
        self._content(path)

    def sync_directory(self, directory: str) -> None:
        self.check(SYNC_FAILS, directory)
        self.spend()
        synced = _plain(directory)
        for change in self._undo:
            if change.directory == synced:
                change.durable_at = min(change.durable_at, self.time())
        self._settle_directories(self._time())
        self.tell("sync of a directory")

    def lock(self, directory: str) -> DirectoryLock | None:
        if directory in self._locked:
            return None
        self._locked.add(directory)
        return _Lock(self._locked, directory)
