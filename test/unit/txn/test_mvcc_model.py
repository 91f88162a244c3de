"""Generated programs of several MVCC transactions agree with a model of dictionaries, in every index."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from box.data.codec import pack, unpack
from box.errors import BoxError
from box.index import IteratorType
from box.session import Context
from box.txn import dml, slots
from box.txn.mvcc import MvccStorage
from box.txn.transaction import Transaction, TxnState
from box.wire.change import Request

from ._world import World, code

UNIQUE, LOOSE = ("unique", "TREE", True, [(2, "unsigned")]), ("loose", "TREE", False, [(3, "unsigned")])
ITERATORS = tuple(IteratorType[name] for name in ("EQ", "REQ", "LT", "LE", "GE", "GT", "ALL"))
Row = tuple[int, int, int]
State = dict[int, Row]


class Step(NamedTuple):
    """The next step of one player. `index` is the field of the index; `number` and `other` are fields or positions, as
    the action needs.
    """

    player: int
    action: str
    index: int = 0
    key: int = 0
    number: int = 0
    other: int = 0


READS = ("get", "select", "count", "min", "max")
WRITES = ("insert", "replace", "update", "upsert", "delete")
CONTROL = (
    *("begin", "begin", "commit", "commit", "rollback", "take_back", "savepoint", "rollback_to", "written", "failed"),
    "turn",
)

small = st.integers(0, 3)
actions = st.sampled_from(READS + ("replace",) * 4 + WRITES + CONTROL)
steps = st.builds(Step, st.integers(0, 3), actions, st.integers(0, 2), small, small, st.integers(0, 6))


# --- the model: one transaction after another -----------------------------------------------------------------------


def _order(index: int) -> Callable[[Row], tuple[int, ...]]:
    return (lambda row: (row[0],), lambda row: (row[1],), lambda row: (row[2], row[0]))[index]


def _scan(state: State, index: int, iterator: IteratorType, key: int) -> list[Row]:
    rows = sorted(state.values(), key=_order(index))
    if iterator.is_reverse:
        rows.reverse()
    if iterator == IteratorType.ALL:
        return rows
    fits: dict[int, Callable[[int], bool]] = {
        IteratorType.EQ: lambda value: value == key,
        IteratorType.REQ: lambda value: value == key,
        IteratorType.LT: lambda value: value < key,
        IteratorType.LE: lambda value: value <= key,
        IteratorType.GE: lambda value: value >= key,
        IteratorType.GT: lambda value: value > key,
    }
    return [row for row in rows if fits[iterator](row[index])]


def _by_unique(state: State, index: int, key: int) -> Row | None:
    return next((row for row in state.values() if row[index] == key), None)


def expected(state: State, step: Step, has_unique: bool) -> Any:
    """Return the result of a step in a state, and change the state."""
    index, key = step.index, step.key
    row = (key, step.number, step.other % 3)
    unique = 1 if index == 1 else 0

    def _store(state: State, row: Row) -> Any:
        if has_unique and any(other[1] == row[1] for key, other in state.items() if key != row[0]):
            return "TUPLE_FOUND"
        state[row[0]] = row
        return row

    match step.action:
        case "get":
            return _by_unique(state, unique, key)
        case "select":
            return _scan(state, index, ITERATORS[step.other], key)
        case "count":
            return len(_scan(state, index, ITERATORS[step.other], key))
        case "min" | "max":
            rows = _scan(state, index, IteratorType.ALL, 0)
            if not rows:
                return None
            return rows[0] if step.action == "min" else rows[-1]
        case "insert":
            return "TUPLE_FOUND" if key in state else _store(state, row)
        case "replace":
            return _store(state, row)
        case "delete":
            old = _by_unique(state, unique, key)
            if old is not None:
                del state[old[0]]
            return old
        case "update":
            old = _by_unique(state, unique, key)
            return None if old is None else _store(state, (old[0], step.number, step.other % 3))
        case "upsert":
            outcome = _store(state, row if key not in state else (key, state[key][1], step.other % 3))
            return outcome if outcome == "TUPLE_FOUND" else None
    raise AssertionError(step)


# --- the node's side ------------------------------------------------------------------------------------------------


class Player:
    """A context and the steps of its transaction with their results; `savepoints` are positions among them."""

    def __init__(self, world: World) -> None:
        self.ctx: Context = world.context()
        self.log: list[tuple[Step, Any]] = []
        self.savepoints: list[tuple[Any, int]] = []
        self.waiting: Transaction | None = None
        """The transaction whose commit was asked for and waits for its turn, or None."""


class Game:
    """Runs steps and keeps the states after each commit, in order.

    Reads before a rollback to a savepoint stay in the list of steps, without the changes.
    """

    def __init__(self, has_unique: bool) -> None:
        self.world = World(mvcc=True)
        self.has_unique = has_unique
        self.space = self.world.space("s", *([UNIQUE, LOOSE] if has_unique else [LOOSE]))
        self.iids = {0: 0, 1: 1, 2: 2} if has_unique else {0: 0, 2: 1}
        self.players = [Player(self.world) for _ in range(4)]
        self.states: list[State] = [{}]
        self.is_written = 1
        """The number of states that are in the log."""

    def play(self, step: Step) -> None:
        player, txns = self.players[step.player], self.world.txns
        if step.index not in self.iids:
            step = step._replace(index=2)
        if player.waiting is not None:
            return
        is_open = player.ctx.txn is not None
        if step.action in ("written", "failed"):
            self.finish_journal(step.action == "written")
        elif step.action == "begin":
            if not is_open and step.player:  # player 0 is always outside of a transaction
                txns.begin(player.ctx)
                player.log, player.savepoints = [], []
        elif step.action in ("commit", "rollback", "take_back", "savepoint", "rollback_to"):
            if is_open:
                self.control(player, step)
        else:
            self.access(player, step)

    def control(self, player: Player, step: Step) -> None:
        txns = self.world.txns
        if step.action == "rollback":
            txns.rollback(player.ctx)
        elif step.action == "take_back":
            assert player.ctx.txn is not None
            self.world.storage.definitions.end(player.ctx.txn)
            player.log = []
        elif step.action == "savepoint":
            player.savepoints.append((txns.savepoint(player.ctx), len(player.log)))
        elif step.action == "rollback_to":
            if player.savepoints:
                del player.savepoints[step.number % len(player.savepoints) + 1 :]
                savepoint, length = player.savepoints[-1]
                txns.rollback_to_savepoint(player.ctx, savepoint)
                reads = [entry for entry in player.log[length:] if entry[0].action in READS]
                player.log[length:] = [(Step(0, "undo"), reads)] if reads else []
        else:
            self.commit(player)

    def access(self, player: Player, step: Step) -> None:
        is_alone = player.ctx.txn is None
        if not is_alone:
            assert player.ctx.txn is not None
            if player.ctx.txn.state is TxnState.CONFLICTED:
                return  # its end is certain; what it sees does not matter any more
        result = self.execute(player.ctx, step)
        commit = self.world.pending
        if is_alone and isinstance(commit, Transaction) and not commit.psn:
            self.world.txns.commits.stop()
            self.note_commits()
        if result == "TRANSACTION_CONFLICT":
            return
        if not is_alone:
            player.log.append((step, result))
        elif step.action in WRITES:
            state = dict(self.states[-1])
            assert expected(state, step, self.has_unique) == result, (step, result, self.states[-1])
            if result != "TUPLE_FOUND":
                self.states.append(state)
                if not self.world.journal.queue:
                    self.is_written = len(self.states)
        else:
            seen = self.states[: self.is_written]
            assert expected(dict(seen[-1]), step, self.has_unique) == result, (step, result, seen[-1])

    def execute(self, ctx: Context, step: Step) -> Any:
        try:
            return self._execute(ctx, step)
        except BoxError as error:
            if code(error) in ("TUPLE_FOUND", "TRANSACTION_CONFLICT"):
                return code(error)
            raise

    def _execute(self, ctx: Context, step: Step) -> Any:
        reads, space, index, key = self.world.dml.reads, self.space, self.iids[step.index], step.key
        raw = pack([key, step.number, step.other % 3])
        ops = [["=", 2, step.number], ["=", 3, step.other % 3]]
        unique = 1 if step.index == 1 else 0
        match step.action:
            case "get":
                return _row(reads.get(ctx, space, unique, [key]))
            case "select":
                found = reads.select(ctx, space, index, ITERATORS[step.other], 0, 99, _key(step))
                return [_row(each) for each in found]
            case "count":
                return reads.count(ctx, space, index, ITERATORS[step.other], _key(step))
            case "min" | "max":
                return _row(getattr(reads, step.action)(ctx, space, index, []))
            case "insert":
                return _row(self.world.write(space, Request.insert(raw), ctx))
            case "replace":
                return _row(self.world.write(space, Request.replace(raw), ctx))
            case "delete":
                return _row(self.world.write(space, Request.delete([key], unique), ctx))
            case "update":
                return _row(self.world.write(space, Request.update([key], ops, unique), ctx))
        return self.world.write(space, Request.upsert(raw, [["=", 3, step.other % 3]]), ctx)

    def commit(self, player: Player) -> None:
        txn = player.ctx.txn
        assert txn is not None
        if self.is_refused(player.ctx):
            return
        if txn.psn:
            self.note_commit(player)
        else:
            player.waiting = txn

    def note_commits(self) -> None:
        """Record commits of transactions that have waited."""
        for player in self.players:
            txn = player.waiting
            if txn is None or not (txn.psn or txn.done):
                continue
            player.waiting = None
            if txn.error is not None:
                assert code(txn.error) == "TRANSACTION_CONFLICT"
            else:
                self.world.pending = txn
                self.note_commit(player)

    def note_commit(self, player: Player) -> None:
        had_writes = any(  # an upsert gives nothing back, whether it has written or not
            step.action in WRITES and (result is not None or step.action == "upsert") for step, result in player.log
        )
        if had_writes:
            state = dict(self.states[-1])
            replay(player.log, state, self.has_unique)
            if state != self.states[-1] or self.world.pending is not None:
                self.states.append(state)
            if not self.world.journal.queue:
                self.is_written = len(self.states)
        else:
            assert any(is_replay(player.log, dict(state), self.has_unique) for state in self.states), (
                player.log,
                self.states,
            )

    def is_refused(self, ctx: Context) -> bool:
        try:
            self.world.commit(ctx)
        except BoxError as error:
            if code(error) == "TRANSACTION_CONFLICT":
                return True
            raise
        return False

    def finish_journal(self, is_good: bool) -> None:
        if is_good:
            self.world.journal.write()
            self.is_written = len(self.states)
        else:
            self.world.journal.fail()
            del self.states[self.is_written :]

    def check_outside(self) -> None:
        """Assert that outside of transactions all indexes show the written state."""
        ctx, reads, state = self.world.context(), self.world.dml.reads, self.states[self.is_written - 1]
        for field, iid in self.iids.items():
            rows = [_row(raw) for raw in reads.select(ctx, self.space, iid, IteratorType.ALL, 0, 99, [])]
            assert rows == _scan(state, field, IteratorType.ALL, 0), (field, rows, state)
            assert reads.len(ctx, self.space, iid) == len(state)

    def check_inside(self) -> None:
        """Assert that in each transaction all indexes show the same rows, by reads that are not tracked."""
        storage = self.world.storage
        for player in self.players:
            txn = player.ctx.txn
            if txn is None or txn.state is TxnState.CONFLICTED:
                if txn is not None and txn.is_taken_back and not txn.read_view:
                    for field, iid in self.iids.items():
                        rows = [_row(raw) for raw in storage.scan(txn, self.space.index(iid), IteratorType.ALL, [])]
                        assert rows == _scan(self.states[-1], field, IteratorType.ALL, 0)
                continue
            shown = []
            for index in self.space.indexes.values():
                seen = [storage.peek(txn, index, index.key_of(unpack(raw))) for raw in _all_values(index)]
                shown.append(sorted({raw for raw in seen if raw is not None}))
                assert storage.size(txn, index) == len(shown[-1])
            assert all(rows == shown[0] for rows in shown), (player.log, shown)

    async def end(self) -> None:
        for player in self.players:
            self.world.txns.fiber_stopped(player.ctx)
        self.world.txns.commits.stop()
        self.note_commits()
        self.finish_journal(True)
        self.check_outside()
        await self.world.txns.work.wait()
        self.check_outside()
        storage = self.world.storage
        assert isinstance(storage, MvccStorage)
        left = [
            *storage._slots.by_index,
            *storage._readers.by_txn,
            *storage._slots.stale,
            *storage._writes,
            *storage._behind,
            *storage._refreshes,
            *storage._written,
        ]
        assert left == []


def _all_values(index: Any) -> list[bytes]:
    """Return every tuple of every version of every entry."""
    values: list[bytes] = []
    for entry in index.values_list():
        if isinstance(entry, bytes):
            values.append(entry)
        else:
            values += [write.value for write in entry.writes if write.value is not None]
            values += [] if entry.base is None else [entry.base]
    return values


def _key(step: Step) -> list[int]:
    return [] if ITERATORS[step.other] == IteratorType.ALL else [step.key]


def _row(raw: bytes | None) -> Any:
    return None if raw is None else tuple(unpack(raw))


def replay(log: list[tuple[Step, Any]], state: State, has_unique: bool) -> None:
    for step, result in log:
        if step.action == "undo":
            continue
        found = expected(state, step, has_unique)
        assert found == result, (step, result, found, log)


def is_replay(log: list[tuple[Step, Any]], state: State, has_unique: bool) -> bool:
    try:
        replay(log, state, has_unique)
    except AssertionError:
        return False
    return True


TWO_VERSIONS = [
    Step(1, "begin"),
    Step(1, "replace", 0, 3, 3, 2),
    Step(0, "replace", 0, 3, 3, 1),
    Step(0, "written"),
    Step(1, "select", 2, 0, 0, 6),
    Step(1, "commit"),
]

VIEW_AND_REPLACE = [
    Step(0, "replace"),
    Step(0, "written"),
    Step(1, "begin"),
    Step(1, "get"),
    Step(0, "replace"),  # player 1 is in a read view now
    Step(1, "replace", other=1),
    Step(0, "replace", other=1),
]

TAKEN_BACK = [
    Step(0, "replace", key=2),
    Step(1, "begin"),
    Step(1, "replace", key=1),
    Step(1, "replace", key=2, number=1),
    Step(1, "take_back"),
    Step(2, "begin"),
    Step(2, "replace", key=2, number=2),
    Step(0, "replace", key=2, number=3),
    Step(2, "commit"),
    Step(0, "turn"),
    Step(1, "replace", key=3),
    Step(1, "commit"),
]


@settings(max_examples=80, deadline=None)
@given(st.booleans(), st.lists(steps, max_size=60))
@example(False, TAKEN_BACK)
@example(False, TWO_VERSIONS)
@example(False, VIEW_AND_REPLACE)
def test_programs_are_serial_by_every_index(has_unique: bool, program: list[Step]) -> None:
    """Committed transactions are serializable in the order of their commits, and read-only ones at some moment.

    All indexes agree at any time, also when the log fails.
    """

    asyncio.run(_play(has_unique, program))


@settings(max_examples=120, deadline=None)
@given(st.booleans(), st.lists(steps, max_size=60), st.integers(1, 3))
@example(False, TAKEN_BACK, 1)
@example(False, TWO_VERSIONS, 1)
@example(False, VIEW_AND_REPLACE, 1)
def test_large_transactions_are_serial_too(has_unique: bool, program: list[Step], many: int) -> None:
    """Transactions that count as large are serializable, too.

    Reads of others are then compared with sets, and versions that are not needed any more are removed later, one a
    turn.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slots, "MANY", many)
        patch.setattr(slots, "SLICE", 1)
        patch.setattr(dml, "_GATHERED_AT_ONCE", many)
        asyncio.run(_play(has_unique, program))


async def _play(has_unique: bool, program: list[Step]) -> None:
    game = Game(has_unique)
    for step in program:
        if step.action == "turn":
            await asyncio.sleep(0)
            game.note_commits()
        else:
            game.play(step)
        game.check_outside()
        game.check_inside()
    await game.end()
