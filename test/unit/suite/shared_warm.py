"""One process for this package's tests that nodes are forked from, because importing a node takes half a second."""

from __future__ import annotations

import os
from functools import cache

from console.suite import warm
from console.suite.early_fork import EarlyFork

MAKE_WARM = warm.make_warm
"""The function of the product, which makes a process for one run."""


class SharedWarm(warm.WarmStarter):
    """A warm process that outlives the runs that use it; `end` ends it."""

    def close(self) -> None:
        """Leave the process to the next run."""

    def end(self) -> None:
        """End the process."""
        super().close()


@cache
def shared_warm() -> SharedWarm | None:
    """Return the process, which begins with the first call; None on a system where nodes are not forked."""
    return SharedWarm() if hasattr(os, "pidfd_open") else None


def make_shared(executable: tuple[str, ...], early: EarlyFork | None = None) -> warm.WarmStarter | None:
    """Stand in for `make_warm`: runs of this package's own executable get the shared process."""
    return shared_warm() if executable == warm.OWN_EXECUTABLE and early is None else MAKE_WARM(executable, early)
