"""A progress bar of a Spark job on standard error: parts, rows a second, and the time that is left."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Any, Final

_PERIOD: Final = 0.3
_WIDTH: Final = 30


class Progress:
    """A context manager around an action of a Spark session; shows what Spark's status store says about its tasks.

    Rows are those written by tasks that have ended, as Spark counts them.
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
            except Exception:  # The bar is a help; the session may be ending while it asks.
                return
            if total:
                line = bar(self._title, done, total, rows, time.monotonic() - self._begun)
                print(f"\r{line:<100}", end="", file=sys.stderr, flush=True)

    def _state(self) -> tuple[int, int, int]:
        """Tasks that have ended, all tasks and rows written, of the stages that are running."""
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
    """One line: `goods [####......] 12 of 30 parts, 1,200,000 rows/s, 9 s left`."""
    filled = _WIDTH * done // total
    text = f"{title} [{'#' * filled}{'.' * (_WIDTH - filled)}] {done} of {total} parts"
    if rows and seconds > 0:
        text += f", {rows / seconds:,.0f} rows/s"
    if done:
        text += f", {seconds / done * (total - done):,.0f} s left"
    return text
