"""`make soak`: suites again and again, alone and with both cores kept busy, to find what fails once in a while; and
the campaigns of random faults (`test.unit.replication.campaign`) and hostile packets (`test.crash.packets`) with new
seeds each time.

Usage: python -m test.soak [--rounds 20] [--busy 2] [--seeds 200] [--packets 5000] [PATH ...]; exits with 1 after the
first round that failed, or if a seed did.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SUITE = Path(__file__).parent / "replication"


@contextmanager
def _busy(count: int) -> Iterator[None]:
    """So many processes that never rest."""
    workers = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def _rounds(paths: list[str], count: int) -> bool:
    for number in range(1, count + 1):
        start = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "console.suite.cli", *paths], capture_output=True, text=True, check=False
        )
        last = done.stdout.strip().splitlines()[-1:] or ["no output"]
        print(f"{number:3}: {last[0]} ({time.monotonic() - start:.1f} s)", flush=True)
        if done.returncode != 0:
            print(done.stdout, done.stderr)
            return False
    return True


def _campaign(count: int) -> bool:
    """Random seeds, which are printed: each can be run again."""
    first = random.randrange(1, 1_000_000)
    command = [sys.executable, "-m", "test.unit.replication.campaign", "--seeds", str(count), "--first", str(first)]
    return subprocess.run(command, check=False).returncode == 0


def _packets(count: int) -> bool:
    """Hostile packets from a seed that is printed."""
    command = [sys.executable, "-m", "test.crash.packets", "--examples", str(count)]
    return subprocess.run(command, check=False).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--busy", type=int, default=2, help="busy processes in the second half")
    parser.add_argument("--seeds", type=int, default=200, help="of the campaign")
    parser.add_argument("--packets", type=int, default=5000, help="conversations of hostile packets")
    parser.add_argument("paths", nargs="*", default=[str(_SUITE)], metavar="PATH")
    args = parser.parse_args()
    if not _campaign(args.seeds) or not _packets(args.packets) or not _rounds(args.paths, args.rounds):
        return 1
    print(f"with {args.busy} busy processes:")
    with _busy(args.busy):
        return 0 if _rounds(args.paths, args.rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
