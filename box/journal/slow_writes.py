"""Warnings of transactions whose write took longer than `too_long_threshold`, in Tarantool's words.

At most ten warnings come in five seconds; the next one after that comes with the number of those that were left out.
"""

from __future__ import annotations

import math
from collections import deque

from box.journal.directory import Logger
from box.rate_limit import RateLimit
from box.wire.constants import DML_TYPES
from box.wire.entry import JournalEntry


class SlowWrites:
    """Warns of slow writes; `threshold` is in seconds."""

    def __init__(self, log: Logger) -> None:
        self.threshold = math.inf
        self._log = log
        self._limit = RateLimit()
        self._begun: deque[float] = deque()
        """The times at which the batches now in the thread were handed over, oldest first."""

    def hand_over(self, now: float) -> None:
        """Note that a batch goes to the thread."""
        self._begun.append(now)

    def come_back(self, messages: int, now: float) -> float:
        """Note that the oldest `messages` batches are back; return the seconds since the first was handed over."""
        begun = [self._begun.popleft() for _ in range(messages)]
        return now - begun[0]

    def tell(self, entries: list[JournalEntry], signature: int, seconds: float, now: float) -> None:
        """Warn of each transaction of a batch that took some seconds; `signature` is the sum of the vclock after it."""
        counts = [_row_counts(entry) for entry in entries]
        lsn = signature - sum(map(sum, counts))
        for entry, rows in zip(entries, counts, strict=True):
            for count in rows:
                if _is_transaction(entry):
                    self._warn(f"too long WAL write: {count} rows at LSN {lsn + 1}: {seconds:.3f} sec", now)
                lsn += count

    def _warn(self, text: str, now: float) -> None:
        suppressed = self._limit.take(now)
        if suppressed:
            self._log.warn(f"{suppressed} messages suppressed")
        if suppressed is not None:
            self._log.warn(text)


def _row_counts(entry: JournalEntry) -> list[int]:
    """The number of rows of each transaction of an entry."""
    return [1] * len(entry.run) if entry.run is not None else [len(entry.rows)]


def _is_transaction(entry: JournalEntry) -> bool:
    """Return whether the rows are changes, rather than decisions on synchronous transactions."""
    return entry.run is not None or entry.rows[0].type in DML_TYPES
