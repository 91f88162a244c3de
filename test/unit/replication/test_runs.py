"""Runs of changes have the same result as their rows applied one by one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box.errors import BoxError, ErrorCode
from box.replication import row_executor, row_sink
from box.txn.fast_run import change_rows
from box.wire.change_run import SYNCHRONOUS as SYNCHRONOUS_FLAGS
from box.wire.change_run import ChangeRun
from box.wire.constants import RequestType
from box.wire.messages import SynchroRequest, synchro_row
from box.wire.row import Row
from test.support import until
from test.unit.replication.pair import (
    ORIGIN,
    PLAIN,
    SYNCHRONOUS,
    Pair,
    Replica,
    change_body,
    changes,
    decisions,
    go_through,
    synchronous,
    transaction,
)
from test.unit.txn._world import World

steps = st.lists(
    st.one_of(
        st.tuples(st.just(0), st.lists(changes, min_size=1, max_size=12)),
        st.tuples(st.just(SYNCHRONOUS_FLAGS), st.lists(synchronous, min_size=1, max_size=12)),
        st.tuples(st.just(SYNCHRONOUS_FLAGS), st.lists(synchronous, min_size=1, max_size=12)),
        st.sampled_from(["written", "failed", "refuse", "repeat"]),
        st.tuples(st.just("decide"), decisions),
    ),
    max_size=12,
)


@settings(max_examples=80, deadline=None)
@given(steps, st.booleans())
def test_a_run_is_applied_as_its_rows_are(program: list[Any], skips: bool) -> None:
    """A run and single rows give equal indexes, log rows, counters, triggers, limbo and errors after each step.

    This holds also when rows come again, when synchronous transactions are confirmed or rolled back, and when the log
    fails or refuses.
    """

    last: list[tuple[int, int, bytes]] = []
    flags = 0

    async def apply(pair: Pair, step: Any) -> None:
        nonlocal flags, last
        if step != "repeat":
            flags = step[0]
            last = [(change[0], pair.lsn + number, change_body(*change)) for number, change in enumerate(step[1])]
            pair.lsn += len(last)
        if not last:
            return
        run = ChangeRun(ORIGIN, flags)
        run.heads = [bytes((0x84, 0, kind, 2, ORIGIN, 3)) for kind, _, _ in last]
        run.lsns = [place for _, place, _ in last]
        run.bodies = [raw for _, _, raw in last]
        found = await pair.one.apply_run(run)
        wanted = None
        for kind, place, raw in last:
            wanted = await pair.other.apply(Row(kind, ORIGIN, place, tsn=place, flags=flags, body=raw))
            if wanted is not None:
                break
        assert found == wanted

    go_through(program, skips, apply)


@settings(max_examples=60, deadline=None)
@given(steps, st.booleans())
def test_rows_of_a_transaction_are_executed_together_as_one_by_one(program: list[Any], skips: bool) -> None:
    """Rows of a transaction executed together and one by one give equal indexes, log rows, counters,
    limbo and errors.
    """

    async def apply(pair: Pair, step: Any) -> None:
        if step == "repeat":
            return
        found = []
        for replica, many in ((pair.one, 1), (pair.other, 10**9)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(row_executor, "_MANY_ROWS", many)
                found.append(await replica.apply(*transaction(step[1], pair.lsn)))
        assert found[0] == found[1]
        pair.lsn += len(step[1])

    go_through(program, skips, apply)


def test_rows_of_a_transaction_take_the_fast_path() -> None:
    """Rows of a transaction take the fast path (else the comparisons would not test it), and can be undone."""

    async def body() -> None:
        replica = Replica(skips_conflicts=False)
        world = replica.world
        changes = [(3, PLAIN, (number, "a"), [], 0) for number in range(5000)]
        changes[2000] = (5, PLAIN, (7,), [], 0)
        rows = transaction(changes, 1)
        txn = world.txns.begin(world.ctx)
        assert world.dml.write_rows(world.ctx, rows) == 5000
        assert world.dml.counters[3] == 4999
        assert len(world.schema.space(PLAIN).index(0)) == 4998
        world.txns.rollback_open(world.ctx, txn)
        assert len(world.schema.space(PLAIN).index(0)) == 0
        assert await replica.apply(*rows) is None
        assert len(world.journal.queue) == 1

    asyncio.run(body())


@pytest.mark.parametrize("flags", [0, SYNCHRONOUS_FLAGS])
def test_usual_changes_take_the_fast_path(flags: int) -> None:
    """Usual changes take the fast path; else the comparisons would not test it."""

    async def body() -> None:
        world = World()
        world.space(space_id=PLAIN, is_sync=bool(flags))
        run = ChangeRun(ORIGIN, flags)
        for number in range(100):
            run.heads.append(bytes((0x85 if flags else 0x84, 0, 3, 2, ORIGIN, 3)))
            run.lsns.append(number + 1)
            run.bodies.append(change_body(3, PLAIN, (number, "a"), [], 0))
        outcomes: list[BoxError | None] = []
        assert world.dml.write_run(world.ctx, run, 10, 90, outcomes.append) == 90
        assert len(world.journal.queue) == 1
        assert not outcomes
        assert [entry.lsn for entry in world.limbo] == (list(range(11, 91)) if flags else [])
        world.journal.fail()
        assert [error and error.code for error in outcomes] == [ErrorCode.WAL_IO]
        assert world.all(world.schema.space(PLAIN)) == []
        assert world.limbo.is_empty
        assert len(change_rows(world.schema, world.dml._planner, [3] * 5, run.bodies[:5])) == 5

    asyncio.run(body())


def test_others_hear_of_a_confirm_with_the_next_transaction() -> None:
    """A replica's acknowledgement of a CONFIRM is sent with that of the next transaction, or a little later."""

    async def body() -> None:
        replica = Replica(skips_conflicts=False)
        world, told = replica.world, 0

        def on_written() -> None:
            nonlocal told
            told += 1

        replica.sink.on_written = on_written
        world.journal.is_quick = True
        for lsn in (1, 3):
            change = (3, SYNCHRONOUS, (lsn, "a"), [], 0)
            await replica.apply(Row(3, ORIGIN, lsn, tsn=lsn, flags=SYNCHRONOUS_FLAGS, body=change_body(*change)))
            assert told == lsn // 2 + 1
            confirm = synchro_row(SynchroRequest(RequestType.CONFIRM, ORIGIN, lsn, 0, ORIGIN))
            confirm.lsn = confirm.tsn = lsn + 1
            await replica.apply(confirm)
            assert world.limbo.is_empty
            assert told == lsn // 2 + 1
        await until(lambda: told == 3)
        await asyncio.sleep(2 * row_sink._CONFIRM_PAUSE)
        assert told == 3
        await replica.sink.stop()

    asyncio.run(body())


def test_only_void_transactions_are_taken_from_who_does_not_lead() -> None:
    """Synchronous rows and decisions of an instance whose limbo was taken over are applied as NOPs, in their order."""

    async def body() -> None:
        replica = Replica(skips_conflicts=False)
        world, sink = replica.world, replica.sink
        world.journal.is_quick = True

        def take(lsn: int, flags: int = SYNCHRONOUS_FLAGS) -> int:
            raw = change_body(3, SYNCHRONOUS, (lsn, "a"), [], 0)
            sink.take_void(world.ctx, [Row(3, ORIGIN, lsn, tsn=lsn, flags=flags, body=raw)])
            return sink.applied[ORIGIN]

        assert take(1) == 0  # not outdated
        promotion = synchro_row(SynchroRequest(RequestType.PROMOTE, ORIGIN, 0, 5, ORIGIN + 1))
        promotion.replica_id = ORIGIN + 1
        world.synchro.recover(promotion)
        sink._elections.is_outdated = world.limbo.is_outdated  # type: ignore[method-assign]
        assert take(2) == 0  # another one is missing before it
        assert take(1) == 1
        assert take(1) == 1
        rollback = synchro_row(SynchroRequest(RequestType.ROLLBACK, ORIGIN, 1, 0, ORIGIN))
        rollback.replica_id, rollback.lsn = ORIGIN, 2
        sink.take_void(world.ctx, [rollback])
        assert take(3, flags=0) == 2  # an asynchronous one
        assert take(4) == 2
        assert take(3) == 3
        assert [kind for kind, _ in world.journal.rows] == [RequestType.NOP] * 3
        assert world.all(world.schema.space(SYNCHRONOUS)) == []
        assert world.synchro.promotions.void.needed({ORIGIN: 3, 1: 4}) == {ORIGIN: 0, 1: 4}
        await sink.stop()

    asyncio.run(body())
