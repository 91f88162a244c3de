"""Teeth of the simulation: `make teeth` breaks a copy of the product by one mutation at a time, and prints how many
seeds it took to notice each. The exit status is 1 if a mutation was not noticed.

    python -m test.teeth [--jobs N] [--seeds N] NAME...      some mutations, by the beginnings of their names
    python -m test.teeth --renew NAME...                     write their files of the corpus anew

A mutation that undoes the remedy of a fault has a file in the corpus: a run that failed while the fault existed. `make
test` plays the file in the product; here it has to fail again. Some mutations have a story instead of seeds, which is a
test that has to fail.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from test.mutation import Mutation
from test.mutations import MUTATIONS

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "test/unit/simulation/corpus"
SEEDS: Final = 200
_DEADLINE: Final = 120
"""The processor seconds of one run."""


class Finding(NamedTuple):
    """The seed that noticed a mutation, or None, and the first violation. `replay` tells whether the file of the corpus
    fails; it is empty without such a file.
    """

    seed: int | None
    text: str
    replay: str = ""


def try_out(mutation: Mutation, seeds: int = SEEDS) -> Finding:
    """Play the file of the corpus, then seeds until a run fails that does not fail in the unchanged product."""
    if mutation.story:
        return _tell(mutation)
    with _broken(mutation) as directory:
        replay = ""
        if mutation.corpus:
            played = _run(directory, ["--replay", str(CORPUS / f"{mutation.corpus}.json"), "--no-shrink"])
            replay = "fails" if played.returncode else "passes"
        found = _run(directory, [*_runs(mutation, 1, seeds), "--no-shrink"])
    lines = (found.stdout + found.stderr).splitlines()
    runs = [number for number, line in enumerate(lines) if line.startswith("seed ")]
    if not found.returncode:
        return Finding(None, f"not in {len(runs)}", replay)
    is_told = bool(runs) and ": failed; " in lines[runs[-1]]
    seed = len(runs) + (not is_told)
    if _run(ROOT, [*_runs(mutation, seed, seed), "--no-shrink"]).returncode:
        return Finding(None, f"seed {seed} fails without the mutation, too", replay)
    text = lines[runs[-1] + 1].strip() if is_told else [*lines, "it ended without a word"][-1]
    return Finding(seed, text, replay)


def _tell(mutation: Mutation) -> Finding:
    """Run the story, which has to pass in the unchanged product; a finding counts as that of the first seed."""
    command = [sys.executable, "-m", "pytest", "-n0", "-q", "-p", "no:cacheprovider", mutation.story]
    if _start(command, ROOT).returncode:
        return Finding(None, "the story fails without the mutation, too")
    with _broken(mutation) as directory:
        for name in ("console", "test"):
            shutil.copytree(ROOT / name, directory / name)
        shutil.copy(ROOT / "pyproject.toml", directory)
        told = _start(command, directory)
    if told.returncode == 1:
        errors = [line for line in told.stdout.splitlines() if line.startswith("E  ")]
        return Finding(1, errors[-1][1:].strip() if errors else "it ended without a word")
    return Finding(None, "the story passes" if not told.returncode else f"no such story: {told.stdout[-200:]}")


def renew(mutation: Mutation, seeds: int = SEEDS) -> str:
    """Write the mutation's file of the corpus: the first run that fails with the mutation and passes in the unchanged
    product, with as few faults as necessary.
    """
    with _broken(mutation) as directory, tempfile.TemporaryDirectory() as saved:
        _run(directory, [*_runs(mutation, 1, seeds), "--save", saved])
        for path in Path(saved).glob("*.json"):
            if _run(ROOT, ["--replay", str(path), "--no-shrink"]).returncode:
                return f"{mutation.corpus}: {path.stem} fails without the mutation, too"
            shutil.copy(path, CORPUS / f"{mutation.corpus}.json")
            return f"{mutation.corpus}: from {path.stem}"
    return f"{mutation.corpus}: nothing failed"


@contextmanager
def _broken(mutation: Mutation) -> Iterator[Path]:
    """Make a copy of the product with the mutation for this context, and yield its directory."""
    with tempfile.TemporaryDirectory() as name:
        for package in ("box", "lua"):
            shutil.copytree(ROOT / package, Path(name) / package)
        mutation.apply(Path(name))
        yield Path(name)


def _run(directory: Path, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run `lunabox-sim` of a copy. Raises RuntimeError if its command line was wrong."""
    command = [sys.executable, "-m", "box.testing.simulation.command", "--deadline", str(_DEADLINE), *arguments]
    result = _start(command, directory)
    if result.returncode == 2:
        raise RuntimeError(result.stderr)
    return result


def _start(command: Sequence[str], directory: Path) -> subprocess.CompletedProcess[str]:
    """Start a command with the packages of a directory."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)


def _runs(mutation: Mutation, first: int, last: int) -> list[str]:
    before = mutation.first - 1
    arguments = ["--fail-fast", "--seed", f"{before + first}-{before + last}", "--nodes", str(mutation.nodes)]
    arguments += ["--workload", mutation.workload, "--faults", mutation.faults]
    arguments += ["--elections", mutation.elections, "--time", str(mutation.seconds)]
    if mutation.rate is not None:
        arguments += ["--rate", str(mutation.rate)]
    arguments += ["--fetch-once"] if mutation.fetch_once else []
    return [*arguments, "--hazards"] if mutation.hazards else arguments


def main(arguments: Sequence[str] | None = None) -> int:
    """Try all mutations, or those that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m test.teeth", description="Mutations that have to be noticed.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="the beginning of a name")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="mutations at the same time")
    parser.add_argument("--seeds", type=int, default=SEEDS, metavar="N", help="seeds of a mutation, at most")
    parser.add_argument("--renew", action="store_true", help="write the files of the corpus anew")
    options = parser.parse_args(arguments)
    chosen = [one for one in MUTATIONS if not options.names or one.name.startswith(tuple(options.names))]
    if not chosen:
        parser.error(f"no such mutation: one of {', '.join(one.name for one in MUTATIONS)} is expected")
    if options.renew:
        for mutation in chosen:
            if mutation.corpus:
                print(renew(mutation, options.seeds), flush=True)
        return 0
    missed = 0
    print("| mutation | workload | elections | faults | seeds | replay | what was seen |", flush=True)
    print("|---|---|---|---|---:|---|---|", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        found = pool.map(partial(try_out, seeds=options.seeds), chosen)
        for mutation, finding in zip(chosen, found, strict=True):
            missed += finding.seed is None or finding.replay == "passes"
            workload = mutation.workload or "a story"
            cells = (mutation.name, workload, mutation.elections, mutation.faults, finding.seed or "none")
            text = finding.text[:100].replace("|", "/")
            print(f"| {' | '.join(map(str, cells))} | {finding.replay} | {text} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
