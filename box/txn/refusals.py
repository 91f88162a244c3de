"""Callers of transactions that a leader has rolled back by its timeout, until that is certain.

A ROLLBACK in the log of its leader alone is no decision yet: others may have the transaction, elect one of them without
knowing of the ROLLBACK, and confirm it. When a quorum has the ROLLBACK in its logs, each later leader has it, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from box.errors import BoxError, ErrorCode, client_error

if TYPE_CHECKING:
    from box.txn.pending import Callers


def outcome_unknown() -> BoxError:
    """SYNC_QUORUM_TIMEOUT with a field `outcome` beside it: the next leader may still commit the transaction."""
    error = client_error(ErrorCode.SYNC_QUORUM_TIMEOUT)
    error.fields = {"outcome": "unknown", "reason": "no quorum has decided; the next leader may commit it"}
    return error


class Refusals:
    """One per node. `timeout` seconds after a ROLLBACK that no quorum has got, its callers learn that nobody knows."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[int, tuple[list[tuple[Callers, BoxError]], asyncio.TimerHandle]] = {}
        """By the lsn of the ROLLBACK, in ascending order."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, lsn: int, callers: list[tuple[Callers, BoxError]], timeout: float) -> None:
        """The ROLLBACK with this lsn is in our log."""
        self._waiting[lsn] = callers, self._loop.call_later(timeout, self._give_up, lsn)

    def tell(self, is_certain: Callable[[int], bool]) -> None:
        """Tell those whose ROLLBACK, by its lsn, a quorum has."""
        while self._waiting and is_certain(lsn := next(iter(self._waiting))):
            callers, timer = self._waiting.pop(lsn)
            timer.cancel()
            for waiting, error in callers:
                waiting.tell(error)

    def stop(self) -> None:
        """The node closes: nobody learns more."""
        for lsn in list(self._waiting):
            self._give_up(lsn)

    def _give_up(self, lsn: int) -> None:
        callers, timer = self._waiting.pop(lsn)
        timer.cancel()
        for waiting, _ in callers:
            waiting.tell(outcome_unknown())
