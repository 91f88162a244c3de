"""A node that only reads: it takes the newest snapshot of a directory and the log behind it, and writes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable

from box.embed.embedded_node import Node
from box.embed.lua_instance import LuaInstance
from box.embed.node_options import NodeOptions
from box.errors import BoxError, ErrorCode
from box.instance.node import Instance
from box.journal.directory import LogDirectory, LogKind
from box.journal.read_only_storage import ReadOnlyStorage
from box.journal.xlog_errors import XlogError
from box.log import Level

_SUFFIX = ".snap"


class FilesNode(Node):
    """A node over the files in `path`, which is a directory or one snapshot. `log` is the log's directory if that is
    another one.

    Another process may run a node on the directory at the same time: this node has the data that was in the log when it
    started. Changes raise READONLY. With `skips_corrupt` broken parts are skipped, and `warn` is called with a message
    for each.

    Raises:
        BoxError: MISSING_SNAPSHOT, there is no snapshot; SYSTEM, the directory cannot be read (at the start).
        XlogError: a file is broken (at the start).
    """

    def __init__(
        self,
        path: str,
        *,
        log: str | None = None,
        warn: Callable[[str], None] | None = None,
        skips_corrupt: bool = False,
    ) -> None:
        options: NodeOptions = {
            "read_only": True,
            "replication_anon": True,
            "wal_mode": "none",
            "checkpoint_interval": 0,
            # Without tuple versions, tuples that no quorum has confirmed would be visible.
            "memtx_use_mvcc_engine": True,
            "force_recovery": skips_corrupt,
        }
        if log is not None:
            options["wal_dir"] = os.path.abspath(log)
        super().__init__(None, **options)
        self._path = path
        self._warn = warn if skips_corrupt else None

    async def start(self) -> None:
        self._storage = self._files()
        try:
            snapshots = LogDirectory(self._storage, ".", LogKind.SNAP, force_recovery=True)
            snapshots.scan()
        except BoxError as error:
            raise self._with_directory(error) from None
        if not snapshots.files:
            raise BoxError(ErrorCode.MISSING_SNAPSHOT, self._why_nothing())
        await super().start()

    def _why_nothing(self) -> str:
        if any(name.endswith(_SUFFIX) for name in self._storage.names(".")):
            return f"No snapshot in {self._path} can be read"
        if self._is_file:
            return f"There is no snapshot {self._path}"
        return f"There is no snapshot in {self._path}: run box.snapshot() on its node first"

    def _with_directory(self, error: BoxError) -> BoxError:
        """Return an error that names the path as the user gave it, with the system's reason."""
        if error.type == "XlogError":
            return XlogError(self._with_path(error.message))
        if error.type != "SystemError":
            return error
        text = error.message.replace("directory '.'", f"directory '{self._root}'").replace("'./", f"'{self._root}/")
        reason = f": {os.strerror(error.errno)}" if error.errno else ""
        return BoxError(error.code, text + reason, type=error.type, errno=error.errno)

    def _with_path(self, text: str) -> str:
        """Return the text about a broken file with its path as the user gave it, or at least with the directory's."""
        if "`./" in text:
            return text.replace("`./", f"`{self._root}/")
        return text if "/" in text else f"{self._root}: {text}"

    @property
    def _root(self) -> str:
        return (os.path.dirname(self._path) or ".") if self._is_file else self._path.rstrip("/") or "/"

    @property
    def _is_file(self) -> bool:
        return self._path.endswith(_SUFFIX) and not os.path.isdir(self._path)

    def _files(self) -> ReadOnlyStorage:
        if self._is_file:
            directory, name = os.path.split(self._path)
            return ReadOnlyStorage(directory, name)
        return ReadOnlyStorage(self._path)

    def _make_instance(self) -> LuaInstance:
        return LuaInstance(node=Instance(disk=self._storage))

    def _log_lines(self) -> Callable[[Level, str], None]:
        return self._log_line

    def _log_line(self, level: Level, text: str) -> None:
        if self._warn is not None and level <= Level.ERROR:
            self._warn(text)
