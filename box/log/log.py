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
from typing import NamedTuple

from box.errors import BoxError
from box.log.level import LETTERS, Level
from box.log.sinks import FileSink, PipeSink, Sink, StderrSink, SyslogSink, open_sink

BARE = "bare"
"""The format before `box.cfg`, as in Tarantool: only the text."""


_FIRST_FIBER = "101/main"
"""Tarantool's id and name of the only fiber of a thread."""


class LogMessage(NamedTuple):
    """A message. `where` is `file:line` or empty, `fiber` is `id/name`: an empty one is no fiber, None the running one.

    `detail` says more of an error: it follows the text, or is a field of its own in JSON. `fields` are members of a
    record in JSON that replace the text there.
    """

    level: Level
    text: str
    where: str = ""
    cord: str = "main"
    fiber: str | None = None
    module: str | None = None
    detail: str = ""
    fields: str | None = None

    @property
    def whole(self) -> str:
        """The text with its detail. It ends at a NUL, as texts of C do."""
        text = f"{self.text}: {self.detail}" if self.detail else self.text
        return text if "\0" not in text else text.partition("\0")[0]


class _Speaker(ABC):
    """The base of logs: it has a method for each level, which calls `say`."""

    @abstractmethod
    def say(self, level: Level, text: str) -> None: ...

    @abstractmethod
    def problem(self, error: BoxError) -> None:
        """Write an error, with the place where it was raised."""

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
    """The log of one instance. `fiber` returns `(id, name)` of the running fiber, or None; `clock` returns seconds
    since the epoch.

    `fiber` is called only in the thread that has made the log; lines of other threads show the thread's name. Any
    thread may log messages. Logging never raises: a line that cannot be written is counted, and the next line that can
    be written is preceded by a line with the number of missing ones.
    """

    def __init__(self, clock: Callable[[], float], fiber: Callable[[], tuple[int, str] | None] = lambda: None) -> None:
        self._clock = clock
        self._stderr = StderrSink()
        self._sink: Sink = self._stderr
        self._lock = threading.RLock()
        self._thread = threading.get_ident()
        self.fiber = fiber
        self.level = int(Level.INFO)
        self.format = "plain"
        self.system_fibers: dict[str, int] = {}
        """The ids of the node's own fibers by their names."""
        self.take_number: Callable[[], int] | None = None
        """Returns the id of a new fiber of the node's own."""
        self.forward: Callable[[Level, str], None] | None = None
        """Takes messages in place of standard error; set by a program that embeds the instance."""
        self.open_sink = open_sink
        """Opens the sink of a destination; a simulated process has no destinations."""
        self._nonblock: bool | None = None
        self.is_open = False
        """True once `log.cfg` or a start has decided where the lines go."""
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
            self.problem(error)
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
            self.write(LogMessage(level, text, where, cord, fiber))

    def problem(self, error: BoxError, *, cord: str = "main", fiber: str | None = None) -> None:
        level = Level.SYSERROR if error.is_system else Level.ERROR
        if level <= self.level:
            text, detail = error.log_parts
            where = f"{error.file}:{error.line}" if error.file else ""
            self.write(LogMessage(level, text, where, cord, fiber, detail=detail))

    def write(self, message: LogMessage) -> None:
        """Write one message, whatever the level of the log is."""
        if self.forward is not None and isinstance(self._sink, StderrSink):
            with suppress(Exception):
                self.forward(message.level, message.whole)
                return
        line = self._line(message)
        with self._lock:
            sink = self._sink
            lost = sink.collect_lost()
            lines = (line,) if not lost else (self._loss(lost, message), line)
            taken = sink.send(*lines)
            if lost and taken:
                sink.lost -= lost
            if taken < len(lines):
                sink.lost += 1
            if message.level is Level.FATAL and not isinstance(sink, StderrSink):
                self._stderr.send(line)

    def _loss(self, count: int, before: LogMessage) -> bytes:
        """Return the line that reports how many lines before this message are missing."""
        text = f"{count} line{'s' if count > 1 else ''} lost: the log could not be written"
        return self._line(LogMessage(Level.WARN, text, cord=before.cord, fiber=before.fiber))

    def _line(self, message: LogMessage) -> bytes:
        """Return the whole line; if the clock or the name of the fiber fails, the text alone, because losing it would
        be worse.
        """
        line = message.whole
        try:
            if self.format != BARE:
                line = self._format(message)
        except Exception as error:
            line = f"{message.whole} ({error!r} while this was logged)"
        try:
            return f"{line}\n".encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return f"{line}\n".encode("utf-8", "backslashreplace")

    def _format(self, message: LogMessage) -> str:
        now = datetime.fromtimestamp(self._clock())
        cord, fiber = message.cord, message.fiber
        if fiber is None and threading.get_ident() != self._thread:
            cord, fiber = threading.current_thread().name, _FIRST_FIBER
        elif fiber is None:
            running = self.fiber()
            fiber = "" if running is None else f"{running[0]}/{running[1]}"
        origin = f"{cord}/{fiber}" if fiber else cord
        if self.format == "json" and not isinstance(self._sink, SyslogSink):
            return self._json(now, message, origin)
        if message.module is not None:
            origin += f"/{message.module}"
        place = message.where.rpartition("/")[2] + " " if message.where else ""
        return f"{self._sink.stamp(now, message.level)} {origin} {place}{LETTERS[message.level]}> {message.whole}"

    @staticmethod
    def _json(now: datetime, message: LogMessage, origin: str) -> str:
        import json  # few logs are in JSON, and the module takes long to load

        def shown(value: object) -> str:
            # Tarantool escapes the slash.
            return json.dumps(value, ensure_ascii=False).replace("/", "\\/")

        text = message.text.partition("\0")[0]
        time = f"{now.astimezone():%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03d}{now.astimezone():%z}"
        record = [f'"time": "{time}"', f'"level": "{message.level.name}"']
        record.append(f'"message": {shown(text)}' if message.fields is None else message.fields)
        if message.detail:
            record.append(f'"error": {shown(message.detail.partition(chr(0))[0])}')
        record.append(f'"pid": {os.getpid()} ')  # Tarantool writes the space
        cord, *fiber = origin.split("/", 2)
        record.append(f'"cord_name": {shown(cord)}')
        if fiber:
            record += [f'"fiber_id": {int(fiber[0])}', f'"fiber_name": {shown(fiber[1])}']
        if message.where:
            file, _, line = message.where.rpartition(":")
            record += [f'"file": {shown(file)}', f'"line": {int(line) if line.removeprefix("-").isdigit() else 0}']
        if message.module is not None:
            record.append(f'"module": {shown(message.module)}')
        return f"{{{', '.join(record)}}}"

    def system_fiber(self, name: str) -> tuple[int, str]:
        """Return the id and the name of a fiber of the node's own; those without a number have 1."""
        return self.system_fibers.get(name, 1), name

    def add_fiber(self, name: str) -> None:
        """Give a fiber of the node's own, which begins now, an id."""
        if self.take_number is not None:
            self.system_fibers[name] = self.take_number()

    def of_fiber(self, name: str) -> FiberLog:
        """Return the same log for a fiber of the node's own, whoever calls it."""
        return FiberLog(self, name)

    def of_cord(self, origin: str) -> CordLog:
        """Return the same log for another thread, whose lines begin with `cord/fiber-id/fiber-name`."""
        return CordLog(self, origin)


class _OtherLog(_Speaker):
    """The base of logs whose lines name another origin than the caller."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def of_cord(self, origin: str) -> CordLog:
        return self._log.of_cord(origin)

    def of_fiber(self, name: str) -> FiberLog:
        return self._log.of_fiber(name)


class CordLog(_OtherLog):
    """Logs messages under the name of a thread other than main."""

    def __init__(self, log: Log, origin: str) -> None:
        super().__init__(log)
        self._cord, _, self._fiber = origin.partition("/")

    def say(self, level: Level, text: str) -> None:
        self._log.say(level, text, cord=self._cord, fiber=self._fiber)

    def problem(self, error: BoxError) -> None:
        self._log.problem(error, cord=self._cord, fiber=self._fiber)


class FiberLog(_OtherLog):
    """Logs messages under the name of one of the node's own fibers."""

    def __init__(self, log: Log, name: str) -> None:
        super().__init__(log)
        self._name = name

    def say(self, level: Level, text: str) -> None:
        self._log.say(level, text, fiber=self._fiber)

    def problem(self, error: BoxError) -> None:
        self._log.problem(error, fiber=self._fiber)

    @property
    def _fiber(self) -> str:
        number, name = self._log.system_fiber(self._name)
        return f"{number}/{name}"
