"""Transactions of an instance that does not lead, which were passed over and may be rolled back everywhere.

Where that has happened they move the vclock, as rows without effect: their bodies are of no use to anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from box.wire.row import Row

_TRANSACTIONS: Final = 1000
"""Transactions that are remembered; a leader dies with what its fibers have under way."""
_ROWS: Final = 200_000
"""Rows of all of them: some thirty megabytes."""


class PassedRows:
    """See the module's text. `may_be_void` tells whether a transaction is still of interest."""

    def __init__(self, may_be_void: Callable[[list[Row]], bool]) -> None:
        self._may_be_void = may_be_void
        self._transactions: list[list[Row]] = []
        self._rows = 0
        self._refused = 0
        """Since room was looked for."""

    def __len__(self) -> int:
        return len(self._transactions)

    def __iter__(self) -> Iterator[list[Row]]:
        return iter(self._transactions)

    def add(self, transaction: list[Row]) -> bool:
        """Remember a transaction, whose rows lose their bodies; False if there are too many."""
        if self._is_full(transaction):
            # To look for room is to look at all: not again for each that comes, when there is none.
            if not 0 < self._refused < len(self._transactions) // 2:
                self._refused = 0
                self._transactions = [passed for passed in self._transactions if self._may_be_void(passed)]
                self._rows = sum(map(len, self._transactions))
            if self._is_full(transaction):
                self._refused += 1
                return False
        self._refused = 0
        for row in transaction:
            row.body = b""
        self._transactions.append(transaction)
        self._rows += len(transaction)
        return True

    def _is_full(self, transaction: list[Row]) -> bool:
        return len(self._transactions) >= _TRANSACTIONS or self._rows + len(transaction) > _ROWS
