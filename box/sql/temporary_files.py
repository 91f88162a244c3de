"""Temporary files of SQLite, in memory. SQLite writes sorted runs of rows to one of them and merges them from there.

A merge of many runs is one long step of its program, but it reads and writes its file a page at a time. So that others
may run meanwhile, such a file calls a function of its owner now and then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import apsw

_MEMORY: Final = "memdb"
"""SQLite's own VFS whose files are in memory."""
_SORTED_RUNS: Final = apsw.SQLITE_OPEN_TEMP_JOURNAL
"""How SQLite opens the file of a sort. It has no other file of this kind here: there are no savepoints."""
_PAGES: Final = 16
"""The owner is asked after so many pages: some tenths of a millisecond of a merge."""
_BLOCK: Final = 1 << 20
"""The bytes of one block of a file. A file that is one piece of memory would be moved when it grows: a long turn."""
SIZE_MAX: Final = 1 << 30
"""The greatest size of a file in bytes, which is that of `memdb`, too."""


class TemporaryFiles(apsw.VFS):
    """The temporary files of one connection, which is opened with the name of this VFS. `look` is called during a
    merge; what it raises ends the statement.
    """

    def __init__(self, look: Callable[[], None]) -> None:
        self.name = f"lunabox-{id(self)}"
        self._look = look
        super().__init__(self.name, _MEMORY)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        if flags[0] & _SORTED_RUNS:
            return SortedRuns(self._look)  # type: ignore[return-value]
        return apsw.VFSFile(_MEMORY, name, flags)


class SortedRuns:
    """The file of a sort. Nobody else opens it, and it is gone when it is closed.

    SQLite reads and writes no more than a page at once, and never across the end of one. So all is in one block.
    """

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._passed = 0
        self._blocks: list[memoryview] = []
        self._size = 0

    def xRead(self, amount: int, offset: int) -> memoryview:
        self._passed += 1
        if not self._passed % _PAGES:
            self._look()
        end = offset + amount
        if end > self._size:
            end = self._size
        start = offset % _BLOCK
        return self._blocks[offset // _BLOCK][start : start + end - offset]

    def xWrite(self, page: memoryview, offset: int) -> None:
        self._passed += 1
        if not self._passed % _PAGES:
            self._look()
        end = offset + len(page)
        if end > self._size:
            self._grow(end)
        start = offset % _BLOCK
        self._blocks[offset // _BLOCK][start : start + len(page)] = page

    def _grow(self, size: int) -> None:
        if size > SIZE_MAX:
            raise apsw.FullError("database or disk is full")
        while len(self._blocks) * _BLOCK < size:
            self._blocks.append(memoryview(bytearray(_BLOCK)))
        self._size = size

    def xFileSize(self) -> int:
        return self._size

    def xClose(self) -> None:
        self._blocks = []

    def xFileControl(self, operation: int, pointer: int) -> bool:
        return False

    def xSectorSize(self) -> int:
        return 0

    def xDeviceCharacteristics(self) -> int:
        return 0
