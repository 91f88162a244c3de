"""`log`: messages of Lua code in the node's log."""

from __future__ import annotations

from typing import Any

from box.data import codec
from box.errors import ErrorCode, client_error
from box.log import Level
from lua.bindings.binding import Binding, Outcome, exported, guarded, text

_WITH_PLACE = frozenset({Level.SYSERROR, Level.ERROR, Level.WARN})
"""The levels whose lines have file and line in the plain format; lines in JSON always have them."""

_OPTIONS = {"level": "log_level", "format": "log_format", "nonblock": "log_nonblock", "log": "log"}


class LogBinding(Binding):
    """Python half of lua/modules/log.lua."""

    @exported("log_level")
    def level(self) -> int:
        """Return the number of the highest level that is written."""
        return self.node.log.level

    @exported("log_say")
    def say(self, level: float, place: bytes, message: bytes) -> None:
        """Write one message. `place` is `file:line` or empty."""
        kind = Level(int(level))
        self.node.log.say(kind, text(message), where=self._shown_place(kind, place))

    @exported("log_say_for_module")
    def say_for_module(self, level: float, place: bytes, message: bytes, module: bytes) -> None:
        """Write one message with the name of a module, whatever the level of the log."""
        kind = Level(int(level))
        self.node.log.say_for_module(text(module), kind, text(message), self._shown_place(kind, place))

    def _shown_place(self, level: Level, place: bytes) -> str:
        """Return the place as a line of the log shows it: without folders, which JSON has, and not at every level."""
        if self.node.log.format == "json":
            return text(place)
        return text(place).rpartition("/")[2] if level in _WITH_PLACE else ""

    @exported("log_state")
    def state(self) -> bytes:
        """Return the current `level`, `format`, `nonblock` and `log` as a map."""
        log, config = self.node.log, self.node.config
        return codec.pack(
            {
                "level": log.level,
                "format": log.format,
                "nonblock": log.nonblock,
                "log": config["log"] or log.target or log.path,
            }
        )

    @guarded("log_set")
    def set(self, option: bytes, value: Any) -> Outcome:
        """Change one of the options that `state` returns.

        Raises:
            ConfigError: CFG, the destination was set already.
        """
        name = text(option)
        setting = text(value) if isinstance(value, bytes) else value
        log, config = self.node.log, self.node.config
        if name == "log":
            if log.path is not None or config["log"]:
                raise client_error(ErrorCode.CFG, "log", "can't be set dynamically")
            log.open(setting, self.node.paths.resolve)
        elif name == "level":
            log.level = int(setting)
        elif name == "format":
            log.format = setting
        elif name == "nonblock":
            log.nonblock = bool(setting)
        if config.is_loaded:
            config.values[_OPTIONS[name]] = int(setting) if name == "level" else setting
        return None

    @guarded("log_rotate")
    def rotate(self) -> Outcome:
        """Reopen the log's file."""
        self.node.log.rotate()
        return None

    @exported("log_pid")
    def pid(self) -> int:
        """Return the id of the process behind the log's pipe, or 0 without one."""
        return self.node.log.pid or 0
