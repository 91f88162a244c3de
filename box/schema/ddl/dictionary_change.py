"""The interface of dictionary triggers: the statement and the transaction of a change.

`box.txn.transaction` implements both; tests use small implementations of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from box.wire.row import Row


class DdlStatement(Protocol):
    """A statement that changes a system space."""

    type: int
    old: bytes | None
    new: bytes | None
    """The row of the system space after the change; `old` is the row before it. None stands for no row."""
    row: Row | None
    """The row for the journal, or None while the space is filled without the journal."""
    on_commit: list[Callable[[], None]]
    on_rollback: list[Callable[[], None]]
    """Functions that undo the change of the dictionary; the last one is called first. They must not fail."""

    @property
    def first(self) -> bytes:
        """The row before the change, or the inserted one."""

    @property
    def last(self) -> bytes:
        """The row after the change, or the deleted one."""


class DdlTransaction(Protocol):
    """The transaction of the change."""

    def check_single_statement(self, what: str) -> None:
        """Refuse work that must be alone in its transaction.

        Raises:
            TransactionError: MULTISTATEMENT_TRANSACTION.
        """
