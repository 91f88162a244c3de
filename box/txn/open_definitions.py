"""The changes of the dictionary in a transaction that is still open, and may wait (`memtx_use_mvcc_engine`).

A definition has no versions: all others see it at once. If its transaction were rolled back after others have stored
tuples in its spaces, these tuples would be lost, or the log would contain rows for spaces that do not exist. So only
one open transaction has such changes. It ends, in conflict, when another one

```
changes a space whose definition it has changed
changes the dictionary
opens views of all spaces, for a snapshot or a replica
```

In Tarantool 2.8.1 the others may go on, and a restart may fail. Later versions do not let such a transaction wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from box.errors import ErrorCode, TransactionConflictError, client_error
from box.schema.ids import SpaceId

if TYPE_CHECKING:
    from box.schema.space import Space
    from box.txn.transaction import Transaction

T = TypeVar("T")
_PAUSE: Final = 0.005
"""Seconds between two attempts to open views."""
_SEQUENCES: Final = (SpaceId.SEQUENCE, SpaceId.SPACE_SEQUENCE)


class OpenDefinitions:
    """The open transaction that has changed the dictionary, if any, and the spaces that it has changed."""

    def __init__(self) -> None:
        self.owner: Transaction | None = None
        self.end: Callable[[Transaction], None]
        """Undoes the changes of the owner, and lets its next statement and its commit fail."""
        self._spaces: dict[Space, None] = {}

    def own(self, txn: Transaction, space: Space | None = None) -> None:
        """Note that a transaction has changed the dictionary, and this space in it."""
        self.owner = txn
        if space is not None and not space.is_being_defined:
            self._spaces[space] = None
            space.is_being_defined = True
            space.write_plan = None  # the next one leads all changes of the space to `make_way`

    def release(self) -> None:
        """Note that the transaction has its place in the order of commits, or has ended."""
        self.owner = None
        for space in self._spaces:
            space.is_being_defined = False
            space.write_plan = None
        self._spaces.clear()

    def make_way(self, txn: Transaction | None, space: Space | None) -> None:
        """End the owner if another transaction, which is about to change a space, must not share its definitions.
        Without a space, views of all spaces are opened.

        Raises:
            TransactionConflictError: TRANSACTION_CONFLICT, the owner is in the middle of a statement.
        """
        owner = self.owner
        if owner is None or owner is txn or not (space is None or self._is_concerned(owner, space)):
            return
        if owner.nesting:
            raise client_error(ErrorCode.TRANSACTION_CONFLICT)
        self.end(owner)
        self.release()

    @staticmethod
    def _is_concerned(owner: Transaction, space: Space) -> bool:
        if space.id == SpaceId.SEQUENCE_DATA:  # the next value of a sequence changes no definition
            return any(one.space is not None and one.space.id in _SEQUENCES for one in owner.statements)
        return space.is_being_defined or space.system_trigger is not None


async def open_when_possible(open_views: Callable[[], T]) -> T:
    """Open views of all spaces, if need be after the end of a statement of the owner, whose trigger waits."""
    while True:
        try:
            return open_views()
        except TransactionConflictError:
            await asyncio.sleep(_PAUSE)
