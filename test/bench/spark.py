"""Measures how fast Spark reads a snapshot, beside how fast it reads Parquet, in one run.

    python -m test.bench.spark [--rows N] [--log-rows N] [--rounds N] [--directory DIR]

Makes a snapshot with a space of N tuples (unsigned, string, double) and one of N / 5 tuples of ten fields, and a log.
Prints for each action wall time, rows a second, processor time, the share of Python's workers in it, how many times
faster it is than Parquet to Parquet (by wall time / by processor time), and the greatest memory of a Python worker.
Workers are reused from action to action, so measure memory with `--only`. On a busy machine only processor time is
reliable. No time makes the run fail.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import msgpack
import psutil
import pyarrow as pa

from box.data.codec import pack
from box.journal.rows import encode_header
from box.journal.snapshot import SnapshotSpace, write_snapshot
from box.journal.storage import FileStorage
from box.journal.xlog import BLOCK_SIZE, EOF_MARKER, BlockEncoder, Meta
from box.spark.direct_parquet import schema_of, write_table
from box.spark.source_options import SourceOptions
from box.spark.table import Table
from box.wire.change import Request
from box.wire.constants import RequestType
from box.wire.row import Row
from box.wire.vclock import VClock
from test.bench.spark_client import read_in_a_process, served

GOODS, WIDE = 512, 513
THREE = [{"name": "id", "type": "unsigned"}, {"name": "name", "type": "string"}, {"name": "price", "type": "double"}]
TEN = [THREE[0]] + [{"name": f"c{n}", "type": "string" if n % 2 else "double"} for n in range(9)]
START = VClock({1: 7})
PYTHON = "python"
"""The prefix of the names of Python processes."""


def make_files(directory: Path, rows: int, log_rows: int) -> None:
    """Write a snapshot with both spaces, and a log with changes of the first one."""
    packed = msgpack.Packer().pack
    definitions = [[GOODS, 1, "goods", "memtx", 0, {}, THREE], [WIDE, 1, "wide", "memtx", 0, {}, TEN]]
    indexes = [[space, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]] for space in (GOODS, WIDE)]
    instance = uuid4()
    wide = [packed([n, *(f"text {n * j % 997}" if j % 2 else n * 0.5 for j in range(9))]) for n in range(rows // 5)]
    spaces = [
        SnapshotSpace(280, [pack(row) for row in definitions], 0),
        SnapshotSpace(288, [pack(row) for row in indexes], 0),
        SnapshotSpace(GOODS, [packed([n, f"name of {n * 7 % 1000003}", n * 0.5 + 0.25]) for n in range(rows)], 0),
        SnapshotSpace(WIDE, wide, 0),
    ]
    write_snapshot(FileStorage(), str(directory), START, instance, spaces)
    with (directory / f"{START.signature:020d}.xlog").open("wb") as file:
        file.write(Meta("XLOG", instance, START).encode())
        encoder = BlockEncoder()
        for block in _log_blocks(rows, log_rows):
            file.write(encoder.encode(block))
        file.write(EOF_MARKER)


def _log_blocks(rows: int, log_rows: int) -> Iterator[bytes]:
    """Yield blocks of a log that replaces, updates and deletes random keys, a third each."""
    rng = random.Random(1)
    parts: list[bytes] = []
    size = 0
    for number in range(log_rows):
        key = rng.randrange(rows)
        request = (
            Request.replace(pack([key, f"put {number}", 1.5])),
            Request.update([key], [["=", 2, number * 0.5]], index_base=0),
            Request.delete([key]),
        )[rng.randrange(3)]
        lsn = START[1] + 1 + number
        row = Row(int(RequestType(request.type)), 1, lsn, 1.7e9, tsn=lsn)
        # The key TIMESTAMP (4) and a double (0xCB) of zero.
        parts += (encode_header(row, b"\x04\xcb" + bytes(8)), request.body(GOODS))
        size += len(parts[-1]) + len(parts[-2])
        if size >= BLOCK_SIZE or number == log_rows - 1:
            yield b"".join(parts)
            parts, size = [], 0


class Watch:
    """Samples the processes of Spark in a thread, while this context lasts.

    It measures the greatest memory of a Python worker in bytes, and the processor time of all processes, also of those
    that have ended meanwhile.
    """

    def __init__(self) -> None:
        self.peak = 0
        self._used: dict[tuple[int, float], tuple[str, float]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            self._look()

    def _look(self) -> None:
        for process in psutil.Process().children(recursive=True):
            try:
                used = process.cpu_times()
                name = PYTHON if process.name().startswith(PYTHON) else "java"
                self._used[process.pid, process.create_time()] = name, used.user + used.system
                # A child that Java has forked is a copy of Java, under a thread's name, until it runs Python.
                if name == PYTHON and "pyspark.daemon" in process.cmdline():
                    self.peak = max(self.peak, _high_water(process.pid))
            except psutil.Error:
                continue

    def take_peak(self) -> int:
        """Return the greatest memory of a Python worker since the last call, in bytes."""
        self._look()
        found, self.peak = self.peak, 0
        for process in psutil.Process().children(recursive=True):
            with suppress(OSError):
                Path(f"/proc/{process.pid}/clear_refs").write_text("5")  # 5 resets the peak, VmHWM
        return found

    def processor_time(self, name: str = "") -> float:
        """Return the processor time of Java and all Python workers so far, or of those called `name`, in seconds."""
        self._look()
        return sum(used for kind, used in list(self._used.values()) if kind.startswith(name))


def _high_water(pid: int) -> int:
    """Return the peak of a process's resident memory in bytes, 0 if it has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def make_batches(data: Path, directory: Path) -> None:
    """Write the batches of each share of the first space into an Arrow file of its own."""
    table = Table.open(SourceOptions.of({"path": str(data), "space": "goods"}))
    schema = schema_of(table.columns)
    directory.mkdir()
    for number, share in enumerate(table.shares(())):
        with pa.OSFile(str(directory / str(number)), "wb") as file, pa.ipc.new_stream(file, schema) as stream:
            for batch in table.read(share, table.columns, schema, ()):
                stream.write_batch(batch)


def ready_batches() -> type:
    """Make a data source of Arrow batches that are decoded already, which measures Spark's own share of the time."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class Reader(DataSourceReader):
        def __init__(self, path: str) -> None:
            self._path = path

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(name) for name in os.listdir(self._path)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            with pa.memory_map(f"{self._path}/{partition.value}") as file:
                yield from pa.ipc.open_stream(file)

    class Ready(DataSource):
        @classmethod
        def name(cls) -> str:
            return "ready"

        def schema(self) -> str:
            return "id bigint not null, name string not null, price double not null"

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader(str(self.options["path"]))

    return Ready


def copies_of(data: Path, count: int) -> list[Path]:
    """Return `count` links to the directory; Spark reads them as so many instances of one larger table."""
    found = [data.with_name(f"{data.name}{number}") for number in range(count)]
    for path in found:
        if not path.exists():
            path.symlink_to(data.resolve(), target_is_directory=True)
    return found


def session(master: str = "local[2]") -> Any:
    from pyspark.sql import SparkSession

    from box.spark.source import BoxDataSource

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.log.level", "ERROR").config("spark.driver.memory", "3g")
    builder = builder.config("spark.sql.python.filterPushdown.enabled", "true")
    # These two as lunabox-export has them.
    builder = builder.config("spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL", "system")
    builder = builder.config("spark.python.unix.domain.socket.enabled", "true")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.dataSource.register(BoxDataSource)
    return spark


class Cost(NamedTuple):
    """The least wall and processor times of an action in seconds, and the greatest memory of a worker in bytes.

    `processor` is the time of Java and all Python workers, `python` that of the workers in it.
    """

    wall: float
    processor: float
    python: float
    peak: int


def best_times(actions: dict[str, Callable[[], Any]], rounds: int, watch: Watch) -> dict[str, Cost]:
    """Measure all actions in each round, so that a busy time of the machine affects all of them."""
    best: dict[str, Cost] = {}
    for _ in range(rounds):
        for name, action in actions.items():
            begun, used, python = time.perf_counter(), watch.processor_time(), watch.processor_time(PYTHON)
            watch.take_peak()
            action()
            wall, used = time.perf_counter() - begun, watch.processor_time() - used
            cost = Cost(wall, used, watch.processor_time(PYTHON) - python, watch.take_peak())
            print(f"  {name}: {cost.wall:.2f} s, processors {cost.processor:.2f} s", file=sys.stderr, flush=True)
            old = best.get(name, cost)
            best[name] = Cost(*map(min, old[:3], cost[:3]), max(old.peak, cost.peak))
    return best


def run(directory: Path, rows: int, log_rows: int, rounds: int, only: str, copies: int) -> None:
    """Measure the actions whose names contain one of the comma-separated words of `only`, and print the table."""
    spark = session()
    spark.dataSource.register(ready_batches())
    data, out, batches = directory / "data", directory / "out", directory / "ready"
    if not batches.exists():
        make_batches(data, batches)

    def box(space: str = "goods", **options: object) -> Any:
        return spark.read.format("box").options(path=str(data), space=space, **options).load()

    def many(**options: object) -> Any:
        paths = [str(path) for path in copies_of(data, copies)]
        return spark.read.format("box").options(space="goods", instance="instance", **options).load(paths)

    def parquet(frame: Any, name: str) -> None:
        frame.write.mode("overwrite").parquet(str(out / name))

    def ready() -> Any:
        return spark.read.format("ready").option("path", str(batches)).load()

    def export() -> None:
        table = Table.open(SourceOptions.of({"path": str(data), "space": "goods"}))
        write_table(spark, table, str(out / "direct"), compression=None, overwrite=True)

    def drop(frame: Any) -> None:
        frame.write.format("noop").mode("overwrite").save()

    low, high, wide = rows // 2, rows // 2 + rows // 100 - 1, rows // 5
    lines: dict[str, tuple[int, Callable[[], Any]]] = {
        "snapshot to Parquet": (rows, lambda: parquet(box(), "base")),
        "Parquet to Parquet": (rows, lambda: parquet(spark.read.parquet(str(out / "base")), "copy")),
        "ready batches to Parquet": (rows, lambda: parquet(ready(), "ready")),
        "snapshot to Parquet by lunabox-export": (rows, lambda: export()),
        "snapshot to Parquet, decoder in Python": (rows, lambda: parquet(box(decoder="python"), "python")),
        "all columns, dropped": (rows, lambda: drop(box())),
        "ready batches, dropped": (rows, lambda: drop(ready())),
        "Parquet, dropped": (rows, lambda: drop(spark.read.parquet(str(out / "base")))),
        "count() of all columns": (rows, lambda: box().count()),
        "count() without columns": (rows, lambda: box(columns="").count()),
        "sum of one column": (rows, lambda: box(columns="price").agg({"price": "sum"}).collect()),
        "1 % of the keys": (rows // 100, lambda: box().where(f"id between {low} and {high}").count()),
        "ten columns, dropped": (wide, lambda: drop(box("wide"))),
        "one of the ten, dropped": (wide, lambda: drop(box("wide", columns="c3"))),
        f"as_of latest, {log_rows} log rows": (rows, lambda: parquet(box(as_of="latest"), "merged")),
        f"{copies} directories: all columns, dropped": (rows * copies, lambda: drop(many())),
        f"{copies} directories: count() without columns": (rows * copies, lambda: many(columns="").count()),
        f"{copies} directories: 1 % of the keys": (
            rows * copies // 100,
            lambda: many().where(f"id between {low} and {high}").count(),
        ),
        "all rows over IPROTO by one client": (rows, lambda: read_in_a_process(sockets[0], rows)),
    }
    chosen = {name: action for name, (_, action) in lines.items() if any(word in name for word in only.split(","))}
    sockets: list[str] = []
    with ExitStack() as stack:
        watch = stack.enter_context(Watch())
        if any("IPROTO" in name for name in chosen):
            sockets.append(stack.enter_context(served(directory / "node", rows)))
        best = best_times(chosen, rounds, watch)
    _print_table(best, {name: rows for name, (rows, _) in lines.items()})
    spark.stop()


def _print_table(best: dict[str, Cost], rows: dict[str, int]) -> None:
    base = best.get("Parquet to Parquet", next(iter(best.values())))
    titles = f"{'seconds':>8} {'rows/s':>12} {'processor s':>12} {'in Python':>10}"
    print(f"{'':<42} {titles} {'times faster':>14} {'worker MB':>10}")
    for name, cost in best.items():
        faster = f"{base.wall / cost.wall:.2f} / {base.processor / cost.processor:.2f}"
        peak = f"{cost.peak / 1e6:.0f}" if cost.peak else "-"
        rate = rows[name] / cost.wall
        times = f"{cost.wall:>8.2f} {rate:>12,.0f} {cost.processor:>12.2f} {cost.python:>10.2f}"
        print(f"{name:<42} {times} {faster:>14} {peak:>10}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m test.bench.spark")
    parser.add_argument("--rows", type=int, default=5_000_000, help="the number of tuples of the first space")
    parser.add_argument("--log-rows", type=int, default=1_000_000, help="the number of rows of the log")
    parser.add_argument("--rounds", type=int, default=3, help="how often each action is measured")
    parser.add_argument("--only", default="", metavar="WORD,...", help="measure actions whose names contain a WORD")
    parser.add_argument("--copies", type=int, default=8, help="the number of directories read as one larger table")
    parser.add_argument("--directory", type=Path, help="keep the files here, for later runs")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = args.directory or Path(temporary)
        if not (directory / "data").exists():
            (directory / "data").mkdir(parents=True)
            make_files(directory / "data", args.rows, args.log_rows)
        run(directory, args.rows, args.log_rows, args.rounds, args.only, args.copies)


if __name__ == "__main__":
    main()
