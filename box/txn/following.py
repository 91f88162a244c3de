"""Tells index builds (`box.schema.ddl.build`) and other followers of an index what a transaction with versions changes.

What an index shows to others changes when a transaction is prepared, and again if it is rolled back after that.
Followers are told at these moments, because the entries of the index change at others: they get their versions when the
transaction writes, and lose them later. A follower may read the changes of a large transaction later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from box.index.ordered import OrderedIndex
from box.txn.transaction import applied_as

if TYPE_CHECKING:
    from box.index import Index
    from box.txn.transaction import Statement, Transaction

_MANY: Final = 1024
"""The number of statements from which on a follower reads the changes lazily instead of at once."""


def tell_followers(txn: Transaction, indexes: Iterable[Index], *, is_undo: bool) -> None:
    """Tell the followers of these indexes that the changes of a transaction take effect, or are undone."""
    for index in indexes:
        if isinstance(index, OrderedIndex) and index.followers:
            for follower in tuple(index.followers):
                changes = _changes_in(txn.statements[:], index, is_undo)
                # A transaction with few statements or with hooks is undone statement by statement, which changes
                # them: the follower gets a copy of what they say now.
                if len(txn.statements) < _MANY or txn.hooked:
                    changes = iter(list(changes))
                follower(changes)


def _changes_in(
    statements: list[Statement], index: Index, is_undo: bool
) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Yield the tuples before and after each change of the space whose primary index is `index`, in order."""
    applied = [
        statement
        for statement in statements
        if statement.applied and statement.space is not None and statement.space.primary is index
    ]
    for statement in sorted(applied, key=applied_as, reverse=is_undo):
        yield (statement.new, statement.old) if is_undo else (statement.old, statement.new)
