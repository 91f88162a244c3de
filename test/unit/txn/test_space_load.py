"""Loading the tuples of a snapshot: sorted ones take a fast path, with the same result."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box.data.codec import pack
from box.errors import BoxError
from box.log import Log
from box.txn.space_load import SpaceLoad
from test.unit.txn._world import World, code

EXTRAS: tuple[tuple[Any, ...], ...] = (
    (),
    (("sk", "TREE", True, [(2, "string")]),),
    (("three", "TREE", False, [(3, "unsigned", True)]), ("sk", "TREE", True, [(2, "string")])),
)


class Loaded:
    """The result of loading slices of tuples; with `is_fast` they may take the fast path."""

    def __init__(self, extra: tuple[Any, ...], slices: list[list[bytes]], *, is_fast: bool) -> None:
        world = World()
        space = world.space("s", *extra)
        self.load = SpaceLoad(space)
        if not is_fast:
            self.load._end_build()
        self.error = ""
        try:
            for part in slices:
                self.load.add(part)
            for _ in self.load.steps(Log(lambda: 0.0)):
                pass
        except BoxError as error:
            self.error = f"{code(error)} {error.message}"
            return
        self.contents = [world.all(space, iid=iid) for iid in space.indexes]
        self.sizes = [len(index) for index in space.indexes.values()]


values = st.one_of(
    st.integers(0, 2000).map(lambda key: (key, f"name {key}", key % 3)),
    st.integers(0, 2000).map(lambda key: (key, f"name {key % 50}")),
)
oddities = st.sampled_from([(1, "a"), ("wrong", "a"), (), (5, 5), None])


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(EXTRAS),
    st.lists(values, unique_by=lambda value: value[0], max_size=120),
    st.integers(1, 60),
    st.sampled_from(["sorted", "sorted", "as they come", "backwards", "with an oddity"]),
    st.tuples(st.integers(0, 120), oddities),
)
def test_both_ways_agree(
    extra: tuple[Any, ...], tuples: list[Any], size: int, order: str, oddity: tuple[int, Any]
) -> None:
    """The fast and the general path make equal indexes or raise equal errors."""
    if order != "as they come":
        tuples = sorted(tuples, reverse=order == "backwards")
    if order == "with an oddity":
        tuples.insert(oddity[0], oddity[1])
    raws = [pack(None if value is None else list(value)) for value in tuples]
    slices = [raws[start : start + size] for start in range(0, len(raws), size)]

    async def body() -> None:
        one, other = (Loaded(extra, slices, is_fast=is_fast) for is_fast in (True, False))
        assert one.error == other.error
        if not one.error:
            assert one.contents == other.contents
            assert one.sizes == other.sizes

    asyncio.run(body())


@pytest.mark.parametrize("extra", EXTRAS)
def test_sorted_tuples_take_the_fast_path(extra: tuple[Any, ...]) -> None:
    """Sorted tuples take the fast path until one is out of order; else the comparison would not test it."""

    async def body() -> None:
        raws = [pack([key, f"name {key}", 1]) for key in range(5000)]
        loaded = Loaded(extra, [raws[:3000], raws[3000:]], is_fast=True)
        assert loaded.load._build is not None
        assert loaded.sizes == [5000] * (1 + len(extra))
        loaded = Loaded(extra, [raws[3000:], raws[:3000]], is_fast=True)
        assert loaded.load._build is None
        assert loaded.sizes == [5000] * (1 + len(extra))

    asyncio.run(body())
