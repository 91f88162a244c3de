"""Destinations of lines: standard error, a file, a command's input, syslog; see `box.log.channel` for slow readers.

`open_sink` raises Tarantool's error if a destination cannot be opened; after that, nothing raises.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import stat
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Final, TextIO

from box import forks
from box.errors import BoxError, ErrorCode, system_error
from box.log.channel import CAPACITY, Channel
from box.log.level import Level
from box.log.target import FACILITIES, Destination, SyslogOptions, split, syslog_options

_LINE_SIZE: Final = 16 * 1024 - 1
"""The greatest size of a message to syslog, in bytes; Tarantool cuts longer ones, too."""
_ERROR, _WARNING, _INFO, _DEBUG = 3, 4, 6, 7  # syslog's numbers, without `notice` (5), which no level corresponds to
_PRIORITIES: Final = (_ERROR, _ERROR, _ERROR, _ERROR, _WARNING, _INFO, _INFO, _DEBUG)
"""The severities of syslog, by `Level`."""
_PIECE: Final = 512
"""The number of bytes that a terminal or pipe takes without blocking when poll reports that it is writable."""


def _number(error: OSError | ValueError) -> int:
    """Return the errno of an error; EINVAL for errors of Python itself, such as a NUL in a path."""
    return (error.errno if isinstance(error, OSError) else None) or errno.EINVAL


class Sink(ABC):
    """A destination. `lost` counts the lines that it could not take and that were not reported yet."""

    def __init__(self) -> None:
        self.lost = 0

    def stamp(self, now: datetime, level: Level) -> str:
        """Return the beginning of a line in the plain format."""
        return f"{now.isoformat(' ', 'milliseconds')} [{os.getpid()}]"

    @abstractmethod
    def send(self, *lines: bytes) -> int:
        """Send lines, each with a newline at its end. Returns how many are not lost; the caller counts the others."""

    def collect_lost(self) -> int:
        """Return the number of lost lines that were not reported yet, and reset it."""
        return self.lost

    def set_nonblock(self, value: bool | None) -> None:  # noqa: B027 - most have nothing to choose
        """Apply `log_nonblock`: whether lines are dropped at once if a reader is slow; None selects the default."""

    @abstractmethod
    def close(self) -> None: ...


class _ChannelSink(Sink):
    """A sink with one channel. Lines that the channel's thread loses are counted, too."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def send(self, *lines: bytes) -> int:
        """Send all lines as one; returns their number, or 0 if they are lost."""
        return len(lines) if self._channel.send(b"".join(lines)) else 0

    def collect_lost(self) -> int:
        lost, self._channel.lost = self._channel.lost, 0
        self.lost += lost
        return self.lost

    def set_nonblock(self, value: bool | None) -> None:
        self._channel.capacity = 0 if value or value is None else CAPACITY


# --- standard error ---------------------------------------------------------------------------------------------------


class StderrSink(Sink):
    """Descriptor 2, or the object that the program has put in the place of `sys.stderr`.

    A terminal, pipe or socket is shared with other processes, so its flags must not change: lines are written through a
    separate open file description, which does not block.
    """

    def __init__(self) -> None:
        super().__init__()
        self._channel: Channel | None = None
        self._identity: tuple[int, int] | None = None
        self._close: Callable[[], None] = _nothing

    def send(self, *lines: bytes) -> int:
        """Send all lines as one; returns their number, or 0 if they are lost."""
        if sys.stderr is None:
            return 0
        text = b"".join(lines)
        if not _is_descriptor_2(sys.stderr):
            return len(lines) if _send_text(text) else 0
        try:
            return len(lines) if self._current().send(text) else 0
        except OSError:
            return 0

    def _current(self) -> Channel:
        """Return the channel of the file that descriptor 2 is now, because programs redirect it. Raises OSError if it
        is closed.
        """
        status = os.fstat(2)
        identity = (status.st_dev, status.st_ino)
        if self._channel is None or identity != self._identity:
            self.close()
            self._channel, self._close = _open_standard_error(status.st_mode)
            self._identity = identity
        return self._channel

    def collect_lost(self) -> int:
        if self._channel is not None:
            lost, self._channel.lost = self._channel.lost, 0
            self.lost += lost
        return self.lost

    def close(self) -> None:
        """Close the channel. Standard error itself outlives the node."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        close, self._close = self._close, _nothing
        close()


def _nothing() -> None:
    """Do nothing: there is nothing to close."""


def _is_descriptor_2(stream: TextIO) -> bool:
    try:
        return stream.fileno() == 2
    except (OSError, ValueError, AttributeError):
        return False


def _send_text(line: bytes) -> bool:
    try:
        sys.stderr.write(line.decode("utf-8", "replace"))
        sys.stderr.flush()
    except Exception:  # the program may have put any object there
        return False
    return True


def _open_standard_error(mode: int) -> tuple[Channel, Callable[[], None]]:
    """Return a channel to descriptor 2, and a function that closes the channel. Raises OSError."""
    if stat.S_ISSOCK(mode):
        sock = socket.socket(fileno=os.dup(2))
        write = partial(_send_to_socket, sock)
        return Channel(sock.fileno(), write, capacity=CAPACITY), sock.close
    if not (stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and os.isatty(2))):
        return Channel(2, partial(os.write, 2)), _nothing
    try:
        descriptor = os.open("/proc/self/fd/2", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        descriptor = os.dup(2)
        return Channel(descriptor, partial(_write_piece, descriptor), capacity=CAPACITY), partial(os.close, descriptor)
    return Channel(descriptor, partial(os.write, descriptor), capacity=CAPACITY), partial(os.close, descriptor)


def _send_to_socket(sock: socket.socket, data: bytes) -> int:
    return sock.send(data, socket.MSG_DONTWAIT)


def _write_piece(descriptor: int, data: bytes) -> int:
    """Write to a blocking descriptor as much as poll guarantees not to block."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return os.write(descriptor, data[:_PIECE]) if poll.poll(0) else 0


# --- files ------------------------------------------------------------------------------------------------------------


class FileSink(_ChannelSink):
    """Appends each line with one `write`, so that several processes may share a file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._is_closed = False
        self.descriptor = self._open(f"can't open log file: {path}")
        super().__init__(Channel(self.descriptor, partial(os.write, self.descriptor)))
        forks.own(self)

    def leave_to_parent(self) -> None:
        """Drop the waiting lines in a forked child: the parent writes them."""
        if not self._is_closed:
            forks.lead_nowhere(self.descriptor)

    def _open(self, problem: str) -> int:
        try:
            # Users outside of the group may not read a log, as with Tarantool: statements in it may have data.
            return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o640)
        except (OSError, ValueError) as error:
            raise system_error(problem, _number(error)) from error

    def set_nonblock(self, value: bool | None) -> None:
        """Do nothing: a file takes every line."""

    def reopen(self) -> None:
        """Open the file again, after another program has renamed it. If that raises SystemError, the old file stays in
        use.
        """
        descriptor = self._open(f"logrotate can't open {self.path}")
        os.dup2(descriptor, self.descriptor, inheritable=False)
        os.close(descriptor)

    def close(self) -> None:
        self._is_closed = True
        self._channel.close()
        with suppress(OSError):
            os.close(self.descriptor)


# --- a command --------------------------------------------------------------------------------------------------------

_START: Final = 0.2
"""The seconds within which a command that cannot run has failed; a command that works waits for its input by then."""
_LOOK: Final = 0.002
"""The seconds between two looks whether the command has ended, which nothing reports."""
_END: Final = 1.0
"""The seconds that a command has to end after its input has ended, before it is left alone."""


class PipeSink(_ChannelSink):
    """The standard input of a shell command. The command has its own session, so that no terminal's signal ends it."""

    def __init__(self, command: str) -> None:
        try:
            # The command inherits descriptors that a script has left open for it: `|cat >/dev/fd/9`.
            self._process = subprocess.Popen(
                command, shell=True, stdin=subprocess.PIPE, bufsize=0, start_new_session=True, close_fds=False
            )
        except (OSError, ValueError) as error:
            raise system_error("failed to create process", _number(error)) from error
        assert self._process.stdin is not None
        self._input = self._process.stdin
        self.pid = self._process.pid
        if _ends_at_once(self._process):
            self._input.close()
            raise BoxError(ErrorCode.ILLEGAL_PARAMS, "logger process died", type="IllegalParams")
        self.descriptor = self._input.fileno()
        os.set_blocking(self.descriptor, False)
        super().__init__(Channel(self.descriptor, partial(os.write, self.descriptor)))

    def close(self) -> None:
        """Give the command a moment to read the rest and to end; after that it goes on alone, as with Tarantool."""
        self._channel.close()
        with suppress(OSError):
            self._input.close()
        try:
            self._process.wait(_END)
        except subprocess.TimeoutExpired:
            threading.Thread(target=self._process.wait, name="log", daemon=True).start()


def _ends_at_once(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a command that was just started fails at once, for instance because it is missing."""
    deadline = time.monotonic() + _START
    sleeps = 0
    while process.poll() is None and sleeps < 2 and time.monotonic() < deadline:
        time.sleep(_LOOK)
        sleeps = sleeps + 1 if _is_asleep(process.pid) else 0
    return process.poll() is not None


def _is_asleep(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            status = file.read()
    except OSError:
        return False
    return status.rpartition(b") ")[2][:1] == b"S"


# --- syslog -----------------------------------------------------------------------------------------------------------

Address = str | tuple[str, int]


class SyslogSink(_ChannelSink):
    """Sends datagrams to a syslog daemon, over a unix socket or UDP. It reconnects to a daemon that was restarted."""

    def __init__(self, options: SyslogOptions) -> None:
        self._identity = options.identity
        self._facility = FACILITIES.index(options.facility) << 3
        self._socket, self._address = _connect_first(_addresses(options))
        super().__init__(Channel(self._socket.fileno(), self._write))

    def stamp(self, now: datetime, level: Level) -> str:
        """Return the beginning of a line by RFC 3164, in which the day is padded with a space."""
        priority = self._facility | _PRIORITIES[level]
        return f"<{priority}>{now:%b} {now.day:2} {now:%H:%M:%S} {self._identity}[{os.getpid()}]:"

    def send(self, *lines: bytes) -> int:
        """Send each line as a separate message. Returns how many are not lost."""
        taken = 0
        while taken < len(lines) and self._channel.send(lines[taken]):
            taken += 1
        return taken

    def _write(self, data: bytes) -> int:
        try:
            self._socket.send(data[:_LINE_SIZE])
        except BlockingIOError:
            raise
        except OSError:
            self._connect_again()
            self._socket.send(data[:_LINE_SIZE])
        return len(data)

    def _connect_again(self) -> None:
        """Connect again under the same descriptor number, because the channel's thread may be polling it."""
        sock = _connect(self._address)
        try:
            os.dup2(sock.fileno(), self._socket.fileno(), inheritable=False)
        finally:
            sock.close()

    def close(self) -> None:
        self._channel.close()
        self._socket.close()


def _addresses(options: SyslogOptions) -> list[Address]:
    """Return the possible addresses of the daemon. Raises SystemError if the host is unknown."""
    if options.unix_path is not None:
        return [options.unix_path]
    if options.host is None:
        return ["/dev/log", "/var/run/syslog"]
    try:
        found = socket.getaddrinfo(options.host, options.port, socket.AF_INET, socket.SOCK_DGRAM)
    except (OSError, ValueError) as error:
        why = f"getaddrinfo: {getattr(error, 'strerror', None) or error}"
        raise _no_syslog(errno.EIO) from system_error(why, errno.EIO)
    return [(str(address[4][0]), int(address[4][1])) for address in found]


def _connect_first(addresses: Iterable[Address]) -> tuple[socket.socket, Address]:
    number, is_remote = 0, False
    for address in addresses:
        try:
            return _connect(address), address
        except (OSError, ValueError) as error:
            number, is_remote = _number(error), not isinstance(address, str)
    raise _no_syslog(number) from system_error("connect" if is_remote else os.strerror(number), number)


def _connect(address: Address) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.connect(address)
    except BaseException:
        sock.close()
        raise
    return sock


def _no_syslog(number: int) -> BoxError:
    """Make the error of a daemon that is not there. Its cause is the error of the call that failed."""
    return system_error(f"syslog logger: {os.strerror(number)}", number)


def open_sink(target: str | None, resolve: Callable[[str], str]) -> Sink:
    """Open the sink for a value of `box.cfg.log`.

    Raises:
        BoxError: CFG, SystemError or IllegalParams.
    """
    kind, rest = split(target)
    match kind:
        case Destination.FILE:
            return FileSink(resolve(rest))
        case Destination.PIPE:
            return PipeSink(rest)
        case Destination.SYSLOG:
            return SyslogSink(syslog_options(rest))
    return StderrSink()
