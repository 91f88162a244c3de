"""Commits of the embedding program, written within the same turn of the loop if no other task could join the write.

```
a change, while other tasks are ready to run            at the end of the turn, in one write with their changes
a change, while no other task is ready                  at once: the task goes on without a turn of the loop
a change after many that were written at once           at the end of the turn, so that sockets and timers are served
a log that is slow, synced or busy                      by the thread of the log, as for other clients
```

Where tuples have versions, each change is written at once, because a change that nobody can see before it is in the log
needs no version. The task still waits for the end of the turn in the same cases.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from box.txn.pending import Pending

if TYPE_CHECKING:
    from box.instance.node import Instance

T = TypeVar("T")

_AT_ONCE: Final = 32
"""The number of changes that are written at once before the loop gets a turn: a third of a millisecond, more on a slow
disk."""


class EndOfTurn(Pending):
    """A change that is in the log, for a task that waits for the end of the turn."""

    __slots__ = ("_callbacks", "done", "error", "result")

    def __init__(self, loop: AbstractEventLoop, ended: Pending) -> None:
        self._callbacks = None
        self.done = False
        self.error, self.result = ended.error, ended.result
        loop.call_soon(self.finish)


class Commits:
    """Runs functions that may submit to the journal, and writes at once where waiting would gain nothing.

    `ready` is the loop's queue of callbacks that run next, or None if it is unknown.
    """

    __slots__ = ("_core", "_count", "_ready", "_round")

    def __init__(self, core: Instance, ready: deque[Any] | None) -> None:
        self._ready = ready
        self._round = core.round
        self._core = core
        self._count = 0

    def run(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function and write its commit at once if no other task could join that write.

        Returns the function's result. If that is a `Pending` which has ended, returns its result or raises its error.
        """
        fiber_round = self._round
        if self._ready is None or self._ready or fiber_round.is_held:
            return self._run_with_others(function, *args)
        self._count = count = self._count + 1
        if not count % _AT_ONCE:
            return self._run_with_others(function, *args)
        dml = self._core.dml  # a node with versions gets another one while it starts
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
        if outcome.__class__ is bytes or not isinstance(outcome, Pending) or not outcome.done:
            return outcome
        if outcome.error is not None:
            raise outcome.error
        return cast("T", outcome.result)

    def _run_with_others(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function whose commit ends at the end of the turn, or later."""
        core = self._core
        if not core.tuples.allows_yield or core.journal is None:
            return function(*args)
        dml = core.dml
        before, dml.is_alone = dml.is_alone, True
        try:
            outcome = function(*args)
        finally:
            dml.is_alone = before
        if not core.tuples.has_versions:  # so this change has none either
            core.journal.flush()
        if isinstance(outcome, Pending) and outcome.done:
            return cast("T", EndOfTurn(core.loop, outcome))
        return outcome
