"""Tells whoever makes something of an index's tuples (`box.schema.ddl.build`) what a transaction with versions changes.

Its writes change what index entries stand for when it is prepared, and again if it is rolled back after that; the
entries themselves were changed before, or will be later. Whoever follows takes the changes when it has the time.
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
"""Statements that are too many to be gone through at once."""


def tell_followers(txn: Transaction, indexes: Iterable[Index], *, is_undo: bool) -> None:
    """The values that a transaction has written to these indexes count from now on or, when it is undone, no more."""
    for index in indexes:
        if isinstance(index, OrderedIndex) and index.followers:
            for follower in tuple(index.followers):
                changes = _changes_in(txn.statements[:], index, is_undo)
                if len(txn.statements) < _MANY or txn.hooked:  # statements that are taken back one by one change
                    changes = iter(list(changes))
                follower(changes)


def _changes_in(
    statements: list[Statement], index: Index, is_undo: bool
) -> Iterator[tuple[bytes | None, bytes | None]]:
    """The tuples before and after each change of the space that has this primary index, in order."""
    applied = [
        statement
        for statement in statements
        if statement.applied and statement.space is not None and statement.space.primary is index
    ]
    for statement in sorted(applied, key=applied_as, reverse=is_undo):
        yield (statement.new, statement.old) if is_undo else (statement.old, statement.new)
