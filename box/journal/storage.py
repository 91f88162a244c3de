"""Storage of log files: the only place of the journal that opens files and makes writes durable.

`FileStorage` is the disk, `MemoryStorage` serves a node without a directory. Both raise plain `OSError`. Their callers
know the purpose of the call and make Tarantool's error of it with `failed`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Protocol

from box import forks
from box.errors import BoxError, system_error
from box.journal import pending_mark

_STANDARD: Final = 2
"""The greatest descriptor of the standard streams."""
_MODE: Final = 0o644
"""The permissions of new files, as in Tarantool: all users may read them, unless the umask forbids it."""

INPROGRESS: Final = ".inprogress"
"""The suffix of an incomplete file. The file loses it by a rename when it is complete."""


def failed(message: str, error: OSError) -> BoxError:
    """Make a SystemError with Tarantool's text; the cause is in `errno` and chained."""
    result = system_error(message, error.errno or 0)
    result.__cause__ = error
    return result


class AppendFile(Protocol):
    """A file open for writing at its end."""

    path: str

    def write(self, data: bytes) -> int:
        """Write at the current end. Returns the number of bytes written, which may be fewer than given."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes; the next write goes there."""

    def sync(self) -> None:
        """Wait until the data is on the disk."""

    def mark_pending(self, start: int | None) -> None:
        """Tell readers in other processes that bytes from `start` on may still be cut off; with None all bytes
        count.
        """

    def close(self) -> None: ...


class ReadFile(Protocol):
    """A file open for reading at any offset; it stays readable after a rename or removal."""

    path: str

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset`; empty at the end."""

    def counted_size(self) -> int:
        """Return the size without the bytes that a writer, perhaps in another process, may still cut off."""

    def close(self) -> None: ...


class Storage(Protocol):
    """Files by path. Every method may raise OSError."""

    def now(self) -> float:
        """Return seconds since the epoch, for the timestamps of rows."""

    def names(self, directory: str) -> list[str]:
        """Return the names of the files in a directory."""

    def create(self, path: str) -> AppendFile:
        """Create a file and the missing directories above it. Raises FileExistsError if the file exists."""

    def append(self, path: str) -> AppendFile:
        """Open an existing file for writing at its end."""

    def open(self, path: str) -> ReadFile: ...

    def size(self, path: str) -> int: ...

    def exists(self, path: str) -> bool: ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def touch(self, path: str) -> None:
        """Set the modification time of a file to now."""

    def sync_directory(self, directory: str) -> None:
        """Make creations, renames and removals in a directory durable."""

    def lock(self, directory: str) -> DirectoryLock | None:
        """Lock a directory for this process alone. Returns None if another process has it."""


class DirectoryLock(Protocol):
    def release(self) -> None: ...


def write_all(file: AppendFile, data: bytes) -> None:
    """Write every byte: a short write (signal, full disk) is continued until everything is written or the disk
    refuses.
    """
    written = file.write(data)
    while written < len(data):
        count = file.write(memoryview(data)[written:].tobytes())
        if not count:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), file.path)
        written += count


def plain_path(path: str) -> str:
    """Return the normal form of a path, so that `./a` and `a` are one file. `..` stays: the part before it may be a
    link.
    """
    plain = "/".join(part for part in path.split("/") if part not in ("", "."))
    return f"/{plain}" if path.startswith("/") else plain or "."


def publish(storage: Storage, path: str, final_path: str) -> None:
    """Finish a durable write, after `sync` and `close`: rename to the final name, then fsync the directory."""
    storage.rename(path, final_path)
    storage.sync_directory(os.path.dirname(final_path) or ".")


# --- disk -------------------------------------------------------------------------------------------------------------


class _DiskAppendFile:
    __slots__ = ("__weakref__", "_fd", "_pending", "path", "write")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._pending: int | None = None
        self.write: Callable[[bytes], int] = partial(os.write, fd)
        forks.own(self)

    def leave_to_parent(self) -> None:
        """Write nothing more, in a forked child: the file belongs to the parent."""
        if self._fd >= 0:
            forks.lead_nowhere(self._fd)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        os.lseek(self._fd, size, os.SEEK_SET)

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def mark_pending(self, start: int | None) -> None:
        if start == self._pending:
            return
        self._pending = start
        if start is None:
            pending_mark.unmark_pending(self._fd)
        else:
            pending_mark.mark_pending(self._fd, start)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        os.close(fd)


class _DiskReadFile:
    __slots__ = ("_fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self._fd, size, offset)

    def counted_size(self) -> int:
        return pending_mark.counted_size(self._fd)

    def close(self) -> None:
        os.close(self._fd)


class _DiskLock:
    __slots__ = ("__weakref__", "_fd")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        forks.own(self)

    def leave_to_parent(self) -> None:
        """Release the child's copy of the lock after a fork, because it would outlive the parent."""
        self.release()

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _open(path: str, flags: int, mode: int = 0o777) -> int:
    """Open a file with a descriptor above those of the standard streams.

    A program that closed a standard stream would otherwise write its output into the log.
    """
    descriptor = os.open(path, flags | os.O_CLOEXEC, mode)
    if descriptor > _STANDARD:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _STANDARD + 1)
    finally:
        os.close(descriptor)


class FileStorage:
    """The file system. Relative paths are relative to `root` (the working directory of the node)."""

    def __init__(self, root: str = "") -> None:
        self._root = root
        self._is_left = False
        forks.own(self)

    def leave_to_parent(self) -> None:
        """Change nothing from now on, in a forked child."""
        self._is_left = True

    def _path(self, path: str) -> str:
        return os.path.join(self._root, path)

    def _own_path(self, path: str) -> str:
        if self._is_left:
            raise PermissionError(errno.EPERM, "the file belongs to the process that was forked", path)
        return self._path(path)

    def now(self) -> float:
        return time.time()

    def names(self, directory: str) -> list[str]:
        return os.listdir(self._path(directory) or ".")

    def create(self, path: str) -> AppendFile:
        full = self._own_path(path)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        try:
            return _DiskAppendFile(path, _open(full, flags, _MODE))
        except FileNotFoundError:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            return _DiskAppendFile(path, _open(full, flags, _MODE))

    def append(self, path: str) -> AppendFile:
        fd = _open(self._own_path(path), os.O_RDWR)
        os.lseek(fd, 0, os.SEEK_END)
        return _DiskAppendFile(path, fd)

    def open(self, path: str) -> ReadFile:
        return _DiskReadFile(path, _open(self._path(path), os.O_RDONLY))

    def size(self, path: str) -> int:
        return os.stat(self._path(path)).st_size

    def exists(self, path: str) -> bool:
        try:
            os.stat(self._path(path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def rename(self, old: str, new: str) -> None:
        os.rename(self._own_path(old), self._own_path(new))

    def remove(self, path: str) -> None:
        os.unlink(self._own_path(path))

    def touch(self, path: str) -> None:
        os.utime(self._own_path(path))

    def sync_directory(self, directory: str) -> None:
        fd = os.open(self._path(directory) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, directory: str) -> DirectoryLock | None:
        fd = _open(self._path(directory) or ".", os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        except OSError:
            os.close(fd)
            raise
        return _DiskLock(fd)


# --- memory -----------------------------------------------------------------------------------------------------------


class _MemoryFile:
    """The bytes of one file, kept as the blocks that were written."""

    __slots__ = ("content", "path")

    def __init__(self, path: str, content: bytearray) -> None:
        self.path = path
        self.content = content

    def write(self, data: bytes) -> int:
        self.content += data
        return len(data)

    def truncate(self, size: int) -> None:
        del self.content[size:]

    def read(self, offset: int, size: int) -> bytes:
        return bytes(self.content[offset : offset + size])

    def counted_size(self) -> int:
        return len(self.content)

    def sync(self) -> None:
        """Do nothing: memory needs no sync."""

    def mark_pending(self, start: int | None) -> None:
        """Do nothing: no other process reads the file."""

    def close(self) -> None:
        """Do nothing: the content stays in the storage."""


class _MemoryLock:
    __slots__ = ("_directory", "_locked")

    def __init__(self, locked: set[str], directory: str) -> None:
        self._locked = locked
        self._directory = directory

    def release(self) -> None:
        self._locked.discard(self._directory)


class MemoryStorage:
    """Files in memory that live as long as this object. Every directory exists. `now` returns seconds since the
    epoch.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self.now = now
        self._files: dict[str, bytearray] = {}
        self._locked: set[str] = set()

    def _entries(self, directory: str) -> Iterator[str]:
        wanted = plain_path(directory)
        for path in list(self._files):
            parent, name = os.path.split(path)
            if (parent or ".") == wanted:
                yield name

    def names(self, directory: str) -> list[str]:
        return list(self._entries(directory))

    def _content(self, path: str) -> bytearray:
        try:
            return self._files[plain_path(path)]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None

    def create(self, path: str) -> AppendFile:
        if self.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        content = self._files[plain_path(path)] = bytearray()
        return _MemoryFile(path, content)

    def append(self, path: str) -> AppendFile:
        return _MemoryFile(path, self._content(path))

    def open(self, path: str) -> ReadFile:
        return _MemoryFile(path, self._content(path))

    def size(self, path: str) -> int:
        return len(self._content(path))

    def exists(self, path: str) -> bool:
        return plain_path(path) in self._files

    def rename(self, old: str, new: str) -> None:
        self._files[plain_path(new)] = self._content(old)
        del self._files[plain_path(old)]

    def remove(self, path: str) -> None:
        self._content(path)
        del self._files[plain_path(path)]

    def touch(self, path: str) -> None:
        self._content(path)

    def sync_directory(self, directory: str) -> None:
        """Do nothing: memory needs no sync."""

    def lock(self, directory: str) -> DirectoryLock | None:
        if directory in self._locked:
            return None
        self._locked.add(directory)
        return _MemoryLock(self._locked, directory)


def remove_quietly(storage: Storage, path: str) -> None:
    """Remove a leftover file; errors are ignored, because a missing or remaining leftover does no harm."""
    with contextlib.suppress(OSError):
        storage.remove(path)
