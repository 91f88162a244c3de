"""Large transactions that change the dictionary, or whose triggers write, are undone exactly and in short turns."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from box import BoxError, Node
from box.txn import laying_over, lifecycle, slots, staged_undo

ROWS = 6000
"""Rows of the large transactions: undone one by one, they take 30 ms and more."""

SETUP = """
    function found(name, id)
        local space = box.schema.space.create(name, {id = id})
        space:create_index('pk')
        space:create_index('name', {parts = {{2, 'string'}}, unique = false})
        return space
    end
    for number, name in ipairs{'one', 'two'} do
        if box.space[511 + number] == nil then found(name .. box.info.lsn, 511 + number) end
    end
    steps = {
        replace = function(space, key, text) space:replace{key, text, key} end,
        delete = function(space, key) space:delete(key) end,
        truncate = function(space) space:truncate() end,
        create = function(space) space:create_index('third', {parts = {{3, 'unsigned'}}}) end,
        drop = function(space) space.index.name:drop() end,
        alter = function(space) space.index.name:alter{parts = {{2, 'string'}, {1, 'unsigned'}}} end,
        format = function(space, key) space:format{{'id', 'unsigned'}, {'f' .. key, 'string'}} end,
        rename = function(space, key) space:rename(space.name .. key) end,
        vanish = function(space) space:drop() end,
        found = function(space, key) found('new' .. key, 600 + key):replace{key, 'new'} end,
        undone = function(space, key)
            local savepoint = box.savepoint()
            space:truncate()
            space:replace{key, 'undone'}
            box.rollback_to_savepoint(savepoint)
        end,
        before = function(space, key)
            local function trigger(old, new)
                box.space._schema:replace{'before', key}
                if space.id ~= two.id then two:replace{key + 1, 'before'} end
                return new
            end
            space:before_replace(trigger)
            pcall(space.replace, space, {key, 'triggers'})
            space:before_replace(nil, trigger)
        end,
    }
    function change(program)
        two = box.space[513]
        box.begin()
        for _, step in ipairs(program) do
            local space = box.space[step[2]]
            if space ~= nil then pcall(steps[step[1]], space, step[3], step[4]) end
        end
        local ok, problem = pcall(box.commit)
        return ok or tostring(problem)
    end
    function contents()
        local all = {}
        for _, place in box.space._index:pairs() do
            local space = box.space[place[1]]
            local index = space.index[place[2]]
            if place[1] > 511 or place[1] == 288 or place[1] == 280 or place[1] == 272 then
                table.insert(all, {space.name, index.name, #index, index:select()})
            end
        end
        return all
    end
"""

STEPS = ["replace"] * 6 + [
    *("delete", "truncate", "create", "drop", "alter", "format", "rename", "vanish", "found", "undone", "before")
]
PROGRAMS = 60
DEADLINE = 120.0
CONFLICT = "Transaction has been aborted by conflict"
"""The error of undoing one's own change of the dictionary in part, with MVCC."""


def program(random: Random) -> list[Any]:
    """Generate the steps of a transaction; the last one always changes something."""
    count = random.randint(3, 14)
    chosen = [
        (random.choice(STEPS), random.choice([512, 513]), random.randint(1, 6), "abc"[count % 3]) for _ in range(count)
    ]
    return [*chosen, ("replace", 272, f"row {random.random()}", "last")]


@contextmanager
def small_slices() -> Iterator[None]:
    """Make transactions large from three statements on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lifecycle, "UNDONE_STATEMENTS", 3)
        patch.setattr(staged_undo, "_SLICE_STATEMENTS", 2)
        patch.setattr(staged_undo, "_SLICES_COMPARED", 1)
        patch.setattr(staged_undo, "MERGED_KEYS", 1)
        patch.setattr(laying_over, "MERGED_KEYS", 1)
        patch.setattr(slots, "MANY", 3)
        yield


async def is_like(node: Node, contents: Any) -> bool:
    """Return whether a node has these contents; a comparison by assert would print too much."""
    return bool(await node.call("contents") == contents)


async def fail(node: Node, program: Any) -> None:
    """Make the write of the transaction fail."""
    await node.eval("box.error.injection.set('ERRINJ_WAL_WRITE', true)")
    outcome = await node.call("change", program)
    assert outcome in ("Failed to write to disk", CONFLICT)
    await node.eval("box.error.injection.set('ERRINJ_WAL_WRITE', false)")


@pytest.mark.parametrize("versions", [False, True])
def test_a_failed_write_leaves_what_was_there(versions: bool) -> None:
    """A failed write restores all indexes and the dictionary, and the transaction succeeds when it is repeated."""

    async def run() -> None:
        random = Random(1)
        options: dict[str, Any] = {"memtx_use_mvcc_engine": versions, "checkpoint_interval": 0}
        options["replicaset_uuid"] = "aaaaaaaa-0000-4000-8000-000000000001"
        with TemporaryDirectory() as one, TemporaryDirectory() as other:
            async with Node(Path(one), **options) as node, Node(Path(other), **options) as twin:
                for _ in range(PROGRAMS):
                    for each in (node, twin):
                        await each.eval(SETUP)
                    steps = program(random)
                    expected = await node.call("contents")
                    with small_slices():
                        await fail(node, steps)
                        assert await is_like(node, expected), steps
                        await node._embedding.core.txns.work.wait()
                        assert await is_like(node, expected), steps
                    for each in (node, twin):
                        assert await each.call("change", steps) in (True, CONFLICT)
                    assert await is_like(node, await twin.call("contents")), steps

    asyncio.run(asyncio.wait_for(run(), DEADLINE))


@pytest.mark.parametrize("versions", [False, True])
@pytest.mark.parametrize(
    "work",
    [
        "for i = 1, n do one:replace{i, 'x' .. i, i} end one:truncate()",
        "one:truncate() for i = 1, n do one:replace{i, 'x' .. i, i} end",
        "for i = 1, n do one:replace{i, 'x' .. i, i} end one.index.name:drop()",
        "one:before_replace(write_two) for i = 1, n / 2 do one:replace{i, 'x' .. i, i} end",
    ],
)
def test_in_short_turns(work: str, versions: bool) -> None:
    """The undo of a transaction of many rows has only short turns, by the processor time of the loop's thread."""

    async def run() -> None:
        with TemporaryDirectory() as directory:
            node = Node(Path(directory), memtx_use_mvcc_engine=versions, checkpoint_interval=0)
            ended = 0.0

            @node.function
            def statements_done() -> None:
                nonlocal ended
                ended = time.thread_time()

            async with node:
                await node.eval(SETUP)
                await node.eval("""
                    one, two = box.space[512], box.space[513]
                    function write_two(old, new) two:replace{new[1], 'two'} return new end
                    function work(f, n) box.begin() f(n) statements_done() box.commit() end
                """)
                await node.eval(f"f = function(n) {work} end")
                await node.eval("box.error.injection.set('ERRINJ_WAL_WRITE', true)")
                doing = asyncio.ensure_future(node.eval("work(f, ...)", ROWS))
                longest, last = 0.0, time.thread_time()
                while not doing.done():
                    await asyncio.sleep(0)
                    now = time.thread_time()
                    longest, last = max(longest, now - max(last, ended)), now
                assert isinstance(doing.exception(), BoxError)
                await node.eval("box.error.injection.set('ERRINJ_WAL_WRITE', false)")
                assert await node.eval("return #one, #two") == [0, 0]
                assert longest < 0.01

    gc.disable()
    try:
        asyncio.run(asyncio.wait_for(run(), DEADLINE))
    finally:
        gc.enable()
