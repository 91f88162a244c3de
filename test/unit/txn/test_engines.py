"""Spaces, transactions and joins work with another engine through its interface alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import wraps
from typing import Any, ClassVar

import pytest

from box.data.codec import pack, unpack
from box.errors import BoxError
from box.index import Index, IndexDef, IteratorType, create_index
from box.schema.space import Space
from box.schema.storage_engine import Engine, EngineTransaction, TupleChange
from box.txn.engines import make_engines
from box.wire.change import DELETE, Request
from box.wire.constants import EMPTY_ENGINES, SNAPSHOT_ENGINES
from test.unit.txn._world import World, code


class ShelfEngine(Engine):
    """An engine that keeps tuples in a dict by the first field, without indexes."""

    name: ClassVar[str] = "shelf"
    is_transactional: ClassVar[bool] = True

    def __init__(self) -> None:
        self.shelf: dict[Any, bytes] = {}
        self.heard: list[str] = []

    @property
    def allows_yield(self) -> bool:
        return True

    @property
    def is_joined(self) -> bool:
        return True

    def make_index(self, schema: Any, space: Space, definition: IndexDef, primary: Any) -> Index:
        return create_index(definition, primary, space_name=space.name, engine=self.name)

    def change(self, ctx: Any, space: Space, change: TupleChange, request: Request) -> bytes | None:
        key = request.key[0] if request.type == DELETE else unpack(request.tuple)[0]
        change.old, change.new = self.shelf.get(key), None if request.type == DELETE else request.tuple
        self._put(key, change.new)
        ctx.txn.changes = change.applied = ctx.txn.changes + 1
        return change.new or change.old

    def _put(self, key: Any, raw: bytes | None) -> None:
        if raw is None:
            self.shelf.pop(key, None)
        else:
            self.shelf[key] = raw

    def undo(self, txn: EngineTransaction, change: TupleChange) -> None:
        self._put(unpack(change.new or change.old or b"")[0], change.old)

    def prepare(self, txn: EngineTransaction) -> None:
        self.heard.append("prepare")

    def commit(self, txn: EngineTransaction) -> None:
        self.heard.append("commit")

    def forget(self, txn: EngineTransaction) -> None:
        self.heard.append("forget")

    def rows(self, ctx: Any, space: Space, index: Index, iterator: int, key: list[Any]) -> Iterator[bytes]:
        is_reverse = IteratorType(iterator).is_reverse
        found = (raw for _, raw in sorted(self.shelf.items(), reverse=is_reverse))
        return (raw for raw in found if not key or unpack(raw)[0] == key[0])

    def tuples(self, space: Space) -> Iterable[bytes]:
        return list(self.shelf.values())


def in_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test in a loop of its own."""

    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


def shelf_world() -> tuple[World, ShelfEngine, Space]:
    world, engine = World(), ShelfEngine()
    world.schema.engines = {**world.schema.engines, engine.name: engine}
    memtx = world.space("plain")
    space = world.space("s", ("pk", "TREE", True, [(1, "unsigned")]), space_id=513, engine="shelf")
    space.install(space.layout._replace(indexes={0: space.indexes[1]}))
    assert memtx.engine.keeps_tuples
    return world, engine, space


@in_loop
async def test_changes_and_reads_go_to_the_engine() -> None:
    world, engine, space = shelf_world()
    for number in (3, 1, 2):
        world.replace(space, number, "x")
    world.journal.write()
    reads = world.dml.reads
    assert world.get(space, 2) == [2, "x"]
    assert [unpack(raw)[0] for raw in reads.select(world.ctx, space, 0, IteratorType.ALL, 1, 5, [])] == [2, 3]
    assert [unpack(raw)[0] for raw in reads.cursor(world.ctx, space, 0, IteratorType.LE, [])] == [3, 2, 1]
    assert unpack(reads.min(world.ctx, space, 0, []) or b"")[0] == 1
    assert unpack(reads.max(world.ctx, space, 0, []) or b"")[0] == 3
    assert reads.count(world.ctx, space, 0, IteratorType.EQ, [1]) == 1
    assert reads.view(world.ctx, space, 0, IteratorType.ALL, []).fetch() == [pack([n, "x"]) for n in (1, 2, 3)]
    with pytest.raises(BoxError, match=r"of space 's' \(memtx\) does not support size\(\)"):
        reads.len(world.ctx, space)
    assert len(space.index(0)) == 0
    assert engine.heard == ["prepare"] * 3 + ["commit"] * 3


@in_loop
async def test_a_transaction_belongs_to_one_engine_and_is_undone_by_it() -> None:
    world, engine, space = shelf_world()
    world.replace(space, 1, "before")
    world.journal.write()
    engine.heard.clear()
    txn = world.txns.begin(world.ctx)
    world.replace(space, 1, "after")
    world.replace(space, 2, "new")
    world.write(space, Request.delete([1]))
    assert (txn.engine, txn.may_yield) == (engine, True)
    with pytest.raises(BoxError) as refused:
        world.replace(world.schema.space(512), 1)
    assert code(refused.value) == "CROSS_ENGINE_TRANSACTION"
    world.txns.rollback(world.ctx)
    assert engine.shelf == {1: pack([1, "before"])}
    assert engine.heard == ["forget"]


@in_loop
async def test_a_failed_write_is_undone_by_the_engine() -> None:
    world, engine, space = shelf_world()
    world.replace(space, 1)
    world.journal.fail()
    assert engine.shelf == {}
    assert engine.heard == ["prepare", "forget"]


@in_loop
async def test_joins_ask_the_engine_and_snapshots_leave_it_out() -> None:
    world, _, space = shelf_world()
    world.replace(space, 1)
    assert space in world.schema.joined_spaces()
    assert space not in world.schema.snapshot_spaces()
    assert space.engine.open_view(space).fetch() == [pack([1])]


def test_which_engines_have_rows_in_snapshots() -> None:
    """Spark's list of engines with rows in snapshots equals that of the node."""
    engines = make_engines().values()
    assert {engine.name for engine in engines if engine.keeps_tuples} == SNAPSHOT_ENGINES
    assert {engine.name for engine in engines if not engine.keeps_tuples} == EMPTY_ENGINES


@in_loop
async def test_vinyl_is_refused() -> None:
    world = World()
    with pytest.raises(BoxError, match="Lunabox does not support the vinyl engine"):
        world.schema.engine("vinyl")
    with pytest.raises(BoxError, match="Space engine 'x' does not exist"):
        world.schema.engine("x")
