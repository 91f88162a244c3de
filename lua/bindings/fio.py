"""`fio` and `pwd`: files and directories of the runtime's machine, and the accounts of the system.

Calls that take microseconds are made directly; those that move data or walk a tree run in a thread. Failures are
SystemErrors with Tarantool's text, `fio: <text of errno>`, and the errno.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from box.data import codec
from box.errors import BoxError, system_error
from lua.bindings.binding import Binding, Outcome, exported, guarded, waiting

if TYPE_CHECKING:
    from box.instance.node import Instance
    from lua.machine import Files
    from lua.runtime import Runtime

_FLAGS: Final = """
    O_APPEND O_ASYNC O_CLOEXEC O_CREAT O_DIRECT O_DIRECTORY O_EXCL O_LARGEFILE O_NOATIME O_NOCTTY O_NOFOLLOW O_NONBLOCK
    O_NDELAY O_PATH O_RDONLY O_WRONLY O_RDWR O_SYNC O_TMPFILE O_TRUNC
""".split()
_MODES: Final = """
    S_IRWXU S_IRUSR S_IWUSR S_IXUSR S_IRWXG S_IRGRP S_IWGRP S_IXGRP S_IRWXO S_IROTH S_IWOTH S_IXOTH
""".split()
_WHENCES: Final = ("SEEK_SET", "SEEK_CUR", "SEEK_END", "SEEK_DATA", "SEEK_HOLE")
_LATEST: Final = 2.0**63
"""Seconds since the epoch that the system cannot count any more."""


def _failure_of(error: Exception) -> BoxError:
    """Convert an exception of a file operation to the error that Lua gets.

    A null byte in a name (ValueError) means that there is no such file, a negative descriptor (ValueError as well) that
    it is not open; a number beyond the system's range is a wrong argument.
    """
    if isinstance(error, OSError):
        number = error.errno or 0
    elif isinstance(error, ValueError):
        number = errno.EBADF if "descriptor" in str(error) else errno.ENOENT
    else:
        number = errno.EINVAL
    return system_error(f"fio: {os.strerror(number)}", number)


def _direct(name: str) -> Callable[[Callable[..., Any]], Callable[..., Outcome]]:
    """Bind a method that calls the system directly."""

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
    """Bind a coroutine method; the fiber waits for it."""

    def decorate(method: Callable[..., Awaitable[Any]]) -> Callable[..., Outcome]:
        @wraps(method)
        async def call(self: FioBinding, *args: Any) -> Any:
            try:
                return await method(self, *args)
            except (OSError, ValueError, OverflowError) as error:
                raise _failure_of(error) from error

        return waiting(name, is_cancellable=False)(call)

    return decorate


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

    def __init__(self, runtime: Runtime, node: Instance) -> None:
        super().__init__(runtime, node)
        self._files = runtime.machine.files

    @exported("fio_constants")
    def constants(self) -> bytes:
        """Return {flag =, mode =, seek =}: the constants that this system has."""
        return codec.pack(
            {
                "flag": {name: getattr(os, name) for name in _FLAGS if hasattr(os, name)},
                "mode": {name: getattr(stat, name) for name in _MODES},
                "seek": {name: getattr(os, name) for name in _WHENCES if hasattr(os, name)},
            }
        )

    # Descriptors

    @exported("fio_are_of_system")
    def are_of_system(self) -> bool | None:
        """True if the descriptors are real ones, which C code may close."""
        return self._files.are_of_system or None

    @_direct("fio_open")
    def open(self, path: bytes, flags: float, mode: float) -> Outcome:
        """Open a file. Returns the descriptor."""
        return self._files.open(path, int(flags), int(mode))

    @_direct("fio_close")
    def close(self, fd: float) -> Outcome:
        """Close a file. A failure to write its last data is reported here."""
        self._files.close(int(fd))
        return True

    @_threaded("fio_read")
    async def read(self, fd: float, size: float) -> bytes:
        """Read up to `size` bytes; a negative size reads to the end."""
        files, count = self._files, int(size)
        if count < 0:
            count = max(int(files.fstat(int(fd))["size"]) - files.lseek(int(fd), 0, os.SEEK_CUR), 0)
        if count <= files.direct_size:
            return files.read(int(fd), count)
        return await files.in_thread(files.read, int(fd), count)

    @_threaded("fio_pread")
    async def pread(self, fd: float, size: float, offset: float) -> bytes:
        """Read up to `size` bytes at an offset; the position does not move."""
        files = self._files
        if size <= files.direct_size:
            return files.pread(int(fd), int(size), int(offset))
        return await files.in_thread(files.pread, int(fd), int(size), int(offset))

    @_threaded("fio_write")
    async def write(self, fd: float, data: bytes) -> bool:
        """Write all bytes."""
        files = self._files
        if len(data) <= files.direct_size:
            _write_all(files, int(fd), data)
        else:
            await files.in_thread(_write_all, files, int(fd), data)
        return True

    @_threaded("fio_pwrite")
    async def pwrite(self, fd: float, data: bytes, offset: float) -> bool:
        """Write all bytes at an offset."""
        files = self._files
        if len(data) <= files.direct_size:
            _write_all_at(files, int(fd), data, int(offset))
        else:
            await files.in_thread(_write_all_at, files, int(fd), data, int(offset))
        return True

    @_direct("fio_lseek")
    def lseek(self, fd: float, offset: float, whence: float) -> Outcome:
        """Move the position and return the new one."""
        return self._files.lseek(int(fd), int(offset), int(whence))

    @_direct("fio_ftruncate")
    def ftruncate(self, fd: float, size: float) -> Outcome:
        self._files.ftruncate(int(fd), int(size))
        return True

    @_threaded("fio_fsync")
    async def fsync(self, fd: float) -> bool:
        await self._files.in_thread(self._files.fsync, int(fd))
        return True

    @_threaded("fio_fdatasync")
    async def fdatasync(self, fd: float) -> bool:
        await self._files.in_thread(self._files.fdatasync, int(fd))
        return True

    @_direct("fio_fstat")
    def fstat(self, fd: float) -> Outcome:
        return codec.pack(self._files.fstat(int(fd)))

    # Paths

    @_direct("fio_stat")
    def stat(self, path: bytes) -> Outcome:
        return codec.pack(self._files.stat(path))

    @_direct("fio_lstat")
    def lstat(self, path: bytes) -> Outcome:
        return codec.pack(self._files.lstat(path))

    @_direct("fio_mkdir")
    def mkdir(self, path: bytes, mode: float) -> Outcome:
        self._files.mkdir(path, int(mode))
        return True

    @_direct("fio_rmdir")
    def rmdir(self, path: bytes) -> Outcome:
        self._files.rmdir(path)
        return True

    @_direct("fio_unlink")
    def unlink(self, path: bytes) -> Outcome:
        self._files.unlink(path)
        return True

    @_direct("fio_rename")
    def rename(self, source: bytes, target: bytes) -> Outcome:
        self._files.rename(source, target)
        return True

    @_direct("fio_link")
    def link(self, source: bytes, target: bytes) -> Outcome:
        self._files.link(source, target)
        return True

    @_direct("fio_symlink")
    def symlink(self, target: bytes, path: bytes) -> Outcome:
        self._files.symlink(target, path)
        return True

    @_direct("fio_readlink")
    def readlink(self, path: bytes) -> Outcome:
        return self._files.readlink(path)

    @_direct("fio_chmod")
    def chmod(self, path: bytes, mode: float) -> Outcome:
        self._files.chmod(path, int(mode))
        return True

    @_direct("fio_chown")
    def chown(self, path: bytes, user: Any, group: Any) -> Outcome:
        """Change the owner; arguments are names or numbers. A name that does not exist is a failure without an
        errno.
        """
        try:
            self._files.chown(path, _user_id(user), _group_id(group))
        except KeyError as error:
            raise system_error(f"fio: {error.args[0]}") from error
        return True

    @_direct("fio_truncate")
    def truncate(self, path: bytes, size: float) -> Outcome:
        if size < 0 and stat.S_ISDIR(int(self._files.stat(path)["mode"])):
            # As in Tarantool, a path that is no file is a mistake before the size is one.
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        self._files.truncate(path, int(size))
        return True

    @_direct("fio_utime")
    def utime(self, path: bytes, atime: float, mtime: float) -> Outcome:
        if not (abs(atime) < _LATEST and abs(mtime) < _LATEST):
            self._files.stat(path)  # as in Tarantool, a path without a file is a mistake before the time is one
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._files.utime(path, (atime, mtime))
        return True

    @_direct("fio_chdir")
    def chdir(self, path: bytes) -> Outcome:
        self._files.chdir(path)
        return True

    @_direct("fio_cwd")
    def cwd(self) -> Outcome:
        return self._files.cwd()

    @_direct("fio_umask")
    def umask(self, mask: float | None) -> Outcome:
        """Set the mask and return the former one; None does not change it."""
        old = self._files.umask(0 if mask is None else int(mask))
        if mask is None:
            self._files.umask(old)
        return old

    @_direct("fio_tempdir")
    def tempdir(self, base: bytes | None, usual: bytes | None) -> Outcome:
        """Make a new directory below `base`, `usual` ($TMPDIR) or /tmp."""
        return self._files.tempdir(base, usual)

    @_threaded("fio_listdir")
    async def listdir(self, path: bytes) -> bytes:
        """Return the names in a directory."""
        names = await self._files.in_thread(self._files.listdir, path)
        return codec.pack([os.fsdecode(name) for name in names])

    @_direct("fio_glob")
    def glob(self, pattern: bytes) -> bytes:
        """Return the matching paths, sorted. No fiber runs meanwhile, as in Tarantool."""
        return codec.pack([os.fsdecode(path) for path in sorted(self._files.glob(pattern))])

    @_threaded("fio_copyfile")
    async def copyfile(self, source: bytes, target: bytes) -> bool:
        """Copy contents and mode of a file; `target` may be a directory."""
        await self._files.in_thread(self._files.copyfile, source, target)
        return True

    @_threaded("fio_sync")
    async def sync(self) -> bool:
        """Write all pending data of the system to disk."""
        await self._files.in_thread(self._files.sync)
        return True

    @_threaded("fio_rmtree")
    async def rmtree(self, path: bytes) -> bool:
        """Remove a directory and everything below it; symbolic links are removed, not followed."""
        await self._files.in_thread(self._files.rmtree, path)
        return True

    # Accounts: require('pwd')

    @exported("pwd_user")
    def user(self, key: Any) -> bytes | None:
        """Return an account by name or number as a map, or None if there is none."""
        try:
            entry = pwd.getpwnam(os.fsdecode(key)) if isinstance(key, bytes) else pwd.getpwuid(int(key))
        except (KeyError, ValueError, OverflowError):
            return None
        return codec.pack(_account(entry))

    @exported("pwd_group")
    def group(self, key: Any) -> bytes | None:
        """Return a group by name or number as a map, or None if there is none."""
        try:
            entry = grp.getgrnam(os.fsdecode(key)) if isinstance(key, bytes) else grp.getgrgid(int(key))
        except (KeyError, ValueError, OverflowError):
            return None
        return codec.pack(_group(entry))

    @exported("pwd_users")
    def users(self) -> bytes:
        """Return all accounts."""
        return codec.pack([_account(entry) for entry in pwd.getpwall()])

    @exported("pwd_groups")
    def groups(self) -> bytes:
        """Return all groups."""
        return codec.pack([_group(entry) for entry in grp.getgrall()])

    @exported("process_id")
    def process_id(self) -> int:
        """Return the id of this process."""
        return self.runtime.machine.identity.process_id()

    @exported("pwd_current")
    def current(self) -> bytes:
        """Return [user id, group id] of this process."""
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


def _write_all(files: Files, fd: int, data: bytes) -> None:
    count = files.write(fd, data) if data else 0
    while count < len(data):
        count += files.write(fd, memoryview(data)[count:])


def _write_all_at(files: Files, fd: int, data: bytes, offset: int) -> None:
    count = files.pwrite(fd, data, offset) if data else 0
    while count < len(data):
        count += files.pwrite(fd, memoryview(data)[count:], offset + count)
