"""`fio` and `pwd`: files, directories and accounts.

Calls that are over in microseconds are made directly; those that move data or walk a tree go to a thread. Failures are
SystemErrors with the peer's text, `fio: <text of errno>`, and the errno.
"""

from __future__ import annotations

import asyncio
import errno
import grp
import os
import pwd
import stat
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final

from box.data import codec
from box.errors import BoxError, system_error
from lua.bindings.binding import Binding, Outcome, exported, guarded, waiting

_DIRECT_SIZE: Final = 64 * 1024
"""Up to this many bytes are read or written by the loop's thread itself."""

_FLAGS: Final = """
    O_APPEND O_ASYNC O_CLOEXEC O_CREAT O_DIRECT O_DIRECTORY O_EXCL O_LARGEFILE O_NOATIME O_NOCTTY O_NOFOLLOW O_NONBLOCK
    O_NDELAY O_PATH O_RDONLY O_WRONLY O_RDWR O_SYNC O_TMPFILE O_TRUNC
""".split()
_MODES: Final = """
    S_IRWXU S_IRUSR S_IWUSR S_IXUSR S_IRWXG S_IRGRP S_IWGRP S_IXGRP S_IRWXO S_IROTH S_IWOTH S_IXOTH
""".split()
_WHENCES: Final = ("SEEK_SET", "SEEK_CUR", "SEEK_END", "SEEK_DATA", "SEEK_HOLE")

_STAT_FIELDS: Final = {
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


def _failure_of(error: Exception) -> BoxError:
    """No file has a name with a null byte, which is a ValueError; a number out of the system's range is no argument."""
    if isinstance(error, OSError):
        number = error.errno or 0
    else:
        number = errno.ENOENT if isinstance(error, ValueError) else errno.EINVAL
    return system_error(f"fio: {os.strerror(number)}", number)


def _direct(name: str) -> Callable[[Callable[..., Any]], Callable[..., Outcome]]:
    """Bind a method that calls the system at once."""

    def decorate(method: Callable[..., Any]) -> Callable[..., Outcome]:
        @wraps(method)
        def call(self: FioBinding, *args: Any) -> Any:
            try:
                return method(self, *args)
            except (OSError, ValueError, OverflowError) as error:
                raise _failure_of(error) from error

        return guarded(name)(call)

    return decorate


def _threaded(name: str) -> Callable[[Callable[..., Awaitable[Any]]], Callable[..., Outcome]]:
    """Bind a coroutine method, during which the fiber waits."""

    def decorate(method: Callable[..., Awaitable[Any]]) -> Callable[..., Outcome]:
        @wraps(method)
        async def call(self: FioBinding, *args: Any) -> Any:
            try:
                return await method(self, *args)
            except (OSError, ValueError, OverflowError) as error:
                raise _failure_of(error) from error

        return waiting(name, is_cancellable=False)(call)

    return decorate


def _stat_map(result: os.stat_result) -> bytes:
    return codec.pack({name: int(getattr(result, field)) for name, field in _STAT_FIELDS.items()})


def _user_id(user: Any) -> int:
    if isinstance(user, bytes):
        return pwd.getpwnam(os.fsdecode(user)).pw_uid
    return -1 if user is None else int(user)


def _group_id(group: Any) -> int:
    if isinstance(group, bytes):
        return grp.getgrnam(os.fsdecode(group)).gr_gid
    return -1 if group is None else int(group)


class FioBinding(Binding):
    """Python half of lua/modules/fio.lua. Descriptors are numbers; paths are bytes as they are."""

    @exported("fio_constants")
    def constants(self) -> bytes:
        """{flag =, mode =, seek =}: the constants that this system has."""
        return codec.pack(
            {
                "flag": {name: getattr(os, name) for name in _FLAGS if hasattr(os, name)},
                "mode": {name: getattr(stat, name) for name in _MODES},
                "seek": {name: getattr(os, name) for name in _WHENCES if hasattr(os, name)},
            }
        )

    # Descriptors

    @_direct("fio_open")
    def open(self, path: bytes, flags: float, mode: float) -> Outcome:
        """The descriptor."""
        return os.open(path, int(flags) | os.O_CLOEXEC, int(mode))

    @_direct("fio_close")
    def close(self, fd: float) -> Outcome:
        """A failure to write the last data is told here."""
        os.close(int(fd))
        return True

    @_threaded("fio_read")
    async def read(self, fd: float, size: float) -> bytes:
        """Up to `size` bytes; negative: up to the end."""
        count = int(size)
        if count < 0:
            count = max(os.fstat(int(fd)).st_size - os.lseek(int(fd), 0, os.SEEK_CUR), 0)
        if count <= _DIRECT_SIZE:
            return os.read(int(fd), count)
        return await asyncio.to_thread(os.read, int(fd), count)

    @_threaded("fio_pread")
    async def pread(self, fd: float, size: float, offset: float) -> bytes:
        """Up to `size` bytes from an offset, which stays."""
        if size <= _DIRECT_SIZE:
            return os.pread(int(fd), int(size), int(offset))
        return await asyncio.to_thread(os.pread, int(fd), int(size), int(offset))

    @_threaded("fio_write")
    async def write(self, fd: float, data: bytes) -> bool:
        """Write everything."""
        if len(data) <= _DIRECT_SIZE:
            _write_all(int(fd), data)
        else:
            await asyncio.to_thread(_write_all, int(fd), data)
        return True

    @_threaded("fio_pwrite")
    async def pwrite(self, fd: float, data: bytes, offset: float) -> bool:
        """Write everything at an offset."""
        if len(data) <= _DIRECT_SIZE:
            _write_all_at(int(fd), data, int(offset))
        else:
            await asyncio.to_thread(_write_all_at, int(fd), data, int(offset))
        return True

    @_direct("fio_lseek")
    def lseek(self, fd: float, offset: float, whence: float) -> Outcome:
        """The new position."""
        return os.lseek(int(fd), int(offset), int(whence))

    @_direct("fio_ftruncate")
    def ftruncate(self, fd: float, size: float) -> Outcome:
        os.ftruncate(int(fd), int(size))
        return True

    @_threaded("fio_fsync")
    async def fsync(self, fd: float) -> bool:
        await asyncio.to_thread(os.fsync, int(fd))
        return True

    @_threaded("fio_fdatasync")
    async def fdatasync(self, fd: float) -> bool:
        await asyncio.to_thread(getattr(os, "fdatasync", os.fsync), int(fd))
        return True

    @_direct("fio_fstat")
    def fstat(self, fd: float) -> Outcome:
        return _stat_map(os.fstat(int(fd)))

    # Paths

    @_direct("fio_stat")
    def stat(self, path: bytes) -> Outcome:
        return _stat_map(os.stat(path))

    @_direct("fio_lstat")
    def lstat(self, path: bytes) -> Outcome:
        return _stat_map(os.lstat(path))

    @_direct("fio_mkdir")
    def mkdir(self, path: bytes, mode: float) -> Outcome:
        os.mkdir(path, int(mode))
        return True

    @_direct("fio_rmdir")
    def rmdir(self, path: bytes) -> Outcome:
        os.rmdir(path)
        return True

    @_direct("fio_unlink")
    def unlink(self, path: bytes) -> Outcome:
        os.unlink(path)
        return True

    @_direct("fio_rename")
    def rename(self, source: bytes, target: bytes) -> Outcome:
        os.rename(source, target)
        return True

    @_direct("fio_link")
    def link(self, source: bytes, target: bytes) -> Outcome:
        os.link(source, target)
        return True

    @_direct("fio_symlink")
    def symlink(self, target: bytes, path: bytes) -> Outcome:
        os.symlink(target, path)
        return True

    @_direct("fio_readlink")
    def readlink(self, path: bytes) -> Outcome:
        return os.readlink(path)

    @_direct("fio_chmod")
    def chmod(self, path: bytes, mode: float) -> Outcome:
        os.chmod(path, int(mode))
        return True

    @_direct("fio_chown")
    def chown(self, path: bytes, user: Any, group: Any) -> Outcome:
        """Names or numbers; names that do not exist are a failure without an errno."""
        try:
            os.chown(path, _user_id(user), _group_id(group))
        except KeyError as error:
            raise system_error(f"fio: {error.args[0]}") from error
        return True

    @_direct("fio_truncate")
    def truncate(self, path: bytes, size: float) -> Outcome:
        os.truncate(path, int(size))
        return True

    @_direct("fio_utime")
    def utime(self, path: bytes, atime: float, mtime: float) -> Outcome:
        os.utime(path, (atime, mtime))
        return True

    @_direct("fio_chdir")
    def chdir(self, path: bytes) -> Outcome:
        os.chdir(path)
        return True

    @_direct("fio_cwd")
    def cwd(self) -> Outcome:
        return os.getcwdb()

    @_direct("fio_umask")
    def umask(self, mask: float | None) -> Outcome:
        """The mask before; None: it stays."""
        old = os.umask(0 if mask is None else int(mask))
        if mask is None:
            os.umask(old)
        return old

    @_direct("fio_tempdir")
    def tempdir(self, base: bytes | None) -> Outcome:
        """A new directory below `base`, $TMPDIR or /tmp."""
        import tempfile  # as glob and shutil: they bring much along, and few scripts need them

        return os.fsencode(tempfile.mkdtemp(prefix="", dir=os.fsdecode(base) if base else None))

    @_threaded("fio_listdir")
    async def listdir(self, path: bytes) -> bytes:
        """The names in a directory."""
        names = await asyncio.to_thread(os.listdir, path)
        return codec.pack([os.fsdecode(name) for name in names])

    @_threaded("fio_glob")
    async def glob(self, pattern: bytes) -> bytes:
        """The paths that match, sorted."""
        from glob import glob

        paths = await asyncio.to_thread(glob, pattern)
        return codec.pack([os.fsdecode(path) for path in sorted(paths)])

    @_threaded("fio_copyfile")
    async def copyfile(self, source: bytes, target: bytes) -> bool:
        """Contents and mode; `target` may be a directory."""
        import shutil

        await asyncio.to_thread(shutil.copy, source, target)
        return True

    @_threaded("fio_sync")
    async def sync(self) -> bool:
        """Everything on its way to any disk."""
        await asyncio.to_thread(os.sync)
        return True

    @_threaded("fio_rmtree")
    async def rmtree(self, path: bytes) -> bool:
        """A directory and everything below it. Its own links are removed, not followed."""
        import shutil

        await asyncio.to_thread(shutil.rmtree, path)
        return True

    # Accounts: require('pwd')

    @exported("pwd_user")
    def user(self, key: Any) -> bytes | None:
        """A map of an account by name or number; None without it."""
        try:
            entry = pwd.getpwnam(os.fsdecode(key)) if isinstance(key, bytes) else pwd.getpwuid(int(key))
        except (KeyError, ValueError, OverflowError):
            return None
        return codec.pack(_account(entry))

    @exported("pwd_group")
    def group(self, key: Any) -> bytes | None:
        """A map of a group by name or number; None without it."""
        try:
            entry = grp.getgrnam(os.fsdecode(key)) if isinstance(key, bytes) else grp.getgrgid(int(key))
        except (KeyError, ValueError, OverflowError):
            return None
        return codec.pack(_group(entry))

    @exported("pwd_users")
    def users(self) -> bytes:
        """All accounts."""
        return codec.pack([_account(entry) for entry in pwd.getpwall()])

    @exported("pwd_groups")
    def groups(self) -> bytes:
        """All groups."""
        return codec.pack([_group(entry) for entry in grp.getgrall()])

    @exported("process_id")
    def process_id(self) -> int:
        """Of this process."""
        return self.runtime.machine.identity.process_id()

    @exported("pwd_current")
    def current(self) -> bytes:
        """{user id, group id} of this process."""
        return codec.pack([os.getuid(), os.getgid()])


def _account(entry: pwd.struct_passwd) -> dict[str, Any]:
    try:
        group: Any = _group(grp.getgrgid(entry.pw_gid))
    except KeyError:
        group = None
    return {
        "name": entry.pw_name,
        "id": entry.pw_uid,
        "group": group,
        "workdir": entry.pw_dir,
        "shell": entry.pw_shell,
    }


def _group(entry: grp.struct_group) -> dict[str, Any]:
    return {"id": entry.gr_gid, "name": entry.gr_name, "members": list(entry.gr_mem)}


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _write_all_at(fd: int, data: bytes, offset: int) -> None:
    rest = memoryview(data)
    while rest:
        count = os.pwrite(fd, rest, offset)
        offset += count
        rest = rest[count:]
