"""The journal of an instance: a stand-in until the start knows where the log continues, then the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from box.instance.instance_state import InstanceState
from box.instance.resources import Resources
from box.journal.journal import Journal
from box.journal.round import Round
from box.wire.entry import JournalEntry
from box.wire.vclock import VClock

INLINE_WRITES: Final = 1000
"""While the WAL thread is idle, the tx thread writes a batch of up to this many transactions itself, because waking
that thread costs several times as much as the write."""


class StartupJournal:
    """The stand-in for the log during recovery, bootstrap and join.

    Its entries are on disk already, or will be in the first checkpoint. `vclock` follows the rows that have an lsn.
    """

    is_void = False
    takes_runs = False

    def __init__(self, vclock: VClock) -> None:
        self.vclock = vclock

    def completes_at_once(self, rows: int = 1) -> bool:
        return True

    def flush(self) -> bool:
        return False

    def pass_rows(self, count: int) -> None:
        raise AssertionError("not a void journal")

    def submit(self, entry: JournalEntry) -> None:
        for row in entry.rows:
            if row.lsn > self.vclock[row.replica_id]:
                self.vclock.follow(row.replica_id, row.lsn)
        entry.on_complete(entry)


class JournalOpening:
    """Opens the log of one start with the configured options.

    `on_open` is called with the journal and moves the parts from `stand_in` to it; `on_broken` is called if it can no
    longer be written.
    """

    def __init__(
        self,
        resources: Resources,
        state: InstanceState,
        fiber_round: Round,
        on_open: Callable[[Journal], None],
        on_broken: Callable[[str], None],
    ) -> None:
        self._resources = resources
        self._state = state
        self._round = fiber_round
        self._on_open = on_open
        self._on_broken = on_broken
        self._journal: Journal | None = None
        self.stand_in = StartupJournal(state.vclock)

    def open(self, *, is_provisional: bool, begins_anew: bool) -> None:
        """Open the log after the vclock of the state; changes go to it from now on. For the flags see `Journal.start`.

        Raises:
            BoxSystemError: the directory cannot be used.
        """
        resources, state = self._resources, self._state
        self._journal = journal = Journal(
            resources.loop,
            resources.disk,
            threads=resources.threads,
            wal_dir=resources.paths.wal_dir,
            wal_mode=resources.config["wal_mode"].lower(),
            wal_max_size=int(resources.config["wal_max_size"]),
            inline_limit=INLINE_WRITES,
            fiber_round=self._round,
            errinj=resources.errinj,
            log=resources.log,
            on_broken=self._on_broken,
        )
        journal.vclock = state.vclock
        journal.instance_id = state.instance_id
        state.on_instance_id.append(lambda instance_id: setattr(journal, "instance_id", instance_id))
        self.set_queue_size(resources.config["wal_queue_max_size"])
        self.set_too_long_threshold(resources.config["too_long_threshold"])
        journal.start(state.vclock.copy(), state.instance_uuid, is_provisional=is_provisional, begins_anew=begins_anew)
        self._on_open(journal)

    def set_queue_size(self, size: float) -> None:
        """Set `wal_queue_max_size`: the number of bytes queued for the log above which appliers wait; 0 means no
        limit.
        """
        if self._journal is not None:
            self._journal.queue_max_size = int(size) or 2**63  # more than any queue

    def set_too_long_threshold(self, seconds: float) -> None:
        """Set `too_long_threshold`: writes that take longer are named in the log."""
        if self._journal is not None:
            self._journal.slow_writes.threshold = seconds

    async def stop(self) -> None:
        """Write all submitted entries and close the log."""
        if self._journal is not None:
            await self._journal.stop()
