"""Files for `fio` and `xlog`, by descriptor and by path.

Paths are bytes, as in Lua. Failures are OSErrors with the errno of the system call, and ValueErrors for names with a
null byte. `SystemFiles` uses the functions of `os` directly where it can, because small reads and writes are hot.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

_T = TypeVar("_T")

_DIRECT_SIZE: Final = 64 * 1024
"""The bytes up to which a file is read or written in the loop's thread, because another thread would take longer."""

_FACTS: Final = {
    "dev": "st_dev",
    "inode": "st_ino",
    "mode": "st_mode",
    "nlink": "st_nlink",
    "uid": "st_uid",
    "gid": "st_gid",
    "rdev": "st_rdev",
    "size": "st_size",
    "blksize": "st_blksize",
    "blocks": "st_blocks",
    "ctime": "st_ctime",
    "mtime": "st_mtime",
    "atime": "st_atime",
}

Facts = dict[str, float]
"""The result of `stat`, by the names of its fields in Lua; times are seconds with fractions."""


class Files(Protocol):
    """The files of one process. Every method may raise OSError."""

    direct_size: int
    """The bytes up to which a read or a write runs in the event loop's thread."""
    are_of_system: bool
    """True if descriptors are those of the operating system, which C's `close` closes too."""

    async def in_thread(self, call: Callable[..., _T], *arguments: Any) -> _T:
        """Run a slow call while the loop continues."""

    # Descriptors

    def open(self, path: bytes, flags: int, mode: int, /) -> int:
        """Open a file. Returns the descriptor, which no child process inherits."""

    def close(self, fd: int, /) -> None: ...

    def read(self, fd: int, size: int, /) -> bytes:
        """Read up to `size` bytes at the position, which moves."""

    def pread(self, fd: int, size: int, offset: int, /) -> bytes:
        """Read up to `size` bytes at an offset; the position does not move."""

    def write(self, fd: int, data: bytes | memoryview, /) -> int:
        """Write at the position, which moves. Returns the number of bytes written, which may be fewer than given."""

    def pwrite(self, fd: int, data: bytes | memoryview, offset: int, /) -> int:
        """Write at an offset; the position does not move. Returns the number of bytes written, perhaps fewer than
        given.
        """

    def lseek(self, fd: int, offset: int, whence: int, /) -> int:
        """Move the position and return the new one."""

    def ftruncate(self, fd: int, size: int, /) -> None: ...

    def fsync(self, fd: int, /) -> None: ...

    def fdatasync(self, fd: int, /) -> None: ...

    def fstat(self, fd: int, /) -> Facts: ...

    # Paths

    def stat(self, path: bytes, /) -> Facts: ...

    def lstat(self, path: bytes, /) -> Facts:
        """Return the facts of a path; of a symbolic link itself, not of its target."""

    def mkdir(self, path: bytes, mode: int, /) -> None: ...

    def rmdir(self, path: bytes, /) -> None: ...

    def unlink(self, path: bytes, /) -> None: ...

    def rename(self, source: bytes, target: bytes, /) -> None: ...

    def link(self, source: bytes, target: bytes, /) -> None: ...

    def symlink(self, target: bytes, path: bytes, /) -> None: ...

    def readlink(self, path: bytes, /) -> bytes: ...

    def chmod(self, path: bytes, mode: int, /) -> None: ...

    def chown(self, path: bytes, user: int, group: int, /) -> None:
        """Change the owner by numbers; -1 keeps one."""

    def truncate(self, path: bytes, size: int, /) -> None: ...

    def utime(self, path: bytes, times: tuple[float, float], /) -> None:
        """Set the times of the last access and the last modification, in seconds since the epoch."""

    # The process

    def chdir(self, path: bytes, /) -> None: ...

    def cwd(self) -> bytes: ...

    def umask(self, mask: int, /) -> int:
        """Set the mask and return the former one."""

    # Trees

    def tempdir(self, base: bytes | None, usual: bytes | None, /) -> bytes:
        """Make a directory below `base`, or without it below `usual`, which the process's environment names."""

    def listdir(self, path: bytes, /) -> list[bytes]:
        """Return the names in a directory."""

    def glob(self, pattern: bytes, /) -> list[bytes]:
        """Return the matching paths."""

    def copyfile(self, source: bytes, target: bytes, /) -> None:
        """Copy contents and mode of a file; `target` may be a directory."""

    def rmtree(self, path: bytes, /) -> None:
        """Remove a directory and everything below it; symbolic links are removed, not followed."""

    def sync(self) -> None:
        """Wait until all data is on its disk."""


def _facts(result: os.stat_result) -> Facts:
    return {name: getattr(result, field) for name, field in _FACTS.items()}


class SystemFiles:
    """The operating system's files."""

    direct_size = _DIRECT_SIZE
    are_of_system = True

    def __init__(self) -> None:
        self.close: Callable[[int], None] = os.close
        self.read: Callable[[int, int], bytes] = os.read
        self.pread: Callable[[int, int, int], bytes] = os.pread
        self.write: Callable[[int, bytes | memoryview], int] = os.write
        self.pwrite: Callable[[int, bytes | memoryview, int], int] = os.pwrite
        self.lseek: Callable[[int, int, int], int] = os.lseek
        self.ftruncate: Callable[[int, int], None] = os.ftruncate
        self.fsync: Callable[[int], None] = os.fsync
        self.fdatasync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
        self.mkdir: Callable[[bytes, int], None] = os.mkdir
        self.rmdir: Callable[[bytes], None] = os.rmdir
        self.unlink: Callable[[bytes], None] = os.unlink
        self.rename: Callable[[bytes, bytes], None] = os.rename
        self.link: Callable[[bytes, bytes], None] = os.link
        self.symlink: Callable[[bytes, bytes], None] = os.symlink
        self.readlink: Callable[[bytes], bytes] = os.readlink
        self.chmod: Callable[[bytes, int], None] = os.chmod
        self.chown: Callable[[bytes, int, int], None] = os.chown
        self.truncate: Callable[[bytes, int], None] = os.truncate
        self.utime: Callable[[bytes, tuple[float, float]], None] = os.utime
        self.chdir: Callable[[bytes], None] = os.chdir
        self.cwd: Callable[[], bytes] = os.getcwdb
        self.umask: Callable[[int], int] = os.umask
        self.listdir: Callable[[bytes], list[bytes]] = os.listdir
        self.sync: Callable[[], None] = os.sync

    async def in_thread(self, call: Callable[..., _T], *arguments: Any) -> _T:
        return await asyncio.to_thread(call, *arguments)

    def open(self, path: bytes, flags: int, mode: int, /) -> int:
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def fstat(self, fd: int, /) -> Facts:
        return _facts(os.fstat(fd))

    def stat(self, path: bytes, /) -> Facts:
        return _facts(os.stat(path))

    def lstat(self, path: bytes, /) -> Facts:
        return _facts(os.lstat(path))

    def tempdir(self, base: bytes | None, usual: bytes | None, /) -> bytes:
        import tempfile  # imported here, as glob and shutil, because it imports many modules and few scripts need it

        parent = usual if base is None else base
        return os.fsencode(tempfile.mkdtemp(prefix="", dir=os.fsdecode(parent) if parent else None))

    def glob(self, pattern: bytes, /) -> list[bytes]:
        from glob import glob

        return glob(pattern)

    def copyfile(self, source: bytes, target: bytes, /) -> None:
        import shutil

        with suppress(shutil.SameFileError):
            shutil.copy(source, target)

    def rmtree(self, path: bytes, /) -> None:
        import shutil

        shutil.rmtree(path)
