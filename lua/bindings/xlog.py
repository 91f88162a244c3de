"""`xlog`: rows of log files on the runtime's machine, for Lua."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from box.data import codec
from box.errors import system_error
from lua.bindings.binding import Binding, Outcome, guarded, text

if TYPE_CHECKING:
    from box.instance.node import Instance
    from lua.bindings.xlog_rows import XlogRows
    from lua.runtime import Runtime


class XlogBinding(Binding):
    """Python half of lua/modules/xlog.lua."""

    def __init__(self, runtime: Runtime, node: Instance) -> None:
        super().__init__(runtime, node)
        self._files: dict[int, XlogRows] = {}
        self._last = 0
        node.on_close.append(self.close_all)

    def close_all(self) -> None:
        """Close all files, because the node stops."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    @guarded("xlog_open")
    def xlog_open(self, path: bytes) -> Outcome:
        """Open a file. Returns its number.

        Raises:
            BoxSystemError: the file cannot be read.
            XlogError: it is not a log file.
            UnsupportedError: its kind is unknown.
        """
        from lua.bindings.xlog_rows import XlogRows

        try:
            file = XlogRows(self.runtime.machine.files, path)
        except IsADirectoryError as error:  # opened without an error, but not read, in Tarantool
            raise system_error("failed to read '' file", errno.EISDIR) from error
        except (OSError, ValueError) as error:  # a null byte in the name is a ValueError
            number = getattr(error, "errno", None) or errno.ENOENT
            raise system_error(f"failed to open '{text(path)}' file", number) from error
        try:
            file.read_meta()
        except BaseException:
            file.close()
            raise
        self._last += 1
        self._files[self._last] = file
        return self._last

    @guarded("xlog_next")
    def xlog_next(self, number: float) -> Outcome:
        """Return packed rows [type, sync, lsn, replica id, group id, timestamp, tsn, is_commit, body], or None at the
        end.
        """
        from lua.bindings.xlog_rows import row_facts

        file = self._files.get(int(number))
        rows = [] if file is None else file.next_rows()
        if not rows:
            self.xlog_close(number)
            return None
        return codec.pack([row_facts(row) for row in rows])

    @guarded("xlog_close")
    def xlog_close(self, number: float) -> Outcome:
        """Close a file whose reading was ended early."""
        file = self._files.pop(int(number), None)
        if file is not None:
            file.close()
        return None
