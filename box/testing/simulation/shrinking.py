"""A shorter scenario that fails, too: one that ends early, and has few faults.

```
the end       where the first violation showed, if that was before the end; else half as late, and so on
the kinds     all faults of a kind are left out
the faults    halves of the rest are left out, and smaller parts (Zeller's ddmin)
```

A run without some of its faults is another run from the first of these on: it fails, too, if the defect is not a matter
of one moment only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from box.testing.simulation.faults import Fault
from box.testing.simulation.run import Outcome, Scenario, play

_AFTERWARDS: Final = 1.0
"""Seconds that a run goes on behind its violation."""
_SHORTEST: Final = 2.0
"""Seconds; no shorter run is tried."""
_FINEST: Final = 8
"""The part of a run by which its end is not moved any more."""


def shorten(
    outcome: Outcome, *, runs: int = 60, deadline: float | None = None, tell: Callable[[str], None] = lambda text: None
) -> Outcome:
    """A shorter run that fails, by at most so many tries. `tell` hears of each success."""
    shortening = _Shortening(outcome, runs, deadline, tell)
    shortening.move_end()
    shortening.leave_out_kinds()
    shortening.leave_out_parts()
    return shortening.outcome


class _Shortening:
    """See the module's text. `outcome` is the shortest one so far."""

    def __init__(self, outcome: Outcome, runs: int, deadline: float | None, tell: Callable[[str], None]) -> None:
        self.outcome = outcome
        self._runs = runs
        self._deadline = deadline
        self._tell = tell

    @property
    def _faults(self) -> tuple[Fault, ...]:
        return self.outcome.scenario.faults or ()

    def _try(self, scenario: Scenario) -> bool:
        """Whether it fails, too."""
        if self._runs <= 0:
            return False
        self._runs -= 1
        attempt = play(scenario, deadline=self._deadline)
        if not attempt.violations:
            return False
        self.outcome = attempt
        self._tell(f"{len(self._faults)} faults in {scenario.seconds:.0f} seconds are enough")
        return True

    def _try_end(self, seconds: float) -> bool:
        scenario = self.outcome.scenario
        earlier = tuple(fault for fault in self._faults if fault.at < seconds)
        return self._try(replace(scenario, seconds=seconds, faults=earlier))

    def move_end(self) -> None:
        """End earlier."""
        seconds, noticed = self.outcome.scenario.seconds, self.outcome.noticed
        if noticed is not None and noticed + _AFTERWARDS < seconds and self._try_end(noticed + _AFTERWARDS):
            return
        passed = 0.0  # the latest end with which all went well
        step = self.outcome.scenario.seconds / _FINEST
        while (middle := (passed + self.outcome.scenario.seconds) / 2) - passed > step and middle > _SHORTEST:
            if not self._try_end(middle):
                passed = middle
            if self._runs <= 0:
                return

    def leave_out_kinds(self) -> None:
        """Leave out the faults of one kind after the other."""
        for kind in sorted({fault.kind for fault in self._faults}):
            rest = tuple(fault for fault in self._faults if fault.kind != kind)
            if len(rest) < len(self._faults):
                self._try(replace(self.outcome.scenario, faults=rest))

    def leave_out_parts(self) -> None:
        """Leave out halves and smaller parts."""
        parts = 2
        while len(self._faults) > 1 and self._runs > 0:
            size = -(-len(self._faults) // parts)
            if self._leave_out_one(size):
                parts = max(parts - 1, 2)
            elif size == 1:
                return
            else:
                parts = min(parts * 2, len(self._faults))

    def _leave_out_one(self, size: int) -> bool:
        """Whether the run fails without one of the parts of this size."""
        faults = self._faults
        return any(
            self._try(replace(self.outcome.scenario, faults=(*faults[:begin], *faults[begin + size :])))
            for begin in range(0, len(faults), size)
        )
