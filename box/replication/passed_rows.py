"""Remembers transactions that a follower skipped because their sender does not lead, and that may be rolled back.

Once they are rolled back everywhere they only advance the vclock, as rows without effect. So their bodies are dropped,
but for those of CONFIRM and ROLLBACK: such a row may contradict what was decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from box.wire.constants import SYNCHRO_TYPES
from box.wire.row import Row

_TRANSACTIONS: Final = 1000
"""The most transactions that are remembered: a dying leader leaves about as many as it has fibers that write."""
_ROWS: Final = 200_000
"""The most rows of all remembered transactions: about 30 MB."""


class PassedRows:
    """The skipped transactions of one subscription.

    `may_be_void` returns whether a transaction still has to be remembered.
    """

    def __init__(self, may_be_void: Callable[[list[Row]], bool]) -> None:
        self._may_be_void = may_be_void
        self._transactions: list[list[Row]] = []
        self._rows = 0
        self._refused = 0
        """The number of transactions that were refused since outdated ones were last dropped."""

    def __len__(self) -> int:
        return len(self._transactions)

    def __iter__(self) -> Iterator[list[Row]]:
        return iter(self._transactions)

    def add(self, transaction: list[Row]) -> bool:
        """Remember a transaction without the bodies of its changes; False if there are too many already."""
        if self._is_full(transaction):
            # Dropping outdated transactions looks at all of them. After a vain attempt the next one waits until half
            # as many were refused, so that a full memory does not make every addition slow.
            if not 0 < self._refused < len(self._transactions) // 2:
                self._refused = 0
                self._transactions = [passed for passed in self._transactions if self._may_be_void(passed)]
                self._rows = sum(map(len, self._transactions))
            if self._is_full(transaction):
                self._refused += 1
                return False
        self._refused = 0
        for row in transaction:
            if row.type not in SYNCHRO_TYPES:
                row.body = b""
        self._transactions.append(transaction)
        self._rows += len(transaction)
        return True

    def _is_full(self, transaction: list[Row]) -> bool:
        return len(self._transactions) >= _TRANSACTIONS or self._rows + len(transaction) > _ROWS
