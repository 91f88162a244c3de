"""A directory with the log files of one kind, ordered by the vclock that each file begins with.

A file is named after the signature of that vclock, in 20 digits, with the kind's extension. The vclocks of the files of
one kind form a chain: no two are concurrent.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from box.errors import BoxError, ErrorCode, client_error
from box.journal.storage import INPROGRESS, Storage, failed
from box.journal.xlog import META_SIZE_MAX, Meta
from box.journal.xlog_errors import XlogError
from box.wire.vclock import VClock

_MAX_DIGITS: Final = 20
"""The greatest number of digits of a signature in a file name."""


class Logger(Protocol):
    """The part of the node's log that the journal uses."""

    def problem(self, error: BoxError) -> None: ...

    def error(self, text: str) -> None: ...

    def crit(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...

    def info(self, text: str) -> None: ...

    def of_cord(self, origin: str) -> Logger: ...


class SilentLog:
    """A log that drops everything, for readers outside a node."""

    def problem(self, error: BoxError) -> None: ...

    def error(self, text: str) -> None: ...

    def crit(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...

    def info(self, text: str) -> None: ...

    def of_cord(self, origin: str) -> SilentLog:
        return self


class LogKind(Enum):
    """The kinds of log files: the type in the meta and the extension of the name."""

    XLOG = ".xlog"
    SNAP = ".snap"


class LogFile(NamedTuple):
    """A file of a log directory."""

    path: str
    meta: Meta

    @property
    def vclock(self) -> VClock:
        return self.meta.vclock

    @property
    def signature(self) -> int:
        return self.meta.vclock.signature

    def follows(self, before: LogFile) -> bool:
        """True if no file is missing between `before` and this one."""
        previous = self.meta.prev_vclock
        return previous is None or previous == before.vclock


def read_meta(storage: Storage, path: str) -> Meta:
    """Read the meta of a file.

    Raises:
        BoxSystemError: the file cannot be read.
        XlogError: its content is wrong.
    """
    try:
        file = storage.open(path)
        try:
            found = Meta.decode(file.read(0, META_SIZE_MAX))
        finally:
            file.close()
    except OSError as error:
        raise failed(f"failed to open '{path}' file", error) from error
    if found is None:
        raise XlogError("Unexpected end of file, run with 'force_recovery = true'")
    return found[0]


class LogDirectory:
    """The log files of one directory and kind; `scan` fills `files`, sorted by vclock.

    With `instance_uuid`, files of other instances are errors.
    """

    def __init__(
        self,
        storage: Storage,
        path: str,
        kind: LogKind,
        *,
        instance_uuid: UUID | None = None,
        force_recovery: bool = False,
        log: Logger | None = None,
    ) -> None:
        self.storage = storage
        self.path = path
        self.kind = kind
        self.instance_uuid = instance_uuid
        self.force_recovery = force_recovery
        self.files: list[LogFile] = []
        self._log = log or SilentLog()

    def filename(self, signature: int) -> str:
        """Return the path of the file with this signature."""
        return f"{self.path}/{signature:020d}{self.kind.value}"

    def check(self) -> list[str]:
        """List the names in the directory.

        Raises:
            BoxSystemError: the directory is missing or unreadable.
        """
        try:
            return self.storage.names(self.path)
        except OSError as error:
            raise failed(f"error reading directory '{self.path}'", error) from error

    def scan(self) -> None:
        """Look for new and removed files. With `force_recovery` a wrong file is logged and ignored.

        Raises:
            BoxSystemError: a file or the directory cannot be read.
            XlogError: the content of a file is wrong.
            ClientError: INVALID_XLOG_TYPE, a file is of another kind.
        """
        known = {file.signature: file for file in self.files}
        files: list[LogFile] = []
        for signature in sorted(self._signatures()):
            try:
                files.append(known.get(signature) or self._index(signature, files))
            except BoxError as error:
                if not self.force_recovery:
                    raise
                self._log.problem(error)
        self.files = files

    def sync(self) -> None:
        """Make the files and their names durable. Repeating it costs next to nothing.

        Raises:
            BoxSystemError: the disk refuses.
        """
        for known in self.files:
            try:
                file = self.storage.append(known.path)
                try:
                    file.sync()
                finally:
                    file.close()
            except OSError as error:
                raise failed(f"{known.path}: fsync() failed", error) from error
        self.sync_names()

    def sync_names(self) -> None:
        """Make the creation, renaming and removal of files durable.

        Raises:
            BoxSystemError: the disk refuses.
        """
        try:
            self.storage.sync_directory(self.path)
        except OSError as error:
            raise failed(f"{self.path}: fsync() failed", error) from error

    def _signatures(self) -> set[int]:
        found = set()
        for name in self.check():
            if not name.endswith(self.kind.value):
                continue
            digits = name.removesuffix(self.kind.value)
            if len(digits) <= _MAX_DIGITS and digits.isascii() and digits.isdigit():
                found.add(int(digits))
            else:
                self._log.warn(f"can't parse `{name}', skipping")
        return found

    def _index(self, signature: int, before: list[LogFile]) -> LogFile:
        path = self.filename(signature)
        meta = read_meta(self.storage, path)
        if meta.file_type != self.kind.name:
            raise client_error(ErrorCode.INVALID_XLOG_TYPE, self.kind.name, meta.file_type)
        if self.instance_uuid is not None and meta.instance_uuid != self.instance_uuid:
            raise XlogError(f"{path}: invalid instance UUID")
        if meta.vclock.signature != signature:
            raise XlogError(f"{path}: signature check failed")
        if before and not meta.vclock.covers(before[-1].vclock):
            raise XlogError(f"{path}: invalid xlog order")
        return LogFile(path, meta)

    def add(self, file: LogFile) -> None:
        """Add a file that was written just now."""
        self.files.append(file)

    def match(self, vclock: VClock) -> LogFile | None:
        """Return the file that may hold the first row after `vclock`: the last one that does not begin after it, or
        the first one if all do.
        """
        for file in reversed(self.files):
            if vclock.covers(file.vclock):
                return file
        return self.files[0] if self.files else None

    def after(self, file: LogFile) -> LogFile | None:
        """Return the file after this one, or None."""
        signature = file.signature
        return next((other for other in self.files if other.signature > signature), None)

    def first_of_last_chain(self) -> LogFile:
        """Return the first file of the newest unbroken chain, after which no file is missing.

        Raises:
            IndexError: the directory has no files.
        """
        files = self.files
        breaks = (place for place in range(len(files) - 1, 0, -1) if not files[place].follows(files[place - 1]))
        return files[next(breaks, 0)]

    def remove_before(self, signature: int, log: Logger, *, limit: int | None = None) -> int:
        """Remove files with a smaller signature, the oldest first and at most `limit`. Returns the number removed."""
        removed = 0
        while self.files and self.files[0].signature < signature and removed != limit:
            file = self.files.pop(0)
            removed += 1
            try:
                self.storage.remove(file.path)
                log.info(f"removed {file.path}")
            except FileNotFoundError:
                pass
            except OSError as error:
                log.error(f"error while removing {file.path}: {error.strerror}")
        return removed

    def remove_inprogress(self) -> None:
        """Remove temporary files that an interrupted writer left."""
        try:
            names = self.storage.names(self.path)
        except FileNotFoundError:
            return
        except OSError as error:
            self._log.error(f"error reading directory '{self.path}': {error.strerror}")
            return
        for name in names:
            if not name.endswith(self.kind.value + INPROGRESS):
                continue
            path = f"{self.path}/{name}"
            try:
                self.storage.remove(path)
                self._log.info(f"removed {path}")
            except OSError as error:
                self._log.error(f"error while removing {path}: {error.strerror}")
