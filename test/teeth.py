"""Teeth of the simulation: `make teeth` breaks the product in ways that have names, one at a time, in a copy of it, and
prints how many seeds it took to notice. Exit status 1 if one was not noticed.

`python -m test.teeth NAME...` tries some of them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

ROOT = Path(__file__).parents[1]
SEEDS: Final = 30
_DEADLINE: Final = 60
"""Real seconds of one run."""


class Mutation(NamedTuple):
    """A text of a file that occurs once, what stands there instead, and the runs that are to notice."""

    name: str
    path: str
    old: str
    new: str
    workload: str
    faults: str
    nodes: int = 3

    def apply(self, root: Path) -> None:
        """Change the file below `root`. ValueError if the text is not there once."""
        path = root / self.path
        text = path.read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.path} has its text {text.count(self.old)} times")
        path.write_text(text.replace(self.old, self.new))


MUTATIONS: Final = (
    Mutation(
        "an answer before the write",
        "box/journal/journal.py",
        "        pending.append(entry)\n",
        "        pending.append(entry)\n"
        "        told, entry.on_complete = entry.on_complete, lambda entry: None\n"
        "        self._loop.call_soon(told, entry)\n",
        "async",
        "process,write",
        1,
    ),
    Mutation(
        "a quorum that is one too small",
        "box/txn/limbo.py",
        "limit = acknowledged[self.quorum - 1]",
        "limit = acknowledged[self.quorum - 2]",
        "set",
        "isolate,slow",
    ),
    Mutation(
        "a confirmation of one transaction too many",
        "box/txn/limbo.py",
        "if entry.wait_ack and (entry.lsn == NO_LSN or entry.lsn > lsn):",
        "if entry.wait_ack and (entry.lsn == NO_LSN or entry.lsn > lsn + 1):",
        "set",
        "isolate,slow,halt",
    ),
    Mutation(
        "a batch without its sync",
        "box/journal/wal.py",
        "            if self._fsync:\n                self._file.sync()\n",
        "",
        "async",
        "power",
    ),
    Mutation(
        "a new file without the sync of its directory",
        "box/journal/wal.py",
        "                self._storage.sync_directory(self.directory.path)\n",
        "                pass\n",
        "async",
        "power",
    ),
    Mutation(
        "a failed write that stays in the file",
        "box/journal/wal.py",
        "            path = self._file.path\n            self._cut_back()\n",
        "            path = self._file.path\n",
        "async",
        "sync,kill",
    ),
    Mutation(
        "an answer for a write that failed",
        "box/journal/journal.py",
        "            entry.error = self._refusal()\n",
        "            pass\n",
        "async",
        "write,sync,kill",
    ),
    Mutation(
        "undoing the oldest first",
        "box/journal/journal.py",
        "rollback = self._rollback[::-1]",
        "rollback = self._rollback[:]",
        "bank",
        "write,sync,latency",
    ),
    Mutation(
        "a confirmation that the replica does not act on",
        "box/replication/row_sink.py",
        "                await self._synchro.apply(row, is_next)\n",
        "                pass\n",
        "set",
        "none",
    ),
)


def seeds_until_found(mutation: Mutation) -> int | None:
    """The number of seeds that were played until a run failed; None if none of them did."""
    with tempfile.TemporaryDirectory() as directory:
        for package in ("box", "lua"):
            shutil.copytree(ROOT / package, Path(directory) / package, ignore=shutil.ignore_patterns("__pycache__"))
        mutation.apply(Path(directory))
        for seed in range(1, SEEDS + 1):
            command = [sys.executable, "-m", "box.testing.simulation.command", "--no-shrink", "--seed", str(seed)]
            command += ["--nodes", str(mutation.nodes), "--workload", mutation.workload, "--faults", mutation.faults]
            command += ["--time", "8", "--deadline", str(_DEADLINE)]
            result = subprocess.run(command, cwd=directory, env=_environment(), capture_output=True, text=True)
            if result.returncode == 2:
                raise RuntimeError(result.stderr)
            if result.returncode:
                return seed
    return None


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def main(names: list[str]) -> int:
    """Try all mutations, or those whose names begin with one of `names`."""
    chosen = [one for one in MUTATIONS if not names or any(one.name.startswith(name) for name in names)]
    if not chosen:
        print(f"no such mutation: one of {', '.join(one.name for one in MUTATIONS)} is expected", file=sys.stderr)
        return 2
    missed = 0
    print("| mutation | workload | faults | seeds |\n|---|---|---|---:|", flush=True)
    for mutation in chosen:
        found = seeds_until_found(mutation)
        missed += found is None
        seeds = f"not in {SEEDS}" if found is None else str(found)
        print(f"| {mutation.name} | {mutation.workload} | {mutation.faults} | {seeds} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
