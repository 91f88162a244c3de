"""The replica's side of JOIN, FETCH_SNAPSHOT and REGISTER: receives what the peer sends before a subscription.

```
snapshot     vclock, INSERT rows, vclock              FETCH_SNAPSHOT, the first half of JOIN
metadata     JOIN_META, RAFT, PROMOTE, JOIN_SNAPSHOT  before the rows of a JOIN; sent by Tarantool 2.8.2+ and Lunabox
final rows   rows with their origin and lsn, OK       the second half of JOIN, REGISTER
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from box.journal.recovery import follow
from box.net.peer_connection import PeerConnection
from box.replication.applier_host import ApplierHost, UpstreamTimes
from box.replication.incoming import IncomingTransaction, expect_ok
from box.schema.ids import is_system_id
from box.wire import messages
from box.wire.constants import DML_TYPES, RequestType
from box.wire.error import raise_if_error
from box.wire.row import Row
from box.wire.tuple_run import TupleRun
from box.wire.vclock import VClock

if TYPE_CHECKING:
    from box.session import Context

_ROWS_PER_LOG: Final = 100_000
"""Received rows between two lines of progress in the log."""
_ROWS_A_TURN: Final = 512
"""Rows stored between two yields to other tasks."""
_FIRST_ROWS: Final = 1024
"""The number of rows at the start of a snapshot that count as rows of system spaces."""
_SYSTEM_ROWS_A_TURN: Final = 8
"""Rows of system spaces stored between two yields: each changes the schema, which takes longer than a user's row."""


@dataclass(slots=True)
class Bootstrap:
    """A join in progress.

    `target` receives the peer's snapshot, then `finish` is called with its vclock. `done` is set when the join ends.
    """

    target: SnapshotTarget
    finish: Callable[[VClock], Awaitable[None]]
    done: asyncio.Future[None]


class SnapshotTarget(Protocol):
    """A receiver of the rows of a peer's snapshot, as rows or as tuples."""

    def add_rows(self, rows: list[Row]) -> None: ...

    def add_tuples(self, run: TupleRun) -> None: ...


async def receive_snapshot(
    host: ApplierHost,
    connection: PeerConnection,
    times: UpstreamTimes,
    bootstrap: Bootstrap,
    on_begin: Callable[[], None],
) -> None:
    """Receive the peer's snapshot; `on_begin` is called once the peer has agreed.

    Raises:
        BoxError: the peer's refusal, a lost connection, or an error of the target.
    """
    answer = await connection.read_row()
    expect_ok(answer)
    vclock = messages.decode_vclock(answer)
    on_begin()
    await _receive_metadata(host, connection)
    count = 0
    connection.begin_snapshot()
    while True:
        items = await connection.read_tuples()
        times.touch()
        before, rows = count, list[Row]()
        for number, item in enumerate(items):
            if isinstance(item, TupleRun):
                await _add_rows(bootstrap.target, rows, count)
                await _add_tuples(bootstrap.target, item)
                count += len(rows) + len(item.tuples)
                rows = []
            elif item.type in DML_TYPES:
                rows.append(item)
            else:
                await _add_rows(bootstrap.target, rows, count)
                connection.end_snapshot(items[number + 1 :])
                expect_ok(item)
                await bootstrap.finish(vclock)
                return
        await _add_rows(bootstrap.target, rows, count)
        count += len(rows)
        if count // _ROWS_PER_LOG > before // _ROWS_PER_LOG:
            host.log.info(f"{count / 1e6:.1f}M rows received")


async def _add_rows(target: SnapshotTarget, rows: list[Row], count: int) -> None:
    """Add rows to the target, which has `count` rows already, and yield to other tasks now and then."""
    step = _SYSTEM_ROWS_A_TURN if count < _FIRST_ROWS else _ROWS_A_TURN
    for start in range(0, len(rows), step):
        target.add_rows(rows[start : start + step])
        await asyncio.sleep(0)


async def _add_tuples(target: SnapshotTarget, run: TupleRun) -> None:
    """Add a run of tuples to the target and yield to other tasks now and then."""
    space_id, tuples = run
    step = _SYSTEM_ROWS_A_TURN if is_system_id(space_id) else _ROWS_A_TURN
    for start in range(0, len(tuples), step):
        target.add_tuples(TupleRun(space_id, tuples[start : start + step]))
        await asyncio.sleep(0)


async def _receive_metadata(host: ApplierHost, connection: PeerConnection) -> None:
    """Receive the state of elections and of the limbo, if the peer sends it."""
    row = await connection.read_row()
    if row.type != RequestType.JOIN_META:
        connection.put_back([row])
        return
    while (row := await connection.read_row()).type != RequestType.JOIN_SNAPSHOT:
        raise_if_error(row)
        host.elections.recover_metadata(row)


async def receive_final_rows(host: ApplierHost, connection: PeerConnection, times: UpstreamTimes, ctx: Context) -> None:
    """Apply the rows after a snapshot or up to a registration, until the peer sends OK.

    Raises:
        ClientError: UNKNOWN, a row comes twice or out of order.
        BoxError: the peer's error, a lost connection, or an error of a statement.
    """
    reached = host.instance.vclock.copy()
    transaction = IncomingTransaction(host.instance.replicaset_uuid)
    while True:
        row = await connection.read_row()
        times.touch()
        rows = transaction.add(row)
        if row.type == RequestType.OK:
            return
        if rows is not None and row.lsn:
            follow(reached, row)
            await host.sink.apply(ctx, rows)
