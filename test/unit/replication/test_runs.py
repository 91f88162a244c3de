"""Runs of changes: applied together as each of them is applied alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box.data.codec import pack
from box.errinj import ErrorInjections
from box.errors import BoxError, ErrorCode
from box.log import Log
from box.replication import row_sink
from box.replication.row_sink import RowSink
from box.txn.short_run import change_all
from box.wire.change import Request
from box.wire.change_run import SYNCHRONOUS as SYNCHRONOUS_FLAGS
from box.wire.change_run import ChangeRun
from box.wire.constants import RequestType
from box.wire.messages import SynchroRequest, synchro_row
from box.wire.row import Row
from test.support import until
from test.unit.txn._world import World, code

PLAIN, INDEXED, TRIGGERED, SYNCHRONOUS, MISSING = 512, 513, 514, 515, 600
ORIGIN = 2
KINDS = (2, 3, 3, 3, 4, 5, 9)


class _Instance:
    instance_id = 1

    def __init__(self, world: World) -> None:
        self.vclock = world.journal.vclock


class _Options:
    skips_conflicts = False


class _Elections:
    def is_outdated(self, origin_id: int) -> bool:
        return False


class _Trigger:
    def __init__(self, heard: list[Any]) -> None:
        self._heard = heard

    async def call(self, ctx: Any, old: bytes | None, new: bytes | None, name: str, operation: str) -> None:
        self._heard.append((old, new, name, operation))


class Replica:
    """Everything that has a say when rows are applied."""

    def __init__(self, *, skips_conflicts: bool) -> None:
        world = self.world = World()
        extra = (("sk", "TREE", True, [(2, "string")]), ("three", "TREE", False, [(3, "unsigned", True)]))
        self.spaces = [
            world.space("plain", space_id=PLAIN),
            world.space("indexed", *extra, space_id=INDEXED),
            world.space("triggered", space_id=TRIGGERED),
            world.space("synchronous", space_id=SYNCHRONOUS, is_sync=True),
        ]
        self.heard: list[Any] = []
        self.spaces[2].on_replace.append(_Trigger(self.heard))
        options = _Options()
        options.skips_conflicts = skips_conflicts
        stand_ins: Any = (_Instance(world), options, _Elections())
        self.sink = RowSink(
            *stand_ins,
            schema=world.schema,
            txns=world.txns,
            dml=world.dml,
            synchro=world.synchro,
            log=Log(lambda: 0.0),
            errinj=ErrorInjections(),
        )
        self.sink.on_failure = lambda error: self.failures.append(error.code)
        self.failures: list[int] = []

    async def apply(self, *rows: Row) -> str | None:
        """One transaction; the error that an applier would stop with."""
        try:
            await self.sink.apply(self.world.ctx, list(rows))
        except BoxError as error:
            return f"{code(error)} {error.message}"
        return None

    async def apply_run(self, run: ChangeRun) -> str | None:
        """As an applier does it."""
        number = 0
        while number < len(run):
            try:
                end = self.sink.apply_run(self.world.ctx, run, number, len(run))
            except BoxError as error:
                return f"{code(error)} {error.message}"
            if end < len(run):
                error_text = await self.apply(run.row(end))
                if error_text is not None:
                    return error_text
                end += 1
            number = end
        return None

    def state(self) -> Any:
        """Everything that the outside can see."""
        contents = [self.world.all(space, iid=iid) for space in self.spaces for iid in space.indexes]
        journal, limbo = self.world.journal, [(entry.lsn, entry.written, entry.wait_ack) for entry in self.world.limbo]
        applied = dict(self.sink.applied)
        return contents, journal.rows, self.world.dml.counters, applied, self.heard, limbo, self.world.limbo.owner_id

    def decide(self, kind: RequestType, lsn: int) -> None:
        """The origin's decision about its synchronous transactions comes after what is in the log."""
        if kind == RequestType.ROLLBACK:
            self.world.journal.write()
        self.world.synchro.recover(synchro_row(SynchroRequest(kind, ORIGIN, lsn, 0, ORIGIN)))


tuples = st.one_of(
    st.tuples(st.integers(0, 4), st.sampled_from("abcd"), st.integers(0, 3)),
    st.tuples(st.integers(0, 4), st.sampled_from("abcd")),
    st.sampled_from([(), ("wrong", "a", 1), (1, "a", None)]),
)
spaces = st.sampled_from([PLAIN, PLAIN, PLAIN, INDEXED, INDEXED, TRIGGERED, SYNCHRONOUS, MISSING])
operations = st.sampled_from([[["=", 2, "x"]], [["+", 3, 5]], [["=", 1, 3]], [["#", 4, 1]], []])
oddities = st.sampled_from([0, 0, 0, 0, 1])
changes = st.tuples(st.sampled_from(KINDS), spaces, tuples, operations, oddities)
synchronous = st.tuples(
    st.sampled_from(KINDS), st.sampled_from([SYNCHRONOUS] * 6 + [PLAIN, MISSING]), tuples, operations, oddities
)
decisions = st.tuples(st.sampled_from([RequestType.CONFIRM, RequestType.ROLLBACK]), st.integers(1, 40))
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


def _body(kind: int, space_id: int, fields: tuple[Any, ...], ops: list[Any], oddity: int) -> bytes:
    raw = pack(list(fields))
    request = {
        2: Request.insert(raw),
        3: Request.replace(raw),
        4: Request.update(list(fields[:1]), ops),
        5: Request.delete(list(fields[:1])),
        9: Request.upsert(raw, ops),
    }[kind]
    body = request.body(space_id)
    if not oddity:
        return body
    # Other forms: a number of five bytes, the pairs in another order, something behind the end.
    if kind == 3 and len(fields) == 2:
        return b"\x82\x21" + raw + b"\x10\xce" + space_id.to_bytes(4, "big")
    return body + b"\x00" if kind == 2 else body


@settings(max_examples=200, deadline=None)
@given(steps, st.booleans())
def test_a_run_is_applied_as_its_rows_are(program: list[Any], skips: bool) -> None:
    """Contents of all indexes, rows of the log, counters, triggers, the limbo and errors with their texts agree, step
    by step, also when rows come again, when synchronous ones are confirmed or rolled back, when the log fails and when
    it refuses."""

    async def body() -> None:
        one, other = Replica(skips_conflicts=skips), Replica(skips_conflicts=skips)
        lsn = 70000
        last: list[tuple[int, int, bytes]] = []
        flags = 0
        for step in program:
            if step == "written":
                one.world.journal.write()
                other.world.journal.write()
            elif step == "failed":
                one.world.journal.fail()
                other.world.journal.fail()
                assert bool(one.failures) == bool(other.failures)
            elif step == "refuse":
                for world in (one.world, other.world):
                    world.journal.refuses = not world.journal.refuses
            elif step[0] == "decide":
                kind, back = step[1]
                one.decide(kind, lsn - back)
                other.decide(kind, lsn - back)
            else:
                if step != "repeat":
                    flags = step[0]
                    last = [(change[0], lsn + number, _body(*change)) for number, change in enumerate(step[1])]
                    lsn += len(last)
                run = ChangeRun(ORIGIN, flags)
                run.heads = [bytes((0x84, 0, kind, 2, ORIGIN, 3)) for kind, _, _ in last]
                run.lsns = [place for _, place, _ in last]
                run.bodies = [raw for _, _, raw in last]
                if not last:
                    continue
                found = await one.apply_run(run)
                wanted = None
                for kind, place, raw in last:
                    wanted = wanted or await other.apply(Row(kind, ORIGIN, place, tsn=place, flags=flags, body=raw))
                    if wanted is not None:
                        break
                assert found == wanted
            assert one.state() == other.state()
        await one.sink.stop()
        await other.sink.stop()

    asyncio.run(body())


def _transaction(changes: list[Any], lsn: int) -> list[Row]:
    rows = [
        Row(change[0], ORIGIN, lsn + number, tsn=lsn, is_commit=False, body=_body(*change))
        for number, change in enumerate(changes)
    ]
    rows[-1].is_commit = True
    return rows


@settings(max_examples=150, deadline=None)
@given(steps, st.booleans())
def test_rows_of_a_transaction_are_executed_together_as_one_by_one(program: list[Any], skips: bool) -> None:
    """Everything that the outside can see agrees, as above."""

    async def body() -> None:
        one, other = Replica(skips_conflicts=skips), Replica(skips_conflicts=skips)
        lsn = 70000
        for step in program:
            if step == "written":
                one.world.journal.write()
                other.world.journal.write()
            elif step == "failed":
                one.world.journal.fail()
                other.world.journal.fail()
            elif step == "refuse":
                for world in (one.world, other.world):
                    world.journal.refuses = not world.journal.refuses
            elif isinstance(step[0], int):
                found = []
                for replica, many in ((one, 1), (other, 10**9)):
                    with pytest.MonkeyPatch.context() as patch:
                        patch.setattr(row_sink, "_MANY_ROWS", many)
                        found.append(await replica.apply(*_transaction(step[1], lsn)))
                assert found[0] == found[1]
                lsn += len(step[1])
            assert one.state() == other.state()
        await one.sink.stop()
        await other.sink.stop()

    asyncio.run(body())


def test_rows_of_a_transaction_take_the_short_way() -> None:
    """Or the test above would compare the general way with itself; the changes can be taken back."""

    async def body() -> None:
        replica = Replica(skips_conflicts=False)
        world = replica.world
        changes = [(3, PLAIN, (number, "a"), [], 0) for number in range(5000)]
        changes[2000] = (5, PLAIN, (7,), [], 0)
        rows = _transaction(changes, 1)
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
def test_usual_changes_take_the_short_way(flags: int) -> None:
    """Or the test above would compare the general way with itself."""

    async def body() -> None:
        world = World()
        world.space(space_id=PLAIN, is_sync=bool(flags))
        run = ChangeRun(ORIGIN, flags)
        for number in range(100):
            run.heads.append(bytes((0x85 if flags else 0x84, 0, 3, 2, ORIGIN, 3)))
            run.lsns.append(number + 1)
            run.bodies.append(_body(3, PLAIN, (number, "a"), [], 0))
        outcomes: list[BoxError | None] = []
        assert world.dml.write_run(world.ctx, run, 10, 90, outcomes.append) == 90
        assert len(world.journal.queue) == 1
        assert not outcomes
        assert [entry.lsn for entry in world.limbo] == (list(range(11, 91)) if flags else [])
        world.journal.fail()
        assert [error and error.code for error in outcomes] == [ErrorCode.WAL_IO]
        assert world.all(world.schema.space(PLAIN)) == []
        assert world.limbo.is_empty
        assert len(change_all(world.schema, world.dml._planner, run, 0, 5)) == 5

    asyncio.run(body())


def test_others_hear_of_a_confirm_with_the_next_transaction() -> None:
    """Nobody waits for the acknowledgement of a CONFIRM: it is sent with that of the next transaction, or soon."""

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
            await replica.apply(Row(3, ORIGIN, lsn, tsn=lsn, flags=SYNCHRONOUS_FLAGS, body=_body(*change)))
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
