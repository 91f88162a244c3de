"""The directory tree of a simulated disk, which outlives processes and can undo what is not durable.

```
name added, removed, given to another file   durable after a sync of its directory
rename between two directories               after a sync of either, and with it all earlier operations
```

Operations that are not durable may be undone, the newest first. Paths are resolved, and fail, as on Linux; the process
has the rights of root.
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
"""The inode number of the root directory, as in ext4."""
_MOST_HOPS: Final = 40
"""The number of symbolic links that one path may contain, as on Linux."""
_LONGEST_NAME: Final = 255
"""The bytes of the longest name (NAME_MAX of Linux)."""
_LONGEST_PATH: Final = 4095
"""The bytes of the longest path (PATH_MAX of Linux without the final zero)."""
_KEPT_CHANGES: Final = 1000
"""The number of directory operations that may be undone: an operating system writes old ones by itself."""


def failure(number: int, path: str) -> OSError:
    """Return the OSError of a failed system call."""
    return OSError(number, os.strerror(number), path)


@dataclass(slots=True)
class PathEnd:
    """The place that a path leads to: a name in a directory.

    `inode` is None if no file has the name. `name` is `.`, `..` or `/` if the path ends so; nothing can be created
    there.
    """

    path: str
    directory: Directory
    name: str
    inode: Inode | None
    wants_directory: bool
    """True if the path ends with a slash."""

    @property
    def is_plain(self) -> bool:
        """True if a directory can have an entry of this name."""
        return self.name not in (".", "..", "/")

    def existing(self) -> Inode:
        """Return the file.

        Raises:
            OSError: ENOENT if there is none, ENOTDIR if the path needs a directory and it is not one.
        """
        if self.inode is None:
            raise failure(errno.ENOENT, self.path)
        if self.wants_directory and not isinstance(self.inode, Directory):
            raise failure(errno.ENOTDIR, self.path)
        return self.inode


@dataclass(eq=False, slots=True)
class _Change:
    """A directory operation, and the function that undoes it."""

    directories: tuple[Directory, ...]
    take_back: Callable[[], None]
    made_at: float
    durable_at: float = inf


class FileTree:
    """The files of a disk by path; see the module's text."""

    def __init__(self) -> None:
        self._numbers = count(_ROOT_NUMBER)
        self.root = Directory(number=next(self._numbers), links=1)
        self.used = 0
        """The bytes of all files together."""
        self._undo: list[_Change] = []
        """The directory operations that are not durable, oldest first."""

    def next_number(self) -> int:
        """Return the inode number for a new file."""
        return next(self._numbers)

    # -- paths

    def find(self, path: str, start: Directory, *, follow: bool = True, makes_file: bool = False) -> PathEnd:
        """Resolve a path; a relative one begins at the directory `start`.

        Without `follow` a symbolic link at the end is not followed, unless a slash comes after it. With `makes_file`
        the path must not end with a slash.

        Raises:
            OSError: ENOENT, ENOTDIR, ELOOP or ENAMETOOLONG for a part of the path; EISDIR for a slash after a new file.
            ValueError: the path has a null byte.
        """
        return self._find(path, start, follow=follow or path.endswith("/"), makes_file=makes_file)

    def find_name(self, path: str, start: Directory) -> PathEnd:
        """Resolve a path whose last name is created, removed or changed: a symbolic link there is not followed."""
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
        """Return the absolute path of a directory.

        Raises:
            OSError: ENOENT if it was removed.
        """
        names: list[str] = []
        while directory.parent is not None:
            parent = directory.parent
            if not directory.links:
                raise failure(errno.ENOENT, ".")
            names.append(next(name for name, inode in parent.entries.items() if inode is directory))
            directory = parent
        return "/" + "/".join(reversed(names))

    def make_way(self, path: str) -> PathEnd:
        """Resolve a path from the root, and create missing directories as if they had always existed."""
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
        """Add a name for a file. Each name of a file with several can be undone by itself."""
        _enter(directory, name, inode)
        self._remember((directory,), lambda: _forget(directory, name, inode), now)

    def take(self, directory: Directory, name: str, now: float) -> None:
        """Remove a name."""
        inode = _leave(directory, name)
        self._count_removed(inode)
        self._remember((directory,), lambda: _restore(directory, name, inode), now)

    def move(self, source: PathEnd, target: PathEnd, now: float) -> None:
        """Rename a file, replacing what had the new name."""
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
        """Make the changes up to `begin` durable at the time `end`, in one directory or in all if it is None.

        Later changes may be listed: those that a thread makes after its own sync, within the same callback.
        """
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
        """Forget how to undo the changes that are durable now."""
        self._undo[:] = [change for change in self._undo if change.durable_at > now]

    def contents(self) -> Iterator[Content]:
        """Yield each file that has a name, once."""
        yield from {id(content): content for content in self.root.files()}.values()

    def lose_power(self, now: float, random: Random) -> None:
        """Undo a random number of changes that are not durable. What remains is durable."""
        self.settle(now)
        while any(change.made_at > now for change in self._undo):  # the process would still wait for a sync before it
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
