"""Prepares the process before a start touches any file: working directory, user, pid file, log."""

from __future__ import annotations

import os
from collections.abc import Callable

from box.errors import BoxError, system_error, unsupported
from box.instance.pidfile import PidFile
from box.instance.privileges import become
from box.instance.resources import Resources
from box.log import Level, Log, log_level
from box.wire.tarantool_version import PACKAGE_VERSION


class ProcessSetup:
    """The preparation of the process: `enter` before each start, `leave` at its end."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self.enter_directory: Callable[[str], None] | None = None
        """Makes `work_dir` the current directory. Set only if the process belongs to this instance alone."""
        self.check_option: Callable[[str], None] | None = None
        """Called with `pid_file` and with `username` if they are set; it may raise an error."""
        self.detach: Callable[[int | None], None] | None = None
        """Moves the process into the background, with a descriptor for its standard output and error. Set as above."""
        self.is_entered = False
        """True once the process is prepared."""
        self._pid_file: PidFile | None = None
        self._opens_log = False

    def enter(self) -> None:
        """Prepare the process.

        Raises:
            BoxSystemError: `work_dir` is missing, `username` is unknown, `pid_file` belongs to a running instance, or
                `log`
                cannot be opened.
        """
        resources = self._resources
        self.is_entered = self._opens_log = False
        if self.check_option is not None:
            for name in ("pid_file", "username"):
                if resources.config[name]:
                    self.check_option(name)
        self._enter_work_dir()
        if resources.config["username"]:
            become(resources.config["username"], resources.log)
        self._check_background()
        self._take_pid_file()
        self._open_log()
        self._go_into_background()
        resources.log.crit(f"Tarantool {PACKAGE_VERSION}")
        level = resources.config["log_level"]
        resources.log.crit(f"log level {resources.log.level if isinstance(level, str) else int(level)}")
        self._write_pid_file()
        self.is_entered = True

    def explain(self, error: BoxError) -> None:
        """Log why `enter` has failed. There is no log yet, so these lines go to standard error."""
        log = self._resources.log
        if self._opens_log:
            explain_log(log, error)
        else:
            log.say(Level.FATAL, error.message + (f": {os.strerror(error.errno)}" if error.errno else ""))

    def _check_background(self) -> None:
        config = self._resources.config
        if not config["background"]:
            return
        if self.detach is None:
            raise unsupported("A node inside a program", "background mode")
        for name in ("log", "pid_file"):
            if not config[name]:
                raise system_error(f"'background' requires '{name}' configuration option to be set", 0)

    def _go_into_background(self) -> None:
        if self._resources.config["background"] and self.detach is not None:
            self.detach(self._resources.log.descriptor)

    def _enter_work_dir(self) -> None:
        work_dir = self._resources.config["work_dir"]
        if not work_dir:
            return
        try:
            self._resources.disk.names(work_dir)
            if self.enter_directory is not None:
                self.enter_directory(self._resources.paths.resolve(""))
        except OSError as error:
            raise system_error(f"can't chdir to `{work_dir}'", error.errno or 0) from error

    def _take_pid_file(self) -> None:
        """Lock the pid file before the log is opened, so that an error goes to standard error. It is written later."""
        path = self._resources.config["pid_file"]
        if path:
            self._pid_file = PidFile(self._resources.paths.absolute(path))

    def _write_pid_file(self) -> None:
        """Write the number of the process. As in Tarantool, a full disk does not stop the start."""
        if self._pid_file is None:
            return
        try:
            self._pid_file.write()
        except BoxError as error:
            self._resources.log.say(Level.SYSERROR, f"{error.message}: {os.strerror(error.errno or 0)}")

    def _open_log(self) -> None:
        log, config = self._resources.log, self._resources.config
        log.level = log_level(config["log_level"])
        log.nonblock = config["log_nonblock"]
        if config["log"] and config["log"] != log.target:
            self._opens_log = True
            log.open(config["log"], self._resources.paths.absolute)
            self._opens_log = False
        log.is_open = True
        log.format = config["log_format"]

    def leave(self) -> None:
        """Release the pid file after a failed start or the end of the instance. The log stays open."""
        if self._pid_file is not None:
            self._pid_file.remove()
            self._pid_file = None


def explain_log(log: Log, error: BoxError) -> None:
    """Log why the log's destination cannot be opened, to where it writes so far."""
    if isinstance(error.__cause__, BoxError):
        log.problem(error.__cause__)
    log.problem(error)
    log.say(Level.FATAL, "failed to initialize logging subsystem")
