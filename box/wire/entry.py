"""One transaction on its way to the journal, and the journal as transactions see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from box.errors import BoxError
from box.wire.change_run import ChangeRun
from box.wire.row import Row


class JournalEntry:
    """The rows of one transaction, never empty, and who wants to know how the write ended.

    Rows with `replica_id` 0 are of this instance and get their lsn by the writer. `on_complete` is called once, in the
    tx thread; then `error` is None and the rows are on disk, or it is WAL_IO and none of them is.
    """

    __slots__ = ("error", "on_complete", "rows", "size")

    run: ClassVar[ChangeRun | None] = None
    """Set for an entry of many transactions of another instance, which has no rows: see `RunEntry`."""
    body: ClassVar[bytes | None] = None
    """Set for an entry of one row that is not made before somebody asks for it: see `OwnRow`."""
    complete_together: ClassVar[Callable[[Any], None] | None] = None
    """Called instead of `on_complete` with a list of entries of one class that are written one after another."""
    is_urgent: ClassVar[bool] = True
    """False: other instances may get it with what is written next."""

    def __init__(self, rows: list[Row], on_complete: Callable[[JournalEntry], None]) -> None:
        self.rows = rows
        self.on_complete = on_complete
        self.error: BoxError | None = None
        self.size = 0


class RunEntry(JournalEntry):
    """Transactions of one row each, from another instance: they are written, or fail, together."""

    __slots__ = ("run",)

    def __init__(self, run: ChangeRun, on_complete: Callable[[JournalEntry], None]) -> None:
        super().__init__([], on_complete)
        self.run: ChangeRun = run  # type: ignore[misc]
        self.size = sum(map(len, run.bodies))


class OwnRow:
    """An entry of one change of a replicated space by this instance, whose row is made when it is asked for, and counts
    from then on. Before that it is `body`, of a request of the type `kind`, and `flags`.

    Subclasses have the slots, and are entries: `__slots__` stays empty here.
    """

    if not TYPE_CHECKING:
        __slots__ = ()

    _rows: list[Row] | None
    body: bytes | None
    flags: int
    kind: int
    row_lsn: int
    """Given by the writer; 0 if it has given that to the row."""

    @property
    def rows(self) -> list[Row]:
        """The row alone."""
        rows = self._rows
        if rows is None:
            lsn, body = self.row_lsn, self.body
            assert body is not None
            rows = self._rows = [Row(self.kind, 0, lsn, tsn=lsn, flags=self.flags, body=body)]
            self.body = None
        return rows

    @property
    def lsn_in_log(self) -> int:
        """The row's, 0 before it is written."""
        return self.row_lsn or self.rows[0].lsn


class PatientEntry(JournalEntry):
    """Rows for which nobody waits at other instances."""

    __slots__ = ()

    is_urgent = False


class JournalSink(Protocol):
    """Takes entries: the journal, or the recovery's stand-in that completes them at once."""

    @property
    def vclock(self) -> Mapping[int, int]:
        """The vclock of what is written."""

    @property
    def is_void(self) -> bool:
        """Rows only move the vclock; nothing reads them."""

    @property
    def completes_at_once(self) -> bool:
        """One entry that is submitted and flushed now, with no other one before it, is complete then."""

    @property
    def takes_runs(self) -> bool:
        """A `RunEntry` may be submitted."""

    def pass_row(self) -> None:
        """One row of this instance, alone in its transaction, is written: for `is_void`. Raises WAL_IO."""

    def submit(self, entry: JournalEntry) -> None:
        """Queue an entry. Raises WAL_IO when it can not even be queued."""
