"""Messages, as lines in Tarantool's format:

    2021-04-09 01:57:00.123 [pid] cord/fiber-id/fiber-name [file:line] L> text

`L` is the level's letter. Source: lines of a running Tarantool.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from box.errors import BoxError
from box.log.level import LETTERS, Level
from box.log.sinks import FileSink, PipeSink, Sink, StderrSink, SyslogSink, open_sink

BARE = "bare"
"""The format before `box.cfg`, as in Tarantool: only the text."""


_FIRST_FIBER = "101/main"
"""Tarantool's id and name of the only fiber of a thread."""


class _Speaker(ABC):
    """The base of logs: it has a method for each level, which calls `say`."""

    @abstractmethod
    def say(self, level: Level, text: str) -> None: ...

    def error(self, text: str) -> None:
        self.say(Level.ERROR, text)

    def crit(self, text: str) -> None:
        self.say(Level.CRIT, text)

    def warn(self, text: str) -> None:
        self.say(Level.WARN, text)

    def info(self, text: str) -> None:
        self.say(Level.INFO, text)

    def verbose(self, text: str) -> None:
        self.say(Level.VERBOSE, text)

    def debug(self, text: str) -> None:
        self.say(Level.DEBUG, text)


class Log(_Speaker):
    """The log of one instance. `fiber` returns `(id, name)` of the running fiber; `clock` returns seconds since the
    epoch.

    `fiber` is called only in the thread that has made the log; lines of other threads show the thread's name. Any
    thread may log messages. Logging never raises: a line that cannot be written is counted, and the next line that can
    be written is preceded by a line with the number of missing ones.
    """

    def __init__(self, clock: Callable[[], float], fiber: Callable[[], tuple[int, str]] = lambda: (1, "main")) -> None:
        self._clock = clock
        self._stderr = StderrSink()
        self._sink: Sink = self._stderr
        self._lock = threading.RLock()
        self._thread = threading.get_ident()
        self.fiber = fiber
        self.level = int(Level.INFO)
        self.format = "plain"
        self.forward: Callable[[Level, str], None] | None = None
        """Takes messages in place of standard error; set by a program that embeds the instance."""
        self.open_sink = open_sink
        """Opens the sink of a destination; a simulated process has no destinations."""
        self._nonblock: bool | None = None
        self.target: str | None = None
        """The destination that was opened last, as it was named."""

    # --- destinations -------------------------------------------------------------------------------------------------

    def open(self, target: str | None, resolve: Callable[[str], str] = str) -> None:
        """Write further lines to `target` (the value of `box.cfg.log`); `resolve` converts relative paths.

        Raises:
            BoxError: CFG, SystemError or IllegalParams, the destination cannot be opened.
        """
        sink = self.open_sink(target, resolve)
        sink.set_nonblock(self._nonblock)
        if isinstance(sink, PipeSink | SyslogSink):
            kind = "pipe" if isinstance(sink, PipeSink) else "syslog"
            self.info(f"started logging into a {kind}, SIGHUP log rotation disabled")
        self.target = target
        self._replace(sink)

    def send_to(self, sink: Sink) -> None:
        """Write further lines to a sink that the caller supplies."""
        self._replace(sink)

    @property
    def nonblock(self) -> bool | None:
        """Apply `log_nonblock`: drop lines at once if the reader of a command or syslog is slow. None means True for
        them.

        With False, one mebibyte of lines waits for the reader before further lines are dropped.
        """
        return self._nonblock

    @nonblock.setter
    def nonblock(self, value: bool | None) -> None:
        self._nonblock = value
        self._sink.set_nonblock(value)

    def rotate(self) -> None:
        """Open the file again, after another program has renamed it. If that fails, the message goes to the old
        file.
        """
        if not isinstance(self._sink, FileSink):
            return
        try:
            with self._lock:
                self._sink.reopen()
        except BoxError as error:
            self.error(error.log_text)
        else:
            self.say(Level.INFO, "log file has been reopened", cord="coio", fiber="")

    def close(self) -> None:
        """Write waiting lines as far as possible and close; later messages go to standard error."""
        self.target = None
        self._replace(self._stderr)
        with self._lock:
            self._stderr.close()

    def _replace(self, sink: Sink) -> None:
        with self._lock:
            former, self._sink = self._sink, sink
        if former is not sink:
            former.close()

    @property
    def path(self) -> str | None:
        """The path of the log file, or None for other destinations."""
        return self._sink.path if isinstance(self._sink, FileSink) else None

    @property
    def descriptor(self) -> int | None:
        """The descriptor of the file, or of the command behind a pipe; None for other destinations."""
        return self._sink.descriptor if isinstance(self._sink, FileSink | PipeSink) else None

    @property
    def pid(self) -> int | None:
        """The process id of the command behind a pipe, otherwise None."""
        return self._sink.pid if isinstance(self._sink, PipeSink) else None

    # --- lines --------------------------------------------------------------------------------------------------------

    def say(self, level: Level, text: str, *, where: str = "", cord: str = "main", fiber: str | None = None) -> None:
        """Write one message. `fiber` replaces the `id/name` of the running fiber; an empty one is no fiber.

        A message that ends the process is written to standard error as well, because the user looks there first.
        """
        if level <= self.level:
            self._write(level, text, where, cord, fiber)

    def say_for_module(self, module: str, level: Level, text: str, where: str) -> None:
        """Write one message of a Lua module, which the caller has found important enough."""
        self._write(level, text, where, "main", None, module)

    def _write(
        self, level: Level, text: str, where: str, cord: str, fiber: str | None, module: str | None = None
    ) -> None:
        if self.forward is not None and isinstance(self._sink, StderrSink):
            with suppress(Exception):
                self.forward(level, text)
                return
        line = self._line(level, text, where, cord, fiber, module)
        with self._lock:
            sink = self._sink
            lost = sink.collect_lost()
            lines = (line,) if not lost else (self._loss(lost, cord, fiber), line)
            taken = sink.send(*lines)
            if lost and taken:
                sink.lost -= lost
            if taken < len(lines):
                sink.lost += 1
            if level is Level.FATAL and sink is not self._stderr:
                self._stderr.send(line)

    def _loss(self, count: int, cord: str, fiber: str | None) -> bytes:
        """Return the line that reports how many lines before it are missing."""
        text = f"{count} line{'s' if count > 1 else ''} lost: the log could not be written"
        return self._line(Level.WARN, text, "", cord, fiber)

    def _line(
        self, level: Level, text: str, where: str, cord: str, fiber: str | None, module: str | None = None
    ) -> bytes:
        """Return the whole line; if the clock or the name of the fiber fails, the text alone, because losing it would
        be worse.
        """
        line = text
        try:
            if self.format != BARE:
                line = self._format(level, text, where, cord, fiber, module)
        except Exception as error:
            line = f"{text} ({error!r} while this was logged)"
        try:
            return f"{line}\n".encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return f"{line}\n".encode("utf-8", "backslashreplace")

    def _format(self, level: Level, text: str, where: str, cord: str, fiber: str | None, module: str | None) -> str:
        now = datetime.fromtimestamp(self._clock())
        if fiber is None and threading.get_ident() != self._thread:
            cord, fiber = threading.current_thread().name, _FIRST_FIBER
        elif fiber is None:
            fiber_id, name = self.fiber()
            fiber = f"{fiber_id}/{name}"
        origin = f"{cord}/{fiber}" if fiber else cord
        if self.format == "json" and not isinstance(self._sink, SyslogSink):
            return self._json(now, level, text, where, origin, module)
        if module is not None:
            origin += f"/{module}"
        place = f"{where} " if where else ""
        return f"{self._sink.stamp(now, level)} {origin} {place}{LETTERS[level]}> {text}"

    @staticmethod
    def _json(now: datetime, level: Level, text: str, where: str, origin: str, module: str | None) -> str:
        cord, fiber_id, name = (*origin.split("/", 2), "0", "")[:3]
        record: dict[str, object] = {
            "time": f"{now.astimezone():%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03d}{now.astimezone():%z}",
            "level": level.name,
            "message": text,
            "pid": os.getpid(),
            "cord_name": cord,
            "fiber_id": int(fiber_id),
            "fiber_name": name,
        }
        if where:
            file, _, line = where.rpartition(":")
            record |= {"file": file, "line": int(line) if line.isdigit() else 0}
        if module is not None:
            record["module"] = module
        import json  # few logs are in JSON, and the module takes long to load

        # Tarantool escapes the slash, and writes a space after the number of the process.
        line = json.dumps(record, ensure_ascii=False).replace("/", "\\/")
        return line.replace(f'"pid": {record["pid"]},', f'"pid": {record["pid"]} ,', 1)

    def of_cord(self, origin: str) -> CordLog:
        """Return the same log for another thread, whose lines begin with `cord/fiber-id/fiber-name`."""
        return CordLog(self, origin)


class CordLog(_Speaker):
    """Logs messages under the name of a thread other than main."""

    def __init__(self, log: Log, origin: str) -> None:
        self._log = log
        self._cord, _, self._fiber = origin.partition("/")

    def say(self, level: Level, text: str) -> None:
        self._log.say(level, text, cord=self._cord, fiber=self._fiber)
