"""A round of fibers: while it lasts, what they write is held back, so that it leaves as one batch at its end.

Whoever runs many fibers in one go sets `is_held`, runs them, takes it back and calls `flush` (write now, in this
thread, if the journal may) or `flush_later` (in the loop's next turn). Nothing else may clear `is_held`. Without a
round, entries leave at the end of the loop's turn.

Synchronous writes wait for other instances, which have nothing to do while a round lasts: `interrupt` ends it early,
so that what was written is on its way to them while the rest of the fibers runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Held(Protocol):
    """The journal, as a round sees it that flushes it at its end."""

    def flush(self) -> bool:
        """Write now; True if entries have completed by that."""

    def flush_later(self) -> None:
        """Write in the loop's next turn."""


class Round:
    """Shared by the scheduler of fibers and the journal of one node."""

    __slots__ = ("is_held", "is_interrupted", "journal", "may_not_wait", "stop")

    def __init__(self) -> None:
        self.is_held = False
        self.is_interrupted = False
        """True from `interrupt` to the end of the round."""
        self.stop: Callable[[], None] = lambda: None
        """Called to run no further fiber for now."""
        self.journal: Held | None = None
        """None while nothing is held back: before the journal starts, or with an empty one."""
        self.may_not_wait: Callable[[], bool] | None = None
        """Set while a finalizer runs: whether it is what runs now, so that a write cannot be waited for."""

    def interrupt(self) -> None:
        """End the round that lasts, if one does, behind the fiber that runs."""
        if self.is_held and not self.is_interrupted:
            self.is_interrupted = True
            self.stop()
