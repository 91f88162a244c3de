"""Teeth of the simulation: `make teeth` breaks the product in ways that have names, one at a time, in a copy of it, and
prints how many seeds it took to notice. Exit status 1 if one was not noticed.

`python -m test.teeth [--jobs N] NAME...` tries some of them, by the beginnings of their names.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from test.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[1]
SEEDS: Final = 30
_DEADLINE: Final = 120
"""Processor seconds of one run."""


class Finding(NamedTuple):
    """The seed that noticed a mutation, None if none did, and the first violation."""

    seed: int | None
    text: str


def try_out(mutation: Mutation) -> Finding:
    """Play seeds until a run fails."""
    with tempfile.TemporaryDirectory() as directory:
        for package in ("box", "lua"):
            shutil.copytree(ROOT / package, Path(directory) / package, ignore=shutil.ignore_patterns("__pycache__"))
        mutation.apply(Path(directory))
        for seed in range(1, SEEDS + 1):
            result = subprocess.run(
                _command(mutation, seed), cwd=directory, env=_environment(), capture_output=True, text=True
            )
            if result.returncode == 2:
                raise RuntimeError(result.stderr)
            if result.returncode:
                lines = (result.stdout + result.stderr).splitlines()
                return Finding(seed, next((line.strip() for line in lines[1:]), "it ended without a word"))
    return Finding(None, f"not in {SEEDS}")


def _command(mutation: Mutation, seed: int) -> list[str]:
    command = [sys.executable, "-m", "box.testing.simulation.command", "--no-shrink", "--seed", str(seed)]
    command += ["--nodes", str(mutation.nodes), "--workload", mutation.workload, "--faults", mutation.faults]
    command += ["--elections", mutation.elections, "--time", str(mutation.seconds), "--deadline", str(_DEADLINE)]
    return command


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Try all mutations, or those that are named."""
    parser = argparse.ArgumentParser(prog="python -m test.teeth", description="Mutations that have to be noticed.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="the beginning of a name")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="mutations at the same time")
    options = parser.parse_args(arguments)
    chosen = [one for one in MUTATIONS if not options.names or one.name.startswith(tuple(options.names))]
    if not chosen:
        parser.error(f"no such mutation: one of {', '.join(one.name for one in MUTATIONS)} is expected")
    missed = 0
    print(
        "| mutation | workload | elections | faults | seeds | what was seen |\n|---|---|---|---|---:|---|", flush=True
    )
    with ThreadPoolExecutor(options.jobs) as pool:
        for mutation, finding in zip(chosen, pool.map(try_out, chosen), strict=True):
            missed += finding.seed is None
            cells = (mutation.name, mutation.workload, mutation.elections, mutation.faults, finding.seed or "none")
            print(f"| {' | '.join(map(str, cells))} | {finding.text[:100].replace('|', '/')} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
