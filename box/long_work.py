"""Progress of long work: builds of indexes, snapshots, recovery, joins. A console shows work that takes over a second.

Each piece of work counts its rows; if possible it also knows how many rows there are, or which share is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

LONG = 1.0
"""Work is shown after this many seconds."""


class LongWork:
    """One piece of work. `rows` of `total` rows are done; `total` may be unknown. If progress is not measured in rows,
    `share` returns the fraction that is done, from 0 to 1. If the rows are counted elsewhere, `count` returns their
    number.
    """

    __slots__ = ("began", "count", "rows", "share", "title", "total")

    def __init__(
        self,
        title: str,
        began: float,
        total: int | None,
        share: Callable[[], float] | None,
        count: Callable[[], int] | None,
    ) -> None:
        self.title = title
        self.began = began
        self.rows = 0
        self.total = total
        self.share = share
        self.count = count

    def text(self, now: float) -> str:
        """Return the progress as text: `recovery: 340,000 of 2,000,000 rows, 17 %, 3 s`."""
        if self.count is not None:
            self.rows = self.count()
        of = f" of {self.total:,}" if self.total else ""
        done = self.share() if self.share is not None else self.rows / self.total if self.total else None
        percent = "" if done is None else f", {min(done, 1.0):.0%}".replace("%", " %")
        return f"{self.title}: {self.rows:,}{of} rows{percent}, {now - self.began:.0f} s"


class ProgressBoard:
    """All long work of an instance. `monotonic` is a clock in seconds that never jumps."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._works: list[LongWork] = []

    @contextmanager
    def work(
        self,
        title: str,
        total: int | None = None,
        *,
        share: Callable[[], float] | None = None,
        rows: Callable[[], int] | None = None,
    ) -> Iterator[LongWork]:
        """Register a piece of work for the duration of the block."""
        work = LongWork(title, self._monotonic(), total, share, rows)
        self._works.append(work)
        try:
            yield work
        finally:
            self._works.remove(work)

    def works(self) -> list[tuple[LongWork, float]]:
        """Return all work under way, each with its duration in seconds."""
        now = self._monotonic()
        return [(work, now - work.began) for work in self._works]

    def text(self) -> str | None:
        """Return a line about the oldest work that takes long, or None if there is none."""
        now = self._monotonic()
        long = next((work for work in self._works if now - work.began >= LONG), None)
        return None if long is None else long.text(now)
