"""Measures calls of an embedded node, beside other databases inside a Python program.

    python -m test.bench.embedded [--rounds N] [--before DIR] [SUBJECT...]

```
node, node+log            box.Node: in memory, and with a log in a directory
sync, sync+log            box.sync.Node, which uses MVCC, from one thread; `replace` also from eight threads at once
dbapi, dbapi+log          box.dbapi.connect: the same with statements of SQL
sqlite, sqlite+log        sqlite3 of the standard library: in memory, and in a file (journal_mode WAL, synchronous OFF)
aiosqlite+log             aiosqlite with such a file
lmdb+log                  lmdb with MessagePack rows, in a file, sync off
```

Figures are microseconds of wall time an operation: the median of the rounds and their range. Each subject runs in a
process of its own, and all take turns. `--before` adds the nodes of another checkout. No subject syncs its files to the
disk: a killed process loses nothing, a power failure may lose rows.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COUNT = 4000
THREADS = 8
FORMAT = [("id", "unsigned"), ("name", "string"), ("price", "number")]
FIGURES = {
    "replace": "replace, each its own transaction",
    "get": "get by key",
    "update": "update of one field",
    "txn": "a statement in transactions of 100",
    "many": "rows stored with one call, a row",
    "read": "all rows read, a row",
    "threads": f"replace, {THREADS} threads at once",
}


def row_of(number: int) -> list[Any]:
    return [number, f"name {number}", number / 4]


class Clock:
    """Measures figures: microseconds of wall time an operation, in `found` by name."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}

    @contextmanager
    def time(self, figure: str, count: int = COUNT) -> Iterator[None]:
        gc.collect()
        start = time.perf_counter()
        yield
        self.found[figure] = (time.perf_counter() - start) / count * 1e6


async def measure_node(directory: str | None) -> dict[str, float]:
    from box import Node

    clock = Clock()
    options: Any = {} if directory else {"wal_mode": "none"}
    async with Node(directory, log_level=1, **options) as node:
        space: Any = await node.schema.create_space("goods", format=FORMAT)
        await space.create_index("pk")
        rows = [row_of(number) for number in range(COUNT)]
        for row in rows:
            await space.replace(row)
        with clock.time("replace"):
            for row in rows:
                await space.replace(row)
        with clock.time("get"):
            for number in range(COUNT):
                await space.get(number)
        operations = [["=", "price", 7.5]]
        with clock.time("update"):
            for number in range(COUNT):
                await space.update(number, operations)
        with clock.time("txn"):
            for start in range(0, COUNT, 100):
                async with node.transaction():
                    for row in rows[start : start + 100]:
                        await space.replace(row)
        if hasattr(space, "replace_many"):
            with clock.time("many"):
                await space.replace_many(rows)
        with clock.time("read"):
            assert len(await space.select()) == COUNT
    return clock.found


def measure_sync(directory: str | None) -> dict[str, float]:
    from box.sync import Node

    clock = Clock()
    options: Any = {} if directory else {"wal_mode": "none"}
    with Node(directory, log_level=1, **options) as node:
        space: Any = node.schema.create_space("goods", format=FORMAT)
        space.create_index("pk")
        rows = [row_of(number) for number in range(COUNT)]
        for row in rows:
            space.replace(row)
        with clock.time("replace"):
            for row in rows:
                space.replace(row)
        with clock.time("get"):
            for number in range(COUNT):
                space.get(number)
        operations = [["=", "price", 7.5]]
        with clock.time("update"):
            for number in range(COUNT):
                space.update(number, operations)
        if hasattr(space, "replace_many"):
            with clock.time("many"):
                space.replace_many(rows)
        with clock.time("read"):
            assert len(space.select()) == COUNT
        with clock.time("txn"):
            for start in range(0, COUNT, 100):
                with node.transaction():
                    for row in rows[start : start + 100]:
                        space.replace(row)
        measure_threads(clock, rows, space.replace)
    return clock.found


def measure_dbapi(directory: str | None) -> dict[str, float]:
    from box import dbapi

    clock = Clock()
    options: Any = {} if directory else {"wal_mode": "none"}
    with dbapi.connect(directory, autocommit=True, log_level=1, **options) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE goods (id INTEGER PRIMARY KEY, name TEXT, price NUMBER)")
        rows = [row_of(number) for number in range(COUNT)]
        for row in rows:
            cursor.execute(_REPLACE, row)
        with clock.time("replace"):
            for row in rows:
                cursor.execute(_REPLACE, row)
        with clock.time("get"):
            for number in range(COUNT):
                cursor.execute(_GET, (number,)).fetchone()
        with clock.time("update"):
            for number in range(COUNT):
                cursor.execute(_UPDATE, (number,))
        connection.autocommit = False
        with clock.time("txn"):
            for start in range(0, COUNT, 100):
                for row in rows[start : start + 100]:
                    cursor.execute(_REPLACE, row)
                connection.commit()
        with clock.time("many"):
            cursor.executemany(_REPLACE, rows)
            connection.commit()
        with clock.time("read"):
            assert len(cursor.execute("SELECT * FROM goods").fetchall()) == COUNT
        connection.commit()
    return clock.found


def measure_threads(clock: Clock, rows: list[Any], replace: Callable[[Any], Any]) -> None:
    def work(part: int) -> None:
        for row in rows[part::THREADS]:
            replace(row)

    threads = [threading.Thread(target=work, args=(part,)) for part in range(THREADS)]
    with clock.time("threads"):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


_REPLACE = "REPLACE INTO goods VALUES (?, ?, ?)"
_UPDATE = "UPDATE goods SET price = 7.5 WHERE id = ?"
_GET = "SELECT * FROM goods WHERE id = ?"
_CREATE = "CREATE TABLE goods (id INTEGER PRIMARY KEY, name TEXT, price REAL)"
_SETTINGS = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = OFF")


def measure_sqlite(directory: str | None) -> dict[str, float]:
    clock = Clock()
    path = f"{directory}/data.sqlite" if directory else ":memory:"
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    for setting in _SETTINGS:
        database.execute(setting)
    database.execute(_CREATE)
    rows = [row_of(number) for number in range(COUNT)]
    with clock.time("replace"):
        for row in rows:
            database.execute(_REPLACE, row)
    with clock.time("get"):
        for number in range(COUNT):
            database.execute(_GET, (number,)).fetchone()
    with clock.time("update"):
        for number in range(COUNT):
            database.execute(_UPDATE, (number,))
    with clock.time("txn"):
        for start in range(0, COUNT, 100):
            database.execute("BEGIN")
            for row in rows[start : start + 100]:
                database.execute(_REPLACE, row)
            database.execute("COMMIT")
    with clock.time("many"):
        database.execute("BEGIN")
        database.executemany(_REPLACE, rows)
        database.execute("COMMIT")
    with clock.time("read"):
        assert len(database.execute("SELECT * FROM goods").fetchall()) == COUNT
    lock = threading.Lock()

    def replace(row: Any) -> None:
        with lock:
            database.execute(_REPLACE, row)

    measure_threads(clock, rows, replace)
    database.close()
    return clock.found


async def measure_aiosqlite(directory: str | None) -> dict[str, float]:
    import aiosqlite

    clock, count = Clock(), COUNT // 4
    path = f"{directory}/data.sqlite" if directory else ":memory:"
    async with aiosqlite.connect(path, isolation_level=None) as database:
        for setting in _SETTINGS:
            await database.execute(setting)
        await database.execute(_CREATE)
        rows = [row_of(number) for number in range(count)]
        with clock.time("replace", count):
            for row in rows:
                await database.execute(_REPLACE, row)
        with clock.time("get", count):
            for number in range(count):
                await (await database.execute(_GET, (number,))).fetchone()
        with clock.time("update", count):
            for number in range(count):
                await database.execute(_UPDATE, (number,))
        with clock.time("txn", count):
            for start in range(0, count, 100):
                await database.execute("BEGIN")
                for row in rows[start : start + 100]:
                    await database.execute(_REPLACE, row)
                await database.execute("COMMIT")
        with clock.time("many", count):
            await database.execute("BEGIN")
            await database.executemany(_REPLACE, rows)
            await database.execute("COMMIT")
        with clock.time("read", count):
            assert len(list(await database.execute_fetchall("SELECT * FROM goods"))) == count
    return clock.found


def measure_lmdb(directory: str | None) -> dict[str, float]:
    import lmdb
    import msgpack

    clock = Clock()
    assert directory is not None
    pack, unpack = msgpack.Packer().pack, msgpack.unpackb
    environment = lmdb.open(directory, map_size=1 << 28, sync=False, metasync=False)
    rows = [row_of(number) for number in range(COUNT)]
    keys = [number.to_bytes(8, "big") for number in range(COUNT)]

    def replace(row: Any) -> None:
        with environment.begin(write=True) as transaction:
            transaction.put(row[0].to_bytes(8, "big"), pack(row))

    with clock.time("replace"):
        for row in rows:
            replace(row)
    with clock.time("get"):
        for key in keys:
            with environment.begin() as transaction:
                unpack(transaction.get(key))
    with clock.time("update"):
        for key in keys:
            with environment.begin(write=True) as transaction:
                row = unpack(transaction.get(key))
                row[2] = 7.5
                transaction.put(key, pack(row))
    with clock.time("txn"):
        for start in range(0, COUNT, 100):
            with environment.begin(write=True) as transaction:
                for row in rows[start : start + 100]:
                    transaction.put(row[0].to_bytes(8, "big"), pack(row))
    with clock.time("many"), environment.begin(write=True) as transaction:
        for row in rows:
            transaction.put(row[0].to_bytes(8, "big"), pack(row))
    with clock.time("read"), environment.begin() as transaction:
        assert len([unpack(value) for _, value in transaction.cursor()]) == COUNT
    measure_threads(clock, rows, replace)
    environment.close()
    return clock.found


SUBJECTS: dict[str, Callable[[str | None], Any]] = {
    "node": measure_node,
    "node+log": measure_node,
    "sync": measure_sync,
    "sync+log": measure_sync,
    "dbapi": measure_dbapi,
    "dbapi+log": measure_dbapi,
    "sqlite": measure_sqlite,
    "sqlite+log": measure_sqlite,
    "aiosqlite+log": measure_aiosqlite,
    "lmdb+log": measure_lmdb,
}
OWN = ("node", "node+log", "sync", "sync+log", "dbapi", "dbapi+log")


def measure(subject: str) -> dict[str, float]:
    """Measure one subject in this process."""
    with tempfile.TemporaryDirectory(prefix="lb-embedded-") as directory:
        found = SUBJECTS[subject](directory if subject.endswith("+log") else None)
        if isinstance(found, Awaitable):

            async def finish() -> Any:
                return await found

            return asyncio.run(finish())
        return found


def run(subject: str, root: Path) -> dict[str, float]:
    """Measure one subject in a child process, with the packages of the checkout `root`."""
    command = [sys.executable, str(Path(__file__)), "--child", subject]
    environment = os.environ | {"PYTHONPATH": str(root)}
    done = subprocess.run(command, env=environment, cwd="/", stdout=subprocess.PIPE, timeout=300, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def table(outcomes: dict[str, list[dict[str, float]]]) -> str:
    """Format the medians and ranges of all rounds as a table in Markdown."""
    lines = ["| | " + " | ".join(outcomes) + " |", "|---|" + "---:|" * len(outcomes)]
    for figure, title in FIGURES.items():
        cells = []
        for rounds in outcomes.values():
            values = [found[figure] for found in rounds if figure in found]
            cells.append(f"{statistics.median(values):.3g} ({min(values):.3g}-{max(values):.3g})" if values else "")
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m test.bench.embedded",
        description="Measures calls of an embedded node, beside other databases inside a Python program.",
    )
    parser.add_argument("subjects", nargs="*", choices=[*SUBJECTS, []], help="what to measure; default: all")
    parser.add_argument("--rounds", type=int, default=5, help="how often each subject is measured")
    parser.add_argument("--before", type=Path, help="another checkout whose nodes are measured, too")
    parser.add_argument("--child", choices=SUBJECTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.child)))
        return
    root = Path(__file__).parents[2]
    jobs = {name: (name, root) for name in options.subjects or SUBJECTS}
    if options.before:
        before = {f"{name}, before": (name, options.before.resolve()) for name in jobs if name in OWN}
        jobs = before | jobs
    load = os.getloadavg()[0]
    outcomes: dict[str, list[dict[str, float]]] = {name: [] for name in jobs}
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
        for name, (subject, checkout) in jobs.items():
            outcomes[name].append(run(subject, checkout))
    print(
        f"microseconds an operation, median of {options.rounds} rounds (least-greatest); load {load:.1f} at the start\n"
    )
    print(table(outcomes))


if __name__ == "__main__":
    main()
