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
    """The rows before and after; None: there is none."""
    row: Row | None
    """The journal row; None while the space is filled without one."""
    on_commit: list[Callable[[], None]]
    on_rollback: list[Callable[[], None]]
    """Called newest first to take the change of the dictionary back. Must not fail."""

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
