"""The stages of a start, of which `box.ctl.on_recovery_state` tells.

```
way         stages, in order
-----------------------------------------------------------------------------
recovery    snapshot_recovered   indexes_built        wal_recovered   synced
join        indexes_built        snapshot_recovered   wal_recovered   synced
founding    indexes_built        snapshot_recovered   wal_recovered   synced
```

An orphan reaches `synced` when it is one no longer. The order is that of Tarantool 2.11.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum


class Stage(StrEnum):
    """A point that a start has passed."""

    SNAPSHOT_RECOVERED = "snapshot_recovered"
    INDEXES_BUILT = "indexes_built"
    WAL_RECOVERED = "wal_recovered"
    SYNCED = "synced"


class StartStages:
    """Calls the functions in `hooks` with each stage and waits for them. `synced` is reached once in a node's life."""

    def __init__(self) -> None:
        self.hooks: list[Callable[[Stage], Awaitable[None]]] = []
        self.is_synced = False
        """True once `synced` was reached."""

    async def reach(self, *stages: Stage) -> None:
        """Pass some stages."""
        for stage in stages:
            if stage is Stage.SYNCED:
                if self.is_synced:
                    continue
                self.is_synced = True
            for hook in self.hooks:
                await hook(stage)
