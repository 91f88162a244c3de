"""Checks the rows of a peer and groups them to transactions.

```
lsn 0          a heartbeat or an election message, a transaction of its own
first row      its tsn is its own lsn
rows after it  have the same tsn; the last one carries the flag COMMIT
```

No I/O and no clock. Source: Tarantool's `applier.cc`.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from box.errors import ErrorCode, client_error
from box.index.untracked import untrack
from box.wire.constants import DML_TYPES, SYNCHRO_TYPES, TYPE_ERROR, RequestType
from box.wire.error import raise_if_error
from box.wire.row import Row
from box.wire.vclock import VCLOCK_MAX

_CHANGES: Final = DML_TYPES | SYNCHRO_TYPES
_MANY: Final = 256
"""Rows of one transaction after which the rows so far are hidden from the garbage collector, to keep its runs short."""
_SIGNALS: Final = frozenset({RequestType.OK, RequestType.RAFT})
"""The types of rows with lsn 0: heartbeats and election messages."""


def expect_ok(row: Row) -> None:
    """Check that an answer is OK.

    Raises:
        BoxError: the error that the row carries.
        ClientError: UNKNOWN_REQUEST_TYPE, the row is not an answer.
    """
    raise_if_error(row)
    if row.type != RequestType.OK:
        raise client_error(ErrorCode.UNKNOWN_REQUEST_TYPE, row.type)


class IncomingTransaction:
    """A collector of one peer's rows that returns them as whole transactions."""

    __slots__ = ("_replicaset_uuid", "_rows")

    def __init__(self, replicaset_uuid: UUID) -> None:
        self._replicaset_uuid = replicaset_uuid
        self._rows: list[Row] = []

    @property
    def is_open(self) -> bool:
        """True if only a part of a transaction has been received."""
        return bool(self._rows)

    def add(self, row: Row) -> list[Row] | None:
        """Add a row. Returns the rows of the transaction that it completes, or None if there are more to come.

        Raises:
            BoxError: the error that the row carries.
            ClientError: UNKNOWN_REPLICA; PROTOCOL, the tsn of a first row is not its lsn; UNSUPPORTED, the row belongs
                to another transaction; UNKNOWN_REQUEST_TYPE, the row is neither a change nor a signal.
        """
        rows = self._rows
        self._check(row)
        if row.is_commit and not rows:
            return [row]
        rows.append(row)
        if len(rows) % _MANY == 0:
            untrack(rows[-_MANY:])
        if not row.is_commit:
            return None
        self._rows = []
        return rows

    def _check(self, row: Row) -> None:
        if row.type & TYPE_ERROR:
            raise_if_error(row)
        if row.replica_id >= VCLOCK_MAX:
            raise client_error(ErrorCode.UNKNOWN_REPLICA, str(row.replica_id), str(self._replicaset_uuid))
        tsn = row.tsn or row.lsn
        if not self._rows:
            if row.lsn != tsn:
                text = "Transaction id must be equal to LSN of the first row in the transaction."
                raise client_error(ErrorCode.PROTOCOL, text)
        elif self._rows[0].txn_id != tsn:
            raise client_error(ErrorCode.UNSUPPORTED, "replication", "interleaving transactions")
        if row.type not in _CHANGES and (row.lsn or row.type not in _SIGNALS):
            raise client_error(ErrorCode.UNKNOWN_REQUEST_TYPE, row.type)
