"""`memtx_memory` as users meet it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from box.embed import LuaInstance
from box.errors import BoxError

from .box_support import Box, Run

LIMIT = 2_000_000
FILL = """
    s = box.schema.space.create('t')
    s:create_index('pk')
    n, pad = 0, string.rep('x', 1000)
    repeat n = n + 1 until not pcall(s.insert, s, {n, pad})
"""


def test_a_node_that_is_full(run: Run) -> None:
    """A full node refuses tuples, but not deletes and small tuples; the limit can be raised, not lowered."""

    async def body(box: Box) -> None:
        await box(FILL)
        stored = await box("return s:len()")
        assert 0.8 * LIMIT < 1000 * stored < LIMIT
        error = "Failed to allocate 1021 bytes in slab allocator for memtx_tuple"
        assert error in await box.fails("s:insert{n, pad}")
        assert await box("local ok, e = pcall(s.replace, s, {1, pad}) return ok, e.type") == [False, "OutOfMemory"]
        assert await box("return s:len(), s:get(1)[2] == pad") == [stored, True]
        await box("for i = 1, 10 do s:delete(i) end s:insert{n, pad}")
        assert "cannot decrease memory size at runtime" in await box.fails("box.cfg{memtx_memory = 1000000}")
        await box("repeat n = n + 1 until not pcall(s.insert, s, {n, pad})")
        await box(f"box.cfg{{memtx_memory = {2 * LIMIT}}} s:insert{{n, pad}}")
        units = -(-2 * LIMIT // 1024)
        assert await box("return box.slab.info().quota_size") == 1024 * units

    run(body, memtx_memory=LIMIT)


def test_what_box_slab_stats_says(run: Run) -> None:
    """box.slab.stats() has a row for each size of tuples, whose sums are those of box.slab.info()."""

    async def body(box: Box) -> None:
        await box("""
            local s = box.schema.space.create('s')
            s:create_index('pk')
            for id = 1, 3000 do s:insert{id, ('x'):rep(200)} end
        """)
        fields = "item_count item_size mem_free mem_used slab_count slab_size".split()
        rows = await box("return unpack(box.slab.stats())")
        assert all(sorted(row) == fields for row in rows)
        assert all(row["mem_used"] == row["item_size"] * row["item_count"] for row in rows)
        assert all(row["mem_used"] + row["mem_free"] == row["slab_size"] * row["slab_count"] for row in rows)
        assert max(rows, key=lambda row: row["item_count"])["item_count"] == 3000

    run(body)


def test_what_box_slab_info_says(run: Run) -> None:
    """box.slab.info() counts memory of tuples and indexes, and goes back when they are removed."""

    async def body(box: Box) -> None:
        await box("function used() return box.slab.info().quota_used end start = used()")
        await box("s = box.schema.space.create('t') s:create_index('pk')")
        await box("for i = 1, 1000 do s:insert{i, 'text', string.rep('x', 100)} end one = used()")
        assert 150_000 < await box("return one - start") < 250_000
        await box("s:create_index('sk', {unique = false, parts = {2, 'string'}}) two = used()")
        assert 50_000 < await box("return two - one") < 150_000
        assert await box(
            "local i = box.slab.info() return i.arena_used == i.quota_used, i.items_used < i.quota_used"
        ) == [
            True,
            True,
        ]
        assert await box("return box.info.memory().data == box.slab.info().items_used") is True
        await box("s.index.sk:drop()")
        assert abs(await box("return used() - one")) < 1000
        await box("s.index.pk:alter{parts = {{1, 'unsigned'}, {2, 'string'}}}")
        assert 50_000 < await box("return used() - one") < 200_000
        await box("s:truncate()")
        assert await box("return used() - start") < 3000
        assert await box("return s:bsize()") == 0
        await box("s:drop()")
        assert await box("return used() - start") < 1500

    run(body)


def test_an_index_for_which_there_is_no_room(run: Run) -> None:
    """An index without room is refused before it is built, and writes go on."""

    async def body(box: Box) -> None:
        await box("s = box.schema.space.create('t') s:create_index('pk')")
        await box("repeat until not pcall(s.auto_increment, s, {'x'})")
        await box("for i = 1, 100 do s:delete(i) end")
        error = "Failed to allocate 16384 bytes in mempool for new slab"
        assert error in await box.fails("s:create_index('sk', {unique = false, parts = {2, 'string'}})")
        assert await box("return s.index.sk == nil, s:auto_increment{'x'} ~= nil") == [True, True]

    run(body, memtx_memory=LIMIT)


@pytest.mark.parametrize("where", ["snapshot", "log"])
def test_a_directory_with_more_than_the_limit(where: str, tmp_path: Path) -> None:
    """A start from more data than the limit fails; with force_recovery it loads what fits."""

    async def start(directory: Path, code: str, **options: object) -> object:
        instance = LuaInstance(directory)
        instance.node.log.level = 0
        try:
            await instance.configure({"log_level": 0, **options})
            return await Box(instance)(code)
        finally:
            await instance.stop()

    async def body() -> None:
        await start(tmp_path, FILL + ("box.snapshot()" if where == "snapshot" else ""), memtx_memory=2 * LIMIT)
        with pytest.raises(BoxError, match=r"Failed to allocate 10\d\d bytes in slab allocator for memtx_tuple"):
            await start(tmp_path, "", memtx_memory=LIMIT)
        forced = await start(tmp_path, "return box.space.t:len()", memtx_memory=LIMIT, force_recovery=True)
        assert isinstance(forced, int)
        assert 0.8 * LIMIT < 1000 * forced < LIMIT
        whole = await start(tmp_path, "return box.space.t:len(), box.space.t:bsize()", memtx_memory=2 * LIMIT)
        assert isinstance(whole, list)
        assert whole[0] > 1.6 * LIMIT / 1000
        assert 1000 < whole[1] / whole[0] < 1010

    asyncio.run(body())


SCRIPT = """
import asyncio, resource, sys
from box.embed import LuaInstance
from test.unit.boxlua.box_support import Box

FILL = '''
    net = require('net.box')
    s = box.schema.space.create('t')
    s:create_index('pk')
    c = net.connect(box.cfg.listen)
    n, pad = 0, string.rep('x', 100000)
    local answers = 0
    while answers < 10 do
        n = n + 1
        local ok, e = pcall(c.space.t.insert, c.space.t, {n, pad})
        if not ok then
            answers = answers + 1
            assert(tostring(e) == 'Failed to allocate 100023 bytes in slab allocator for memtx_tuple', tostring(e))
        end
    end
    for i = 1, 10 do local other = net.connect(box.cfg.listen) assert(other:ping()) other:close() end
    local stored = c:eval('return box.space.t:len()')
    for i = 1, 100 do c.space.t:delete(i) end
    c.space.t:insert{n, pad}
    return stored
'''

async def main():
    instance = LuaInstance(None)
    await instance.configure({"log_level": 1, "wal_mode": "none", "listen": sys.argv[1], "memtx_memory": 1 << 40})
    box = Box(instance)
    await box("box.schema.user.grant('guest', 'super')")
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + (100 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    print(await box(FILL))
    await instance.stop()

asyncio.run(main())
"""


def test_a_process_that_gets_no_more_memory(tmp_path: Path) -> None:
    """A process without memory refuses tuples early enough that connections stay and are accepted."""
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "socket")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert 300 < int(done.stdout) < 1000
