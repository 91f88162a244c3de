"""Settings of the interpreter for a node's process: the collector of cyclic garbage, and threads."""

from __future__ import annotations

import gc
import sys
from typing import Final

_COLLECT_AFTER: Final = 2_500
_SWITCH_INTERVAL: Final = 0.001
"""In allocations and in seconds; `tune` has the reasons."""


def tune() -> None:
    """Collect cyclic garbage seldom, in small portions and not among objects of the imports; favour the loop's thread.

    With a thousand requests in flight, whose objects all survive a collection or two, the collector took a quarter of
    the time when it ran after every 700 allocations; after 2,500 it takes a hundredth. Cycles are rare here, and
    reference counts free the rest. Running it even less often is no better: it also visits new leaves of trees, which
    take a microsecond each, and 10,000 at once stopped everything for ten milliseconds.

    While the log's or a snapshot's thread works, the loop's thread waits for the interpreter after each of its system
    calls, several in each turn. A thread that could keep the interpreter for the usual 5 ms made turns of 15 ms and
    more.
    """
    gc.enable()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)
    sys.setswitchinterval(_SWITCH_INTERVAL)
