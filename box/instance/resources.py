"""The resources of an instance: given from outside, and at the disposal of every part."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from uuid import UUID

from box.errinj import ErrorInjections
from box.instance.config import Config
from box.journal.storage import Storage
from box.journal.threads import Threads
from box.log import Log
from box.long_work import ProgressBoard
from box.net.network import Network


class Paths:
    """Paths of the configuration: they lead below `work_dir`, which is seen from the instance's directory.

    `directory` is None for an instance in memory.
    """

    def __init__(self, directory: Path | None, config: Config) -> None:
        self._directory = directory or Path()
        self._config = config

    def relative(self, path: str) -> str:
        """A path as the instance's disk knows it."""
        work_dir = self._config["work_dir"]
        return f"{work_dir}/{path}" if work_dir and not path.startswith("/") else path

    def resolve(self, path: str) -> str:
        """A path as the operating system knows it."""
        return str(self._directory / self.relative(path))

    @property
    def wal_dir(self) -> str:
        """The directory of the log, on the instance's disk."""
        return self.relative(self._config["wal_dir"])

    @property
    def memtx_dir(self) -> str:
        """The directory of the snapshots, on the instance's disk."""
        return self.relative(self._config["memtx_dir"])


@dataclass(frozen=True, slots=True)
class Resources:
    """The same objects for the whole life of an instance.

    `clock` gives seconds since the epoch, `random` the bytes for UUIDs and salts. `config` changes with `box.cfg`; what
    follows a change at once is told by `box.instance.reconfigure`, everybody else reads the option when it counts.
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
        """A version 4 UUID from the instance's random source."""
        return UUID(bytes=self.random.randbytes(16), version=4)
