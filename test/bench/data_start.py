"""Measures starts with data, beside Tarantool: `python -m test.bench.data_start [--rows N] [--before CHECKOUT]`.

```
snapshot            all rows in a snapshot
log, one by one     a log of transactions of one row, each in a block of its own, as one fiber writes them
log, 50 fibers      the same, written by fifty fibers at once, which share blocks
log, by 1,000       transactions of 1,000 rows
..., mixed          two fifths new tuples, one fifth each updates, upserts and deletions
..., N indexes      with N - 1 secondary ones
```

A row is a number, a short text and a double. Figures are microseconds of processor time a row, the median of some
rounds, without the time that a start of an empty node takes. Each program writes its own files, and they take turns.
Tarantool is the executable LUNABOX_TARANTOOL, or `tarantool` on PATH.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

_SCRIPT = Path(__file__).with_name("log_start.lua")
FIGURES = {
    "snapshot": ["0"],
    "log, one by one": ["1"],
    "log, 50 fibers": ["1", "50"],
    "log, by 1,000": ["1000"],
    "snapshot, 2 indexes": ["0", "1", "2"],
    "snapshot, 4 indexes": ["0", "1", "4"],
    "log, 50 fibers, 2 indexes": ["1", "50", "2"],
    "log, 50 fibers, 4 indexes": ["1", "50", "4"],
    "log, 50 fibers, mixed": ["1", "50", "1", "mixed"],
    "log, 50 fibers, mixed, 2 indexes": ["1", "50", "2", "mixed"],
    "log, by 1,000, mixed": ["1000", "1", "1", "mixed"],
}
WIDTH = max(map(len, FIGURES))


class Program:
    """An executable with directories that it has filled."""

    def __init__(self, command: str, root: Path, checkout: Path | None = None) -> None:
        self._command = command
        self._root = root
        self._environment = {**os.environ, "PYTHONPATH": str(checkout)} if checkout else None

    def fill(self, name: str, rows: int, arguments: list[str]) -> None:
        """Write rows to a new directory."""
        (self._root / name).mkdir(parents=True)
        self._run(name, "fill", str(rows), *arguments)

    def start(self, name: str) -> float:
        """Return the seconds of processor time of a start from a directory."""
        return float(self._run(name, "start"))

    def _run(self, name: str, *arguments: str) -> str:
        command = [self._command, str(_SCRIPT), str(self._root / name), *arguments]
        done = subprocess.run(
            command, cwd=self._root, env=self._environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
        return done.stdout


def measure(program: Program, rows: int, rounds: int) -> dict[str, list[float]]:
    """Return the microseconds a row of each figure in each round."""
    found: dict[str, list[float]] = {name: [] for name in FIGURES}
    for _ in range(rounds):
        empty = program.start("empty")
        for name in FIGURES:
            found[name].append((program.start(name) - empty) / rows * 1e6)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m test.bench.data_start",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="another checkout of Lunabox to compare with")
    options = parser.parse_args()
    tarantool = os.environ.get("LUNABOX_TARANTOOL") or shutil.which("tarantool")
    if tarantool is None:
        sys.exit("Tarantool is not on PATH; set LUNABOX_TARANTOOL to its executable")
    ours = str(Path(sys.executable).with_name("lunabox"))
    with tempfile.TemporaryDirectory(prefix="bench") as directory:
        root = Path(directory)
        programs = {"Lunabox": Program(ours, root / "ours"), "Tarantool": Program(tarantool, root / "theirs")}
        if options.before is not None:
            programs["before"] = Program(ours, root / "before", options.before.resolve())
        for program in programs.values():
            program.fill("empty", 0, ["1"])
            for name, arguments in FIGURES.items():
                program.fill(name, options.rows, arguments)
        rounds: dict[str, dict[str, list[float]]] = {name: {figure: [] for figure in FIGURES} for name in programs}
        for _ in range(options.rounds):
            for name, program in programs.items():
                for figure, values in measure(program, options.rows, 1).items():
                    rounds[name][figure] += values
    print(f"{'microseconds a row':<{WIDTH}} " + " ".join(f"{name:>10}" for name in programs) + f" {'ratio':>7}")
    for figure in FIGURES:
        medians = {name: median(found[figure]) for name, found in rounds.items()}
        ratio = medians["Lunabox"] / medians["Tarantool"]
        print(f"{figure:<{WIDTH}} " + " ".join(f"{value:10.2f}" for value in medians.values()) + f" {ratio:7.1f}")


if __name__ == "__main__":
    main()
