"""Progress of long work: builds of indexes, snapshots, recovery, joins. A console shows what takes over a second.

Each piece of work counts its rows, and knows how many there are or which share is done, if that can be known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

LONG = 1.0
"""Seconds after which work is told of."""


class LongWork:
    """One piece of work. `rows` are done, of `total`, if it is known; `share` gives the part of 1 that is done where
    that is told by something else than rows; `count` gives the rows where somebody else counts them."""

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
        """`recovery: 340,000 of 2,000,000 rows, 17 %, 3 s`."""
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
        """Work that lasts as long as the block."""
        work = LongWork(title, self._monotonic(), total, share, rows)
        self._works.append(work)
        try:
            yield work
        finally:
            self._works.remove(work)

    def works(self) -> list[tuple[LongWork, float]]:
        """All work under way, each with its seconds so far."""
        now = self._monotonic()
        return [(work, now - work.began) for work in self._works]

    def text(self) -> str | None:
        """A line about the oldest work that has taken long, None if nothing has."""
        now = self._monotonic()
        long = next((work for work in self._works if now - work.began >= LONG), None)
        return None if long is None else long.text(now)
