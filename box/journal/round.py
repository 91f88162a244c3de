"""A round of fibers: everything they write during it is held back and leaves as one batch at its end.

Code that runs many fibers in one go sets `is_held`, runs them, clears it, and calls `flush` (write now, in this thread
if allowed) or `flush_later` (in the loop's next turn). Nothing else may clear `is_held`. Without a round, entries leave
at the end of the loop's turn.

Synchronous writes wait for other instances, which have nothing to do while a round lasts: `interrupt` ends it early, so
that what was written is on its way to them while the rest of the fibers runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Held(Protocol):
    """The journal's interface for a round, which flushes it at its end."""

    interruption: Exception | None
    """The exception that has ended a completion early in a thread of `box.sync`, which raises it after the flush: for
    example one that another thread has sent to it (`PyThreadState_SetAsyncExc`)."""

    def flush(self) -> bool:
        """Write now. Returns True if entries have completed."""

    def flush_later(self) -> None:
        """Write in the loop's next turn."""


class Round:
    """A round of fibers, shared by the scheduler and the journal of one node."""

    __slots__ = ("is_held", "is_interrupted", "journal", "may_not_wait", "stop")

    def __init__(self) -> None:
        self.is_held = False
        self.is_interrupted = False
        """True from a call of `interrupt` to the end of the round."""
        self.stop: Callable[[], None] = lambda: None
        """Makes the scheduler run no further fiber for now."""
        self.journal: Held | None = None
        """The journal if it holds back entries of this round; it puts itself here with the first one."""
        self.may_not_wait: Callable[[], bool] | None = None
        """Set while a finalizer runs: returns True if the finalizer itself is running, which must not wait for a
        write."""

    def interrupt(self) -> None:
        """End the current round, if there is one, after the fiber that runs now."""
        if self.is_held and not self.is_interrupted:
            self.is_interrupted = True
            self.stop()
