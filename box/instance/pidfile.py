"""The file that names the process of a running instance, `box.cfg.pid_file`.

Its owner holds a lock on it (flock), which a forked child inherits. It contains the decimal number alone. Facts of a
running Tarantool: mode 0644, removed at the end, a second instance is refused by the lock alone.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from box import forks
from box.errors import system_error


class PidFile:
    """The pid file, locked from the constructor on.

    Raises:
        BoxSystemError: another process holds it, or it cannot be created.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = _open_locked(path)
        self._is_own = True
        forks.own(self)

    def leave_to_parent(self) -> None:
        """Release the child's copy of the lock after a fork, because it would outlive the parent."""
        if self._is_own:
            os.close(self._descriptor)
            self._is_own = False

    def write(self) -> None:
        """Write the number of this process.

        Raises:
            BoxSystemError: the disk refuses.
        """
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, str(os.getpid()).encode(), 0)
        except OSError as error:
            raise system_error(f"failed to update pid file '{self._path}'", error.errno or 0) from error

    def remove(self) -> None:
        """Remove the file and release the lock, because the instance has ended."""
        if not self._is_own:
            return
        self._is_own = False
        with suppress(OSError):
            os.unlink(self._path)
        os.close(self._descriptor)


def _open_locked(path: str) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except (OSError, ValueError) as error:  # ValueError: NUL in the path
        raise system_error(f"failed to create pid file '{path}'", getattr(error, "errno", None) or 0) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(descriptor, 32, 0).decode("ascii", "replace")  # a number of the system fits easily
        os.close(descriptor)
        raise system_error(f"the daemon is already running: PID {owner}") from None
    return descriptor
