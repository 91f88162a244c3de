"""A commit gathers the same facts of its statements while a transaction grows and at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box.data.codec import unpack
from box.schema.space import Space
from box.txn import dml, lifecycle
from box.txn.gathered import gather
from box.txn.transaction import Statement, Transaction
from box.wire.constants import Flag, RequestType
from box.wire.row import Row
from test.unit.txn._world import World

_PLAIN, _SYNCHRONOUS, _LOCAL, _TEMPORARY = range(4)
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([_PLAIN, _SYNCHRONOUS, _LOCAL, _TEMPORARY]), st.integers(0, 5)),
        st.sampled_from(["savepoint", "back", "nop"]),
    ),
    max_size=30,
)


@contextmanager
def gathered_every(statements: int) -> Iterator[None]:
    """Make transactions large from so many statements on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dml, "_GATHERED_AT_ONCE", statements)
        yield


def _commit(program: list[Any], every: int) -> tuple[Any, ...]:
    """Return the rows for the journal, the size of their bodies, and whether they are synchronous."""

    async def body() -> tuple[Any, ...]:
        world = World()
        spaces = [
            world.space("plain", space_id=512),
            world.space("synchronous", space_id=513, is_sync=True),
            world.space("local", space_id=514, group_id=1),
            world.space("temporary", space_id=515, temporary=True),
        ]
        ctx, savepoint = world.ctx, None
        txn = world.txns.begin(ctx)
        with gathered_every(every):
            for step in program:
                if step == "savepoint":
                    savepoint = world.txns.savepoint(ctx)
                elif step == "back":
                    if savepoint is not None and savepoint.is_valid_in(txn):
                        world.txns.rollback_to_savepoint(ctx, savepoint)
                elif step == "nop":
                    world.dml.run_nop(ctx, Row(12))
                else:
                    world.replace(spaces[step[0]], step[1], ctx=ctx)
            world.commit()
        if not world.journal.queue:
            return ()
        [entry] = world.journal.queue
        rows = [(row.type, row.group_id, unpack(row.body) if row.body else None, row.flags) for row in entry.rows]
        return rows, entry.size, len(world.limbo)

    return asyncio.run(body())


@settings(max_examples=60, deadline=None)
@given(steps, st.integers(1, 4))
def test_gathering_on_the_way_changes_nothing(program: list[Any], every: int) -> None:
    """Gathering on the way gives the same rows, also with savepoints, spaces of all kinds and NOPs."""
    assert _commit(program, every) == _commit(program, 10**9)


def test_statements_taken_back_are_not_committed() -> None:
    """A synchronous change that is rolled back does not make the transaction synchronous."""
    program = [(_PLAIN, 1), "savepoint", (_SYNCHRONOUS, 2), (_SYNCHRONOUS, 3), (_PLAIN, 4), "back", (_PLAIN, 5)]
    for every in (1, 2, 100):
        rows, size, waiting = _commit(program, every)
        assert [body[33] for _, _, body, _ in rows] == [[1], [5]]
        assert size == 2 * len(Row(3, body=b"\x82\x10\xcd\x02\x00\x21\x91\x01").body)
        assert not waiting


def test_the_last_row_has_the_flags_of_a_synchronous_transaction() -> None:
    """One synchronous change gives the last row the flags of a synchronous transaction."""
    rows, _, waiting = _commit([(_PLAIN, 1), (_SYNCHRONOUS, 2), (_PLAIN, 3), (_PLAIN, 4)], 2)
    assert [flags for *_, flags in rows] == [0, 0, 0, int(Flag.WAIT_SYNC | Flag.WAIT_ACK)]
    assert waiting == 1


def test_a_commit_looks_at_the_newest_statements_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large commit looks only at its newest statements, so that it takes no long turn."""
    looked_at: list[int] = []

    def counting(txn: Transaction) -> None:
        looked_at.append(len(txn.statements) - txn.gathered)
        gather(txn)

    monkeypatch.setattr(lifecycle, "gather", counting)
    monkeypatch.setattr(dml, "gather", counting)

    async def body() -> None:
        world = World()
        space = world.space("plain")
        world.txns.begin(world.ctx)
        for number in range(10):
            world.replace(space, number)
        world.commit()

    with gathered_every(4):
        asyncio.run(body())
    assert looked_at == [4, 4, 2]


def test_many_spaces_in_turns_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a transaction knows of each of its many spaces is found without a search."""
    comparisons = 0

    def compare(space: Space, other: object) -> bool:
        nonlocal comparisons
        comparisons += 1
        return space is other

    async def body() -> int:
        world = World()
        spaces = [world.space(f"s{number}", space_id=600 + number) for number in range(200)]
        monkeypatch.setattr(Space, "__eq__", compare)
        txn = world.txns.begin(world.ctx)
        for _ in range(2):
            for space in spaces:
                txn.statements.append(Statement(space, RequestType.REPLACE, row=Row(RequestType.REPLACE)))
        gather(txn)
        return len(txn.spaces)

    monkeypatch.setattr(Space, "__hash__", object.__hash__)
    assert asyncio.run(body()) == 200
    assert comparisons < 20 * 200


def test_statements_are_made_only_when_somebody_asks() -> None:
    """Changes of the fast path are noted without objects; their rows and their order are the same afterwards."""

    async def body() -> None:
        world = World()
        space = world.space("plain")
        for asked in (False, True):
            txn = world.txns.begin(world.ctx)
            for number in range(3):
                world.replace(space, number)
            assert (txn.made, txn.count) == ([], 3)
            if asked:
                assert [statement.applied for statement in txn.statements] == [1, 2, 3]
                assert (txn.noted, txn.count) == ([], 3)
            world.replace(space, 3)
            world.commit()
        rows = [[(row.type, row.body) for row in entry.rows] for entry in world.journal.queue]
        assert len(rows[0]) == 4
        assert rows[0] == rows[1]

    asyncio.run(body())


def test_noted_changes_and_statements_are_undone_in_their_order() -> None:
    """A rollback undoes noted changes and those with objects newest first, also after their rows were made."""

    async def body() -> None:
        for every in (2, 3, 1000):
            world = World()
            space = world.space("plain")
            world.replace(space, 1, "before")
            with gathered_every(every):
                txn = world.txns.begin(world.ctx)
                world.replace(space, 1, "first")
                world.replace(space, 2, "first")
                assert txn.count == 2
                world.dml.run_nop(world.ctx, Row(12))
                world.replace(space, 1, "second")
                savepoint = world.txns.savepoint(world.ctx)
                world.replace(space, 2, "second")
                world.replace(space, 1, "third")
                world.txns.rollback_to_savepoint(world.ctx, savepoint)
                assert world.all(space) == [[1, "second"], [2, "first"]]
                world.txns.rollback(world.ctx)
            assert world.all(space) == [[1, "before"]]

    asyncio.run(body())
