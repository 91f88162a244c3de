"""Values that contain themselves raise an error of the call, by every way into the node, which goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

import box.sync
from box import BoxError, Node
from box.data.codec import pack, unpack

TOO_DEEP = "MessagePack does not support more than 5100 arrays and maps inside each other"


def endless_list() -> Any:
    value: list[Any] = [1]
    value.append(value)
    return value


def endless_dict() -> Any:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


def endless_tuple() -> Any:
    value: list[Any] = [Decimal(1)]
    value.append((value,))
    return (value,)


def wide() -> Any:
    value: list[Any] = list(range(2000))
    value.append([value])
    return value


ENDLESS = [endless_list, endless_dict, endless_tuple, wide]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", ENDLESS)
def test_every_way_in(make: Callable[[], Any]) -> None:
    async def run() -> None:
        async with Node() as node:
            space = await node.schema.create_space("s", format=["id", {"name": "value", "is_nullable": True}])
            await space.create_index("pk", parts=[[1, "unsigned"]])
            await space.insert([1, "there"])

            @node.function
            def given() -> Any:
                return make()

            @node.function
            async def given_later() -> Any:
                await asyncio.sleep(0)
                return make()

            async def replaced() -> Any:
                trigger = space.before_replace(lambda old, new: [9, make()])
                try:
                    await space.replace([9, None])
                finally:
                    trigger.remove()

            ways: list[Callable[[], Awaitable[Any]]] = [
                lambda: node.call("given"),
                lambda: node.call("given_later"),
                lambda: node.eval("return given()"),
                lambda: node.call("tostring", make()),
                lambda: node.eval("return ...", make()),
                lambda: space.insert([2, make()]),
                lambda: space.replace({"id": 2, "value": make()}),
                lambda: space.update(1, [("=", 1, make())]),
                lambda: space.upsert([1, make()], [("=", 1, 2)]),
                replaced,
            ]
            for way in ways:
                with pytest.raises(BoxError, match=TOO_DEEP):
                    await way()
            for key in (lambda: space.get(make()), lambda: space.delete([make()]), lambda: space.select(make())):
                with pytest.raises(BoxError):
                    await key()
            assert [tuple(row) for row in await space.select()] == [(1, "there")]

    asyncio.run(run())


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", ENDLESS)
def test_every_way_into_a_blocking_node(make: Callable[[], Any]) -> None:
    with box.sync.Node() as node:
        space = node.schema.create_space("s")
        space.create_index("pk")
        for way in (
            lambda: space.insert([1, make()]),
            lambda: node.call("tostring", make()),
            lambda: space.get(make()),
        ):
            with pytest.raises(BoxError):
                way()
        assert space.insert([1, "fine"]) == [1, "fine"]


def test_what_is_deep_but_ends() -> None:
    """Deep values are packed up to the node's limit; a list that occurs several times is no cycle."""
    for levels in (10, 1000, 5000):
        value: Any = "core"
        for _ in range(levels):
            value = [value]
        assert pack(value) == b"\x91" * levels + pack("core")
        assert pack(unpack(pack(value))) == pack(value)
    shared = [1]
    deep: Any = [shared, shared]
    for _ in range(600):
        deep = [deep, shared]
    assert pack(deep) == b"\x92" * 601 + pack(shared) * 602
    value = "core"
    for _ in range(5101):
        value = [value]
    with pytest.raises(BoxError, match=TOO_DEEP):
        pack(value)


def test_a_wrong_value_below_many_levels() -> None:
    async def run() -> None:
        async with Node() as node:
            value: Any = date(2026, 1, 1)
            for _ in range(3000):
                value = [value]
            with pytest.raises(BoxError, match="values of type date"):
                await node.call("tostring", value)
            with pytest.raises(BoxError):
                await node.call("tostring", [Decimal(1), 2**70])

    asyncio.run(run())
