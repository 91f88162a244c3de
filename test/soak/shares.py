"""Runs the cases of a campaign ("places") in several processes; each case is an instance of its own in memory."""

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
"""The part that is all of a campaign: the first of one."""
_SHARE = 8
"""The number of places that a process gets at a time. A place takes milliseconds, so that processes end together."""


class Sweep(NamedTuple):
    """The extent of a campaign: the seed draws `size` places, of which `part` is run."""

    size: int
    part: tuple[int, int] = WHOLE
    """The number of this part, from 1, and the number of parts."""
    processes: int = 1
    minutes: float = math.inf
    """The time after which no further outcome is waited for."""
    seconds: float | None = None
    """The length of one run of the campaign "elections", None for its default."""
    tarantool: str = ""
    """The executable of Tarantool members in the campaign "elections", empty for none."""
    tarantools: int = 1
    """The number of Tarantool members."""
    rows: str = "synchronous"
    """The kind of rows that clients insert in the campaign "elections"."""

    def outcomes(self, work: Callable[[_Place], _Outcome], places: Sequence[_Place]) -> Iterator[_Outcome]:
        """Yield the result of `work` for each place of this part, in order, until the time is over.

        Processes are forked with everything imported, so that places cost no imports. `work` must be picklable; an
        error that it raises ends the campaign.
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
