"""The order of rows from several peers: positions that a relay sends with a list of members, and transactions that
wait.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast
from uuid import UUID

import pytest

from box.errors import BoxError, ErrorCode, client_error
from box.replication.relay import RowFilter
from box.replication.replicaset import ReplicaSet
from box.replication.row_order import OutOfOrder, RowOrder
from box.replication.white_list import WhiteList
from box.session import Context
from box.waiters import Waiters
from box.wire.constants import GROUP_LOCAL, RequestType
from box.wire.messages import SynchroRequest, decode_after, synchro_row
from box.wire.packet_run import PacketRun
from box.wire.row import Row, encode_packet
from box.wire.vclock import VClock
from test.support import until

UUIDS = {number: UUID(int=number) for number in range(1, 8)}
CTX = cast(Context, None)


def row(origin: int, lsn: int, **fields: Any) -> Row:
    fields = {"body": b"\x80"} | fields
    return Row(RequestType.REPLACE, origin, lsn, 1.0, tsn=lsn, **fields)


# -- the white list --------------------------------------------------------------------------------------------


def white_list(*wanted: int, left_out: frozenset[int] = frozenset(), members: int = 4) -> WhiteList:
    """Make the list filter of instance 1 for subscriber 4."""
    replicaset = ReplicaSet()
    for number in range(1, members + 1):
        replicaset.register(number, UUIDS[number])
    listed = frozenset(UUIDS[number] for number in wanted)
    return WhiteList(listed, left_out, replicaset.uuids, subscriber_id=4)


LOG = [row(2, 7), row(1, 5), row(4, 9), row(2, 8), row(3, 4), row(1, 6), row(1, 7), row(3, 5)]


def sent(rows: list[Row]) -> list[tuple[int, int] | dict[int, int] | None]:
    """Return the sent rows as `(origin, lsn)` and positions as maps."""
    return [(each.replica_id, each.lsn) if each.lsn else decode_after(each) for each in rows]


def test_rows_of_listed_instances_and_what_came_before() -> None:
    """Rows of listed members are sent with positions of the rows before them; the subscriber's own rows need none."""
    found = sent(list(white_list(1).select(LOG)))
    assert found == [{2: 7}, (1, 5), {2: 8, 3: 4}, (1, 6), (1, 7)]


def test_rows_of_third_instances_stand_behind_what_came_before_them_here() -> None:
    """Rows of members that are not listed are replaced by positions; rows that the subscriber has lost wait for
    nothing.
    """
    found = sent(list(white_list(1, 3).select(LOG)))
    assert found == [{2: 7}, (1, 5), {2: 8}, (3, 4), (1, 6), (1, 7), (3, 5)]
    assert sent(list(white_list(3).select(LOG))) == [{1: 5, 2: 8}, (3, 4), {1: 7}, (3, 5)]
    assert sent(list(white_list(1, 4).select(LOG))) == [{2: 7}, (1, 5), (4, 9), {2: 8, 3: 4}, (1, 6), (1, 7)]


def test_positions_reach_over_batches() -> None:
    chosen = white_list(1)
    assert sent(list(chosen.select(LOG[:1]))) == []
    assert sent(list(chosen.select(LOG[1:2]))) == [{2: 7}, (1, 5)]
    assert sent(list(chosen.select([row(1, 6)]))) == [(1, 6)]


def test_strangers_are_let_through_unless_they_are_left_out() -> None:
    """Rows of unknown origins are sent unless the list excludes them, because no other source may know them."""
    assert sent(list(white_list(1).select([row(7, 1)]))) == [(7, 1)]
    assert sent(list(white_list(1, left_out=frozenset({7})).select([row(7, 1)]))) == []


def test_members_come_and_go() -> None:
    replicaset = ReplicaSet()
    replicaset.register(1, UUIDS[1])
    chosen = WhiteList(frozenset({UUIDS[1]}), frozenset(), replicaset.uuids, subscriber_id=4)
    assert sent(list(chosen.select([row(2, 1)]))) == [(2, 1)]
    replicaset.register(2, UUIDS[2])
    assert sent(list(chosen.select([row(2, 2)]))) == []
    replicaset.unregister(2)
    assert sent(list(chosen.select([row(2, 3)]))) == [{2: 2}, (2, 3)]


@pytest.mark.parametrize("sync", [0, 5])
def test_whole_runs_are_filtered_like_single_rows(sync: int) -> None:
    rows = [*LOG, row(2, 9, group_id=GROUP_LOCAL), row(0, 3, group_id=GROUP_LOCAL), row(1, 8, group_id=GROUP_LOCAL)]
    runs = [PacketRun(r.replica_id, r.group_id == GROUP_LOCAL, r.lsn, r.lsn, encode_packet(r)) for r in rows]

    def row_filter() -> RowFilter:
        return RowFilter(4, VClock({4: 3}), frozenset({3}), sync, white_list(1, 4))

    picked = list(row_filter().select(rows))
    assert row_filter().packets(runs) == b"".join(map(encode_packet, picked))
    assert sent(picked) == [{2: 7}, (1, 5), {2: 8, 3: 4}, (1, 6), (1, 7), {2: 9, 3: 5}, (1, 8)]
    assert all(each.sync == sync for each in picked)


# -- transactions that are held ----------------------------------------------------------------------------------


class Sink:
    """Applies transactions; `errors` are raised first, one for each."""

    def __init__(self) -> None:
        self.applied = VClock()
        self.progress = Waiters()
        self.errors: list[BoxError] = []
        self.rows: list[tuple[int, int]] = []

    def apply_now(self, ctx: Context, rows: list[Row]) -> bool:
        if self.errors:
            raise self.errors.pop(0)
        self.rows += [(each.replica_id, each.lsn) for each in rows]
        self.applied.follow(rows[-1].replica_id, rows[-1].lsn)
        self.progress.wake()
        return True

    async def apply(self, ctx: Context, rows: list[Row]) -> None:
        self.apply_now(ctx, rows)


class Held:
    """The order of rows in instance 3, which waits for `seconds`, and the sink of its transactions."""

    def __init__(self, seconds: float = 20.0) -> None:
        self.sink = Sink()
        self.is_over = False
        loop = asyncio.get_running_loop()
        self.order = RowOrder(loop, self.sink, 3, patience=lambda: seconds, is_over=lambda: self.is_over)

    def begin(self, *rows: Row) -> asyncio.Task[None]:
        return asyncio.ensure_future(self.order.apply(CTX, list(rows)))


def test_a_transaction_waits_for_what_comes_before_it() -> None:
    async def main() -> None:
        held = Held()
        assert held.order.apply_now(CTX, [row(2, 1)])
        held.order.learn(VClock({1: 2, 3: 99}))
        assert not held.order.apply_now(CTX, [row(2, 2)])
        task = held.begin(row(2, 2))
        for lsn in (1, 2):
            await asyncio.sleep(0)
            assert not task.done()
            held.sink.apply_now(CTX, [row(1, lsn)])
        await task
        assert held.sink.rows == [(2, 1), (1, 1), (1, 2), (2, 2)]
        assert held.order.apply_now(CTX, [row(2, 3)])

    asyncio.run(main())


def test_what_has_come_between_a_position_and_its_row_is_not_waited_for() -> None:
    """Rows that come between a position and its row are not waited for, because their source may wait for this row."""

    async def main() -> None:
        held = Held()
        held.order.learn(VClock({1: 1}))
        assert held.order.must_wait
        held.sink.apply_now(CTX, [row(1, 1)])
        await held.order.apply(CTX, [row(2, 1)])
        assert held.sink.rows == [(1, 1), (2, 1)]

    asyncio.run(main())


def test_what_is_here_already_holds_nothing() -> None:
    async def main() -> None:
        held = Held()
        held.sink.apply_now(CTX, [row(1, 5)])
        held.order.learn(VClock({1: 5}))
        assert held.order.apply_now(CTX, [row(2, 1)])

    asyncio.run(main())


def test_a_conflict_is_tried_again_when_other_rows_have_come() -> None:
    async def main() -> None:
        held = Held()
        conflict = client_error(ErrorCode.UNCOMMITTED_FOREIGN_SYNC_TXNS, 1)
        held.sink.errors = [conflict, conflict]
        assert not held.order.apply_now(CTX, [row(2, 1)])
        task = held.begin(row(2, 1))
        await until(lambda: not held.sink.errors)
        assert held.sink.rows == []
        held.sink.apply_now(CTX, [row(1, 1)])
        await task
        assert held.sink.rows == [(1, 1), (2, 1)]

    asyncio.run(main())


def test_an_error_that_other_rows_do_not_mend() -> None:
    async def main() -> None:
        held = Held()
        held.sink.errors = [client_error(ErrorCode.WAL_IO), client_error(ErrorCode.WAL_IO)]
        with pytest.raises(BoxError, match="Failed to write to disk"):
            held.order.apply_now(CTX, [row(2, 1)])
        with pytest.raises(BoxError, match="Failed to write to disk"):
            await held.begin(row(2, 1))

    asyncio.run(main())


@pytest.mark.parametrize("conflicts", [False, True])
def test_rows_are_not_held_for_ever(conflicts: bool) -> None:
    async def main() -> None:
        held = Held(0.01)
        if conflicts:
            held.sink.errors = [client_error(ErrorCode.UNCOMMITTED_FOREIGN_SYNC_TXNS, 1)]
        else:
            held.order.learn(VClock({1: 2}))
        with pytest.raises(OutOfOrder):
            await held.begin(row(2, 1))

    asyncio.run(main())


def test_the_end_of_the_subscription_ends_the_wait() -> None:
    async def main() -> None:
        held = Held()
        held.order.learn(VClock({1: 2}))
        task = held.begin(row(2, 1))
        await asyncio.sleep(0)
        held.is_over = True
        held.sink.progress.wake()
        with pytest.raises(OutOfOrder):
            await task

    asyncio.run(main())


def promote(origin: int, former: int, lsn: int) -> Row:
    request = synchro_row(SynchroRequest(RequestType.PROMOTE, former, lsn, 2))
    request.replica_id, request.lsn = origin, 1
    return request


def test_a_promotion_waits_for_the_rows_that_it_decides_about() -> None:
    """A promotion waits for the former owner's rows up to the confirmed one, unless that owner is its author or this
    instance.
    """

    async def main() -> None:
        for former in (2, 3, 0):
            held = Held(0.01)
            await held.begin(promote(2, former, 7))
        held = Held()
        task = held.begin(promote(2, 1, 7))
        await asyncio.sleep(0)
        held.sink.apply_now(CTX, [row(1, 6)])
        await asyncio.sleep(0)
        assert not task.done()
        held.sink.apply_now(CTX, [row(1, 7)])
        await task
        assert held.sink.rows == [(1, 6), (1, 7), (2, 1)]

    asyncio.run(main())
