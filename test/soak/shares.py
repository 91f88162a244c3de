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
"""Places that a process is handed at a time: little beside the time of one, which is milliseconds."""


class Sweep(NamedTuple):
    """How much of a campaign is run: `size` places are chosen by the seed, a part of these has its turn."""

    size: int
    part: tuple[int, int] = WHOLE
    """The number of a part, from 1, and how many there are."""
    processes: int = 1
    minutes: float = math.inf
    """After so many no further place begins."""
    seconds: float | None = None
    """Of one run, where a campaign lets choose (`elections`, as the following)."""
    tarantool: str = ""
    """An executable that some members of a cluster run."""
    tarantools: int = 1
    rows: str = "synchronous"

    def outcomes(self, work: Callable[[_Place], _Outcome], places: Sequence[_Place]) -> Iterator[_Outcome]:
        """What `work` has returned for each place, in their order; not for those that no time was left for.

        Processes are forked: they have imported everything, and no place costs the start of a program. `work` raises
        nothing but what ends the campaign, and can be pickled.
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
