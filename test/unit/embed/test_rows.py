"""Rows of a program's own classes, and the forms in which rows, operations and spaces are given."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from box import (
    DataError,
    Datetime,
    DuplicateKeyError,
    ErrorCode,
    IndexHandle,
    Interval,
    Node,
    NoSuchIndexError,
    NoSuchSpaceError,
    SchemaError,
    UnsupportedError,
)
from box.embed import SpaceHandle
from box.sync import Node as BlockingNode


class Goods(NamedTuple):
    id: int
    name: str
    price: float | None = None


@dataclass
class Job:
    id: int
    done: bool = False
    data: dict[str, Any] = field(default_factory=dict)
    tags: list[str] | None = None


@dataclass(kw_only=True)
class Backwards:
    price: float | None
    id: int


class AllTypes(NamedTuple):
    a: int
    b: str
    c: float
    d: bool
    e: bytes
    f: Decimal
    g: UUID
    h: dict[str, int]
    i: tuple[int, ...]
    j: Any
    k: int | str


def run(test: Callable[[Node], Awaitable[None]]) -> None:
    async def with_node() -> None:
        async with Node() as node:
            await test(node)

    asyncio.run(with_node())


async def goods_of(node: Node) -> SpaceHandle[Goods]:
    goods = await node.schema.create_space("goods", row=Goods)
    await goods.create_index("pk")
    await goods.create_index("by_name", parts=["name"])
    return goods


class Visit(NamedTuple):
    at: datetime
    exact: Datetime | None
    lasts: Interval


@dataclass
class Appointment:
    id: int
    at: datetime | None = None
    every: Interval | None = None


def test_points_in_time_and_intervals_are_fields_of_rows() -> None:
    noon = datetime(2024, 2, 29, 12, 30, 0, 250_000, ZoneInfo("Europe/Berlin"))
    precise, far = Datetime(5, 7, tz="Europe/Moscow"), Datetime(2**40)
    month = Interval(month=1, day=-3, adjust="last")

    async def test(node: Node) -> None:
        visits = await node.schema.create_space("visits", row=Visit)
        assert visits.format == [
            {"name": "at", "type": "datetime"},
            {"name": "exact", "type": "datetime", "is_nullable": True},
            {"name": "lasts", "type": "interval"},
        ]
        await visits.create_index("pk")
        first = Visit(noon, precise, month)
        stored = await visits.insert(first)
        assert stored == first
        assert (type(stored.at), type(stored.exact), str(stored.at.tzinfo)) == (datetime, Datetime, "Europe/Berlin")
        assert await visits.insert(Visit(noon + timedelta(hours=1), far, Interval())) is not None
        assert await visits.get(noon.astimezone(UTC)) == first
        assert await visits.get(Datetime(int(noon.timestamp()), 250_000_000)) == first
        assert [row.exact for row in await visits.select(noon, iterator="GT")] == [far]
        assert await visits.update(noon, {"lasts": Interval(sec=1)}) == first._replace(lasts=Interval(sec=1))
        with pytest.raises(DataError, match="expected interval, got unsigned"):
            await visits.replace([noon, None, 5])
        with pytest.raises(UnsupportedError, match="without a time zone"):
            await visits.replace(Visit(datetime(2024, 1, 1), None, month))
        with pytest.raises(SchemaError, match="type 'interval' is not supported"):
            await visits.create_index("by_interval", parts=["lasts"])

        jobs = await node.schema.create_space("jobs", row=Appointment)
        await jobs.create_index("pk")
        appointment = Appointment(1, noon, month)
        assert await jobs.insert(appointment) == appointment
        assert await jobs.insert(Appointment(2)) == Appointment(2)
        assert await node.eval("return tostring(box.space.jobs:get(1).every), box.space.jobs:get(1).at.tz") == [
            "+1 months, -3 days", "Europe/Berlin",
        ]  # fmt: skip
        assert await node.eval("local at, every = ... return every, at", noon, month) == [month, noon]

    run(test)


def test_a_class_gives_the_format_and_the_rows() -> None:
    async def test(node: Node) -> None:
        goods = await goods_of(node)
        assert goods.format == [
            {"name": "id", "type": "integer"},
            {"name": "name", "type": "string"},
            {"name": "price", "type": "number", "is_nullable": True},
        ]
        pear = Goods(1, "pear", 2.5)
        assert await goods.insert(pear) == pear
        assert type(await goods.insert([2, "fig"])) is Goods
        assert await goods.replace({"id": 3, "name": "kiwi"}) == Goods(3, "kiwi", None)
        assert await goods.get(2) == Goods(2, "fig", None)
        assert await goods.index["by_name"].get("fig") == Goods(2, "fig", None)
        assert [row.name async for row in goods.pairs()] == ["pear", "fig", "kiwi"]
        assert await goods.select(limit=1) == [pear]
        assert (await goods.min(), await goods.max()) == (pear, Goods(3, "kiwi", None))
        assert await goods.update(1, {"price": 3}) == Goods(1, "pear", 3)
        assert await goods.delete(1) == Goods(1, "pear", 3)
        assert type(await goods.random(1)) is Goods
        changes = goods.changes()
        await goods.insert(pear)
        assert (await anext(changes)).new == pear
        assert (await node.space.goods.get(1))._asdict() == {"id": 1, "name": "pear", "price": 2.5}  # type: ignore[union-attr]

    run(test)


def test_dataclasses_are_rows() -> None:
    async def test(node: Node) -> None:
        jobs = await node.schema.create_space("jobs", row=Job)
        await jobs.create_index("pk")
        job = Job(1, data={"a": 1}, tags=["x"])
        assert await jobs.insert(job) == job
        assert await jobs.get(1) == job
        untyped = node.space.jobs
        assert (await untyped.insert(Job(2)))[:3] == (2, False, {})  # type: ignore[index]
        assert await jobs.get(2) == Job(2)

    run(test)


def test_a_view_of_some_fields_in_another_order() -> None:
    async def test(node: Node) -> None:
        goods = await goods_of(node)
        await goods.insert([1, "pear", 2.5])
        views = goods.rows_as(Backwards)
        assert await views.get(1) == Backwards(price=2.5, id=1)
        with pytest.raises(DataError, match="Tuple field 2"):  # the name is left out, which the format wants
            await views.replace(Backwards(price=1, id=2))
        with pytest.raises(DataError, match="Field 'done' was not found in space 'goods' format") as caught:
            goods.rows_as(Job)
        assert caught.value.code == ErrorCode.NO_SUCH_FIELD_NAME_IN_SPACE
        with pytest.raises(TypeError, match="takes a NamedTuple or a dataclass, not <class 'int'>"):
            goods.rows_as(int)

    run(test)


def test_types_of_annotations() -> None:
    async def test(node: Node) -> None:
        space = await node.schema.create_space("s", row=AllTypes)
        kinds = "integer string number boolean varbinary decimal uuid map array any any".split()
        assert [one["type"] for one in space.format] == kinds
        await space.create_index("pk")
        row = AllTypes(1, "b", 1, True, b"e", Decimal("1.5"), UUID(int=1), {"h": 1}, (1,), None, 1)
        stored = await space.insert(row)
        assert stored is not None
        assert stored == row._replace(i=[1])

    run(test)


def test_a_space_without_a_format_has_the_fields_of_the_class() -> None:
    async def test(node: Node) -> None:
        space = await node.schema.create_space("s")
        await space.create_index("pk", parts=[[1, "unsigned"]])
        jobs = space.rows_as(Job)
        assert await jobs.insert(Job(1)) == Job(1)
        assert await space.get(1) == [1, False, {}, None]
        assert await space.insert(Goods(2, "fig")) == [2, "fig", None]

    run(test)


@pytest.mark.parametrize("row", ["abc", b"abc", 5, None, {1, 2}, Goods])
def test_what_is_no_row_is_told(row: Any) -> None:
    async def test(node: Node) -> None:
        goods = await goods_of(node)
        with pytest.raises(TypeError, match="a row is a list, a tuple, a dict, a NamedTuple or a dataclass, not"):
            await goods.insert(row)

    run(test)


def test_operations_are_lists_or_assignments() -> None:
    async def test(node: Node) -> None:
        goods = await goods_of(node)
        await goods.insert([1, "pear", 2.5])
        assert await goods.update(1, {"name": "plum", 3: 1}) == Goods(1, "plum", 1)
        assert await goods.update("plum", [["+", "price", 1]], index="by_name") == Goods(1, "plum", 2)
        await goods.rows_as(Goods).create_index("hash", type="HASH")
        for wrong in (["=", "price", 3], "price", 5, [5], ["abc"]):
            with pytest.raises(TypeError, match="operations are a list of lists such as"):
                await goods.update(1, wrong)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="operations are a list of lists such as"):
                await goods.upsert([1, "pear"], wrong)  # type: ignore[arg-type]
        assert await goods.update(1, {}) == Goods(1, "plum", 2)

    run(test)


def test_many_rows_of_different_forms_are_stored_as_one_by_one() -> None:
    """Lists of usual values are packed many at a time. Among them other rows, and other values, keep their meaning."""
    when = datetime(2024, 5, 6, tzinfo=UTC)

    async def test(node: Node) -> None:
        space = await node.schema.create_space("s", format=[("id", "unsigned"), "value"])
        await space.create_index("pk")
        rows: list[Any] = [[number, f"v{number}"] for number in range(200)]
        rows[70], rows[71], rows[130] = (70, "tuple"), {"id": 71, "value": "dict"}, [130, Decimal("1.5")]
        rows[131], rows[132] = [131, when], [132, {"a": [1, {"b": 2}]}]
        for _ in range(2):  # the second time all of them replace a tuple
            assert await space.replace_many(iter(rows)) == 200
            stored = [tuple(row) for row in await space.select()]
            assert stored == [(71, "dict") if number == 71 else tuple(rows[number]) for number in range(200)]
        assert await space.replace_many([[1, "a"], [2, "b"], [1, "c"], [300, "d"], [2, "e"], [300, "f"]]) == 6
        assert [(await space.get(key))["value"] for key in (1, 2, 300)] == ["c", "e", "f"]
        assert await space.len() == 201

    run(test)


def test_a_stored_row_shares_nothing_with_the_given_one() -> None:
    async def test(node: Node) -> None:
        space = await node.schema.create_space("s")
        await space.create_index("pk")
        given: list[Any] = [1, [2, {"a": 3}]]
        for store in (space.insert, space.replace):
            stored = await store(given)
            assert stored == given
            stored[1][1]["a"] = 4
            assert given == [1, [2, {"a": 3}]] == await space.get(1)

    run(test)


def test_many_rows_are_one_transaction_or_batches() -> None:
    async def test(node: Node) -> None:
        goods = await goods_of(node)
        rows: list[Any] = [Goods(1, "a"), [2, "b"], {"id": 3, "name": "c"}]
        assert await goods.insert_many(rows) == 3
        with pytest.raises(DuplicateKeyError):
            await goods.insert_many([[4, "d"], [5, "a"]])
        assert await goods.len() == 3
        with pytest.raises(DuplicateKeyError):
            await goods.insert_many(([number, str(number)] for number in (4, 5, 6, 7, 3)), batch=2)
        assert [row.id for row in await goods.select()] == [1, 2, 3, 4, 5, 6, 7]
        assert await goods.replace_many([[1, "x"]] * 5, batch=2) == 5
        assert await goods.insert_many([]) == 0
        async with node.transaction() as tx:
            assert await goods.insert_many([[8, "8"], [9, "9"]], batch=1) == 2
            await tx.rollback()
        assert await goods.len() == 7
        async with node.transaction() as tx:
            await goods.insert([8, "8"])
            with pytest.raises(DuplicateKeyError):
                await goods.insert_many([[9, "9"], [8, "x"]])
            trigger = goods.before_replace(lambda old, new: new)
            with pytest.raises(DuplicateKeyError):
                await goods.insert_many([[9, "9"], [8, "x"]])
            trigger.remove()
            assert await goods.len() == 8
            await tx.rollback()
        for wrong in ({"id": 1}, "abc", 5):
            with pytest.raises(TypeError, match=r"insert_many\(\) takes many rows"):
                await goods.insert_many(wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a row is a list"):
            await goods.insert_many([1, "x"])
        with pytest.raises(DataError) as caught:
            await goods.insert([[10, "x"], [11, "y"]])
        assert caught.value.__notes__ == ["insert_many() and replace_many() take several rows at once"]

    run(test)


def test_many_rows_and_triggers_that_wait() -> None:
    """With a trigger that waits, `insert_many` is rolled back without MVCC, and is one transaction with it."""

    async def fill(mvcc: bool) -> int:
        async with Node(memtx_use_mvcc_engine=mvcc) as node:
            goods = await goods_of(node)

            @goods.before_replace
            async def wait(old: Any, new: Any) -> Any:
                await asyncio.sleep(0)
                return new

            await goods.insert_many([[1, "a"], [2, "b"]])
            return await goods.len()

    assert asyncio.run(fill(True)) == 2
    with pytest.raises(Exception, match="aborted by a fiber yield"):
        asyncio.run(fill(False))


def test_spaces_and_indexes_by_dots() -> None:
    async def test(node: Node) -> None:
        goods = await goods_of(node)
        assert node.space.goods.id == goods.id
        assert isinstance(goods.index.by_name, IndexHandle)
        assert "goods" in dir(node.space)
        assert "by_name" in dir(goods.index)
        assert not hasattr(node.space, "godos")
        assert not hasattr(goods.index, "by_nam")
        for wrong in ("godos", "__len"):
            with pytest.raises(NoSuchSpaceError) as caught:
                node.space[wrong]
            with pytest.raises(KeyError):
                node.space[wrong]
            assert str(caught.value) == f"Space '{wrong}' does not exist"
            assert node.space.get(wrong) is None
        with pytest.raises(NoSuchIndexError, match="No index 'by_nam' is defined in space 'goods'"):
            goods.index["by_nam"]
        with pytest.raises(AttributeError, match="Space 'godos' does not exist"):
            node.space.godos.get(1)
        assert node.space._schema.name == "_schema"

    run(test)
    with BlockingNode() as node:
        space = node.schema.create_space("s", row=Goods)
        space.create_index("pk")
        assert space.insert_many([Goods(1, "a"), Goods(2, "b")]) == 2
        assert node.space.s.index.pk.get(2).name == "b"  # type: ignore[union-attr]
        assert node.space.s.rows_as(Goods).select(limit=1) == [Goods(1, "a")]
        assert not hasattr(node.space, "x")
        assert not hasattr(space.index, "x")
        assert {"s"} <= set(dir(node.space))
        assert {"pk"} <= set(dir(space.index))


def test_limits_are_numbers_or_none() -> None:
    async def test(node: Node) -> None:
        goods = await goods_of(node)
        await goods.insert_many([number, str(number)] for number in range(3))
        assert len(await goods.select(limit=None)) == 3
        assert await goods.select(limit=0) == []
        with pytest.raises(TypeError, match="limit is a number of rows or None, not '1'"):
            await goods.select(limit="1")  # type: ignore[arg-type]
        with pytest.raises(Exception, match="limit must not be negative"):
            await goods.index.pk.select(limit=-1)

    run(test)


def test_sequences() -> None:
    async def test(node: Node) -> None:
        ids = await node.schema.create_sequence("ids", start=10, max=13, step=2)
        assert (await ids.next(), await ids.current(), await ids.next()) == (10, 10, 12)
        with pytest.raises(Exception, match="Sequence 'ids' has overflowed"):
            await ids.next()
        await ids.reset()
        await node.schema.create_sequence("ids", if_not_exists=True)
        space = await node.schema.create_space("s")
        await space.create_index("pk", sequence="ids")
        assert await space.insert([None, "a"]) == [10, "a"]
        await ids.set(11)
        assert await node.schema.sequence("ids").next() == 13
        assert await node.schema.sequences() == ["ids"]
        await space.drop()
        await ids.drop()
        with pytest.raises(Exception, match="Sequence 'ids' does not exist") as caught:
            await ids.next()
        assert caught.value.code == ErrorCode.NO_SUCH_SEQUENCE  # type: ignore[attr-defined]

    run(test)
    with BlockingNode() as node:
        assert node.schema.create_sequence("ids", min=5, start=5).next() == 5
        assert node.schema.sequence("ids").current() == 5
        assert node.schema.sequences() == ["ids"]
