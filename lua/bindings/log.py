"""`log`: messages of Lua code in the node's log."""

from __future__ import annotations

import math

from box.errors import BoxError, ErrorCode
from box.log import Destination, Level, LogMessage, split_target
from lua.bindings.binding import Binding, Outcome, exported, guarded, text

_WITH_PLACE = frozenset({Level.SYSERROR, Level.ERROR, Level.WARN})
"""The levels whose lines have file and line in the plain format; lines in JSON always have them."""


def _without_option(error: BoxError) -> BoxError:
    """Return the reason of a wrong option as an error of its own, because `log.cfg` is not `box.cfg`."""
    return BoxError(ErrorCode.UNKNOWN, error.message.partition("': ")[2], type="IllegalParams")


class LogBinding(Binding):
    """Python half of lua/modules/log.lua."""

    @exported("log_level")
    def level(self) -> int:
        """Return the number of the highest level that is written."""
        return self.node.log.level

    @exported("log_say")
    def say(
        self, level: float, place: bytes, message: bytes, fields: bytes | None = None, fiber: bytes | None = None
    ) -> None:
        """Write one message. `place` is `file:line` or empty; `fields` are members of a record in JSON; `fiber` is the
        `id/name` of the running fiber, which is looked up without it.
        """
        self._write(Level(int(level)), place, message, fields, None, fiber)

    @exported("log_say_for_module")
    def say_for_module(
        self, level: float, place: bytes, message: bytes, module: bytes, fields: bytes | None = None
    ) -> None:
        """Write one message with the name of a module, whatever the level of the log."""
        self._write(Level(int(level)), place, message, fields, text(module))

    def _write(
        self,
        level: Level,
        place: bytes,
        message: bytes,
        fields: bytes | None,
        module: str | None,
        fiber: bytes | None = None,
    ) -> None:
        members = None if fields is None else text(fields)
        running = None if fiber is None else text(fiber)
        where = self._shown_place(level, place)
        self.node.log.write(LogMessage(level, text(message), where, fiber=running, module=module, fields=members))

    def _shown_place(self, level: Level, place: bytes) -> str:
        """Return the place as a line of the log shows it: without folders, which JSON has, and not at every level."""
        if self.node.log.format == "json":
            return text(place)
        return text(place).rpartition("/")[2] if level in _WITH_PLACE else ""

    @exported("log_is_open")
    def is_open(self) -> bool:
        """True once `log.cfg{}` or a start has opened the log."""
        return self.node.log.is_open

    @guarded("log_is_syslog")
    def is_syslog(self, target: bytes | None) -> Outcome:
        """Return 1 if a destination, or that of the open log, is syslog, otherwise 0.

        Raises:
            IllegalParams: its prefix is unknown.
        """
        log = self.node.log
        named = log.target if target is None else text(target)
        try:
            return int(split_target(named)[0] is Destination.SYSLOG)
        except BoxError as error:
            raise _without_option(error) from error

    @guarded("log_open")
    def open(self, target: bytes, nonblock: bool | None, level: float, name: bytes) -> Outcome:
        """Open the log with all its options. A failure ends a process that belongs to the instance alone.

        Raises:
            BoxError: the destination cannot be opened.
        """
        node = self.node
        try:
            node.log.nonblock = nonblock
            if target:
                node.log.open(text(target), node.paths.absolute)
            node.log.is_open = True
        except BoxError as error:
            if error.code == ErrorCode.CFG:
                error = _without_option(error)
            node.log_failed(error)
            raise error
        self.set_level(level)
        node.log.format = text(name)
        return None

    @exported("log_set_level")
    def set_level(self, level: float) -> None:
        """Write messages up to a level; one that is no number writes fatal messages only."""
        self.node.log.level = 0 if math.isnan(level) else int(min(max(level, 0), Level.DEBUG))

    @exported("log_set_format")
    def set_format(self, name: bytes) -> None:
        """Use another format, once the log is open: bare lines before stay as they are."""
        self.node.log.format = text(name)

    @exported("log_show")
    def show(self, option: bytes, value: bytes | float | bool) -> None:
        """Note a new value of an option of `box.cfg`."""
        self.node.config.values[text(option)] = text(value) if isinstance(value, bytes) else value

    @exported("log_rotate")
    def rotate(self) -> None:
        """Reopen the log's file."""
        self.node.log.rotate()

    @exported("log_pid")
    def pid(self) -> int:
        """Return the id of the process behind the log's pipe, or 0 without one."""
        return self.node.log.pid or 0
