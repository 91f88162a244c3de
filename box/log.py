"""The node's log, one line a message in the peer's format:

    2021-04-09 01:57:00.123 [pid] cord/fiber-id/fiber-name [file:line] L> text

`L` is the level's letter. Destinations as in `box.cfg.log`: nothing (stderr), a path or `file:path`,
`pipe:command` or `|command`, `syslog:...`. Source: lines of a running peer.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime
from enum import IntEnum
from typing import Protocol

from box.errors import BoxError, ErrorCode, client_error, system_error

BARE = "bare"
"""The format before `box.cfg`, as in the peer: the text alone."""


class Level(IntEnum):
    """Numbers of `log_level`."""

    FATAL = 0
    SYSERROR = 1
    ERROR = 2
    CRIT = 3
    WARN = 4
    INFO = 5
    VERBOSE = 6
    DEBUG = 7


_LETTERS = "F!ECWIVD"
_LOGGING_LEVELS = (50, 40, 40, 50, 30, 20, 10, 10)
"""Levels of the standard logging module, from which its syslog handler makes priorities."""


def log_level(value: int | str) -> int:
    """The number of `log_level`, which may be given by name."""
    if not isinstance(value, str):
        return int(min(max(value, 0), Level.DEBUG)) if value == value else int(Level.INFO)
    names = {level.name.lower(): int(level) for level in Level}
    if value.lower() not in names:
        raise client_error(ErrorCode.CFG, "log_level", "expected crit,warn,info,debug,syserror,verbose,fatal,error")
    return names[value.lower()]


_FACILITIES = {"kern", "user", "mail", "daemon", "auth", "intern", "lpr", "news", "uucp", "clock", "authpriv", "ftp"}
_FACILITIES |= {"ntp", "audit", "alert", "cron", *(f"local{number}" for number in range(8))}


def _bad_target(reason: str) -> BoxError:
    return client_error(ErrorCode.CFG, "log", reason)


def check_log_target(target: str) -> None:
    """Raise CFG for a value of `log` with an unknown prefix or with wrong options of syslog."""
    kind, colon, rest = target.partition(":")
    if not colon or target.startswith("|") or kind in ("file", "pipe"):
        return
    if kind != "syslog":
        raise _bad_target("expecting a file name or a prefix, such as '|', 'pipe:', 'syslog:'")
    seen: set[str] = set()
    for option in rest.split(",") if rest else ():
        name, equals, value = option.partition("=")
        if not equals or name not in ("identity", "facility", "server"):
            raise _bad_target(f"bad option '{option}'")
        if name in seen:
            raise _bad_target(f"duplicate option '{name}'")
        if name == "facility" and value not in _FACILITIES:
            raise _bad_target(f"bad syslog facility option '{value}'")
        seen.add(name)


class _Sink(Protocol):
    def write(self, line: str, level: Level) -> None: ...

    def reopen(self) -> None: ...

    def close(self) -> None: ...


class _StderrSink:
    def write(self, line: str, level: Level) -> None:
        sys.stderr.write(line)
        sys.stderr.flush()

    def reopen(self) -> None:
        """Standard error is never rotated."""

    def close(self) -> None:
        """Standard error outlives the node."""


class _FileSink:
    """Appends with one `write` a line, so that several processes may share a file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = self._open()

    def _open(self) -> int:
        try:
            return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise system_error(f"can't open log file: {self._path}: {error.strerror}", error.errno or 0) from error

    def write(self, line: str, level: Level) -> None:
        os.write(self._descriptor, line.encode("utf-8", "surrogateescape"))

    def reopen(self) -> None:
        descriptor = self._open()
        os.close(self._descriptor)
        self._descriptor = descriptor

    def close(self) -> None:
        os.close(self._descriptor)


class _PipeSink:
    def __init__(self, command: str) -> None:
        self._process = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, start_new_session=True)
        self.pid = self._process.pid

    def write(self, line: str, level: Level) -> None:
        stream = self._process.stdin
        if stream is None:
            return
        stream.write(line.encode("utf-8", "surrogateescape"))
        stream.flush()

    def reopen(self) -> None:
        """The command behind the pipe rotates its own files."""

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def _raw_record(text: str, level: Level) -> logging.LogRecord:
    return logging.LogRecord("lunabox", _LOGGING_LEVELS[level], "", 0, text.replace("%", "%%"), (), None)


class _SyslogSink:
    def __init__(self, options: str) -> None:
        settings = dict(part.split("=", 1) for part in options.split(",") if "=" in part)
        server = settings.get("server", "/dev/log").removeprefix("unix:")
        address: str | tuple[str, int] = server
        if ":" in server:
            host, port = server.rsplit(":", 1)
            address = (host, int(port))
        facility = logging.handlers.SysLogHandler.facility_names.get(settings.get("facility", "local7"), 23)
        self._identity = settings.get("identity", "tarantool")
        self._handler = logging.handlers.SysLogHandler(address, facility)

    def write(self, line: str, level: Level) -> None:
        text = f"{self._identity}[{os.getpid()}]: {line.rstrip()}"
        self._handler.emit(_raw_record(text, level))

    def reopen(self) -> None:
        """The syslog daemon owns the files."""

    def close(self) -> None:
        self._handler.close()


def _open_sink(target: str | None, resolve: Callable[[str], str]) -> _Sink:
    if not target:
        return _StderrSink()
    if target.startswith("|"):
        return _PipeSink(target[1:].strip())
    kind, _, rest = target.partition(":")
    if kind == "pipe":
        return _PipeSink(rest.strip())
    if kind == "syslog":
        return _SyslogSink(rest)
    return _FileSink(resolve(rest if kind == "file" and rest else target))


class _Speaker(ABC):
    """Has a method for each level; what it says goes through `say`."""

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
    """One instance's log. `fiber` gives `(id, name)` of what runs now; `clock` gives seconds since the epoch."""

    def __init__(self, clock: Callable[[], float], fiber: Callable[[], tuple[int, str]] = lambda: (1, "main")) -> None:
        self._clock = clock
        self._sink: _Sink = _StderrSink()
        self.fiber = fiber
        self.level = int(Level.INFO)
        self.format = "plain"
        self.path: str | None = None

    def open(self, target: str | None, resolve: Callable[[str], str] = str) -> None:
        """Send further lines to `target` (the value of `box.cfg.log`); relative paths go through `resolve`."""
        sink = _open_sink(target, resolve)
        self._sink.close()
        self._sink = sink
        self.path = sink._path if isinstance(sink, _FileSink) else None

    def rotate(self) -> None:
        """Open the file again, after an outside program has moved it."""
        self._sink.reopen()

    def close(self) -> None:
        self._sink.close()
        self._sink = _StderrSink()
        self.path = None

    @property
    def pid(self) -> int | None:
        """The process id of the command behind a pipe, otherwise None."""
        return self._sink.pid if isinstance(self._sink, _PipeSink) else None

    def say(self, level: Level, text: str, *, where: str = "", cord: str = "main", fiber: str | None = None) -> None:
        """Write one message. `fiber` overrides the running fiber's `id/name`.

        What ends the process goes to standard error as well, where whoever started it looks first.
        """
        if level > self.level:
            return
        if self.format == BARE:
            line = f"{text}\n"
        else:
            now = datetime.fromtimestamp(self._clock())
            if fiber is None:
                fiber_id, name = self.fiber()
                fiber = f"{fiber_id}/{name}"
            line = self._line(now, level, text, where, f"{cord}/{fiber}")
        self._sink.write(line, level)
        if level is Level.FATAL and not isinstance(self._sink, _StderrSink):
            sys.stderr.write(line)
            sys.stderr.flush()

    def _line(self, now: datetime, level: Level, text: str, where: str, origin: str) -> str:
        if self.format == "json":
            return self._json_line(now, level, text, where, origin)
        stamp = f"{now:%Y-%m-%d %H:%M:%S}.{now.microsecond // 1000:03d}"
        place = f"{where} " if where else ""
        return f"{stamp} [{os.getpid()}] {origin} {place}{_LETTERS[level]}> {text}\n"

    @staticmethod
    def _json_line(now: datetime, level: Level, text: str, where: str, origin: str) -> str:
        cord, fiber_id, name = origin.split("/", 2)
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
        return json.dumps(record, ensure_ascii=False) + "\n"

    def of_cord(self, origin: str) -> CordLog:
        """The same log for another thread, whose lines begin with `cord/fiber-id/fiber-name`."""
        return CordLog(self, origin)


class CordLog(_Speaker):
    """Says things in the name of a thread other than main."""

    def __init__(self, log: Log, origin: str) -> None:
        self._log = log
        self._cord, _, self._fiber = origin.partition("/")

    def say(self, level: Level, text: str) -> None:
        self._log.say(level, text, cord=self._cord, fiber=self._fiber)
