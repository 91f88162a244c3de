"""Settings of the interpreter for a process that is a node: its collector of cyclic garbage and its threads."""

from __future__ import annotations

import gc
import sys
from typing import Final

_COLLECT_AFTER: Final = 2_500
_SWITCH_INTERVAL: Final = 0.001


def tune() -> None:
    """Look for cyclic garbage seldom, a little at a time, and never among what the imports have made; let the loop's
    thread go first.

    With a thousand requests in flight, whose objects all survive a collection or two, the collector took a quarter of
    the time when it came after every 700 of them; after 2,500 it takes a hundredth. Cycles are rare here; reference
    counts free the rest. Seldomer still is no better: new leaves of trees are among what it comes to, each of which
    takes it a microsecond, and 10,000 at a time held everybody up for ten milliseconds.

    While the log's thread or that of a snapshot works, the loop's waits for the interpreter after each of its system
    calls, of which a turn has several. A thread that had it for the usual 5 ms made turns of 15 and more.
    """
    gc.enable()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)
    sys.setswitchinterval(_SWITCH_INTERVAL)
