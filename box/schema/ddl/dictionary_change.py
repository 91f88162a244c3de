"""A change of the dictionary as its triggers see it: the statement and the transaction, as far as they need them.

`box.txn.transaction` has both; tests drive a dictionary with a few lines of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from box.wire.row import Row


class DdlStatement(Protocol):
    """One change of a system space."""

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
        """The row before, or the one of an insertion."""

    @property
    def last(self) -> bytes:
        """The row after, or the one of a deletion."""


class DdlTransaction(Protocol):
    """The transaction of the change."""

    def check_single_statement(self, what: str) -> None:
        """Refuse work that must be alone in its transaction. MULTISTATEMENT_TRANSACTION."""
