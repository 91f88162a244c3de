"""Pagination of embedded nodes: `page` of spaces and indexes, asynchronous and blocking."""

from __future__ import annotations

import asyncio

import pytest

from box import BoxError, Node, RowPage
from box.errors import DataError
from box.sync import Node as BlockingNode

MAKE = """
local s = box.schema.space.create('s', {format = {{'id', 'unsigned'}, {'kind', 'unsigned'}}})
s:create_index('pk')
s:create_index('kind', {unique = false, parts = {{'kind'}}})
for i = 1, 1000 do s:insert({i, i % 3}) end
"""


@pytest.mark.parametrize("limit", [7, 256, 300, 5000])
def test_pages_follow_each_other(limit: int) -> None:
    async def scenario() -> None:
        async with Node() as node:
            await node.eval(MAKE)
            space, seen, at = node.space["s"], [], None
            while (page := await space.page(limit=limit, after=at)).rows:
                assert len(page.rows) <= limit
                seen += [row.id for row in page.rows]
                at = page.position
            assert seen == list(range(1, 1001))
            assert page == RowPage([], None)
            index, seen, at = space.index["kind"], [], None
            while (page := await index.page(1, iterator="REQ", limit=limit, after=at)).rows:
                seen += [row.id for row in page.rows]
                at = page.position
            assert seen == list(range(1000, 0, -3))

    asyncio.run(scenario())


def test_a_page_goes_on_behind_a_row_that_is_gone() -> None:
    async def scenario() -> None:
        async with Node() as node:
            await node.eval(MAKE)
            space = node.space["s"]
            first = await space.page(limit=2)
            await space.delete(2)
            assert [row.id for row in (await space.page(limit=2, after=first.rows[-1])).rows] == [3, 4]
            assert [row.id for row in (await space.page(limit=2, after=first.position)).rows] == [3, 4]
            assert [row.id for row in (await space.page(limit=2, after={"id": 5, "kind": 0})).rows] == [6, 7]
            async with node.transaction():
                await space.insert([2, 0])
                assert [row.id for row in (await space.page(limit=1, after=[1, 0])).rows] == [2]
            with pytest.raises(DataError, match="Iterator position is invalid"):
                await space.page(after="nonsense")
            with pytest.raises(BoxError, match="limit must not be negative"):
                await space.page(limit=-1)

    asyncio.run(scenario())


def test_pages_without_a_loop() -> None:
    with BlockingNode() as node:
        node.eval(MAKE)
        space = node.space["s"]
        page = space.page(limit=600)
        assert [row.id for row in page.rows] == list(range(1, 601))
        rest = space.page(limit=600, after=page.position)
        assert [row.id for row in rest.rows] == list(range(601, 1001))
        assert [row.id for row in space.index["kind"].page(2, limit=2).rows] == [2, 5]
