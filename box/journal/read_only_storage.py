"""Log files that are only read: those of a directory whose node does not run, or runs in another process."""

from __future__ import annotations

import errno
import os

from box.journal.storage import AppendFile, DirectoryLock, FileStorage


class _NoLock:
    def release(self) -> None:
        """Do nothing: a directory that is only read has no lock to release."""


class ReadOnlyStorage(FileStorage):
    """The files of `root`, or with `only` just the file of that name in it. Every change raises OSError (EROFS).

    Directories are not locked.
    """

    def __init__(self, root: str, only: str | None = None) -> None:
        super().__init__(root)
        self._only = only

    def names(self, directory: str) -> list[str]:
        found = super().names(directory)
        is_limited = self._only is not None and self._path(directory) == self._path(".")
        return [name for name in found if name == self._only] if is_limited else found

    def lock(self, directory: str) -> DirectoryLock | None:
        return _NoLock()

    def create(self, path: str) -> AppendFile:
        raise _refused(path)

    def append(self, path: str) -> AppendFile:
        raise _refused(path)

    def rename(self, old: str, new: str) -> None:
        raise _refused(old)

    def remove(self, path: str) -> None:
        raise _refused(path)

    def touch(self, path: str) -> None:
        raise _refused(path)

    def sync_directory(self, directory: str) -> None:
        raise _refused(directory)


def _refused(path: str) -> OSError:
    return OSError(errno.EROFS, os.strerror(errno.EROFS), path)
