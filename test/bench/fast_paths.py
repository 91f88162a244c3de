"""`python -m test.bench.fast_paths [NAME...]`: measures what each fast path of the code gains, with and without it.

A fast path is special code for a common case; without it the general code does the work. Runs with it and without it
take turns. A figure is microseconds of the server's processor time an operation, so that other work on the machine
counts little. The table shows medians of the rounds; the gain is the median of the gains of neighbouring runs.
ARCHITECTURE.md has the last table.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from box import Node
from test.bench.__main__ import compiled_modules, connect, free_port
from test.bench.replicated import FIGURES as REPLICATED
from test.bench.replicated import TOGETHER, apply_together, processor_seconds

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_MANY = "--many"
"""The argument of `--run` that calls `_store_many`, in place of a script."""
_CLIENT_ROUNDS = 3
"""Rounds that `test.bench.pipelined` makes of all requests."""
_CLIENT_FIRST = 1000
"""Requests that `test.bench.pipelined` sends first, to see whether they succeed."""


class FastPath(NamedTuple):
    """A fast path, the figures that show its gain, and how to disable it.

    A figure is two words: a `wal_mode`, or "versions", and a figure of fast_paths.lua, "iproto" and a request of
    `test.bench.pipelined`, "replicated" and a figure of `test.bench.replicated`, or "embedded replace_many". `disable`
    replaces the fast path by the general code. `disable_others` does so for fast paths that hide this one, in runs with
    and without it.
    """

    figures: tuple[str, ...]
    disable: Callable[[], None]
    disable_others: Callable[[], None] | None = None


def _without_fast_writes() -> None:
    from box.txn.write_plan import Planner

    plan = Planner.plan

    def general(self: Planner, space: Any) -> Any:
        made = plan(self, space)
        made.is_usual = False
        return made

    Planner.plan = general  # type: ignore[method-assign]


def _without_versioned_plans() -> None:
    from box.txn.write_plan import Planner

    init = Planner.__init__

    def general(self: Planner, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        self._fast_allowed = not options["has_versions"]

    Planner.__init__ = general  # type: ignore[method-assign]


def _without_lone_transactions() -> None:
    from box.txn.lifecycle import TransactionManager

    TransactionManager._is_quiet = property(lambda self: False)  # type: ignore[assignment, method-assign]


def _without_rows_alone() -> None:
    from box.txn.dml import Dml

    Dml.store_alone = lambda *_: False  # type: ignore[method-assign]


def _without_void_journal() -> None:
    from box.journal.journal import Journal

    Journal.is_void = property(lambda self: False, lambda self, value: None)  # type: ignore[assignment]


def _without_tree_look_ups() -> None:
    from lua.bindings.data import DataBinding

    def none(self: Any, space_id: int, iid: int) -> None:
        return None

    none._exported_as = "index_finder"  # type: ignore[attr-defined]
    DataBinding.finder = none  # type: ignore[assignment, method-assign]


def _without_searches() -> None:
    from lua.bindings.data import DataBinding

    def none(self: Any, space_id: int, iid: int) -> None:
        return None

    none._exported_as = "index_searches"  # type: ignore[attr-defined]
    DataBinding.searches = none  # type: ignore[assignment, method-assign]


def _without_read_ahead() -> None:
    import lua.bindings.data as data
    from lua.bindings.cursor import OneByOne

    def open_cursor(dml: Any, ctx: Any, space: Any, iid: int, iterator: int, key: list[Any], after: bytes) -> OneByOne:
        return OneByOne(dml.reads.cursor(ctx, space, iid, iterator, key), space, iid)

    data.open_cursor = open_cursor  # type: ignore[assignment]


def _without_learned_bodies() -> None:
    from box.iproto.learned_bodies import LearnedBodies

    LearnedBodies.learn = lambda *_: None  # type: ignore[method-assign]


def _without_header_shapes() -> None:
    from box.iproto.headers import HEADER_SHAPES

    HEADER_SHAPES.clear()
    _without_learned_bodies()


def _without_usual_changes() -> None:
    from box.wire import change

    change._decode_usual = lambda *_: None


def _without_call_waves() -> None:
    from box.iproto.served_calls import ServedCalls

    ServedCalls.serve = lambda self, connection, data, pos, deadline: (pos, 0)  # type: ignore[method-assign]


def _without_point_statements() -> None:
    from box.sql.point_statements import PointStatements

    PointStatements.find = lambda *_: None  # type: ignore[method-assign]


def _without_shared_statements() -> None:
    from box.sql import engine

    engine.shared_statement = lambda text: (engine.parsed_text(text), ())  # type: ignore[assignment]


def _without_fast_updates() -> None:
    from box.data import update

    update._apply_fast = lambda *_: None


def _without_runs() -> None:
    from box.net import framing, peer_connection

    framing.take_changes = peer_connection.take_changes = lambda data, pos, end, items: pos


def _without_rows_together() -> None:
    from box.replication import row_executor

    row_executor._MANY_ROWS = row_executor.STAGED_ROWS = 1 << 60  # type: ignore[misc]


def _without_tuple_runs() -> None:
    from box.data.format import TupleFormat
    from box.net import peer_connection

    peer_connection.take_tuples = lambda data, pos, end, items: pos
    TupleFormat.validate_many = property(lambda self: lambda raws: list(map(self.validate, raws)))  # type: ignore[assignment]


def _without_log_runs() -> None:
    from box.instance.loader import LogLoader
    from box.txn.dml import Dml

    LogLoader.add_run = lambda self, run, first: first  # type: ignore[method-assign]
    Dml.load_changes = lambda *_, **options: []  # type: ignore[method-assign]


def _without_split_rows() -> None:
    """Rows of the log are found one by one, and each changes the index by itself."""
    from box.journal import reader

    reader.split_block = lambda block: None


def _without_stretches() -> None:
    """Tuples of a run are decoded one by one."""
    from box.txn import fast_run

    fast_run._FEW = 1 << 30  # type: ignore[misc]


def _without_packets() -> None:
    from box.replication.relay import RowFilter
    from box.wire.packet_run import rows_of
    from box.wire.row import encode_packet

    def packets(self: RowFilter, runs: Any) -> bytes:
        return b"".join(map(encode_packet, self.select(rows_of(runs))))

    RowFilter.packets = packets  # type: ignore[method-assign]


_WRITES = ("none replace", "write replace", "none update", "none upsert", "none delete_insert", "none transaction")
_WRITES += ("write synchronous",)
FAST_PATHS = {
    "fast_writes": FastPath((*_WRITES, "iproto replace"), _without_fast_writes),
    "versioned_plans": FastPath(("versions transaction",), _without_versioned_plans, _without_lone_transactions),
    "lone_transactions": FastPath(("versions transaction",), _without_lone_transactions),
    "void_journal": FastPath(("none replace",), _without_void_journal),
    "rows_alone": FastPath(("embedded replace_many",), _without_rows_alone),
    "tree_look_ups": FastPath(("none get",), _without_tree_look_ups),
    "searches": FastPath(
        ("none get_pair", "none select_some", "none select_point", "none count_point", "none pairs_one"),
        _without_searches,
    ),
    "read_ahead": FastPath(("none pairs",), _without_read_ahead, _without_searches),
    "learned_bodies": FastPath(("iproto replace", "iproto select"), _without_learned_bodies),
    "header_shapes": FastPath(("iproto ping", "iproto update"), _without_header_shapes),
    "usual_changes": FastPath(("iproto update",), _without_usual_changes),
    "call_waves": FastPath(("iproto call",), _without_call_waves),
    "point_statements": FastPath(
        ("iproto prepared_replace", "iproto prepared_select", "iproto prepared_update"), _without_point_statements
    ),
    "shared_statements": FastPath(
        ("none new_point_texts", "none new_texts", "none new_changes"), _without_shared_statements
    ),
    "fast_updates": FastPath(("none update", "none upsert"), _without_fast_updates),
    "runs": FastPath(("replicated apply", "replicated commit"), _without_runs),
    "rows_together": FastPath(("replicated together",), _without_rows_together),
    "tuple_runs": FastPath(("replicated join",), _without_tuple_runs),
    "log_runs": FastPath(("start 1", "start 1000"), _without_log_runs),
    "split_rows": FastPath(("start 1000", "start mixed"), _without_split_rows),
    "stretches": FastPath(("replicated apply", "start 1000"), _without_stretches),
    "packets": FastPath(("replicated send",), _without_packets),
}


def _prepare(fast_path: FastPath, is_without: bool) -> None:
    if fast_path.disable_others is not None:
        fast_path.disable_others()
    if is_without:
        fast_path.disable()


def _program(way: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", "test.bench.fast_paths", "--run", way, *map(str, arguments)]


def measure(figure: str, way: str, count: int) -> float:
    """Return microseconds of processor time an operation. `way` is `with:NAME` or `without:NAME` of a fast path."""
    kind, name = figure.split()
    with tempfile.TemporaryDirectory(prefix="bench") as directory:
        if kind == "iproto":
            return _served(name, way, count, Path(directory))
        if kind == "start":
            return _started(name, way, count, Path(directory))
        if kind == "replicated":
            return REPLICATED[name](tuple(_program(way)), Path(directory), count) * 1e6
        if kind == "embedded":
            command = _program(way, _MANY, count)
        else:
            command = _program(way, _HERE / "fast_paths.lua", directory, kind, count, name)
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
        return float(done.stdout)


async def _store_many(count: int) -> None:
    """Replace `count` tuples of a node without a log, some thousands at once, and print microseconds a row."""
    async with Node(wal_mode="none", log_level=0) as node:
        space = await node.schema.create_space("bench")
        await space.create_index("pk")
        rows = [[number, f"name {number}", number / 4] for number in range(4000)]
        await space.replace_many(rows)
        used, rounds = time.process_time(), max(1, count // len(rows))
        for _ in range(rounds):
            await space.replace_many(rows)
        print((time.process_time() - used) / (rounds * len(rows)) * 1e6)


def _started(name: str, way: str, count: int, directory: Path) -> float:
    """Return the microseconds of a row in a start from a log. `name` is the number of rows of its transactions, which
    are new tuples; the changes of `mixed`, 1,000 in a transaction, are of all kinds.
    """
    log = ("1000", "1", "1", "mixed") if name == "mixed" else (name,)
    script, seconds = _HERE / "log_start.lua", []
    for rows in (count * 2, 1):
        work_dir = directory / str(rows)
        work_dir.mkdir()
        for what in ("fill", "start"):
            command = _program(way, script, work_dir, what, rows, *log)
            done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(done.stdout + done.stderr)
        seconds.append(float(done.stdout))
    return (seconds[0] - seconds[1]) / (count * 2) * 1e6


def _served(name: str, way: str, count: int, directory: Path) -> float:
    uri, path = f"127.0.0.1:{free_port()}", directory / "c"
    server = subprocess.Popen(_program(way, _HERE / "server.lua", directory, uri, "none", path), cwd=_ROOT)
    console = connect(str(path), server)
    console.ask("for id = 0, 999 do box.space.bench:replace{id, 'name', 1.5} end")
    before = processor_seconds(server.pid)
    client = [sys.executable, "-m", "test.bench.pipelined", uri, str(count), name]
    subprocess.run(client, cwd=_ROOT, stdout=subprocess.DEVNULL, check=True)
    used = processor_seconds(server.pid) - before
    console.close()
    server.send_signal(signal.SIGTERM)
    server.wait()
    return used / (count * _CLIENT_ROUNDS + _CLIENT_FIRST) * 1e6


def compare(name: str, figure: str, rounds: int, count: int) -> tuple[float, float, float]:
    """Return the median times with and without a fast path, in microseconds, and its median gain.

    A gain of 0.2 means that the fast path saves a fifth of the time.
    """
    pairs = []
    ways = (f"with:{name}", f"without:{name}")
    for number in range(rounds):
        found = {way: measure(figure, way, count) for way in (ways if number % 2 else ways[::-1])}
        pairs.append((found[ways[0]], found[ways[1]]))
    with_it, without = (statistics.median(column) for column in zip(*pairs, strict=True))
    return with_it, without, statistics.median(1 - one / other for one, other in pairs)


def main() -> None:
    if sys.argv[1:2] == ["--run"]:
        way, name = sys.argv[2].split(":")
        _prepare(FAST_PATHS[name], way == "without")
        if sys.argv[3] == TOGETHER:
            apply_together(int(sys.argv[4]))
            return
        if sys.argv[3] == _MANY:
            asyncio.run(_store_many(int(sys.argv[4])))
            return
        from console.cli import main as run

        run(sys.argv[3:])
        return
    parser = argparse.ArgumentParser(prog="python -m test.bench.fast_paths", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FAST_PATHS))
    parser.add_argument("--rounds", type=int, default=5, help="how often each figure is measured")
    parser.add_argument("--count", type=int, default=30_000, help="operations of one run")
    args = parser.parse_args()
    print("| fast path | figure | with | without | gain |\n|---|---|---:|---:|---:|")
    with compiled_modules():
        for name in args.names or FAST_PATHS:
            for figure in FAST_PATHS[name].figures:
                with_it, without, gain = compare(name, figure, args.rounds, args.count)
                print(f"| {name} | {figure} | {with_it:.3g} | {without:.3g} | {gain:.0%} |", flush=True)


if __name__ == "__main__":
    main()
