"""MVCC: which versions a transaction sees, which transactions conflict, and that no version stays."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from box.data.codec import pack, unpack
from box.errors import BoxError
from box.session import Context
from box.txn import slots
from box.txn.mvcc import MvccStorage
from box.txn.transaction import TxnState
from box.wire.change import Request

from ._world import World, code

SK = ("sk", "TREE", True, [(2, "unsigned")])
LOOSE = ("loose", "TREE", False, [(2, "unsigned")])


class Players:
    """Two contexts with open transactions on one space."""

    def __init__(self, *extra: Any, kind: str = "TREE") -> None:
        self.world = World(mvcc=True)
        self.space = self.world.space("s", *extra, kind=kind)
        self.world.journal.is_quick = True
        self.a, self.b = self.world.context(), self.world.context()

    def begin(self, *contexts: Context) -> None:
        for ctx in contexts:
            self.world.txns.begin(ctx)

    def put(self, ctx: Context, *fields: Any) -> None:
        self.world.replace(self.space, *fields, ctx=ctx)

    def get(self, ctx: Context | None, *key: Any, iid: int = 0) -> Any:
        return self.world.get(self.space, *key, ctx=ctx or self.world.context(), iid=iid)

    def all(self, ctx: Context | None = None, iid: int = 0) -> Any:
        return self.world.all(self.space, ctx, iid)

    def commit(self, ctx: Context) -> str:
        """Commit, and return `ok` or the error's name."""
        try:
            self.world.txns.commit(ctx)
        except BoxError as error:
            return code(error)
        return "ok"

    @property
    def is_clean(self) -> bool:
        storage = self.world.storage
        assert isinstance(storage, MvccStorage)
        return not (storage._slots.by_index or storage._readers.by_txn or storage._slots.stale)


def test_uncommitted_changes_are_private() -> None:
    """A transaction sees its own uncommitted changes in all indexes and counts, and no other one does."""

    async def body() -> None:
        play = Players(SK)
        play.put(play.world.ctx, 1, 10)
        play.begin(play.a)
        play.put(play.a, 1, 11)
        play.put(play.a, 2, 20)
        play.world.txns.on_yield(play.a)
        dml = play.world.dml
        assert play.all(play.a) == play.all(play.a, 1) == [[1, 11], [2, 20]]
        assert play.all() == play.all(iid=1) == [[1, 10]]
        assert play.get(None, 20, iid=1) is None
        assert play.get(None, 10, iid=1) == [1, 10]
        outside = play.world.context()
        assert (dml.reads.len(play.a, play.space), dml.reads.len(outside, play.space)) == (2, 1)
        assert (dml.reads.count(play.a, play.space, 1, 2, []), dml.reads.count(outside, play.space, 1, 2, [])) == (2, 1)
        assert unpack(dml.reads.max(outside, play.space, 0, []) or b"") == [1, 10]
        assert unpack(dml.reads.min(play.a, play.space, 1, [11]) or b"") == [1, 11]
        assert len(play.world.storage.read_view(play.space)) == 1
        assert play.commit(play.a) == "ok"
        assert play.all() == play.all(iid=1) == [[1, 11], [2, 20]]
        assert play.is_clean

    asyncio.run(body())


def test_prepared_changes() -> None:
    """A change on its way to the log is visible in transactions and checkpoints, not outside."""

    async def body() -> None:
        play = Players()
        play.world.journal.is_quick = False
        play.put(play.world.ctx, 1, "a")
        assert play.get(None, 1) is None
        play.begin(play.a)
        assert play.get(play.a, 1) == [1, "a"]
        assert play.world.storage.read_view(play.space) == [pack([1, "a"])]
        play.world.journal.fail()
        assert play.get(None, 1) is None
        assert play.a.txn is not None
        assert play.a.txn.state is TxnState.CONFLICTED
        with pytest.raises(BoxError) as failure:
            play.put(play.a, 2)
        assert code(failure.value) == "TRANSACTION_CONFLICT"
        assert play.commit(play.a) == "TRANSACTION_CONFLICT"
        assert play.is_clean

    asyncio.run(body())


def test_lost_update_is_refused() -> None:
    """Of two transactions that read and write one tuple, the one that commits later is aborted."""

    async def body() -> None:
        play = Players()
        play.put(play.world.ctx, 1, 0)
        play.begin(play.a, play.b)
        for ctx in (play.a, play.b):
            key, value = play.get(ctx, 1)
            play.put(ctx, key, value + 1)
        assert play.commit(play.a) == "ok"
        assert play.commit(play.b) == "TRANSACTION_CONFLICT"
        assert play.all() == [[1, 1]]
        assert play.is_clean

    asyncio.run(body())


@pytest.mark.parametrize("kind", [SK, LOOSE])
def test_a_transaction_in_conflict_finds_a_row_that_it_has_changed_once(kind: Any) -> None:
    """A transaction in conflict finds one tuple for a row that others have moved to another secondary key."""

    async def body() -> None:
        play = Players(kind)
        play.world.replace(play.space, 2, 2)
        play.begin(play.a)
        assert play.get(play.a, 2) == [2, 2]
        play.put(play.a, 2, 7)
        play.world.insert(play.space, 5, 5, ctx=play.a)
        play.put(play.b, 2, 4)
        play.put(play.b, 5, 6)
        play.put(play.b, 9, 9)
        assert play.a.txn is not None
        assert play.a.txn.state is TxnState.CONFLICTED
        assert play.all(play.a) == [[2, 7], [5, 5], [9, 9]]
        assert play.all(play.a, iid=1) == [[5, 5], [2, 7], [9, 9]]
        reads, storage = play.world.dml.reads, play.world.storage
        index = play.space.indexes[1]
        assert (reads.count(play.a, play.space, 1, 2, []), storage.size(play.a.txn, index)) == (3, 3)
        if kind is SK:
            assert [play.get(play.a, key, iid=1) for key in (4, 6, 7, 9)] == [None, None, [2, 7], [9, 9]]
        assert play.all(play.b, iid=1) == [[2, 4], [5, 6], [9, 9]]
        assert play.commit(play.a) == "TRANSACTION_CONFLICT"
        assert play.all(iid=1) == [[2, 4], [5, 6], [9, 9]]
        assert play.is_clean

    asyncio.run(body())


@pytest.mark.parametrize("extra", [(), (SK,), (LOOSE,)])
def test_blind_replaces_do_not_conflict(extra: Any) -> None:
    """Of two replaces without reads, the later commit wins and no secondary key of the earlier one stays."""

    async def body() -> None:
        play = Players(*extra)
        play.put(play.world.ctx, 1, 10)
        play.begin(play.a, play.b)
        play.put(play.a, 1, 11)
        play.put(play.b, 1, 12)
        assert play.commit(play.b) == "ok"
        assert play.all() == [[1, 12]]
        assert play.commit(play.a) == "ok"
        assert play.all() == [[1, 11]]
        if extra:
            assert play.all(iid=1) == [[1, 11]]
            assert play.world.dml.reads.len(play.a, play.space, 1) == 1
        assert play.is_clean

    asyncio.run(body())


def test_replaces_that_are_behind_are_seen_as_the_last_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the secondary keys of a replace lag behind, its transaction still sees one tuple for each primary key.

    It also sees tuples of others under keys that it had hidden. Its commit waits for the keys, so that others never see
    this state.
    """
    monkeypatch.setattr(slots, "MANY", 2)
    monkeypatch.setattr(slots, "SLICE", 1)

    async def body() -> None:
        play = Players(SK)
        for key in range(1, 4):
            play.put(play.world.ctx, key, 10 * key)
        play.begin(play.a, play.b)
        for key in range(1, 4):
            play.put(play.a, key, 10 * key + 1)
            play.put(play.b, key, 10 * key + 2)
        assert play.commit(play.a) == "ok"
        play.put(play.world.ctx, 9, 10)
        expected = [[9, 10], [1, 12], [2, 22], [3, 32]]
        storage, index = play.world.storage, play.space.indexes[1]
        assert isinstance(storage, MvccStorage)
        txn = play.b.txn
        assert txn in storage._behind
        assert play.all(play.b, iid=1) == expected
        assert [play.get(play.b, key, iid=1) for key in (10, 11, 12, 20)] == [[9, 10], None, [1, 12], None]
        assert storage.size(txn, index) == 4
        play.put(play.b, 2, 23)
        play.world.dml.write(play.b, play.space, Request.delete([3]))
        expected = [[9, 10], [1, 12], [2, 23]]
        assert play.all(play.b, iid=1) == expected
        assert play.commit(play.b) == "ok"
        assert not txn.psn
        turns = 0
        while not txn.psn:
            assert play.all(iid=1) == [[9, 10], [1, 11], [2, 21], [3, 31]]
            await asyncio.sleep(0)
            turns += 1
        assert turns > 1
        assert txn.done
        assert play.all(iid=1) == expected
        assert play.all() == sorted(expected)
        await play.world.txns.work.wait()
        assert play.is_clean

    asyncio.run(body())


@pytest.mark.parametrize("spoiler", ["a reader of the row", "a failure", "the end"])
def test_a_commit_that_waits_may_still_fail(spoiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that waits may still fail: it raises a conflict or an error of the log; the end of the instance commits
    it at once.
    """
    monkeypatch.setattr(slots, "MANY", 2)
    monkeypatch.setattr(slots, "SLICE", 1)

    async def body() -> None:
        play = Players(SK)
        for key in range(1, 4):
            play.put(play.world.ctx, key, 10 * key)
        play.begin(play.a, play.b)
        if spoiler == "a reader of the row":
            assert play.get(play.b, 9) is None
        for key in range(1, 4):
            play.put(play.a, key, 10 * key + 1)
            play.put(play.b, key, 10 * key + 2)
        assert play.commit(play.a) == "ok"
        commit, ended = play.world.txns.commit(play.b), []
        assert commit is not None
        commit.on_done(ended.append)
        assert play.b.txn is None
        if spoiler == "a reader of the row":
            play.put(play.world.ctx, 9, 90)
        play.world.journal.refuses = spoiler == "a failure"
        if spoiler == "the end":
            await play.world.dml.stop()
        else:
            await play.world.txns.commits.wait()
            await play.world.txns.work.wait()
        assert ended == [commit]
        error = None if commit.error is None else code(commit.error)
        assert error == {"a reader of the row": "TRANSACTION_CONFLICT", "a failure": "WAL_IO"}.get(spoiler)
        values = [row[1] for row in play.all() if row[0] < 9]
        assert values == ([12, 22, 32] if spoiler == "the end" else [11, 21, 31])
        assert [row[1] for row in play.all(iid=1) if row[0] < 9] == values
        assert play.is_clean

    asyncio.run(body())


def test_reader_goes_to_a_read_view() -> None:
    """A transaction that only reads keeps its view when others commit, and commits itself."""

    async def body() -> None:
        play = Players(SK)
        play.put(play.world.ctx, 1, 10)
        play.put(play.world.ctx, 2, 20)
        play.begin(play.a)
        assert play.get(play.a, 1) == [1, 10]
        play.put(play.world.ctx, 1, 11)
        play.put(play.world.ctx, 1, 12)
        play.world.dml.write(play.world.ctx, play.space, Request.delete([2]))
        play.put(play.world.ctx, 3, 30)
        assert play.all(play.a) == play.all(play.a, 1) == [[1, 10], [2, 20]]
        assert play.all() == [[1, 12], [3, 30]]
        assert not play.is_clean
        assert play.commit(play.a) == "ok"
        assert play.is_clean
        assert play.all(iid=1) == [[1, 12], [3, 30]]

    asyncio.run(body())


def test_write_after_read_view() -> None:
    """A transaction in a read view may not write."""

    async def body() -> None:
        play = Players()
        play.put(play.world.ctx, 1, 10)
        play.begin(play.a)
        play.get(play.a, 1)
        play.put(play.world.ctx, 1, 11)
        play.put(play.a, 5)
        assert play.commit(play.a) == "TRANSACTION_CONFLICT"
        assert play.all() == [[1, 11]]
        assert play.is_clean

    asyncio.run(body())


@pytest.mark.parametrize("kind", ["TREE", "HASH"])
def test_reading_nothing_counts(kind: str) -> None:
    """A read that found nothing conflicts with a tuple that appears there."""

    async def body() -> None:
        play = Players(kind=kind)
        play.begin(play.a)
        assert play.get(play.a, 1) is None
        play.put(play.a, 9)
        play.put(play.world.ctx, 1, "new")
        assert play.commit(play.a) == "TRANSACTION_CONFLICT"
        play.begin(play.a)
        assert len(play.all(play.a)) == 1
        play.put(play.a, 9)
        play.put(play.world.ctx, 2, "new")
        assert play.commit(play.a) == "TRANSACTION_CONFLICT"
        assert play.is_clean

    asyncio.run(body())


def test_ranges() -> None:
    """A range that was read to its end, or up to a limit, conflicts only with changes inside it."""

    async def body() -> None:
        cases: list[tuple[int, int, list[int], int, int, str]] = [
            # index, iterator, key, limit, new key, outcome
            (0, 5, [20], 100, 15, "ok"),
            (0, 5, [20], 100, 25, "TRANSACTION_CONFLICT"),
            (0, 5, [20], 1, 25, "ok"),
            (0, 6, [20], 100, 21, "TRANSACTION_CONFLICT"),
            (0, 3, [20], 100, 15, "TRANSACTION_CONFLICT"),
            (0, 4, [20], 1, 15, "ok"),
            (0, 2, [], 2, 15, "TRANSACTION_CONFLICT"),
            (0, 2, [], 2, 35, "ok"),
            (1, 0, [200], 100, 25, "ok"),
            (1, 0, [250], 100, 25, "TRANSACTION_CONFLICT"),
            (1, 1, [250], 100, 26, "ok"),
        ]
        for iid, iterator, key, limit, new, outcome in cases:
            play = Players(LOOSE)
            for number in (10, 20, 30):
                play.put(play.world.ctx, number, number * 10)
            play.begin(play.a)
            play.world.dml.reads.select(play.a, play.space, iid, iterator, 0, limit, key)
            play.put(play.a, 99, 990)
            play.put(play.world.ctx, new, new * 10)
            assert play.commit(play.a) == outcome, (iid, iterator, key, limit, new)
            assert play.is_clean

    asyncio.run(body())


def test_unique_secondary_key_between_transactions() -> None:
    """Two transactions may not insert one unique secondary key with different primary keys."""

    async def body() -> None:
        play = Players(SK)
        play.begin(play.a, play.b)
        play.put(play.a, 1, 10)
        play.put(play.b, 2, 10)
        assert play.commit(play.b) == "ok"
        assert play.commit(play.a) == "TRANSACTION_CONFLICT"
        assert play.all() == play.all(iid=1) == [[2, 10]]
        assert play.is_clean

    asyncio.run(body())


def test_insert_and_delete_race() -> None:
    """Of two inserts, or two deletes, of one key the later commit is aborted."""

    async def body() -> None:
        play = Players()
        play.begin(play.a, play.b)
        for ctx in (play.a, play.b):
            play.world.insert(play.space, 1, ctx=ctx)
        assert [play.commit(play.a), play.commit(play.b)] == ["ok", "TRANSACTION_CONFLICT"]
        play.begin(play.a, play.b)
        for ctx in (play.a, play.b):
            play.world.dml.write(ctx, play.space, Request.delete([1]))
        assert [play.commit(play.a), play.commit(play.b)] == ["ok", "TRANSACTION_CONFLICT"]
        assert play.all() == []
        assert play.is_clean

    asyncio.run(body())


def test_savepoints_and_conflicts() -> None:
    """Writes that were rolled back to a savepoint do not conflict."""

    async def body() -> None:
        play = Players()
        play.begin(play.a)
        mark = play.world.txns.savepoint(play.a)
        play.put(play.a, 1, "a")
        play.world.txns.rollback_to_savepoint(play.a, mark)
        play.put(play.a, 2, "a")
        play.put(play.world.ctx, 1, "b")
        assert play.commit(play.a) == "ok"
        assert play.all() == [[1, "b"], [2, "a"]]
        assert play.is_clean

    asyncio.run(body())


def test_cursor_outside_of_transactions() -> None:
    """Outside of transactions each step of a cursor shows what is committed then."""

    async def body() -> None:
        play = Players()
        for number in (1, 2, 3):
            play.put(play.world.ctx, number)
        cursor = play.world.dml.reads.cursor(play.world.context(), play.space, 0, 2, [])
        assert unpack(next(cursor)) == [1]
        play.begin(play.a)
        play.put(play.a, 2, "changed")
        play.put(play.a, 4)
        assert unpack(next(cursor)) == [2]
        play.commit(play.a)
        assert [unpack(raw) for raw in cursor] == [[3], [4]]

    asyncio.run(body())


def test_altered_space_aborts_writers() -> None:
    """An altered space aborts transactions that have changed it, except the one that alters."""

    async def body() -> None:
        play = Players()
        storage = play.world.storage
        assert isinstance(storage, MvccStorage)
        play.begin(play.a, play.b)
        play.put(play.a, 1)
        play.put(play.b, 2)
        assert play.b.txn is not None
        with storage.alteration(play.b.txn):
            storage.space_altered(play.space)
        assert play.commit(play.a) == "TRANSACTION_CONFLICT"
        assert play.commit(play.b) == "ok"
        assert play.is_clean

    asyncio.run(body())


@pytest.mark.parametrize("failures", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(10))
def test_generated_histories_are_serial(seed: int, failures: float) -> None:
    """Committed transactions of generated histories are serializable in the order of their commits.

    Read-only transactions are checked for a consistent view: what they read existed at one moment, or was prepared then
    and failed later.
    """

    async def body() -> None:
        play = Players(SK)
        dice, world = random.Random(seed), play.world
        world.journal.is_quick = False
        contexts = [world.context() for _ in range(3)]
        logs: dict[int, list[Any]] = {}
        states: list[dict[int, int]] = [{}]
        written = 1

        def step(ctx: Context) -> None:
            log = logs[id(ctx)]
            key, value = dice.randrange(4), dice.randrange(1000)
            action = dice.random()
            try:
                if action < 0.35:
                    log.append(("get", key, play.get(ctx, key)))
                elif action < 0.5:
                    log.append(("all", None, play.all(ctx)))
                elif action < 0.65:
                    log.append(("delete", key, world.dml.write(ctx, play.space, Request.delete([key])) is not None))
                else:
                    play.put(ctx, key, value)
                    log.append(("put", key, value))
            except BoxError as error:
                if code(error) not in ("TRANSACTION_CONFLICT", "TUPLE_FOUND"):
                    raise

        def replay(log: list[Any], state: dict[int, int]) -> bool:
            for action, key, result in log:
                if action == "get" and result != ([key, state[key]] if key in state else None):
                    return False
                if action == "all" and result != [[k, v] for k, v in sorted(state.items())]:
                    return False
                if action == "delete" and result != (state.pop(key, None) is not None):
                    return False
                if action == "put":
                    state[key] = result
            return True

        for _ in range(400):
            ctx = dice.choice(contexts)
            if ctx.txn is None:
                world.txns.begin(ctx)
                logs[id(ctx)] = []
            elif dice.random() < 0.7:
                step(ctx)
            elif play.commit(ctx) == "ok":
                log = logs[id(ctx)]
                if any(action in ("put", "delete") for action, _, _ in log):
                    state = dict(states[-1])
                    assert replay(log, state), (log, states[-1])
                    states.append(state)
                else:
                    assert any(replay(log, dict(state)) for state in states), log
            chance = dice.random()
            if chance < failures:
                world.journal.fail()
                del states[written:]
            elif chance < 0.3:
                world.journal.write()
                written = len(states)
        for ctx in contexts:
            world.txns.fiber_stopped(ctx)
        world.journal.write()
        assert len(states) > 8
        assert play.all() == [[k, v] for k, v in sorted(states[-1].items())]
        assert sorted(play.all(iid=1)) == play.all()
        assert play.is_clean

    asyncio.run(body())


def test_a_large_transaction_that_is_ended_leaves_in_slices() -> None:
    """The turn that ends it hides all its changes, and leaves taking them out to later turns."""

    async def body() -> None:
        play = Players(LOOSE)
        storage = play.world.storage
        assert isinstance(storage, MvccStorage)
        play.begin(play.a)
        for key in range(slots.MANY):
            play.put(play.a, key, key)
        play.world.txns.on_yield(play.a)
        assert play.a.txn is not None
        storage.definitions.end(play.a.txn)
        assert len(storage._slots.by_index[play.space.index(0)]) >= slots.MANY - slots.SLICE
        assert play.all() == play.all(play.a) == play.all(iid=1) == []
        await play.world.txns.work.wait()
        assert storage._slots.by_index == {}
        play.world.txns.rollback(play.a)
        assert play.is_clean

    asyncio.run(body())
