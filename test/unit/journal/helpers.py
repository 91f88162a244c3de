"""Helpers of the journal's tests: rows, a running journal, recovery, and a log that keeps its messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import msgpack

from box.errinj import ErrorInjections
from box.errors import BoxError
from box.journal import Journal, JournalEntry, MemoryStorage, Recovery
from box.journal.storage import Storage
from box.wire.row import Row
from box.wire.vclock import VClock

UUID_1 = UUID("11111111-1111-1111-1111-111111111111")


class RecordingLog:
    """A log that keeps every message."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def problem(self, error: BoxError) -> None:
        self.error(error.log_text)

    def error(self, text: str) -> None:
        self.lines.append(f"E> {text}")

    def crit(self, text: str) -> None:
        self.lines.append(f"C> {text}")

    def warn(self, text: str) -> None:
        self.lines.append(f"W> {text}")

    def info(self, text: str) -> None:
        self.lines.append(f"I> {text}")

    def of_cord(self, origin: str) -> RecordingLog:
        return self


def replace_row(key: int, *, space_id: int = 512, filler: str = "x", **header: Any) -> Row:
    """Make a REPLACE row of `{key, filler}`."""
    return Row(3, body=msgpack.packb({0x10: space_id, 0x21: [key, filler]}), **header)


def key_of(row: Row) -> int:
    return int(msgpack.unpackb(row.body, strict_map_key=False)[0x21][0])


def write(journal: Journal, *rows: Row) -> asyncio.Future[BoxError | None]:
    """Submit one transaction; return a future with its error or None."""
    done: asyncio.Future[BoxError | None] = asyncio.get_running_loop().create_future()
    journal.submit(JournalEntry(list(rows), lambda entry: done.set_result(entry.error)))
    return done


@asynccontextmanager
async def running_journal(
    storage: Storage | None = None,
    *,
    vclock: VClock | None = None,
    errinj: ErrorInjections | None = None,
    **options: Any,
) -> AsyncIterator[Journal]:
    """Run a journal of instance 1 for this context."""
    journal = Journal(asyncio.get_running_loop(), storage or MemoryStorage(), errinj=errinj, **options)
    journal.start(vclock or VClock(), UUID_1)
    journal.instance_id = 1
    try:
        yield journal
    finally:
        await journal.stop()


def recover(storage: Storage, vclock: VClock | None = None, **options: Any) -> tuple[list[int], VClock]:
    """Return the keys of all rows in the log files, and the vclock after them."""
    recovery = Recovery(storage, ".", vclock or VClock(), **options)
    recovery.scan()
    keys = [key_of(row) for row in recovery.rows()]
    return keys, recovery.vclock
