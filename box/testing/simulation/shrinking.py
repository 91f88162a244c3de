"""The search for a shorter scenario that fails as well: it ends early and has few faults.

```
the end       soon after the first violation, if that was before the end; else by bisection
the kinds     all faults of a kind are left out
the faults    halves of the rest are left out, then smaller parts (Zeller's ddmin)
```

A run without one of its faults differs from there on. It may still fail, unless the defect depends on one exact moment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from box.testing.simulation.faults import Fault
from box.testing.simulation.run import Outcome, Scenario, play

_AFTERWARDS: Final = 1.0
"""The seconds that a run continues after its violation."""
_SHORTEST: Final = 2.0
"""The seconds of the shortest run that is tried."""
_FINEST: Final = 8
"""The bisection of the end stops at this fraction of the run."""


def shorten(
    outcome: Outcome, *, runs: int = 60, deadline: float | None = None, tell: Callable[[str], None] = lambda text: None
) -> Outcome:
    """Return a shorter run that fails, found in at most `runs` tries. `tell` is called with a text for each success."""
    shortening = _Shortening(outcome, runs, deadline, tell)
    shortening.move_end()
    shortening.leave_out_kinds()
    shortening.leave_out_parts()
    return shortening.outcome


class _Shortening:
    """The search for a shorter scenario. `outcome` is that of the shortest one so far."""

    def __init__(self, outcome: Outcome, runs: int, deadline: float | None, tell: Callable[[str], None]) -> None:
        self.outcome = outcome
        self._runs = runs
        self._deadline = deadline
        self._tell = tell

    @property
    def _faults(self) -> tuple[Fault, ...]:
        return self.outcome.scenario.faults or ()

    def _try(self, scenario: Scenario) -> bool:
        """Run a scenario, and keep it if it fails."""
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
        """Let the run end earlier."""
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
        """Leave out halves of the faults, then smaller parts."""
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
        """Leave out one part of the given size, and return False if the run needs each part to fail."""
        faults = self._faults
        return any(
            self._try(replace(self.outcome.scenario, faults=(*faults[:begin], *faults[begin + size :])))
            for begin in range(0, len(faults), size)
        )
