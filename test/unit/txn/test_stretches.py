"""Tuples of one space that follow each other in a run are decoded together, with the outcome of one by one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from box.data.codec import pack
from box.schema.space import Space
from box.txn import fast_run
from box.txn.fast_run import change_rows
from box.wire.change import Request
from test.unit.txn._world import World

INSERT, REPLACE = 2, 3

keys = st.one_of(st.integers(0, 40), st.sampled_from([-1, "text", None]))
steps = st.lists(st.tuples(st.sampled_from([INSERT, REPLACE, REPLACE, REPLACE]), keys, st.integers(0, 60)), max_size=40)


def bodies_of(program: list[tuple[int, Any, int]]) -> tuple[list[int], list[bytes]]:
    """Return the kinds and the request bodies of changes, each with a key and the size of another field."""
    kinds, bodies = [], []
    for kind, key, size in program:
        raw = pack([key, "x" * size])
        kinds.append(kind)
        bodies.append((Request.insert(raw) if kind == INSERT else Request.replace(raw)).body(512))
    return kinds, bodies


def run(program: list[tuple[int, Any, int]], room: int, max_size: int, at_once: int) -> tuple[Any, ...]:
    """Run changes, `at_once` at a time, and return everything that they leave behind."""

    async def body() -> tuple[Any, ...]:
        world = World()
        space: Space = world.space()
        world.dml.max_tuple_size = max_size
        memory = world.schema.memory
        memory.room = room
        before = fast_run.STORED_AT_ONCE
        fast_run.STORED_AT_ONCE = at_once  # type: ignore[misc]
        try:
            changes = change_rows(world.schema, world.dml._planner, *bodies_of(program))
        finally:
            fast_run.STORED_AT_ONCE = before  # type: ignore[misc]
        return [change[1:] for change in changes], world.all(space), memory.room, space.index(0).tuple_bytes

    return asyncio.run(body())


@given(steps, st.sampled_from([1 << 30, 1 << 30, 1000, 3000]), st.sampled_from([1 << 20, 1 << 20, 60]))
def test_together_as_one_by_one(program: list[tuple[int, Any, int]], room: int, max_size: int) -> None:
    """Changes up to the first that fails have the same effect: wrong and repeated keys, large tuples, no memory."""
    assert run(program, room, max_size, 64) == run(program, room, max_size, 1)


def test_many_are_decoded_with_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred tuples take two calls, and none is decoded alone but the first, which tells the space."""

    async def body() -> None:
        world = World()
        space = world.space()
        plan = world.dml._planner.plan(space)
        alone: list[bytes] = []
        validate = plan.validate
        monkeypatch.setattr(plan, "validate", lambda raw: alone.append(raw) or validate(raw))
        kinds, bodies = bodies_of([(REPLACE, key, 5) for key in range(100)])
        assert len(change_rows(world.schema, world.dml._planner, kinds, bodies)) == 100
        assert len(alone) == 1
        assert len(world.all(space)) == 100

    asyncio.run(body())
