"""The tree of a simulated disk: it outlives processes, and knows how to take back what is not durable.

```
name made, taken, given to another file     durable with a sync of its directory
rename between two directories              with a sync of either; all that was done before it is then, too
```

Whatever is not durable may be undone from the newest back. Paths are resolved, and fail, as those of Linux do; the
process may do everything, as root.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from math import inf
from random import Random
from typing import Final

from box.testing.simulation.inodes import Content, Directory, Inode, SymbolicLink

_ROOT_NUMBER: Final = 2
_MOST_HOPS: Final = 40
"""Symbolic links on the way of one path."""
_LONGEST_NAME: Final = 255
_LONGEST_PATH: Final = 4095
_KEPT_CHANGES: Final = 1000
"""Directory operations that may be undone: an operating system writes by itself what has been waiting for long."""


def failure(number: int, path: str) -> OSError:
    """An OSError as a system call has it."""
    return OSError(number, os.strerror(number), path)


@dataclass(slots=True)
class PathEnd:
    """The place that a path leads to: a name in a directory. `inode` is None if there is nothing; `name` is `.`, `..`
    or `/` where the path ends so, and names no place where anything could be made."""

    path: str
    directory: Directory
    name: str
    inode: Inode | None
    wants_directory: bool
    """The path ends with a slash."""

    @property
    def is_plain(self) -> bool:
        """Whether the name is one that a directory holds."""
        return self.name not in (".", "..", "/")

    def existing(self) -> Inode:
        """The file; ENOENT, ENOTDIR."""
        if self.inode is None:
            raise failure(errno.ENOENT, self.path)
        if self.wants_directory and not isinstance(self.inode, Directory):
            raise failure(errno.ENOTDIR, self.path)
        return self.inode


@dataclass(eq=False, slots=True)
class _Change:
    """A directory operation, and how it is taken back."""

    directories: tuple[Directory, ...]
    take_back: Callable[[], None]
    made_at: float
    durable_at: float = inf


class FileTree:
    """See the module's text."""

    def __init__(self) -> None:
        self._numbers = count(_ROOT_NUMBER)
        self.root = Directory(number=next(self._numbers), links=1)
        self.used = 0
        """Bytes of all files together."""
        self._undo: list[_Change] = []
        """The directory operations that are not durable, oldest first."""

    def next_number(self) -> int:
        """The number of a new file."""
        return next(self._numbers)

    # -- paths

    def find(self, path: str, start: Directory, *, follow: bool = True, makes_file: bool = False) -> PathEnd:
        """The end of a path, from a directory on if it is relative. Without `follow` a symbolic link at the end is the
        end, unless a slash comes behind it. ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG for what is on the way; ValueError for
        a null byte. No path to where a file may be made ends with a slash: EISDIR."""
        return self._find(path, start, follow=follow or path.endswith("/"), makes_file=makes_file)

    def find_name(self, path: str, start: Directory) -> PathEnd:
        """The same for a name that is to be made, taken or changed: no symbolic link at the end is followed."""
        return self._find(path, start, follow=False)

    def _find(self, path: str, start: Directory, *, follow: bool, makes_file: bool = False) -> PathEnd:
        if "\0" in path:
            raise ValueError("embedded null byte")
        if not path:
            raise failure(errno.ENOENT, path)
        if len(path.encode("utf-8", "surrogateescape")) > _LONGEST_PATH:
            raise failure(errno.ENAMETOOLONG, path)
        directory = self.root if path.startswith("/") else start
        parts, wants_directory, hops = deque(_parts(path)), path.endswith("/"), 0
        while parts:
            part = parts.popleft()
            if len(part.encode("utf-8", "surrogateescape")) > _LONGEST_NAME:
                raise failure(errno.ENAMETOOLONG, path)
            if makes_file and wants_directory and not parts and part not in (".", ".."):
                raise failure(errno.EISDIR, path)
            inode = directory.child(part)
            if isinstance(inode, SymbolicLink) and (parts or follow):
                hops += 1
                if hops > _MOST_HOPS:
                    raise failure(errno.ELOOP, path)
                wants_directory = wants_directory or (not parts and inode.target.endswith("/"))
                parts.extendleft(reversed(_parts(inode.target)))
                directory = self.root if inode.target.startswith("/") else directory
                continue
            if not parts:
                return PathEnd(path, directory, part, inode, wants_directory)
            if inode is None:
                raise failure(errno.ENOENT, path)
            if not isinstance(inode, Directory):
                raise failure(errno.ENOTDIR, path)
            directory = inode
        return PathEnd(path, directory, "/", directory, wants_directory)

    def path_of(self, directory: Directory) -> str:
        """The absolute path of a directory; ENOENT if it has been removed."""
        names: list[str] = []
        while directory.parent is not None:
            parent = directory.parent
            if not directory.links:
                raise failure(errno.ENOENT, ".")
            names.append(next(name for name, inode in parent.entries.items() if inode is directory))
            directory = parent
        return "/" + "/".join(reversed(names))

    def make_way(self, path: str) -> PathEnd:
        """The end of a path from the root; missing directories are made as if they had always been there."""
        directory, parts = self.root, _parts(path) or ["."]
        for part in parts[:-1]:
            inode = directory.child(part)
            if inode is None:
                inode = Directory(number=self.next_number())
                _enter(directory, part, inode)
            elif isinstance(inode, SymbolicLink):
                return self.find(path, self.root)
            if not isinstance(inode, Directory):
                raise failure(errno.ENOTDIR, path)
            directory = inode
        return PathEnd(path, directory, parts[-1], directory.child(parts[-1]), wants_directory=False)

    # -- names

    def add(self, directory: Directory, name: str, inode: Inode, now: float) -> None:
        """A new name of a file. Several names of one file may be undone one by one."""
        _enter(directory, name, inode)
        self._remember((directory,), lambda: _forget(directory, name, inode), now)

    def take(self, directory: Directory, name: str, now: float) -> None:
        """Remove a name."""
        inode = _leave(directory, name)
        self._count_removed(inode)
        self._remember((directory,), lambda: _restore(directory, name, inode), now)

    def move(self, source: PathEnd, target: PathEnd, now: float) -> None:
        """Give a name to the file that had another one; what the name was before is gone."""
        old, new = source.directory, target.directory
        replaced = _leave(new, target.name) if target.inode is not None else None
        inode = _leave(old, source.name)
        _enter(new, target.name, inode)

        def take_back() -> None:
            _forget(new, target.name, inode)
            _restore(old, source.name, inode)
            if replaced is not None:
                _restore(new, target.name, replaced)

        if replaced is not None:
            self._count_removed(replaced)
        self._remember((new,) if old is new else (new, old), take_back, now)

    def _count_removed(self, inode: Inode) -> None:
        if isinstance(inode, Content) and not inode.links:
            self.used -= len(inode.data)

    def _remember(self, directories: tuple[Directory, ...], take_back: Callable[[], None], now: float) -> None:
        self._undo.append(_Change(directories, take_back, now))
        if len(self._undo) > _KEPT_CHANGES:
            del self._undo[0]

    # -- durability

    def begin_sync(self, directory: Directory | None, begin: float, end: float) -> None:
        """Make durable at a time what was done to a directory before another time; to all without one. What a thread
        does behind a sync of its own may be listed, and not be done yet."""
        found = [
            number
            for number, change in enumerate(self._undo)
            if change.made_at <= begin and (directory is None or directory in change.directories)
        ]
        between = [number for number in found if len(self._undo[number].directories) > 1]
        if between:
            found += range(between[-1])
        for number in found:
            self._undo[number].durable_at = min(self._undo[number].durable_at, end)

    def settle(self, now: float) -> None:
        """Forget how to take back what is durable."""
        self._undo[:] = [change for change in self._undo if change.durable_at > now]

    def contents(self) -> Iterator[Content]:
        """All files that have a name, each once."""
        yield from {id(content): content for content in self.root.files()}.values()

    def lose_power(self, now: float, random: Random) -> None:
        """See the module's text. What is left is durable."""
        self.settle(now)
        while any(change.made_at > now for change in self._undo):  # behind a sync that is not over yet
            self._undo.pop().take_back()
        for _ in range(random.randint(0, len(self._undo))):
            self._undo.pop().take_back()
        self._undo.clear()
        contents = list(self.contents())
        for content in contents:
            content.lose_power(now, random)
        self.used = sum(len(content.data) for content in contents)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _enter(directory: Directory, name: str, inode: Inode) -> None:
    directory.entries[name] = inode
    inode.links += 1
    if isinstance(inode, Directory):
        inode.parent = directory


def _leave(directory: Directory, name: str) -> Inode:
    inode = directory.entries.pop(name)
    inode.links -= 1
    return inode


def _forget(directory: Directory, name: str, inode: Inode) -> None:
    if directory.entries.get(name) is inode:
        _leave(directory, name)


def _restore(directory: Directory, name: str, inode: Inode) -> None:
    if name not in directory.entries:
        _enter(directory, name, inode)
