"""A storage in memory that fails as a test says."""

from __future__ import annotations

from collections.abc import Callable

from box.journal import MemoryStorage
from box.journal.storage import AppendFile


class FaultyFile:
    """A file that fails as its storage says."""

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
    """A memory storage whose writes can be made short or failing; `writes` are the sizes asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[int] = []
        self.on_write: Callable[[bytes], bytes] = lambda data: data
        self.on_truncate: Callable[[], None] = lambda: None

    def create(self, path: str) -> AppendFile:
        return FaultyFile(super().create(path), self)


def void(value: object) -> None:
    """Turns an expression into a statement."""


def failing(code: int) -> Callable[[bytes], bytes]:
    def fail(data: bytes) -> bytes:
        raise OSError(code, "made to fail")

    return fail
