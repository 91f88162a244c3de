"""Files, directories and links of a simulated disk, and what a power failure leaves of the bytes of a file.

```
change without a sync         what remains after a power failure
bytes at the end              a part from their beginning
bytes over older ones         for each page the state after any of these writes, of which the last may be torn
a cut (truncate)              the file before the cut, or after it; later changes only if the cut remains
```

Modes, owners and times are not lost. A file remembers `_KEPT_WRITES` writes and `_KEPT_CUTS` cuts, because an operating
system writes old changes by itself.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Final

PAGE: Final = 4096
"""The bytes that a disk writes together. It may write pages in any order."""
_KEPT_WRITES: Final = 256
"""The number of writes over older bytes that may be lost."""
_KEPT_CUTS: Final = 8
"""The number of cuts that may be lost."""
_SHARES: Final = (0, 1, None)
"""The share of writes over older bytes that are lost: none, all, or a random number for each page (None)."""
_TORN: Final = 0.5
"""The share of pages whose last remaining write is torn."""
_FULL: Final = 0o777
"""The permissions of symbolic links, as on Linux."""


@dataclass(eq=False, slots=True, kw_only=True)
class Inode:
    """The metadata of one file of any kind. `links` counts its names."""

    number: int
    mode: int
    uid: int = 0
    gid: int = 0
    links: int = 0
    atime: float = 0.0
    mtime: float = 0.0
    ctime: float = 0.0

    @property
    def size(self) -> int:
        """The size in bytes, as `stat` reports it."""
        return 0


@dataclass(eq=False, slots=True, kw_only=True)
class Directory(Inode):
    """A directory. After its removal it has no links and accepts no names."""

    mode: int = stat.S_IFDIR | 0o755
    entries: dict[str, Inode] = field(default_factory=dict)
    parent: Directory | None = None
    """The directory above, or None for the root."""

    @property
    def size(self) -> int:
        return PAGE

    def child(self, name: str) -> Inode | None:
        """Return the file that one part of a path names, or None."""
        if name == ".":
            return self
        if name == "..":
            return self.parent or self
        return self.entries.get(name)

    def files(self) -> Iterator[Content]:
        """Yield the files below this directory. A file with two names comes twice."""
        for inode in self.entries.values():
            if isinstance(inode, Content):
                yield inode
            elif isinstance(inode, Directory):
                yield from inode.files()


@dataclass(eq=False, slots=True, kw_only=True)
class SymbolicLink(Inode):
    """A symbolic link."""

    mode: int = stat.S_IFLNK | _FULL
    target: str

    @property
    def size(self) -> int:
        return len(self.target.encode("utf-8", "surrogateescape"))


@dataclass(eq=False, slots=True)
class _Overwrite:
    """The old bytes that a write has replaced."""

    begin: int
    old: bytes
    durable_at: float = inf

    @property
    def end(self) -> int:
        return self.begin + len(self.old)

    def undo(self, data: bytearray, begin: int, end: int) -> None:
        """Restore the old bytes between two offsets."""
        begin, end = max(begin, self.begin), min(end, self.end)
        if begin < end:
            data[begin:end] = self.old[begin - self.begin : end - self.begin]


@dataclass(eq=False, slots=True)
class _Before:
    """A file as it was before a cut."""

    data: bytearray
    durable: int
    syncs: list[tuple[float, int]]
    overwrites: list[_Overwrite]
    durable_at: float = inf
    """The time at which the cut becomes durable."""


@dataclass(eq=False, slots=True, kw_only=True)
class Content(Inode):
    """The content of one file, of which the first `durable` bytes certainly survive a power failure.

    `syncs` in progress are pairs: the time at which the sync ends, and the bytes that are durable then. Two threads may
    sync a file at the same time.
    """

    mode: int = stat.S_IFREG | 0o644
    data: bytearray = field(default_factory=bytearray)
    durable: int = 0
    syncs: list[tuple[float, int]] = field(default_factory=list)
    overwrites: list[_Overwrite] = field(default_factory=list)
    """The overwrites that are not durable, oldest first."""
    before: list[_Before] = field(default_factory=list)
    """The file as it was before each cut that is not durable, oldest first."""

    @property
    def size(self) -> int:
        return len(self.data)

    def settle(self, now: float) -> None:
        """Apply the syncs that have ended by `now`."""
        for end, size in self.syncs:
            if end <= now:
                self.durable = max(self.durable, size)
        self.syncs = [sync for sync in self.syncs if sync[0] > now]
        if self.overwrites:
            self.overwrites = [overwrite for overwrite in self.overwrites if overwrite.durable_at > now]
        if self.before:
            self.before = [before for before in self.before if before.durable_at > now]

    def begin_sync(self, end: float) -> None:
        """Make the present content durable at the time `end`."""
        self.syncs.append((end, len(self.data)))
        if self.overwrites or self.before:
            for overwrite in self.overwrites:
                overwrite.durable_at = min(overwrite.durable_at, end)
            for before in self.before:
                before.durable_at = min(before.durable_at, end)

    def put(self, data: bytes | memoryview, offset: int) -> None:
        """Write at an offset; a gap before it is filled with zeros."""
        size = len(self.data)
        if offset > size:
            self.data += bytes(offset - size)
            size = offset
        covered = min(size - offset, len(data))
        if covered:
            self.overwrites.append(_Overwrite(offset, bytes(self.data[offset : offset + covered])))
            if len(self.overwrites) > _KEPT_WRITES:
                del self.overwrites[0]
        self.data[offset : offset + len(data)] = data

    def resize(self, size: int) -> None:
        """Cut the file, which a power failure may undo, or extend it with zeros."""
        missing = size - len(self.data)
        if missing >= 0:
            self.data += bytes(missing)
            return
        self.before.append(_Before(bytearray(self.data), self.durable, list(self.syncs), list(self.overwrites)))
        if len(self.before) > _KEPT_CUTS:
            del self.before[0]
        self.cut(size)

    def cut(self, size: int) -> None:
        """Cut the file to `size` bytes; a power failure does not bring the rest back."""
        del self.data[size:]
        self.durable = min(self.durable, size)
        self.syncs = [(end, min(synced, size)) for end, synced in self.syncs]
        if self.overwrites:
            self.overwrites = [
                _Overwrite(overwrite.begin, overwrite.old[: size - overwrite.begin], overwrite.durable_at)
                for overwrite in self.overwrites
                if overwrite.begin < size
            ]

    def lose_power(self, now: float, random: Random) -> None:
        """Undo a random part of what is not durable. What remains is durable."""
        self.settle(now)
        if self.before:
            self._undo_cuts(random)
            self.settle(now)
        if self.overwrites:
            self._undo_overwrites(random)
        self.cut(random.randint(self.durable, len(self.data)))
        self.durable = len(self.data)

    def _undo_cuts(self, random: Random) -> None:
        number = random.randint(0, len(self.before))
        if number < len(self.before):
            before = self.before[number]
            self.data, self.durable = before.data, before.durable
            self.syncs, self.overwrites = before.syncs, before.overwrites
        self.before = []

    def _undo_overwrites(self, random: Random) -> None:
        """Undo all overwrites, none, or a random number in each page."""
        share = random.choice(_SHARES)
        pages = {page for one in self.overwrites for page in range(one.begin // PAGE, -(-one.end // PAGE))}
        for page in sorted(pages):
            begin, end = page * PAGE, (page + 1) * PAGE
            here = [one for one in self.overwrites if one.begin < end and begin < one.end]
            lost = random.randint(0, len(here)) if share is None else share * len(here)
            for one in reversed(here[len(here) - lost :]):
                one.undo(self.data, begin, end)
            if lost < len(here) and share is None and random.random() < _TORN:
                torn = here[-lost - 1]
                cut = random.randint(max(begin, torn.begin), min(end, torn.end))
                torn.undo(self.data, cut, end)
        self.overwrites = []
