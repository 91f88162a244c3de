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
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from test.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[1]
SEEDS: Final = 200
_DEADLINE: Final = 120
"""Processor seconds of one run."""


class Finding(NamedTuple):
    """The seed that noticed a mutation, None if none did, and the first violation."""

    seed: int | None
    text: str


def try_out(mutation: Mutation, seeds: int = SEEDS) -> Finding:
    """Play seeds until a run fails."""
    with tempfile.TemporaryDirectory() as directory:
        for package in ("box", "lua"):
            shutil.copytree(ROOT / package, Path(directory) / package, ignore=shutil.ignore_patterns("__pycache__"))
        mutation.apply(Path(directory))
        result = subprocess.run(
            _command(mutation, seeds), cwd=directory, env=_environment(), capture_output=True, text=True
        )
    if result.returncode == 2:
        raise RuntimeError(result.stderr)
    lines = (result.stdout + result.stderr).splitlines()
    played = [number for number, line in enumerate(lines) if line.startswith("seed ")]
    if not result.returncode:
        return Finding(None, f"not in {len(played)}")
    if played and ": failed; " in lines[played[-1]]:
        return Finding(len(played), lines[played[-1] + 1].strip())
    return Finding(len(played) + 1, lines[-1] if lines else "it ended without a word")


def _command(mutation: Mutation, seeds: int) -> list[str]:
    command = [sys.executable, "-m", "box.testing.simulation.command", "--no-shrink", "--fail-fast"]
    command += ["--seed", f"1-{seeds}", "--nodes", str(mutation.nodes), "--workload", mutation.workload]
    command += ["--faults", mutation.faults, "--elections", mutation.elections]
    command += ["--time", str(mutation.seconds), "--deadline", str(_DEADLINE)]
    return command


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Try all mutations, or those that are named."""
    parser = argparse.ArgumentParser(prog="python -m test.teeth", description="Mutations that have to be noticed.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="the beginning of a name")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="mutations at the same time")
    parser.add_argument("--seeds", type=int, default=SEEDS, metavar="N", help="seeds of a mutation, at most")
    options = parser.parse_args(arguments)
    chosen = [one for one in MUTATIONS if not options.names or one.name.startswith(tuple(options.names))]
    if not chosen:
        parser.error(f"no such mutation: one of {', '.join(one.name for one in MUTATIONS)} is expected")
    missed = 0
    print(
        "| mutation | workload | elections | faults | seeds | what was seen |\n|---|---|---|---|---:|---|", flush=True
    )
    with ThreadPoolExecutor(options.jobs) as pool:
        for mutation, finding in zip(chosen, pool.map(partial(try_out, seeds=options.seeds), chosen), strict=True):
            missed += finding.seed is None
            cells = (mutation.name, mutation.workload, mutation.elections, mutation.faults, finding.seed or "none")
            print(f"| {' | '.join(map(str, cells))} | {finding.text[:100].replace('|', '/')} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
