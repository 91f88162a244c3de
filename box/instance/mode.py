"""The reasons why an instance accepts no changes. Pure: no loop, no clock.

```
reason     holds                                                              ends
loading    from the construction until a start is done, and after a failed    the instance is configured
election   elections are on and this instance is not the leader               it is elected, election_mode = 'off'
synchro    another instance owns the limbo, which has transactions            they are confirmed or rolled back, PROMOTE
config     `read_only` is set                                                 box.cfg{read_only = false}
orphan     from the construction, and from a change of `replication` on       it is in sync with a quorum, or founds
```

Several may hold at once; `reason` gives the first of the table. Names and order are those of `box.info.ro_reason` in
later versions of Tarantool, `loading` aside, which is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol


class ReadOnlyReason(StrEnum):
    """A reason why an instance accepts no changes; the first member that applies is the one reported."""

    LOADING = "loading"
    ELECTION = "election"
    SYNCHRO = "synchro"
    CONFIG = "config"
    ORPHAN = "orphan"


class LimboLike(Protocol):
    """The limbo, which knows whose transactions it holds."""

    @property
    def is_read_only(self) -> bool: ...

    def refresh_mode(self) -> None:
        """Check the read-only modes of the instance again."""


class AccessMode:
    """The reasons that apply to one instance. `on_change` is called whenever they may have changed.

    `is_held` is true with any reason except `synchro`, which the limbo decides anew for each write; see `is_read_only`.
    """

    __slots__ = ("_limbo", "_on_change", "_reasons", "is_held")

    def __init__(self, limbo: LimboLike, on_change: Callable[[], None]) -> None:
        self._limbo = limbo
        self._on_change = on_change
        self._reasons = {ReadOnlyReason.LOADING, ReadOnlyReason.ORPHAN}
        self.is_held = True

    @property
    def is_read_only(self) -> bool:
        """True if the instance accepts no changes: `box.info.ro`."""
        return self.is_held or self._limbo.is_read_only

    @property
    def reason(self) -> ReadOnlyReason | None:
        """The first reason why the instance is read-only; None if it accepts changes."""
        return next((reason for reason in ReadOnlyReason if self.holds(reason)), None)

    def holds(self, reason: ReadOnlyReason) -> bool:
        """True if the reason applies, first or not."""
        return self._limbo.is_read_only if reason is ReadOnlyReason.SYNCHRO else reason in self._reasons

    def set(self, reason: ReadOnlyReason, holds: bool) -> None:
        """Set or clear a reason, except `synchro`; see `look_again`."""
        assert reason is not ReadOnlyReason.SYNCHRO
        (self._reasons.add if holds else self._reasons.discard)(reason)
        self.is_held = bool(self._reasons)
        self.look_again()

    def look_again(self) -> None:
        """Check `synchro` again: the limbo's owner or content, or the id of this instance, has changed."""
        self._limbo.refresh_mode()
        self._on_change()

    def __repr__(self) -> str:
        return f"<mode {self.reason or 'writable'}>"
