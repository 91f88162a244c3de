"""Functions with `takes_raw_args` get their arguments as one object of MessagePack, as in Tarantool 2.11."""

from __future__ import annotations

import asyncio

from box import Node

SETUP = """
local mp = require('msgpack')
box.schema.func.create('stored', {
    takes_raw_args = true,
    body = "function(...) local all = ... return select('#', ...), require('msgpack').is_object(all), all:decode() end",
})
box.schema.func.create('sandboxed', {
    takes_raw_args = true, is_sandboxed = true, is_deterministic = true, body = 'function(all) return all:decode() end',
})
function given(all) return all:decode(), mp.is_object(all) end
box.schema.func.create('given', {takes_raw_args = true})
box.schema.func.create('plain', {body = 'function(...) return ... end'})
box.schema.func.create('check', {
    takes_raw_args = true, is_deterministic = true, body = 'function(all) return all[1] > 1 and all[2] == "check" end',
})
"""


def test_calls_of_every_kind() -> None:
    async def main() -> None:
        async with Node(listen="127.0.0.1:0") as node:
            await node.eval(SETUP + "box.schema.user.grant('guest', 'super')")
            for call in (
                "box.func.stored:call{1, {2}, box.NULL}",
                "box.schema.func.call('stored', 1, {2}, nil)",
                "require('net.box').connect(box.info.listen):call('stored', {1, {2}, box.NULL})",
            ):
                assert await node.eval(f"return {call}") == [1, True, [1, [2], None]], call
            for call in (
                "box.func.given:call{1}",
                "require('net.box').connect(box.info.listen):call('given', {1})",
            ):
                assert await node.eval(f"return {call}") == [[1], True], call
            assert await node.eval("return box.func.sandboxed:call{1, 'x'}") == [1, "x"]
            found = await node.eval("return box.func.stored.takes_raw_args, box.func.plain.takes_raw_args")
            assert found == [True, None]
            assert (await node.eval("return box.space._func.index.name:get('given').opts")) == {"takes_raw_args": True}

    asyncio.run(main())


def test_a_constraint() -> None:
    async def main() -> None:
        async with Node() as node:
            await node.eval(SETUP)
            await node.eval(
                "box.schema.space.create('s', {format = {{'id', 'unsigned', constraint = 'check'}}}):create_index('pk')"
            )
            found = await node.eval("return pcall(box.space.s.insert, box.space.s, {1}), box.space.s:insert{2}")
            assert found == [False, [2]]

    asyncio.run(main())
