"""Everything that the commit of a transaction needs to know of its statements, gathered while it grows.

A transaction of many statements has looked at all but its newest when it is committed, so that its commit is no long
turn of the loop. Statements that are taken back make what was gathered worthless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from box.wire.constants import RequestType

if TYPE_CHECKING:
    from box.txn.transaction import Transaction

_NOP: Final = int(RequestType.NOP)


def gather(txn: Transaction) -> None:
    """Take in the statements that a transaction has got since the last time. None of them is open.

    Moves `gathered`, `rows`, `size`, `spaces` and `has_own_rows`.
    """
    statements, count, last = txn.statements, txn.gathered, None
    size, add = txn.size, txn.rows.append
    for statement in statements[count:] if count else statements:
        row = statement.row
        if row is None:
            continue
        add(row)
        size += len(row.body)
        if row.replica_id or row.group_id:
            txn.has_own_rows = False
        space = statement.space
        if space is not last and row.type != _NOP:
            last = space
            if space is not None:
                txn.spaces[space] = None
    txn.gathered, txn.size = len(statements), size


def forget_gathered(txn: Transaction) -> None:
    """Begin anew: statements were taken back."""
    txn.gathered, txn.rows, txn.size, txn.spaces, txn.has_own_rows = 0, [], 0, {}, True
