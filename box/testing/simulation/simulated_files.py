"""The files of a simulated process that its Lua modules see: those of its disk, including the journal's.

```
path          the disk's root is `/`, which is also the first working directory: `/a/b` and `a/b` are the same file
descriptor    a number that no other file of the process has had, and that the operating system does not know
reads, writes, syncs, walks through trees     take the time of the disk and fail with its faults; other fibers run
other calls                                   return at once
```

Results, errnos and flags are those of Linux, with these limits: files end at `LARGEST`, holes take room, O_TMPFILE and
O_PATH are not supported (EOPNOTSUPP), and reads do not change the access time. The process belongs to root. There are
no devices, sockets and pipes among the files.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any, Final, TypeVar

from box.testing.simulation.disk import READ_FAILS, TRUNCATE_FAILS, WRITE_FAILS, SimulatedDisk
from box.testing.simulation.file_tree import PathEnd, failure
from box.testing.simulation.inodes import PAGE, Content, Directory, Inode, SymbolicLink
from box.testing.simulation.path_patterns import matching_paths
from lua.machine.files import Facts

_T = TypeVar("_T")

LARGEST: Final = 1 << 30
"""The bytes that a file may have; all of them are in memory."""
_FIRST_DESCRIPTOR: Final = 1 << 20
"""The first descriptor. An operating system gives smaller ones, so that a call of C with one of these fails."""
_UMASK: Final = 0o022
"""The usual umask of a process."""
_DEVICE: Final = 1
"""The number of the only device."""
_BLOCK: Final = 512
"""The bytes of the blocks that `stat` counts."""
_MODE_BITS: Final = 0o7777
"""The permissions of a mode, with the set-id and sticky bits."""
_UNSUPPORTED: Final = (getattr(os, "O_TMPFILE", 0) & ~os.O_DIRECTORY) | getattr(os, "O_PATH", 0)
"""The flags of `open` that are refused."""
_TEMPORARY: Final = b"/tmp"
_NAME_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyz0123456789_"
"""The letters of names that `tempdir` makes up."""
_NAME_SIZE: Final = 8
"""The number of letters of such a name."""
_SEEK_DATA, _SEEK_HOLE = 3, 4
"""The values of Linux; Python does not define them everywhere."""


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _raw(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class _Pool:
    """Stands for threads whose calls take as long as those of a disk."""

    disk: SimulatedDisk


@dataclass(eq=False, slots=True)
class _Descriptor:
    """An open file."""

    inode: Inode
    path: str
    flags: int
    position: int = 0

    @property
    def can_read(self) -> bool:
        return self.flags & os.O_ACCMODE in (os.O_RDONLY, os.O_RDWR)

    @property
    def can_write(self) -> bool:
        return self.flags & os.O_ACCMODE in (os.O_WRONLY, os.O_RDWR)


class SimulatedFiles:
    """The files of one process (`lua.machine.Files`). Every call fails after the process has ended."""

    direct_size = 0
    are_of_system = False

    def __init__(
        self, disk: SimulatedDisk, random: Random, remove_socket: Callable[[str], bool] = lambda path: False
    ) -> None:
        self._disk = disk
        self._remove_socket = remove_socket
        """Removes the file of a unix socket, which is not on the disk. Returns False if there is none."""
        self._tree = disk.tree
        self._random = random
        self._pool: Any = _Pool(disk)
        self._directory = disk.tree.root
        """The working directory."""
        self._umask = _UMASK
        self._open: dict[int, _Descriptor] = {}
        self._numbers = count(_FIRST_DESCRIPTOR)

    async def in_thread(self, call: Callable[..., _T], *arguments: Any) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *arguments)

    # -- descriptors

    def _opened(self, fd: int) -> _Descriptor:
        self._disk.check_process("")
        try:
            return self._open[fd]
        except KeyError:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF)) from None

    def _readable(self, fd: int) -> tuple[_Descriptor, Content]:
        opened = self._opened(fd)
        if not opened.can_read:
            raise failure(errno.EBADF, opened.path)
        if not isinstance(opened.inode, Content):
            raise failure(errno.EISDIR, opened.path)
        return opened, opened.inode

    def _writable(self, fd: int, number: int) -> tuple[_Descriptor, Content]:
        """Return a descriptor and its file, which must be open for writing.

        Raises:
            OSError: `number` if it is not, EBADF if the descriptor is closed.
        """
        opened = self._opened(fd)
        if not opened.can_write or not isinstance(opened.inode, Content):
            raise failure(number, opened.path)
        return opened, opened.inode

    def open(self, path: bytes, flags: int, mode: int, /) -> int:
        is_new = bool(flags & os.O_CREAT and flags & os.O_EXCL)
        if flags & _UNSUPPORTED:
            raise failure(errno.EOPNOTSUPP, _text(path))
        end = self._find(path, follow=not (is_new or flags & os.O_NOFOLLOW), makes_file=bool(flags & os.O_CREAT))
        if end.inode is None and flags & os.O_CREAT:
            inode: Inode = self._make(end, lambda: self._disk.create_file(end, mode & _MODE_BITS & ~self._umask))
        else:
            inode = end.existing()
            if is_new:
                raise failure(errno.EEXIST, end.path)
            self._check_flags(end, inode, flags)
            if flags & os.O_TRUNC and isinstance(inode, Content):
                self._resize(inode, 0, end.path)
        fd = next(self._numbers)
        self._open[fd] = _Descriptor(inode, end.path, flags)
        return fd

    def _check_flags(self, end: PathEnd, inode: Inode, flags: int) -> None:
        """Check that an existing file can be opened with the flags.

        Raises:
            OSError: ELOOP, ENOTDIR or EISDIR.
        """
        if isinstance(inode, SymbolicLink):
            raise failure(errno.ENOTDIR if flags & os.O_DIRECTORY else errno.ELOOP, end.path)
        if isinstance(inode, Directory):
            if flags & (os.O_ACCMODE | os.O_CREAT | os.O_TRUNC):
                raise failure(errno.EISDIR, end.path)
        elif flags & os.O_DIRECTORY:
            raise failure(errno.ENOTDIR, end.path)

    def close(self, fd: int, /) -> None:
        self._opened(fd)
        del self._open[fd]

    def read(self, fd: int, size: int, /) -> bytes:
        if size < 0:
            raise failure(errno.EINVAL, "")
        opened, _ = self._readable(fd)
        data = self._get(fd, size, opened.position)
        opened.position += len(data)
        return data

    def pread(self, fd: int, size: int, offset: int, /) -> bytes:
        if size < 0 or offset < 0:
            raise failure(errno.EINVAL, "")
        return self._get(fd, size, offset)

    def _get(self, fd: int, size: int, offset: int) -> bytes:
        opened, content = self._readable(fd)
        self._disk.check(READ_FAILS, opened.path)
        self._disk.spend()
        return bytes(content.data[offset : offset + size])

    def write(self, fd: int, data: bytes | memoryview, /) -> int:
        opened, content = self._writable(fd, errno.EBADF)
        if opened.flags & os.O_APPEND:
            opened.position = content.size
        size = self._put(opened, content, data, opened.position)
        opened.position += size
        return size

    def pwrite(self, fd: int, data: bytes | memoryview, offset: int, /) -> int:
        if offset < 0:
            raise failure(errno.EINVAL, "")
        opened, content = self._writable(fd, errno.EBADF)
        if opened.flags & os.O_APPEND:  # unlike POSIX, Linux ignores the offset then
            offset = content.size
        return self._put(opened, content, data, offset)

    def _put(self, opened: _Descriptor, content: Content, data: bytes | memoryview, offset: int) -> int:
        if not data:
            return 0
        before, end = content.size, offset + len(data)
        if end > LARGEST:
            raise failure(errno.EFBIG, opened.path)
        size = self._disk.room_for(len(data), opened.path, kept=len(data) - max(end - before, 0))
        content.put(memoryview(data)[:size], offset)
        self._changed(content, before)
        self._disk.tell("write")
        if opened.flags & (os.O_SYNC | os.O_DSYNC):
            self._disk.sync_file(content, opened.path)
        return size

    def _changed(self, content: Content, before: int) -> None:
        """Update times and disk usage after a change of content; `before` is the former size."""
        content.mtime = content.ctime = self._disk.now()
        if content.links:
            self._disk.grow(content.size - before)

    def lseek(self, fd: int, offset: int, whence: int, /) -> int:
        opened = self._opened(fd)
        size = opened.inode.size
        if whence in (_SEEK_DATA, _SEEK_HOLE):
            if not 0 <= offset < size:
                raise failure(errno.ENXIO, opened.path)
            position = offset if whence == _SEEK_DATA else size
        elif whence in (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END):
            position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: opened.position, os.SEEK_END: size}[whence]
        else:
            position = -1
        if position < 0:
            raise failure(errno.EINVAL, opened.path)
        opened.position = position
        return position

    def ftruncate(self, fd: int, size: int, /) -> None:
        if size < 0:
            raise failure(errno.EINVAL, "")
        opened, content = self._writable(fd, errno.EINVAL)
        self._resize(content, size, opened.path)

    def _resize(self, content: Content, size: int, path: str) -> None:
        if size > LARGEST:
            raise failure(errno.EFBIG, path)
        before = content.size
        self._disk.check(TRUNCATE_FAILS, path)
        if size > before:
            self._disk.check_room(size - before, path)
        content.settle(self._disk.time())
        content.resize(size)
        self._changed(content, before)

    def fsync(self, fd: int, /) -> None:
        """Sync the bytes of a file, or the names in a directory."""
        opened = self._opened(fd)
        if isinstance(opened.inode, Content):
            self._disk.sync_file(opened.inode, opened.path)
        elif isinstance(opened.inode, Directory):
            self._disk.sync_names(opened.inode, opened.path)

    def fdatasync(self, fd: int, /) -> None:
        self.fsync(fd)

    def fstat(self, fd: int, /) -> Facts:
        return _facts(self._opened(fd).inode)

    # -- paths

    def _find(self, path: bytes, *, follow: bool = True, makes_file: bool = False) -> PathEnd:
        self._disk.check_process(_text(path))
        return self._tree.find(_text(path), self._directory, follow=follow, makes_file=makes_file)

    def _find_name(self, path: bytes) -> PathEnd:
        self._disk.check_process(_text(path))
        return self._tree.find_name(_text(path), self._directory)

    def _existing(self, path: bytes, *, follow: bool = True) -> Inode:
        return self._find(path, follow=follow).existing()

    def _found(self, path: bytes) -> Inode | None:
        """Return a file, or None if the path leads to none."""
        try:
            return self._existing(path)
        except OSError:
            return None

    def _make(self, end: PathEnd, make: Callable[[], _T]) -> _T:
        """Call `make` to create a file at the end of a path.

        Raises:
            OSError: EEXIST, or ENOENT if the directory was removed.
        """
        if end.inode is not None or not end.is_plain:
            raise failure(errno.EEXIST, end.path)
        if not end.directory.links:
            raise failure(errno.ENOENT, end.path)
        return make()

    def _make_name(self, path: bytes, make: Callable[[], Inode]) -> None:
        """Add a name for a file that is not a directory.

        Raises:
            OSError: EEXIST, or ENOENT if the path ends with a slash.
        """
        end = self._find_name(path)
        if end.inode is None and end.wants_directory:
            raise failure(errno.ENOENT, end.path)
        self._make(end, lambda: self._disk.add(end, make()))

    def _change(self, path: bytes) -> Inode:
        """Return a file whose metadata is about to change."""
        inode = self._existing(path)
        self._disk.check(WRITE_FAILS, _text(path))
        inode.ctime = self._disk.now()
        return inode

    def stat(self, path: bytes, /) -> Facts:
        return _facts(self._existing(path))

    def lstat(self, path: bytes, /) -> Facts:
        return _facts(self._existing(path, follow=False))

    def mkdir(self, path: bytes, mode: int, /) -> None:
        end = self._find_name(path)
        # As on Linux, mkdir ignores the bits setuid and setgid.
        now, bits = self._disk.now(), mode & (_MODE_BITS & ~0o6000) & ~self._umask

        def make() -> None:
            directory = Directory(number=self._tree.next_number(), mode=stat.S_IFDIR | bits, atime=now, mtime=now)
            self._disk.add(end, directory)

        self._make(end, make)

    def rmdir(self, path: bytes, /) -> None:
        end = self._find_name(path)
        number = {".": errno.EINVAL, "..": errno.ENOTEMPTY, "/": errno.EBUSY}.get(end.name)
        if number is not None:
            raise failure(number, end.path)
        inode = end.existing()
        if not isinstance(inode, Directory):
            raise failure(errno.ENOTDIR, end.path)
        if inode.entries:
            raise failure(errno.ENOTEMPTY, end.path)
        self._take(end)

    def unlink(self, path: bytes, /) -> None:
        if self._remove_socket(_text(path)):
            return
        end = self._find_name(path)
        if not end.is_plain or isinstance(end.existing(), Directory):
            raise failure(errno.EISDIR, end.path)
        self._take(end)

    def _take(self, end: PathEnd) -> None:
        self._disk.check(WRITE_FAILS, end.path)
        self._disk.take(end)

    def rename(self, source: bytes, target: bytes, /) -> None:
        old, new = self._find_name(source), self._find_name(target)
        _check_rename(old, new)
        self._disk.check(WRITE_FAILS, old.path)
        self._disk.move(old, new)

    def link(self, source: bytes, target: bytes, /) -> None:
        """Add a second name for a file or a symbolic link.

        Raises:
            OSError: EPERM for a directory.
        """
        inode = self._existing(source, follow=False)

        def same() -> Inode:
            if isinstance(inode, Directory):
                raise failure(errno.EPERM, _text(source))
            return inode

        self._make_name(target, same)

    def symlink(self, target: bytes, path: bytes, /) -> None:
        if not target:
            raise failure(errno.ENOENT, _text(path))
        now = self._disk.now()
        self._make_name(
            path,
            lambda: SymbolicLink(number=self._tree.next_number(), target=_text(target), atime=now, mtime=now),
        )

    def readlink(self, path: bytes, /) -> bytes:
        inode = self._existing(path, follow=False)
        if not isinstance(inode, SymbolicLink):
            raise failure(errno.EINVAL, _text(path))
        return _raw(inode.target)

    def chmod(self, path: bytes, mode: int, /) -> None:
        inode = self._change(path)
        inode.mode = stat.S_IFMT(inode.mode) | (mode & _MODE_BITS)

    def chown(self, path: bytes, user: int, group: int, /) -> None:
        inode = self._change(path)
        inode.uid = inode.uid if user < 0 else user
        inode.gid = inode.gid if group < 0 else group

    def truncate(self, path: bytes, size: int, /) -> None:
        if size < 0:
            raise failure(errno.EINVAL, _text(path))
        inode = self._existing(path)
        if not isinstance(inode, Content):
            raise failure(errno.EISDIR, _text(path))
        self._resize(inode, size, _text(path))

    def utime(self, path: bytes, times: tuple[float, float], /) -> None:
        inode = self._change(path)
        inode.atime, inode.mtime = times

    # -- the process

    def chdir(self, path: bytes, /) -> None:
        inode = self._existing(path)
        if not isinstance(inode, Directory):
            raise failure(errno.ENOTDIR, _text(path))
        self._directory = inode

    def cwd(self) -> bytes:
        self._disk.check_process(".")
        return _raw(self._tree.path_of(self._directory))

    def umask(self, mask: int, /) -> int:
        self._disk.check_process("")
        old, self._umask = self._umask, mask & 0o777
        return old

    # -- trees

    def tempdir(self, base: bytes | None, usual: bytes | None, /) -> bytes:
        """Create a directory below `base` or /tmp, which is created if it is missing, and return its path.

        `usual` is ignored, because it comes from the environment of the real machine.
        """
        if not base and self._find(_TEMPORARY).inode is None:
            self.mkdir(_TEMPORARY, 0o1777)  # sticky: everybody may create files, and remove only own ones
        while True:
            path = os.path.join(base or _TEMPORARY, bytes(self._random.choices(_NAME_LETTERS, k=_NAME_SIZE)))
            try:
                self.mkdir(path, 0o700)
            except FileExistsError:
                continue
            return path

    def listdir(self, path: bytes, /) -> list[bytes]:
        inode = self._existing(path)
        if not isinstance(inode, Directory):
            raise failure(errno.ENOTDIR, _text(path))
        self._disk.check(READ_FAILS, _text(path))
        return [_raw(name) for name in sorted(inode.entries)]

    def glob(self, pattern: bytes, /) -> list[bytes]:
        self._disk.check_process(_text(pattern))
        return matching_paths(self, pattern)

    def copyfile(self, source: bytes, target: bytes, /) -> None:
        inode = self._existing(source)
        if isinstance(self._found(target), Directory):
            target = os.path.join(target, os.path.basename(source))
        if inode is self._found(target):
            return  # as on a real disk: a file stays what it is
        reader = self.open(source, os.O_RDONLY, 0)
        try:
            data = self.read(reader, inode.size)
            self._write_new(target, data)
        finally:
            self._open.pop(reader, None)
        self.chmod(target, inode.mode)

    def _write_new(self, path: bytes, data: bytes) -> None:
        writer = self.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            while data:
                data = data[self.write(writer, data) :]
        finally:
            self._open.pop(writer, None)

    def rmtree(self, path: bytes, /) -> None:
        inode = self._existing(path, follow=False)
        if isinstance(inode, SymbolicLink):
            self._existing(path)
            raise OSError(f"{_text(path)} is a symbolic link")
        for name in self.listdir(path):
            below = os.path.join(path, name)
            if isinstance(self._existing(below, follow=False), Directory):
                self.rmtree(below)
            else:
                self.unlink(below)
        self.rmdir(path)

    def sync(self) -> None:
        for content in list(self._tree.contents()):
            self._disk.sync_file(content, "")
        self._disk.sync_names(None, "")


def _facts(inode: Inode) -> Facts:
    size = inode.size
    names = sum(isinstance(below, Directory) for below in inode.entries.values()) if isinstance(inode, Directory) else 0
    return {
        "dev": _DEVICE,
        "inode": inode.number,
        "mode": inode.mode,
        "nlink": inode.links + 1 + names if isinstance(inode, Directory) and inode.links else inode.links,
        "uid": inode.uid,
        "gid": inode.gid,
        "rdev": 0,
        "size": size,
        "blksize": PAGE,
        "blocks": -(-size // PAGE) * (PAGE // _BLOCK),
        "ctime": int(inode.ctime),
        "mtime": int(inode.mtime),
        "atime": int(inode.atime),
    }


def _check_rename(old: PathEnd, new: PathEnd) -> None:
    """Check that a file can be renamed.

    Raises:
        OSError: it cannot, for the same reasons as on Linux.
    """
    if not old.is_plain or not new.is_plain:
        raise failure(errno.EBUSY, old.path)
    inode = old.existing()
    is_directory = isinstance(inode, Directory)
    if new.wants_directory and not is_directory:
        raise failure(errno.ENOTDIR, new.path)
    if old.directory is not new.directory:
        if isinstance(inode, Directory) and _is_below(new.directory, inode):
            raise failure(errno.EINVAL, new.path)
        if isinstance(new.inode, Directory) and _is_below(old.directory, new.inode):
            raise failure(errno.ENOTEMPTY, new.path)
    if new.inode is None:
        if not new.directory.links:
            raise failure(errno.ENOENT, new.path)
    elif new.inode is not inode:
        _check_replaced(new, new.inode, is_directory=is_directory)


def _check_replaced(end: PathEnd, inode: Inode, *, is_directory: bool) -> None:
    """Check that a file can take the place of an existing one: files replace files, directories empty directories.

    Raises:
        OSError: ENOTDIR, EISDIR or ENOTEMPTY.
    """
    if is_directory and not isinstance(inode, Directory):
        raise failure(errno.ENOTDIR, end.path)
    if isinstance(inode, Directory):
        if not is_directory:
            raise failure(errno.EISDIR, end.path)
        if inode.entries:
            raise failure(errno.ENOTEMPTY, end.path)


def _is_below(directory: Directory, above: Directory) -> bool:
    """Return True if `directory` is `above` or somewhere below it."""
    below: Directory | None = directory
    while below is not None and below is not above:
        below = below.parent
    return below is not None
