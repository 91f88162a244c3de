"""The campaign "rounds": runs the suite test/replication repeatedly, first on an idle machine, then on a busy one."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SUITE = Path(__file__).parents[1] / "replication"
BUSY = 2


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Run `count` processes that do nothing but compute, while this context lasts."""
    workers = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def _rounds(count: int) -> bool:
    for number in range(1, count + 1):
        start = time.monotonic()
        command = [sys.executable, "-m", "console.suite.cli", str(SUITE)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        last = done.stdout.strip().splitlines()[-1:] or ["no output"]
        print(f"{number:3}: {last[0]} ({time.monotonic() - start:.1f} s)", flush=True)
        if done.returncode != 0:
            print(done.stdout, done.stderr)
            return False
    return True


def run_campaign(seed: int, size: int) -> bool:
    """Run the suite `size` times idle and `size` times busy; return False at a failure. `seed` has no effect."""
    if not _rounds(size):
        return False
    print(f"with {BUSY} busy processes:")
    with busy(BUSY):
        return _rounds(size)
