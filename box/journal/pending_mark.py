"""A mark on bytes of a log file that may still be cut off: a lock that readers in other processes look at.

```
 meta | block | block | block of a batch that is being written or synced
                      ^
                      `-- the writer's lock: from here on nothing counts yet
```

A write that fails is cut off again, and other rows get the same lsns. While that may happen to whole blocks (a batch of
several, or one that has to be synced first), the writer locks the file from the first of them on. Readers take no lock:
they ask whether there is one and where it begins, so they never wait. The lock of a killed process vanishes with it,
and its blocks count at the next start. The locks are those of open file descriptions (fcntl(2)), so that they also tell
a reader of the same process. Where a file system has none, all bytes count at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from typing import Final, NamedTuple

_LOCK: Final = struct.Struct("hhqqi4x")
"""The layout of `struct flock` in Linux: type, whence, start, length (0: to the end of the file), process."""
_SET: Final[int | None] = getattr(fcntl, "F_OFD_SETLK", None)
_GET: Final[int | None] = getattr(fcntl, "F_OFD_GETLK", None)
_TRIES: Final = 100
"""Attempts to find the file unchanged before and after the look at its lock; a busy writer changes it all the time."""


class _State(NamedTuple):
    size: int
    changed_at: int


def mark_pending(fd: int, start: int) -> None:
    """Mark the bytes from `start` on as not counting yet; everything before them counts."""
    _set(fd, fcntl.F_WRLCK, start, 0)
    if start:
        _set(fd, fcntl.F_UNLCK, 0, start)


def unmark_pending(fd: int) -> None:
    """Remove the mark: the whole file counts."""
    _set(fd, fcntl.F_UNLCK, 0, 0)


def _set(fd: int, kind: int, start: int, length: int) -> None:
    if _SET is not None:
        # Some network file systems have no locks. Their readers see all bytes, also those that the writer may still cut
        # off.
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, _SET, _LOCK.pack(kind, os.SEEK_SET, start, length, 0))


def counted_size(fd: int) -> int:
    """Return the size of the file without the bytes that its writer may still cut off. Raises OSError."""
    size = 0
    for _ in range(_TRIES):
        before = _state(fd)
        start = _pending_from(fd)
        if start is not None:
            return start
        # Nothing was pending at that moment. If the file did not change meanwhile, all of it counts.
        size = before.size
        if _state(fd) == before:
            break
    return size


def _state(fd: int) -> _State:
    found = os.fstat(fd)
    return _State(found.st_size, found.st_mtime_ns)


def _pending_from(fd: int) -> int | None:
    if _GET is None:
        return None
    try:
        answer = fcntl.fcntl(fd, _GET, _LOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
    except OSError:
        return None
    kind, _, start, _, _ = _LOCK.unpack(answer)
    return None if kind == fcntl.F_UNLCK else int(start)
