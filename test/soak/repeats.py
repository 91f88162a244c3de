"""The campaign "repeats": runs test files again and again on a busy machine, and keeps the output of failed runs.

`python -m test.soak.repeats [--size N] [--busy N] [--together] [FILE ...]` runs each FILE (without names all of the
suite) N times, in a new random order each round, beside `--busy` processes that do nothing but compute. `--together`
runs the files in one process.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from test.soak.rounds import BUSY, busy

ROOT = Path(__file__).parents[2]
LONGEST = 1800.0
"""Seconds within which a file must end, even on a busy machine."""
_NO_TESTS = 5
"""The exit code of pytest for a file without tests that can run here."""


def all_files() -> list[str]:
    """Return the paths of all test files, relative to the repository."""
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "test").rglob("test_*.py"))


class Repeats:
    """Runs test files and counts failures. The output of failed runs goes to the directory `kept`."""

    def __init__(self, kept: Path) -> None:
        self.kept = kept
        self.runs = 0
        self.failures: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}

    def run(self, files: Sequence[str]) -> bool:
        """Run files in one process, and return False if a test fails."""
        start = time.monotonic()
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
        # A process group of its own, so that processes that a test has left behind can be ended as well.
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        ) as process:
            try:
                output, _ = process.communicate(timeout=LONGEST)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output = process.communicate()[0] + b"\nkilled: took too long\n"
        self.runs += 1
        name = " ".join(files)
        self.seconds[name] = max(self.seconds.get(name, 0.0), time.monotonic() - start)
        if process.returncode in (0, _NO_TESTS):
            return True
        self.failures[name] += 1
        path = self.kept / f"{self.runs:05}-{Path(files[0]).stem}.txt"
        path.write_bytes(output)
        lines = [line for line in output.decode(errors="replace").splitlines() if line.startswith(("FAILED", "ERROR"))]
        print(f"  run {self.runs}: {name} failed, see {path}", *lines[:5], sep="\n    ", flush=True)
        return False


def run_files(seed: int, size: int, files: Sequence[Sequence[str]], busy_count: int = BUSY) -> bool:
    """Run all files `size` times, print each failure and a summary, and return True if there was none."""
    repeats, chooser = Repeats(Path(tempfile.mkdtemp(prefix="repeats"))), random.Random(seed)
    start = time.monotonic()
    with busy(busy_count):
        for number in range(1, size + 1):
            order = list(files)
            chooser.shuffle(order)
            for names in order:
                repeats.run(names)
            failed = sum(repeats.failures.values())
            print(f"  round {number}: {failed} failures so far ({time.monotonic() - start:.0f} s)", flush=True)
    failed = sum(repeats.failures.values())
    described = ", ".join(f"{name} {count} times" for name, count in repeats.failures.most_common())
    print(f"repeats, seed {seed}: {repeats.runs} runs beside {busy_count} busy processes, {failed} failed: {described}")
    if not failed:
        repeats.kept.rmdir()
    return not failed


def run_campaign(seed: int, size: int) -> bool:
    """Run every file of the suite, each in a process of its own."""
    return run_files(seed, size, [[name] for name in all_files()])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m test.soak.repeats", description=__doc__)
    parser.add_argument("--size", type=int, default=20, help="how often each file is run")
    parser.add_argument("--busy", type=int, default=BUSY, help="the number of processes that keep processors busy")
    parser.add_argument("--seed", type=int, default=random.randrange(1, 1_000_000))
    parser.add_argument("--together", action="store_true", help="run the files in one process")
    parser.add_argument("files", nargs="*", metavar="FILE", help="the files to run; all of the suite if none is named")
    args = parser.parse_args()
    files = args.files or all_files()
    return 0 if run_files(args.seed, args.size, [files] if args.together else [[f] for f in files], args.busy) else 1


if __name__ == "__main__":
    sys.exit(main())
