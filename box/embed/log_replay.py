"""Changes of a space after a vclock, read from the node's files for `changes(start=...)`.

```
in the loop     wait until all changes so far are in the log and none waits in the limbo; remember that vclock
in a thread     load the newest snapshot that is not later than `start` into a second instance, which has the dictionary
                and this one space; apply the log up to that vclock; record the tuples before and after each change
```

The thread reads some changes ahead and then waits, so that a slow reader takes no memory. The second instance treats
synchronous transactions, altered formats and truncations as a starting node does.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from box.embed.commit_listener import CommitListener, RawChange
from box.errors import BoxError, fiber_is_cancelled
from box.instance.loader import LogLoader, SnapshotLoader
from box.instance.node import Instance
from box.journal.directory import LogFile, SilentLog
from box.journal.log_gap import XlogGapError
from box.journal.reader import LogReader
from box.journal.recovery import Recovery, find_snapshots, group_transactions
from box.journal.snapshot import SnapshotReader
from box.log import Level
from box.schema.ids import SpaceId, is_system_id
from box.wire.change import decode_row
from box.wire.constants import DML_TYPES, Flag
from box.wire.row import Row
from box.wire.vclock import VClock

if TYPE_CHECKING:
    from box.schema.space import Space
    from box.session import Context

_BATCH: Final = 256
"""The number of changes that the thread hands over at once."""
_BATCHES_AHEAD: Final = 4
"""The number of batches by which the thread may be ahead of the reader."""
_SYNCHRONOUS: Final = int(Flag.WAIT_SYNC | Flag.WAIT_ACK)


async def settled(core: Instance) -> VClock:
    """Wait until everything done so far is decided and in the log. Returns the vclock reached."""
    while True:
        with suppress(BoxError):  # an error means that changes were rolled back, which is a decision, too
            if core.journal is not None:
                await core.journal.sync()
            break
        await asyncio.sleep(0)
    last = core.limbo.last
    if last is not None:
        with suppress(BoxError):
            await last.wait()
    return core.state.vclock.copy()


class LogReplay:
    """Reads the changes of one space after the vclock `start` and up to the vclock `stop`; calls `take(batch)` in the
    loop.

    `take(None)` reports the end, `fail(error)` an end with an error. `run()` begins to read, `close()` abandons the
    reading.
    """

    def __init__(
        self,
        core: Instance,
        space_id: int,
        start: VClock,
        stop: VClock,
        take: Callable[[list[RawChange] | None], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._core = core
        self._space_id = space_id
        self._start = start
        self._stop = stop
        self._take = take
        self._fail = fail
        self._room = threading.Semaphore(_BATCHES_AHEAD)
        self._is_closed = False
        self._changes: list[RawChange] = []

    def run(self) -> asyncio.Future[None]:
        """Begin to read in a thread. Returns a future that ends with the thread."""
        pool = self._core.resources.threads.pool(1, "changes")
        done: asyncio.Future[None] = self._core.loop.run_in_executor(pool, self._run)
        pool.shutdown(wait=False)
        return done

    def release(self) -> None:
        """Note that the reader has consumed a batch, which makes room for another."""
        self._room.release()

    def close(self) -> None:
        """Stop reading; safe to call again."""
        self._is_closed = True
        self._room.release()

    # -- in the thread

    def _run(self) -> None:
        tell: Callable[..., Any] = self._core.loop.call_soon_threadsafe
        try:
            asyncio.run(self._read())
        except BaseException as error:
            tell(self._fail, error)
        else:
            tell(self._take, None)

    async def _read(self) -> None:
        core = self._core
        snapshot = self._snapshot()
        scratch = Instance(disk=core.disk, clock=core.clock)
        scratch.log.forward = _say_nothing  # otherwise lines such as `assigned id 1` go to standard error
        try:
            ctx = scratch.new_context()
            _Recorder(scratch, self._space_id, self._committed)
            self._read_snapshot(snapshot, SnapshotLoader(scratch.schema, scratch.dml, ctx, scratch.log))
            await self._read_log(snapshot, scratch, ctx)
            self._hand_over(1)
        finally:
            await scratch.close()

    def _snapshot(self) -> LogFile:
        """Return the newest snapshot that is not later than the start."""
        paths = self._core.paths
        found = find_snapshots(self._core.disk, paths.memtx_dir)
        usable = [file for file in found if self._start.covers(file.vclock)]
        if not usable:
            raise XlogGapError(self._start, found[0].vclock if found else self._stop)
        return usable[-1]

    def _read_snapshot(self, snapshot: LogFile, loader: SnapshotLoader) -> None:
        with SnapshotReader(self._core.disk, snapshot.path, log=SilentLog()) as reader:
            for runs, _ in reader.tuples():
                for run in runs:
                    if is_system_id(run.space_id) or run.space_id == self._space_id:
                        loader.add_run(run)
                self._check_open()
        for _ in loader.finishing():
            self._check_open()

    async def _read_log(self, snapshot: LogFile, scratch: Instance, ctx: Context) -> None:
        core = self._core
        scratch.state.move(snapshot.vclock)
        recovery = Recovery(
            core.disk, core.paths.wal_dir, snapshot.vclock, instance_uuid=core.state.instance_uuid, log=SilentLog()
        )
        recovery.scan()
        loader = LogLoader(
            scratch.schema, scratch.dml, scratch.txns, scratch.synchro, scratch.elections, scratch.new_context()
        )
        reader = recovery.reader()
        try:
            for rows in self._transactions(reader):
                await loader.add(rows, _stay)
                self._hand_over(_BATCH)
                self._check_open()
        finally:
            reader.close()

    def _transactions(self, reader: LogReader) -> Iterator[list[Row]]:
        """Yield the transactions that matter to the space, up to the end; rows after it may still be rolled back."""
        while not reader.vclock.covers(self._stop, ignore_zero=True):
            block = reader.next_rows()
            if block is None:
                raise XlogGapError(reader.vclock, self._stop)
            for rows in group_transactions(block):
                if all(row.lsn <= self._stop[row.replica_id] for row in rows):
                    chosen = rows if rows[-1].flags & _SYNCHRONOUS else [row for row in rows if self._matters(row)]
                    if chosen:
                        yield chosen
            self._check_open()

    def _matters(self, row: Row) -> bool:
        """True for a row of the dictionary, of this space, or about transactions.

        Synchronous transactions matter as a whole, because later rows wait for them.
        """
        if row.type not in DML_TYPES:
            return True
        space_id, _ = decode_row(row)
        return is_system_id(space_id) or space_id == self._space_id

    def _committed(self, change: RawChange) -> None:
        _, _, lsn, replica_id = change
        if lsn is None or replica_id is None or lsn > self._start[replica_id]:
            self._changes.append(change)

    def _hand_over(self, least: int) -> None:
        """Give the collected changes to the reader if they are at least `least`. Waits for a slow reader."""
        while len(self._changes) >= least:
            batch, self._changes = self._changes[:_BATCH], self._changes[_BATCH:]
            self._room.acquire()
            self._check_open()
            self._core.loop.call_soon_threadsafe(self._take, batch)

    def _check_open(self) -> None:
        if self._is_closed:
            raise fiber_is_cancelled()


async def _stay() -> None:
    """Return at once: the thread has no other work to yield to."""


def _say_nothing(_: Level, __: str) -> None:
    """Drop a line of the log: the node itself has logged it before."""


class _Recorder(CommitListener):
    """Listens to the commits of one space in the instance that reads the log."""

    def __init__(self, scratch: Instance, space_id: int, tell: Callable[[RawChange], None]) -> None:
        super().__init__(space_id, tell)
        self._truncations = scratch.schema.spaces[SpaceId.TRUNCATE]
        self._schema = scratch.schema
        scratch.schema.on_alter_spaces.append(self._altered)

    def _altered(self, spaces: list[Space]) -> None:
        space = self._schema.spaces.get(self._space_id)
        if space is not None and self not in space.on_replace:
            space.on_replace.append(self)
            if self not in self._truncations.on_replace:
                self._truncations.on_replace.append(self)
