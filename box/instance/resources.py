"""The resources of an instance, which are given from outside and used by every part."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from box.errinj import ErrorInjections
from box.instance.config import Config
from box.journal.storage import Storage, plain_path
from box.journal.threads import Threads
from box.log import Log
from box.long_work import ProgressBoard
from box.net.network import Network

if TYPE_CHECKING:
    from random import Random
    from uuid import UUID


class Paths:
    """Resolves paths of the configuration: they start at `work_dir`, which starts at the instance's directory.

    `directory` is None for an instance in memory.
    """

    def __init__(self, directory: str | None, config: Config) -> None:
        self._directory = directory or "."
        self._config = config
        self.are_of_process = False
        """True if the process belongs to the instance: it runs in `work_dir`, where relative paths begin."""

    def relative(self, path: str) -> str:
        """Return a path on the instance's disk."""
        work_dir = self._config["work_dir"]
        return f"{work_dir}/{path}" if work_dir and not path.startswith("/") else path

    def resolve(self, path: str) -> str:
        """Return a path for the operating system."""
        return plain_path(self.absolute(path))

    def absolute(self, path: str) -> str:
        """Return the same path, for messages: with `.` and `..` where the configuration has them."""
        relative = self.relative(path)
        return relative if relative.startswith("/") else f"{self._directory}/{relative}"

    def named(self, option: str, name: str) -> str:
        """Return the path of a file in the directory of an option, for users: as they have named that directory if the
        process runs where such paths begin, otherwise a whole path.
        """
        path = f"{self._config[option]}/{name}"
        return path if self.are_of_process else self.resolve(path)

    @property
    def wal_dir(self) -> str:
        """The directory of the log, on the instance's disk."""
        return self.relative(self._config["wal_dir"])

    @property
    def memtx_dir(self) -> str:
        """The directory of the snapshots, on the instance's disk."""
        return self.relative(self._config["memtx_dir"])


class Resources(NamedTuple):
    """The resources of one instance; the same objects for its whole life.

    `clock` returns seconds since the epoch, `random` the bytes for UUIDs and salts. `config` changes with `box.cfg`:
    parts that must follow a change at once are told by `box.instance.reconfigure`, all others read the option when they
    need it.
    """

    loop: asyncio.AbstractEventLoop
    clock: Callable[[], float]
    random: Random
    disk: Storage
    network: Network
    threads: Threads
    paths: Paths
    config: Config
    log: Log
    errinj: ErrorInjections
    progress: ProgressBoard

    def random_uuid(self) -> UUID:
        """Return a version 4 UUID from the instance's random source."""
        from uuid import UUID

        return UUID(bytes=self.random.randbytes(16), version=4)
