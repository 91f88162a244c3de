"""Journal entries, one for each transaction on its way to the log, and the journal's interface for transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from box.errors import BoxError
from box.wire.change_run import ChangeRun
from box.wire.row import Row


class JournalEntry:
    """The rows of one transaction, never empty, with a callback for the outcome of the write.

    Rows with `replica_id` 0 belong to this instance; the writer assigns their lsns. `on_complete` is called once, in
    the tx thread. Then either `error` is None and the rows are on disk, or `error` is WAL_IO and none of them is.
    """

    __slots__ = ("error", "on_complete", "rows", "size")

    run: ClassVar[ChangeRun | None] = None
    """Set for an entry that has no rows but many transactions of another instance; see `RunEntry`."""
    body: ClassVar[bytes | None] = None
    """Set for an entry of one row that is made only when it is needed; see `OwnRow`."""
    complete_together: ClassVar[Callable[[Any], None] | None] = None
    """If set, this is called instead of `on_complete`, with a list of consecutive entries of one class."""
    is_urgent: ClassVar[bool] = True
    """False if the rows may wait until the next batch is written before they are sent to other instances."""

    def __init__(self, rows: list[Row], on_complete: Callable[[JournalEntry], None]) -> None:
        self.rows = rows
        self.on_complete = on_complete
        self.error: BoxError | None = None
        self.size = 0


class RunEntry(JournalEntry):
    """Several one-row transactions from another instance that are written, or fail, together."""

    __slots__ = ("run",)

    def __init__(self, run: ChangeRun, on_complete: Callable[[JournalEntry], None]) -> None:
        super().__init__([], on_complete)
        self.run: ChangeRun = run  # type: ignore[misc]
        self.size = sum(map(len, run.bodies))


class OwnRow:
    """Mixin for an entry that is one change of a replicated space by this instance; its row is made on demand.

    Until the row is made, `kind` (the request type), `body` and `flags` describe it; afterwards the row counts.
    Subclasses are entries and define the slots: `__slots__` stays empty here.
    """

    if not TYPE_CHECKING:
        __slots__ = ()

    _rows: list[Row] | None
    body: bytes | None
    flags: int
    kind: int
    row_lsn: int
    """The lsn that the writer assigned, or 0 if it assigned that to the row."""

    @property
    def rows(self) -> list[Row]:
        """A list of the one row, which is made at the first access."""
        rows = self._rows
        if rows is None:
            lsn, body = self.row_lsn, self.body
            assert body is not None
            rows = self._rows = [Row(self.kind, 0, lsn, tsn=lsn, flags=self.flags, body=body)]
            self.body = None
        return rows

    @property
    def lsn_in_log(self) -> int:
        """The lsn of the row in the log, or 0 before it is written."""
        return self.row_lsn or self.rows[0].lsn


class PatientEntry(JournalEntry):
    """An entry whose rows no other instance waits for."""

    __slots__ = ()

    is_urgent = False


class JournalSink(Protocol):
    """A receiver of entries: the journal, or the stand-in of recovery that completes them at once."""

    @property
    def vclock(self) -> Mapping[int, int]:
        """The vclock of the written rows."""

    @property
    def is_void(self) -> bool:
        """True if rows only move the vclock and nothing reads them."""

    def completes_at_once(self, rows: int = 1) -> bool:
        """Return True if an entry of so many rows, submitted and flushed now as the only one, completes immediately."""

    def flush(self) -> bool:
        """Write what was submitted, now if the journal is idle. Returns True if the entries are complete."""

    @property
    def takes_runs(self) -> bool:
        """True if a `RunEntry` may be submitted."""

    def pass_rows(self, count: int) -> None:
        """Count the rows of one transaction of this instance as written. Only for a journal with `is_void`.

        Raises:
            ClientError: WAL_IO.
        """

    def submit(self, entry: JournalEntry) -> None:
        """Queue an entry.

        Raises:
            ClientError: WAL_IO, the entry cannot even be queued.
        """
