"""`python -m test.bench.embedded_layers`: prints where the time of an embedded call goes, layer by layer.

All figures are microseconds of processor time, the least of many short rounds. Each layer is timed by itself with the
same arguments. Only the column "replace with log" has a log. sqlite3 in memory is measured in the same way, in turns:

```
a call: await space.replace(row)     box/embed/handles.py
  pack the row, make the row         box/embed/named_rows.py
  Dml.store, Reader.get              box/txn/dml.py, reads.py
    the change                       box/txn/fast_path.py
  the log                            box/journal
    row, block, write                box/journal/rows.py, xlog.py, storage.py
```
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Any

from box import Node
from box.data.codec import unpack
from box.session import Context
from box.txn.fast_path import CHANGES, FastWrite
from box.wire.change import REPLACE, UPDATE, Request

COUNT = 1000
FORMAT = [("id", "unsigned"), ("name", "string"), ("price", "number")]
_ROWS = [[number, f"name {number}", number / 4] for number in range(COUNT)]
_SET = [["=", "price", 7.5]]
_LINES = (
    ("coroutine, checks of arguments, context", "call", ("encode", "store", "decode", "log")),
    ("pack the row", "encode", ()),
    ("rights, mode, counters, plan", "store", ("change",)),
    ("check the fields, operations, tree", "change", ()),
    ("unpack the tuple, make the named row", "decode", ()),
    ("make the row of the log", "log row", ()),
    ("checksum and header of its block", "log block", ()),
    ("`write` to the file", "log write", ()),
    ("queue, order, errors, vclock, outcome", "log", ("log row", "log block", "log write")),
    ("the whole call", "call", ()),
    ("sqlite3", "sqlite3", ()),
)
"""Title, layer, and the layers below that are taken off."""


class LayerClock:
    """The least times of layers, by kind of call and by layer."""

    def __init__(self) -> None:
        self.least: dict[tuple[str, str], float] = {}

    def note(self, kind: str, layer: str, start: float) -> None:
        """Note the time since `start` for `COUNT` calls."""
        took = (time.process_time() - start) / COUNT * 1e6
        self.least[kind, layer] = min(took, self.least.get((kind, layer), took))

    def call(self, kind: str, layer: str, work: Callable[[int], object]) -> None:
        """Time a function of a number."""
        gc.collect()
        start = time.process_time()
        for number in range(COUNT):
            work(number)
        self.note(kind, layer, start)

    async def wait(self, kind: str, layer: str, work: Callable[[int], Awaitable[object]]) -> None:
        """Time a coroutine function of a number."""
        gc.collect()
        start = time.process_time()
        for number in range(COUNT):
            await work(number)
        self.note(kind, layer, start)


async def measure(clock: LayerClock, rounds: int) -> None:
    """Measure all layers."""
    database = sqlite3.connect(":memory:", isolation_level=None)
    database.execute("CREATE TABLE goods (id INTEGER PRIMARY KEY, name TEXT, price REAL)")
    statement = "REPLACE INTO goods VALUES (?, ?, ?)"
    async with Node(wal_mode="none", log_level=1) as node:
        space = await node.schema.create_space("goods", format=FORMAT)
        await space.create_index("pk")
        for row in _ROWS:
            await space.replace(row)
            database.execute(statement, row)
        core, requests = node._embedding.core, space._requests
        inner, codec = requests.space, node._embedding.codec(requests.space)
        ctx = Context(core.new_context().session)
        raws = [codec.encode(row) for row in _ROWS]
        found = [unpack(raw) for raw in raws]
        dml, plan = core.dml, inner.write_plan
        updates = [Request(UPDATE, b"", [number], _SET, 0, 1) for number in range(COUNT)]
        for _ in range(rounds):
            await clock.wait("replace", "call", lambda n: space.replace(_ROWS[n]))
            clock.call("replace", "encode", lambda n: codec.encode(_ROWS[n]))
            clock.call("replace", "store", lambda n: dml.store(ctx, inner, REPLACE, raws[n], None, found[n]))
            clock.call("replace", "change", lambda n: CHANGES[REPLACE](plan, inner, raws[n], found[n]))
            clock.call("replace", "decode", lambda n: codec.decode(raws[n]))
            clock.call("replace", "sqlite3", lambda n: database.execute(statement, _ROWS[n]))
            await clock.wait("update", "call", lambda n: space.update(n, _SET))
            clock.call("update", "store", lambda n: dml.store(ctx, inner, UPDATE, b"", updates[n]))
            clock.call("update", "change", lambda n: CHANGES[UPDATE](plan, inner, updates[n]))
            clock.call("update", "decode", lambda n: codec.decode(raws[n]))
            clock.call("update", "sqlite3", lambda n: database.execute(_SQL_UPDATE, (n,)))
            await clock.wait("get", "call", lambda n: space.get(n))
            clock.call("get", "store", lambda n: dml.reads.get(ctx, inner, 0, [n]))
            clock.call("get", "decode", lambda n: codec.decode(raws[n]))
            clock.call("get", "sqlite3", lambda n: database.execute(_SQL_GET, (n,)).fetchone())
            await _transactions(clock, node, space)
            _transactions_of_sqlite(clock, database, statement)


_SQL_UPDATE = "UPDATE goods SET price = 7.5 WHERE id = ?"
_SQL_GET = "SELECT * FROM goods WHERE id = ?"


async def _transactions(clock: LayerClock, node: Node, space: Any) -> None:
    gc.collect()
    start = time.process_time()
    for first in range(0, COUNT, 100):
        async with node.transaction():
            for row in _ROWS[first : first + 100]:
                await space.replace(row)
    clock.note("in a transaction", "call", start)
    for layer in ("encode", "change", "decode"):
        clock.least["in a transaction", layer] = clock.least["replace", layer]
    async with node.transaction() as transaction:
        opened = transaction._opened
        assert opened is not None
        dml, inner, raws = (
            node._embedding.core.dml,
            space._requests.space,
            [space._requests._encode(row) for row in _ROWS],
        )
        found = [unpack(raw) for raw in raws]
        clock.call(
            "in a transaction", "store", lambda n: dml.store(opened.ctx, inner, REPLACE, raws[n], None, found[n])
        )


async def measure_log(clock: LayerClock, rounds: int) -> None:
    """Measure `replace` with a log, and the layers of the log."""
    kind = "replace with log"
    with tempfile.TemporaryDirectory(prefix="lb-layers-") as directory:
        async with Node(directory, log_level=1) as node:
            space = await node.schema.create_space("goods", format=FORMAT)
            await space.create_index("pk")
            for row in _ROWS:
                await space.replace(row)
            writer, inner = node._embedding.core.journal._writer, space._requests.space
            raw = node._embedding.codec(inner).encode(_ROWS[0])
            entries = [FastWrite(REPLACE, inner.tuple_prefix + raw, None, inner, raw, raw, raw)]
            vclock, now = writer.vclock, time.time()
            rows = writer.rows.encode(entries, vclock.copy(), now)[0]
            block, file = writer._blocks.encode(rows), os.open(f"{directory}/other", os.O_WRONLY | os.O_CREAT)
            for _ in range(rounds):
                await clock.wait(kind, "call", lambda n: space.replace(_ROWS[n]))
                clock.call(kind, "log row", lambda n: writer.rows.encode(entries, vclock.copy(), now))
                clock.call(kind, "log block", lambda n: writer._blocks.encode(rows))
                clock.call(kind, "log write", lambda n: os.write(file, block))
            os.close(file)
    for layer in ("encode", "store", "change", "decode", "sqlite3"):
        clock.least[kind, layer] = clock.least["replace", layer]
    clock.least[kind, "log"] = clock.least[kind, "call"] - clock.least["replace", "call"]


def _transactions_of_sqlite(clock: LayerClock, database: sqlite3.Connection, statement: str) -> None:
    gc.collect()
    start = time.process_time()
    for first in range(0, COUNT, 100):
        database.execute("BEGIN")
        for row in _ROWS[first : first + 100]:
            database.execute(statement, row)
        database.execute("COMMIT")
    clock.note("in a transaction", "sqlite3", start)


def table(least: dict[tuple[str, str], float]) -> str:
    """Format the times as a table in Markdown."""
    kinds = list(dict.fromkeys(kind for kind, _ in least))
    lines = ["| | " + " | ".join(kinds) + " |", "|---|" + "---:|" * len(kinds)]
    for title, layer, below in _LINES:
        cells = []
        for kind in kinds:
            found = least.get((kind, layer))
            rest = None if found is None else found - sum(least.get((kind, name), 0.0) for name in below)
            cells.append("" if rest is None else f"{max(rest, 0.0):.2f}")
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m test.bench.embedded_layers", description="Prints where the time of an embedded call goes."
    )
    parser.add_argument("--rounds", type=int, default=40, help="how often each layer is measured")
    options = parser.parse_args()
    clock = LayerClock()
    asyncio.run(measure(clock, options.rounds))
    asyncio.run(measure_log(clock, options.rounds))
    print(table(clock.least))


if __name__ == "__main__":
    main()
