"""Places of a campaign, shared out among processes: each is an instance of its own in memory."""

from __future__ import annotations

import itertools
import math
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple, TypeVar

_Place = TypeVar("_Place")
_Outcome = TypeVar("_Outcome")
PROCESSES = max(1, min(4, os.cpu_count() or 1))
WHOLE = (1, 1)
_SHARE = 8
"""The places that a process gets at a time, so few that they take little time: a place takes milliseconds."""


class Sweep(NamedTuple):
    """The extent of a campaign: the seed chooses `size` places, of which one part is run."""

    size: int
    part: tuple[int, int] = WHOLE
    """The number of the part, from 1, and the number of parts."""
    processes: int = 1
    minutes: float = math.inf
    """The minutes after which no further place begins."""
    seconds: float | None = None
    """The seconds of one run, in campaigns that allow a choice (`elections`)."""
    tarantool: str = ""
    """An executable that some members of a cluster run."""
    tarantools: int = 1
    rows: str = "synchronous"

    def outcomes(self, work: Callable[[_Place], _Outcome], places: Sequence[_Place]) -> Iterator[_Outcome]:
        """Yield what `work` returns for each place, in order, without the places that no time was left for.

        Processes are forked with everything imported, so that no place costs the start of a program. `work` must be
        picklable and raises only what ends the campaign.
        """
        number, of = self.part
        chosen = places[(number - 1) * len(places) // of : number * len(places) // of]
        until = time.monotonic() + 60 * self.minutes
        if self.processes == 1:
            yield from itertools.takewhile(lambda _: time.monotonic() < until, map(work, chosen))
            return
        with ProcessPoolExecutor(self.processes, multiprocessing.get_context("fork")) as pool:
            found = pool.map(work, chosen, chunksize=_SHARE)
            yield from itertools.takewhile(lambda _: time.monotonic() < until, found)
            pool.shutdown(cancel_futures=True)
