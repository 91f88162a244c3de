"""Rows of one log file on the runtime's machine, for the module `xlog` of Lua."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from box.errors import system_error, unsupported
from box.journal.rows import decode_rows
from box.journal.xlog import XlogDecoder
from box.journal.xlog_errors import XlogError
from box.wire.constants import RequestType
from lua.bindings.binding import text

if TYPE_CHECKING:
    from box.wire.row import Row
    from lua.machine import Files

_READ_SIZE: Final = 1024 * 1024
"""The bytes that are read at once."""
_ROW_FILES: Final = frozenset({"XLOG", "SNAP", "RUN", "INDEX", "DATA", "VYLOG"})
_TYPE_NAMES: Final = {int(kind): kind.name for kind in RequestType}


class XlogRows:
    """The rows of one file, block by block; broken parts are skipped."""

    def __init__(self, files: Files, path: bytes) -> None:
        self._files = files
        self._path = path
        self._fd = files.open(path, os.O_RDONLY, 0)
        """The descriptor of the file; the end of the loop over the file closes it."""
        self._decoder = XlogDecoder()
        if stat.S_ISDIR(int(files.fstat(self._fd)["mode"])):
            self.close()
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))

    def read_meta(self) -> None:
        """Read the meta.

        Raises:
            XlogError: the file is not a log file.
            UnsupportedError: its kind is unknown.
        """
        self._feed()
        meta = self._decoder.read_meta()
        if meta is None:
            raise XlogError("Unexpected end of file, run with 'force_recovery = true'")
        if meta.file_type not in _ROW_FILES:
            raise unsupported("xlog reader", f"'{meta.file_type}' file type")

    def _feed(self) -> bool:
        try:
            data = self._files.read(self._fd, _READ_SIZE)
        except OSError as error:
            raise system_error(f"failed to read '{text(self._path)}' file", error.errno or 0) from error
        self._decoder.feed(data)
        return bool(data)

    def next_rows(self) -> list[Row]:
        """Return the rows of the next block; none at the end."""
        while True:
            try:
                block = self._decoder.next_block()
                if block is not None:
                    return decode_rows(block)
                if self._decoder.eof or not self._feed():
                    return []
            except XlogError:
                while not self._decoder.skip():
                    if not self._feed():
                        return []

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):  # the process of a simulated node may have ended before its Lua state
            self._files.close(self._fd)


def row_facts(row: Row) -> list[Any]:
    """Return [type, sync, lsn, replica id, group id, timestamp, tsn, is_commit, body] of a row."""
    kind = _TYPE_NAMES.get(row.type, row.type)
    return [kind, row.sync, row.lsn, row.replica_id, row.group_id, row.tm, row.tsn, row.is_commit, row.body]
