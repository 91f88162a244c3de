"""Shows a progress bar for a Spark job on standard error: parts, rows per second and the remaining time."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Any, Final

_PERIOD: Final = 0.3
"""Seconds between two updates."""
_WIDTH: Final = 30
"""Characters of the bar itself."""


class Progress:
    """A context manager around an action of a Spark session, which shows the state of its tasks from Spark's status
    store.

    The shown rows are those written by finished tasks, as Spark counts them.
    """

    def __init__(self, spark: Any, title: str, *, is_shown: bool) -> None:
        self._spark = spark
        self._title = title
        self._is_shown = is_shown
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._begun = 0.0
        self._before: set[int] = set()

    def __enter__(self) -> Progress:
        self._begun = time.monotonic()
        if self._is_shown:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_shown:
            self._stop.set()
            self._thread.join()
            print(f"\r{'':<100}\r", end="", file=sys.stderr, flush=True)

    def _run(self) -> None:
        while not self._stop.wait(_PERIOD):
            try:
                done, total, rows = self._state()
            except Exception:  # The bar is only informative, and the session may be ending
                return
            if total:
                line = bar(self._title, done, total, rows, time.monotonic() - self._begun)
                print(f"\r{line:<100}", end="", file=sys.stderr, flush=True)

    def _state(self) -> tuple[int, int, int]:
        """Return the numbers of finished tasks, of all tasks and of written rows of the active stages."""
        tracker = self._spark.sparkContext.statusTracker()
        store = self._spark.sparkContext._jsc.sc().statusStore()
        done = total = rows = 0
        for stage_id in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage_id)
            if info is not None:
                done, total = done + info.numCompletedTasks, total + info.numTasks
                rows += int(store.lastStageAttempt(stage_id).outputRecords())
        return done, total, rows


def bar(title: str, done: int, total: int, rows: int, seconds: float) -> str:
    """Return one line such as `goods [####......] 12 of 30 parts, 1,200,000 rows/s, 9 s left`."""
    filled = _WIDTH * done // total
    text = f"{title} [{'#' * filled}{'.' * (_WIDTH - filled)}] {done} of {total} parts"
    if rows and seconds > 0:
        text += f", {rows / seconds:,.0f} rows/s"
    if done:
        text += f", {seconds / done * (total - done):,.0f} s left"
    return text
