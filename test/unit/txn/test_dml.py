"""Requests without MVCC: what they change, write to the journal and refuse."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from box.data.codec import pack, unpack
from box.errors import BoxError
from box.schema.space import NOTHING
from box.wire.change import REPLACE, Request
from box.wire.constants import RequestType
from box.wire.row import Row

from ._world import World, code

SK = ("sk", "TREE", True, [(2, "string")])
BY_THREE = ("three", "TREE", False, [(3, "unsigned", True)])


def test_quick_replace_waits_for_the_journal() -> None:
    """A change is visible at once; its commit is complete when the journal has written it."""

    async def body() -> None:
        world = World()
        space = world.space()
        assert world.replace(space, 1, "a") == [1, "a"]
        assert world.get(space, 1) == [1, "a"]
        pending = world.pending
        assert pending is not None
        assert not pending.done
        world.journal.write()
        await pending.wait()
        assert world.journal.rows == [(RequestType.REPLACE, {0x10: 512, 0x21: [1, "a"]})]

    asyncio.run(body())


@pytest.mark.parametrize("extra", [(), (SK,)])
def test_failed_write_undoes_newest_first(extra: tuple[Any, ...]) -> None:
    """After a failed write the space is as it was before the first failed change."""

    async def body() -> None:
        world = World()
        space = world.space("s", *extra)
        world.journal.is_quick = True
        world.replace(space, 1, "a")
        world.journal.is_quick = False
        commits = []
        for value in "bcd":
            world.replace(space, 1, value)
            commits.append(world.pending)
        world.insert(space, 2, "new")
        commits.append(world.pending)
        world.journal.write(1)
        world.journal.fail()
        assert world.all(space) == [[1, "b"]]
        errors = []
        for commit in commits:
            assert commit is not None
            assert commit.done
            errors.append(commit.error and code(commit.error))
        assert errors == [None, "WAL_IO", "WAL_IO", "WAL_IO"]
        if extra:
            assert world.all(space, iid=1) == [[1, "b"]]

    asyncio.run(body())


@pytest.mark.parametrize("extra", [(), (SK,)])
def test_refused_write_raises_at_once(extra: tuple[Any, ...]) -> None:
    """A request that the journal refuses raises at once and changes nothing."""

    async def body() -> None:
        world = World()
        space = world.space("s", *extra)
        world.journal.refuses = True
        with pytest.raises(BoxError) as failure:
            world.replace(space, 1, "a")
        assert code(failure.value) == "WAL_IO"
        assert world.all(space) == []
        assert world.pending is None
        assert world.ctx.txn is None

    asyncio.run(body())


def test_unique_indexes() -> None:
    """A tuple with a duplicate in any unique index is refused; the error has both tuples."""

    async def body() -> None:
        world = World()
        world.journal.is_quick = True
        space = world.space("s", SK, BY_THREE)
        world.insert(space, 1, "a", 5)
        world.insert(space, 2, "b", 5)
        for call in (
            lambda: world.insert(space, 1, "x"),
            lambda: world.replace(space, 1, "b"),
            lambda: world.insert(space, 3, "a"),
        ):
            with pytest.raises(BoxError) as failure:
                call()
            assert code(failure.value) == "TUPLE_FOUND"
        assert 'index "sk" in space "s" with old tuple - [1, "a", 5] and new tuple - [3, "a"]' in failure.value.message
        world.replace(space, 1, "c")
        assert world.all(space, iid=1) == [[2, "b", 5], [1, "c"]]
        assert world.all(space, iid=2) == [[1, "c"], [2, "b", 5]]

    asyncio.run(body())


def test_update_delete_upsert_and_their_rows() -> None:
    """The journal gets requests as given; a key of a secondary index is replaced by the primary one if a tuple is
    found.
    """

    async def body() -> None:
        world = World()
        world.journal.is_quick = True
        space = world.space("s", SK)
        dml, ctx = world.dml, world.ctx
        world.insert(space, 1, "a", 7)
        updated = dml.write(ctx, space, Request.update(["a"], [["+", 3, 1]], 1))
        assert updated is not None
        assert unpack(updated) == [1, "a", 8]
        assert dml.write(ctx, space, Request.update([9], [["=", 3, 1]])) is None
        dml.write(ctx, space, Request.upsert(pack([1, "zz", 0]), [["+", 3, 2]]))
        dml.write(ctx, space, Request.upsert(pack([4, "d", 0]), [["+", 2, 2]], 0))
        dml.write(ctx, space, Request.upsert(pack([1, "zz"]), [["=", 1, 77]]))
        assert dml.write(ctx, space, Request.delete(["nope"], 1)) is None
        deleted = dml.write(ctx, space, Request.delete(["a"], 1))
        assert deleted is not None
        assert unpack(deleted) == [1, "a", 10]
        assert world.all(space) == [[4, "d", 0]]
        assert world.journal.rows[1:] == [
            (RequestType.UPDATE, {0x10: 512, 0x15: 1, 0x20: [1], 0x21: [["+", 3, 1]]}),
            (RequestType.UPDATE, {0x10: 512, 0x15: 1, 0x20: [9], 0x21: [["=", 3, 1]]}),
            (RequestType.UPSERT, {0x10: 512, 0x15: 1, 0x28: [["+", 3, 2]], 0x21: [1, "zz", 0]}),
            (RequestType.UPSERT, {0x10: 512, 0x28: [["+", 2, 2]], 0x21: [4, "d", 0]}),
            (RequestType.UPSERT, {0x10: 512, 0x15: 1, 0x28: [["=", 1, 77]], 0x21: [1, "zz"]}),
            (RequestType.DELETE, {0x10: 512, 0x11: 1, 0x20: ["nope"]}),
            (RequestType.DELETE, {0x10: 512, 0x20: [1]}),
        ]

    asyncio.run(body())


def test_update_of_the_primary_key() -> None:
    """An update of the primary key fails: with CANT_UPDATE_PRIMARY_KEY, or with TUPLE_FOUND if the new key is taken."""

    async def body() -> None:
        world = World()
        world.journal.is_quick = True
        space = world.space()
        world.insert(space, 1)
        world.insert(space, 2)
        codes = []
        for target in (5, 2):
            with pytest.raises(BoxError) as failure:
                world.dml.write(world.ctx, space, Request.update([1], [["=", 1, target]]))
            codes.append(code(failure.value))
        assert codes == ["CANT_UPDATE_PRIMARY_KEY", "TUPLE_FOUND"]
        assert world.all(space) == [[1], [2]]

    asyncio.run(body())


def test_too_large_tuple() -> None:
    """`memtx_max_tuple_size` counts Tarantool's overhead, field offsets included."""

    async def body() -> None:
        world = World()
        for space, total in ((world.space("a"), 2000021), (world.space("b", BY_THREE, space_id=513), 2000027)):
            fields = [1, "x" * 2000000, 7][: 2 if total == 2000021 else 3]
            with pytest.raises(BoxError) as failure:
                world.dml.write(world.ctx, space, Request.insert(pack(fields)))
            assert code(failure.value) == "MEMTX_MAX_TUPLE_SIZE"
            assert str(total if total == 2000021 else 2000026) in failure.value.message

    asyncio.run(body())


def test_temporary_local_and_blackhole_spaces() -> None:
    """Temporary spaces are not logged, local ones are logged in their own group, blackhole spaces are logged only."""

    async def body() -> None:
        world = World()
        world.journal.is_quick = True
        temporary = world.space("t", temporary=True)
        local = world.space("l", space_id=513, group_id=1)
        hole = world.space("b", space_id=514, engine="blackhole")
        world.replace(temporary, 1)
        assert world.journal.entries == []
        world.dml.is_read_only = True
        world.replace(temporary, 2)
        world.replace(local, 1)
        with pytest.raises(BoxError) as failure:
            world.replace(hole, 1)
        assert code(failure.value) == "READONLY"
        world.dml.is_read_only = False
        world.replace(hole, 1)
        with pytest.raises(BoxError, match=r"Blackhole does not support delete\(\)"):
            world.dml.write(world.ctx, hole, Request.delete([1]))
        assert [(row.group_id, row.replica_id) for entry in world.journal.entries for row in entry.rows] == [
            (1, 0),
            (0, 1),
        ]
        world.txns.begin(world.ctx)
        world.replace(hole, 1)
        world.replace(local, 2)
        world.txns.commit(world.ctx)
        assert [row.type for row in world.journal.entries[-1].rows] == [3, 3, RequestType.NOP]
        assert world.all(local) == [[1], [2]]

    asyncio.run(body())


class Recorder:
    """A trigger that records its arguments and returns a given value."""

    def __init__(self, answer: Any = NOTHING) -> None:
        self.answer = answer
        self.calls: list[Any] = []

    async def call(self, ctx: Any, old: bytes | None, new: bytes | None, space_name: str, op: str) -> Any:
        self.calls.append((old and unpack(old), new and unpack(new), space_name, op))
        answer = self.answer(ctx, old, new) if callable(self.answer) else self.answer
        return await answer if asyncio.iscoroutine(answer) else answer


def test_triggers() -> None:
    """before_replace decides what is stored, on_replace sees the old and new tuples, and the journal gets the stored
    one.
    """

    async def body() -> None:
        world = World()
        world.journal.is_quick = True
        space = world.space()
        before, after = Recorder(), Recorder()
        space.before_replace.append(before)
        space.on_replace.append(after)

        async def execute(request: Request) -> Any:
            result = await world.dml.execute(world.ctx, space, request)
            return result and unpack(result)

        assert await execute(Request.insert(pack([1, "a"]))) == [1, "a"]
        assert await execute(Request.update([1], [["=", 2, "b"]])) == [1, "b"]
        await execute(Request.upsert(pack([1, "x"]), [["=", 2, "c"]]))
        before.answer = pack([1, "forced"])
        assert await execute(Request.replace(pack([1, "d"]))) == [1, "forced"]
        before.answer = lambda ctx, old, new: old
        assert await execute(Request.replace(pack([1, "e"]))) is None
        before.answer = None
        assert await execute(Request.replace(pack([1, "f"]))) == [1, "forced"]
        before.answer = pack([2, "moved"])
        assert await execute(Request.insert(pack([1, "g"]))) == [2, "moved"]
        before.answer = pack([3])
        with pytest.raises(BoxError) as failure:
            await execute(Request.replace(pack([2, "h"])))
        assert code(failure.value) == "CANT_UPDATE_PRIMARY_KEY"
        assert before.calls[:3] == [
            (None, [1, "a"], "s", "INSERT"),
            ([1, "a"], [1, "b"], "s", "UPDATE"),
            ([1, "b"], [1, "c"], "s", "UPSERT"),
        ]
        assert [call[:2] for call in after.calls] == [
            (None, [1, "a"]),
            ([1, "a"], [1, "b"]),
            ([1, "b"], [1, "c"]),
            ([1, "c"], [1, "forced"]),
            ([1, "forced"], None),
            (None, [2, "moved"]),
        ]
        assert [row[0] for row in world.journal.rows] == [2, 4, 9, 3, RequestType.NOP, 5, 3]

    asyncio.run(body())


def test_nested_statements() -> None:
    """Triggers may write, up to four statements deep; an error inside undoes the whole statement."""

    async def body() -> None:
        world = World()
        world.journal.is_quick = True
        space, log = world.space(), world.space("log", space_id=513)
        depth = 0

        async def again(ctx: Any) -> Any:
            nonlocal depth
            depth += 1
            return await world.dml.execute(ctx, space, Request.replace(pack([depth])))

        endless = Recorder(lambda ctx, old, new: again(ctx))
        space.on_replace.append(endless)
        with pytest.raises(BoxError) as failure:
            await world.dml.execute(world.ctx, space, Request.replace(pack([100])))
        assert code(failure.value) == "SUB_STMT_MAX"
        assert depth == 4
        assert world.all(space) == []
        space.on_replace[:] = [Recorder(lambda ctx, old, new: world.insert(log, len(world.all(log)), ctx=ctx))]
        await world.dml.execute(world.ctx, space, Request.replace(pack([1])))
        assert [row[1][0x10] for row in world.journal.rows] == [512, 513]
        space.on_replace[:] = [Recorder(lambda ctx, old, new: world.txns.commit(ctx))]
        with pytest.raises(BoxError) as failure:
            await world.dml.execute(world.ctx, space, Request.replace(pack([2])))
        assert code(failure.value) == "COMMIT_IN_SUB_STMT"
        assert world.all(space) == [[1]]
        assert world.ctx.txn is None

    asyncio.run(body())


def test_trigger_that_waits() -> None:
    """Without MVCC a trigger that yields makes the statement fail."""

    async def body() -> None:
        world = World()
        space = world.space()

        async def yields(ctx: Any) -> None:
            world.txns.on_yield(ctx)
            await asyncio.sleep(0)

        for triggers in (space.before_replace, space.on_replace):
            triggers.append(Recorder(lambda ctx, old, new: yields(ctx)))
            with pytest.raises(BoxError) as failure:
                await world.dml.execute(world.ctx, space, Request.replace(pack([1])))
            assert code(failure.value) == "TRANSACTION_YIELD"
            assert world.all(space) == []
            triggers.clear()

    asyncio.run(body())


def test_rows_of_other_instances_keep_their_origin() -> None:
    """A transaction of an applier is logged with the rows as they came."""

    async def body() -> None:
        world = World()
        space = world.space("s", SK)
        ctx = world.context()
        txn = world.txns.begin(ctx)
        body1 = b"\x82\x10" + pack(512) + b"\x21" + pack([1, "a"])
        world.dml.write_row(ctx, Row(RequestType.INSERT, 3, 10, 1.5, tsn=10, is_commit=False, body=body1))
        world.dml.write_row(ctx, Row(RequestType.NOP, 3, 11, 1.5, tsn=10))
        assert not txn.is_distributed
        world.txns.commit_open(ctx, txn, waits=False)
        world.journal.write()
        assert txn.done
        assert txn.error is None
        rows = world.journal.entries[0].rows
        assert [(row.replica_id, row.lsn, row.tm, row.is_commit) for row in rows] == [
            (3, 10, 1.5, False),
            (3, 11, 1.5, True),
        ]
        assert world.all(space) == [[1, "a"]]
        with pytest.raises(BoxError, match="Missing mandatory field 'tuple' in request"):
            world.dml.write_row(ctx, Row(RequestType.INSERT, 3, 12, body=b"\x81\x10" + pack(512)))

    asyncio.run(body())


def test_reads() -> None:
    """select, count, min, max, len, random and cursors return the right tuples, and refuse wrong keys and iterators."""

    async def body() -> None:
        world = World()
        world.journal.is_quick = True
        space = world.space("s", SK, BY_THREE)
        for number in range(1, 6):
            world.insert(space, number, f"k{number}", number % 2)
        dml, ctx = world.dml, world.ctx

        def values(rows: Any) -> list[int]:
            return [unpack(raw)[0] for raw in rows]

        assert values(dml.reads.select(ctx, space, 0, 5, 1, 2, [2])) == [3, 4]
        assert values(dml.reads.select(ctx, space, 2, 0, 0, 9, [1])) == [1, 3, 5]
        assert values(dml.reads.select(ctx, space, 2, 1, 0, 9, [1])) == [5, 3, 1]
        assert values(dml.reads.cursor(ctx, space, 1, 6, ["k3"])) == [4, 5]
        assert dml.reads.count(ctx, space, 2, 0, [1]) == 3
        assert dml.reads.count(ctx, space, 0, 2, []) == dml.reads.len(ctx, space) == 5
        assert values([dml.reads.min(ctx, space, 1, []) or b"", dml.reads.max(ctx, space, 2, [0]) or b""]) == [1, 4]
        assert dml.reads.random(ctx, space, 0, 3) is not None
        assert dml.reads.bsize(space) == 0  # nothing is counted in this world: see test_memory.py
        assert len(dml.reads.read_view(space)) == 5
        codes = []
        for call in (
            lambda: dml.reads.get(ctx, space, 2, [1]),
            lambda: dml.reads.get(ctx, space, 0, []),
            lambda: dml.reads.get(ctx, space, 0, ["x"]),
            lambda: dml.reads.get(ctx, space, 7, [1]),
            lambda: dml.reads.select(ctx, space, 0, 99, 0, 1, []),
            lambda: dml.reads.select(ctx, space, 0, 0, 0, 1, [1, 2]),
            lambda: dml.reads.cursor(ctx, space, 0, 0, ["x"]),
        ):
            with pytest.raises(BoxError) as failure:
                call()
            codes.append(code(failure.value))
        assert codes == [
            "MORE_THAN_ONE_TUPLE",
            "EXACT_MATCH",
            "KEY_PART_TYPE",
            "NO_SUCH_INDEX_ID",
            "ILLEGAL_PARAMS",
            "KEY_PART_COUNT",
            "KEY_PART_TYPE",
        ]

    asyncio.run(body())


def test_access() -> None:
    """A user without the privilege is refused before anything changes."""

    async def body() -> None:
        world = World()
        world.journal.is_quick = True
        space = world.space("s")
        other = world.space("t", SK, space_id=513)
        guest = world.context()
        guest.credentials = world.schema.guest
        for call in (
            lambda: world.replace(space, 1, ctx=guest),
            lambda: world.replace(other, 1, "a", ctx=guest),
            lambda: world.get(space, 1, ctx=guest),
            lambda: world.all(space, ctx=guest),
            lambda: world.dml.write(guest, space, Request.delete([1])),
        ):
            with pytest.raises(BoxError) as failure:
                call()
            assert code(failure.value) == "ACCESS_DENIED"
        assert guest.txn is None

    asyncio.run(body())


def test_a_refused_store_counts_in_a_transaction_as_outside() -> None:
    """A refused request counts in the statistics, in a transaction and outside: it is counted before rights are
    checked.
    """

    async def body() -> None:
        world = World()
        space = world.space("s")
        guest = world.context()
        guest.credentials = world.schema.guest
        for number in (1, 2):
            with pytest.raises(BoxError) as failure:
                world.dml.store(guest, space, REPLACE, pack([1]))
            assert code(failure.value) == "ACCESS_DENIED"
            assert world.dml.counters[REPLACE] == number
            if guest.txn is None:
                world.txns.begin(guest)

    asyncio.run(body())
