"""Commits of changes that the calling thread makes itself while it has the node's turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from box.embed.commits import Commits
from box.errors import BoxError
from box.sync.loop_thread import lock_until
from box.txn.pending import Pending

if TYPE_CHECKING:
    from box.instance.node import Instance

T = TypeVar("T")

LEGITIMATE = (BoxError, TypeError, ValueError)
"""Exceptions that a request may raise without leaving anything half done. Any other exception has interrupted it in the
middle.
"""


class WaitingOutcome:
    """A change that is made but not yet written; the thread waits for it without holding the turn."""

    __slots__ = ("done", "pending")

    def __init__(self, pending: Pending) -> None:
        self.pending = pending
        self.done = lock_until(pending)


class ThreadCommits(Commits):
    """Runs changes in the thread that holds the turn and writes their commits at once: no task of the loop could
    join.
    """

    __slots__ = ("_interrupted",)

    def __init__(self, core: Instance, interrupted: Callable[[BaseException], None]) -> None:
        super().__init__(core, None)
        self._interrupted = interrupted

    def run(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function that changes something, and write its commit.

        An exception such as KeyboardInterrupt in the middle leaves an unknown state, so it ends the node.
        """
        # As `Commits` of box.embed does on the loop, written out here: every request of a thread comes this way.
        fiber_round, dml = self._round, self._core.dml
        try:
            fiber_round.is_held = dml.is_alone = True
            try:
                outcome = function(*args)
            finally:
                dml.is_alone = False
                fiber_round.is_held = fiber_round.is_interrupted = False
                journal = fiber_round.journal
                if journal is not None:
                    fiber_round.journal = None
                    journal.flush()
                    if journal.interruption is not None:
                        raise journal.interruption
        except LEGITIMATE:
            raise
        except BaseException as error:
            self._interrupted(error)
            raise
        if outcome.__class__ is bytes or not isinstance(outcome, Pending):
            return outcome
        if not outcome.done:
            return cast("T", WaitingOutcome(outcome))
        if outcome.error is not None:
            self._look_for_interruption()
            raise outcome.error
        return cast("T", outcome.result)

    def _look_for_interruption(self) -> None:
        """Find out whether a failed write was interrupted by an exception from outside."""
        error = None if self._core.journal is None else self._core.journal.unexpected_failure
        if error is not None and not isinstance(error, MemoryError):
            self._interrupted(error)
            raise error
