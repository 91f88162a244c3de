"""A storage in memory whose writes fail as a test asks."""

from __future__ import annotations

from collections.abc import Callable

from box.journal import MemoryStorage
from box.journal.storage import AppendFile


class FaultyFile:
    """A file of a `FaultyStorage`."""

    def __init__(self, file: AppendFile, storage: FaultyStorage) -> None:
        self.path = file.path
        self._file = file
        self._storage = storage
        self.sync = file.sync
        self.mark_pending = file.mark_pending
        self.close = file.close

    def write(self, data: bytes) -> int:
        self._storage.writes.append(len(data))
        return self._file.write(self._storage.on_write(data))

    def truncate(self, size: int) -> None:
        self._storage.on_truncate()
        self._file.truncate(size)


class FaultyStorage(MemoryStorage):
    """A storage in memory whose writes can be short or fail; `writes` has the sizes that were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[int] = []
        self.on_write: Callable[[bytes], bytes] = lambda data: data
        self.on_truncate: Callable[[], None] = lambda: None

    def create(self, path: str) -> AppendFile:
        return FaultyFile(super().create(path), self)


def void(value: object) -> None:
    """Do nothing with a value: turns an expression into a statement for lambdas."""


def failing(code: int) -> Callable[[bytes], bytes]:
    def fail(data: bytes) -> bytes:
        raise OSError(code, "made to fail")

    return fail
