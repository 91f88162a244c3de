"""Turns of the loop during queries over many rows, for `python -m test.bench.turns --only sql`."""

from __future__ import annotations

import gc
from typing import Any, Final

from box import Node
from test.bench.turns import Phase, Watch, fill

_SMALL: Final = 100_000
"""Rows of a table whose queries have as many."""
_FILL = """
    local first, count = ...
    box.begin()
    for id = first, first + count - 1 do
        box.space.TURNS:replace{id, ('name %d'):format(id * 7919 % 1000003), id * 7919 % 5003, id / 2 + 0.25}
    end
    box.commit()
"""
_TABLE = "CREATE TABLE turns (id INTEGER PRIMARY KEY, name STRING, kind INTEGER, price DOUBLE)"
_FEW = (
    "SELECT * FROM turns",
    "SELECT DISTINCT name FROM turns ORDER BY name",
    "SELECT * FROM turns ORDER BY name",
    "SELECT name, COUNT(*) FROM turns GROUP BY name",
    "SELECT a.id, b.id FROM turns AS a JOIN turns AS b ON a.name = b.name",
    "SELECT a.id, b.id FROM turns AS a JOIN turns AS b ON a.name = b.name AND a.kind = b.kind",
)
_MANY = (
    "SELECT COUNT(*) FROM (SELECT DISTINCT name FROM turns)",
    "SELECT kind, SUM(price) FROM turns GROUP BY kind",
    "SELECT name, COUNT(*), SUM(price) FROM turns GROUP BY name HAVING COUNT(*) > 100",
    "SELECT * FROM turns ORDER BY name LIMIT 5",
    "SELECT a.id, b.id FROM turns AS a JOIN turns AS b ON a.name = b.name WHERE a.id < 100",
)
_ROUNDS = 2
"""Each query runs twice: copies of the table are made in between."""


async def measure_sql(count: int) -> list[Phase]:
    """Measure queries over 100,000 rows, whose results have as many, and over `count` rows."""
    phases: list[Phase] = []
    gc.freeze()  # as the guide to embedding advises: a full collection of all that is imported is a turn of its own
    for rows, queries in ((min(_SMALL, count), _FEW), (count, _MANY)):
        node = Node(None, wal_mode="none", log_level=4, memtx_memory=2 << 30)
        await node.start()
        watch, results = Watch(), []
        try:
            await node.execute(_TABLE)
            await fill(node, rows, _FILL)

            async def run(query: str, node: Node = node, results: list[Any] = results) -> None:
                results.append(await node.execute(query))

            for query in queries:
                for _ in range(_ROUNDS):
                    await watch.phase(f"{query}, {rows:,} rows", run(query))
                    results.clear()  # between the phases: to free many rows is the program's own turn
            if queries is _FEW:
                source = f"return #box.execute('{queries[0]}').rows"
                await watch.phase(f"{queries[0]}, {rows:,} rows, in Lua", node.eval(source))
        finally:
            watch.stop()
            await node.stop()
        phases += watch.phases
    return phases
