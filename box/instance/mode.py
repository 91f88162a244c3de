"""The reasons why an instance takes no changes. Pure: no loop, no clock.

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

from box.errors import ErrorCode, client_error


class ReadOnlyReason(StrEnum):
    """Reasons that keep an instance from taking changes, the one to be told first standing first."""

    LOADING = "loading"
    ELECTION = "election"
    SYNCHRO = "synchro"
    CONFIG = "config"
    ORPHAN = "orphan"


class LimboLike(Protocol):
    """The limbo: it knows whose transactions it holds."""

    @property
    def is_read_only(self) -> bool: ...

    def refresh_mode(self) -> None:
        """The modes of the instance are looked at anew."""


class AccessMode:
    """The reasons of one instance. `on_change` is called whenever one may have come or gone.

    `is_held` is true with any reason but `synchro`, which the limbo answers itself at each write; see `is_read_only`.
    """

    __slots__ = ("_limbo", "_on_change", "_reasons", "is_held")

    def __init__(self, limbo: LimboLike, on_change: Callable[[], None]) -> None:
        self._limbo = limbo
        self._on_change = on_change
        self._reasons = {ReadOnlyReason.LOADING, ReadOnlyReason.ORPHAN}
        self.is_held = True

    @property
    def is_read_only(self) -> bool:
        """`box.info.ro`."""
        return self.is_held or self._limbo.is_read_only

    @property
    def reason(self) -> ReadOnlyReason | None:
        """The first reason why the instance is read-only; None if it takes changes."""
        return next((reason for reason in ReadOnlyReason if self.holds(reason)), None)

    def holds(self, reason: ReadOnlyReason) -> bool:
        """Whether the reason holds, be it the first or not."""
        return self._limbo.is_read_only if reason is ReadOnlyReason.SYNCHRO else reason in self._reasons

    def set(self, reason: ReadOnlyReason, holds: bool) -> None:
        """A reason has come or gone. `synchro` cannot be set: see `look_again`."""
        assert reason is not ReadOnlyReason.SYNCHRO
        (self._reasons.add if holds else self._reasons.discard)(reason)
        self.is_held = bool(self._reasons)
        self.look_again()

    def look_again(self) -> None:
        """The owner of the limbo, whether it holds anything, or the id of this instance has changed."""
        self._limbo.refresh_mode()
        self._on_change()

    def check_writable(self) -> None:
        """Raise READONLY unless the instance takes changes."""
        if self.is_held or self._limbo.is_read_only:
            raise client_error(ErrorCode.READONLY)

    def __repr__(self) -> str:
        return f"<mode {self.reason or 'writable'}>"
