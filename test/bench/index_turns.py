"""Measures the longest turns of the event loop during work with each kind of index, for `test.bench.turns`."""

from __future__ import annotations

import compileall
import sys
from pathlib import Path
from typing import Any, Final

import box.index as index_package
from box import Node
from box.embed import LuaInstance
from test.bench.turns import Phase, Watch, fill, until_freed

_FILL: Final = """
    local first, count = ...
    box.begin()
    for id = first, first + count - 1 do
        local number = id * 7919 % 1000003
        box.space.turns:replace{id, {number, id % 1000}, number % 65536, {number, number + 1, number + 2}}
    end
    box.commit()
"""
_FUNCTION: Final = """
    box.schema.func.create('turn_key', {
        body = 'function(tuple) return {tuple[3]} end', is_deterministic = true, is_sandboxed = true,
    })
"""
_KINDS: Final = {
    "RTREE": ("{type = 'RTREE', unique = false, parts = {{2, 'array'}}}", "overlaps", [0, 0, 500_000, 500]),
    "BITSET": ("{type = 'BITSET', unique = false, parts = {{3, 'unsigned'}}}", "bits_any_set", [3]),
    "multikey": ("{unique = false, parts = {{4, 'unsigned', path = '[*]'}}}", "ge", [500_000]),
    "functional": ("{func = 'turn_key', unique = false, parts = {{1, 'unsigned'}}}", "ge", [30_000]),
}
"""For each kind of index its options, and a search that finds a good part of the tuples."""


async def measure_indexes(directory: str, count: int) -> list[Phase]:
    """Measure work on `count` tuples with one index of each kind, one after another, and a recovery with all kinds."""
    # As in an installed package, the modules that the first index of a kind imports are compiled already.
    sys.pycache_prefix = f"{directory}/modules"
    compileall.compile_dir(Path(index_package.__file__).parent, quiet=1)
    options: dict[str, Any] = {"wal_mode": "none", "log_level": 4, "log": f"{directory}/log", "checkpoint_interval": 0}
    options["memtx_memory"] = 6 << 30
    node = Node(directory, **options)
    await node.start()
    watch = Watch()
    phase = watch.phase
    try:
        await node.eval("box.schema.space.create('turns'):create_index('pk')")
        await node.eval(_FUNCTION)
        await fill(node, count, _FILL)
        for kind, (definition, iterator, key) in _KINDS.items():
            create = f"box.space.turns:create_index('{kind}', {definition})"
            await phase(f"{kind}: create_index", node.eval(create))
            await phase(f"{kind}: replacing a tenth", fill(node, count // 10, _FILL, 20))
            space = node.space["turns"]
            found = space.index[kind].select(key, iterator=iterator, limit=100_000)
            await phase(f"{kind}: select of 100,000, embedded", found)
            await phase(f"{kind}: pairs, embedded", _count(space.index[kind].pairs(key, iterator=iterator)))
            await node.eval(f"box.space.turns.index['{kind}']:drop()")
            await phase(f"{kind}: drop", until_freed(node))
        for kind, (definition, _, _) in _KINDS.items():
            await node.eval(f"box.space.turns:create_index('{kind}', {definition})")
        await phase("all kinds: box.snapshot()", node.eval("box.snapshot()"))
        await node.stop()
        recovered = LuaInstance(directory)
        await phase("all kinds: recovery", recovered.configure(options))
        await recovered.stop()
    finally:
        watch.stop()
        await node.stop()
    return watch.phases


async def _count(pairs: Any) -> None:
    async for _ in pairs:
        pass
