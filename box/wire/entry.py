"""What the transaction side gives to the journal: one transaction."""

from __future__ import annotations

from collections.abc import Callable

from box.errors import BoxError
from box.wire.row import Row


class JournalEntry:
    """The rows of one transaction, never empty, and who wants to know how the write ended.

    Rows with `replica_id` 0 are of this instance and get their lsn by the writer. `on_complete` is called once, in the
    tx thread; then `error` is None and the rows are on disk, or it is WAL_IO and none of them is.
    """

    __slots__ = ("error", "on_complete", "rows", "size")

    def __init__(self, rows: list[Row], on_complete: Callable[[JournalEntry], None]) -> None:
        self.rows = rows
        self.on_complete = on_complete
        self.error: BoxError | None = None
        self.size = 0
