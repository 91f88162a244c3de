"""Gathers what the commit of a transaction needs to know about its statements while the transaction grows.

So the commit of a transaction of many statements looks only at the newest ones and takes no long turn of the loop.
Undoing statements discards what was gathered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from box.txn.transaction import NOTED
from box.wire.change import Request
from box.wire.constants import RequestType
from box.wire.row import Row

if TYPE_CHECKING:
    from box.txn.transaction import Transaction

_NOP: Final = int(RequestType.NOP)


def gather(txn: Transaction) -> None:
    """Add the statements since the last call to what is gathered. None of them is open.

    Updates `gathered`, `rows`, `size`, `spaces` and `has_own_rows` of the transaction.
    """
    if txn.leaves_rows_out:
        forget_gathered(txn)
    statements, count, last = txn.made, txn.gathered, None
    size, add = txn.size, txn.rows.append
    for statement in statements[count:] if count else statements:
        row = statement.row
        if row is None:
            body = statement.body
            if body is None:
                assert statement.space is not None
                assert statement.new is not None
                body = statement.space.tuple_prefix + statement.new
            elif not body:
                continue
            elif isinstance(body, Request):
                assert statement.space is not None
                body = body.body(statement.space.id)
            row = statement.row = Row(statement.type, 0, 0, 0.0, 0, 0, True, 0, 0, 0, body)
            statement.body = b""
        add(row)
        size += len(row.body)
        if row.replica_id or row.group_id:
            txn.has_own_rows = False
        space = statement.space
        if space is not last and row.type != _NOP:
            last = space
            if space is not None:
                txn.spaces[space] = None
    noted = txn.noted
    for start in range(max(count - len(statements), 0) * NOTED, len(noted), NOTED):
        space, kind, _, new, later = noted[start : start + NOTED]
        if later.__class__ is Row:
            row = later
        else:
            if later is None:
                body = space.tuple_prefix + new
            else:
                body = later.body(space.id) if later.__class__ is Request else later
            row = noted[start + NOTED - 1] = Row(kind, 0, 0, 0.0, 0, 0, True, 0, 0, 0, body)
        add(row)
        size += len(row.body)
        if space is not last:
            last = space
            txn.spaces[space] = None
    txn.gathered, txn.size = txn.count, size


def forget_gathered(txn: Transaction) -> None:
    """Discard what was gathered, because statements were undone."""
    txn.gathered, txn.rows, txn.size, txn.spaces, txn.has_own_rows = 0, [], 0, {}, True
    txn.leaves_rows_out = False


def leave_rows_out(txn: Transaction) -> None:
    """Count the statements as gathered, because a void journal needs no rows of them; `gather` begins anew."""
    txn.gathered, txn.leaves_rows_out = txn.count, True
