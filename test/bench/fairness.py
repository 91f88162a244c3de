"""`python -m test.bench.fairness`: measures the latency of one client while others load the server, and its memory.

The measured client, called quiet, sends one request at a time and waits a millisecond after each reply. Each scenario
adds other load: none; one or twenty clients that pipeline selects; twenty that select all of `_vcollation`; one that
never reads the replies to its selects, or to calls with large results; one that selects a whole large space. The table
has the quiet client's latencies in milliseconds and the server's resident memory, for Lunabox and for Tarantool
(`LUNABOX_TARANTOOL`, or `tarantool` on PATH).
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from test.bench.__main__ import compiled_modules, connect, free_port, tarantool_command

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_FEW_ROWS = 10_000
"""Rows of the space in scenarios that do not select all of it."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The load beside the quiet client: `clients` connections in a mode of `test.bench.load`."""

    key: str
    title: str
    mode: str = ""
    clients: int = 0
    is_large: bool = False
    """True if the space has the number of rows of `--rows`, instead of a few."""


SCENARIOS = (
    Scenario("alone", "no load"),
    Scenario("one", "1 client that pipelines 1,000 selects a write", "quick", 1),
    Scenario("twenty", "20 clients that pipeline 1,000 selects a write", "quick", 20),
    Scenario("views", "20 clients that pipeline selects of `_vcollation`", "views", 20),
    Scenario("unread", "1 client that sends 4 MB of selects of `_vcollation` and reads no reply", "unread", 1),
    Scenario("calls", "1 client that makes 2,000 calls with results of 1 MB and reads no reply", "calls", 1),
    Scenario("whole", "1 client that selects a space of {rows:,} rows", "whole", 1, is_large=True),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The quiet client's latencies in seconds, sorted; the server's resident bytes before the load, and at most."""

    latencies: list[float]
    memory_before: int
    memory: int

    def quantile(self, share: float) -> float:
        return self.latencies[min(len(self.latencies) - 1, int(len(self.latencies) * share))]


def _memory(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"no {field} of the server")


@contextmanager
def _server(executable: list[str], rows: int) -> Iterator[tuple[int, str, int]]:
    """Run a server with so many rows for this context; yields its process id, its address and the space's id."""
    with tempfile.TemporaryDirectory(prefix="bench") as directory:
        uri, path = f"127.0.0.1:{free_port()}", str(Path(directory) / "c")
        command = [*executable, str(_HERE / "fairness.lua"), directory, uri, str(rows), path]
        process = subprocess.Popen(command, cwd=_ROOT)
        try:
            console = connect(path, process)
            space = int(console.ask("box.space.bench.id").split()[2])
            yield process.pid, uri, space
            console.close()
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def _load(scenario: Scenario, uri: str, space: int) -> Iterator[None]:
    if not scenario.clients:
        yield
        return
    command = [sys.executable, "-m", "test.bench.load", scenario.mode, uri, str(space), str(scenario.clients)]
    process = subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            raise SystemExit("the load did not start")
        yield
    finally:
        process.kill()
        process.wait()


def measure(scenario: Scenario, executable: list[str], seconds: float, rows: int) -> Outcome:
    """Run one scenario on one server for `seconds`."""
    with _server(executable, rows if scenario.is_large else _FEW_ROWS) as (pid, uri, space):
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # 5 resets the peak, VmHWM
        before = _memory(pid, "VmRSS")
        with _load(scenario, uri, space):
            time.sleep(0.2)
            command = [sys.executable, "-m", "test.bench.load", "quiet", uri, str(seconds)]
            done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True)
        return Outcome(sorted(map(float, done.stdout.split())), before, _memory(pid, "VmHWM"))


def _cells(outcome: Outcome | None) -> list[str]:
    if outcome is None:
        return [""] * 5
    times = [f"{outcome.quantile(share) * 1e3:.2f}" for share in (0.5, 0.99, 0.999, 1)]
    return [*times, f"{outcome.memory_before / 1e6:.0f} / {outcome.memory / 1e6:.0f}"]


def _row(title: str, outcomes: list[Outcome]) -> str:
    ours, theirs = outcomes[0], outcomes[1] if len(outcomes) > 1 else None
    ratio = f"{ours.quantile(0.99) / theirs.quantile(0.99):.2f}" if theirs else ""
    return "| " + " | ".join([title, *_cells(ours), *_cells(theirs), ratio]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m test.bench.fairness", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long the quiet client works in each scenario")
    parser.add_argument("--rows", type=int, default=2_000_000, help="the number of rows of the large space")
    parser.add_argument(
        "--only", nargs="*", choices=[scenario.key for scenario in SCENARIOS], help="run these scenarios alone"
    )
    args = parser.parse_args()
    tarantool = tarantool_command()
    executables = [[sys.executable, "-m", "console"], *([list(tarantool)] if tarantool else [])]
    columns = ["p50", "p99", "p99.9", "max", "MB before / at most"]
    print("| load | " + " | ".join([*columns, *(f"Tarantool's {name}" for name in columns), "p99 ratio"]) + " |")
    print("|---|" + "---:|" * (2 * len(columns) + 1))
    with compiled_modules():
        for scenario in SCENARIOS:
            if not args.only or scenario.key in args.only:
                outcomes = [measure(scenario, executable, args.seconds, args.rows) for executable in executables]
                print(_row(scenario.title.format(rows=args.rows), outcomes), flush=True)


if __name__ == "__main__":
    main()
