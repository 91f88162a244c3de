"""The campaign "definitions": tasks change definitions, rows and transactions at once; then the node starts again.

Each seed runs twice, without and with `memtx_use_mvcc_engine`, for some seconds in a child process
(`test.soak.definition_work`). Every third child is killed, the others stop. Checked afterwards:

    work        every step ends in time; no internal error, no error in the loop, no text of one in the log
    start       the node starts from its files, and with the same rows as before the stop
    rows        indexes agree with their primary index; foreign keys and checks hold
    files       `lunabox-cat` reads all of them; with `--tarantool PATH`, that executable starts from them with the
                same rows

The directory of a failure is kept, and its path is printed.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from test.soak.definition_work import STATE, examine
from test.soak.shares import Sweep

_SECONDS: Final = 3.0
"""How long the tasks of one seed go on."""
_PATIENCE: Final = 180.0
"""Seconds within which a child, a start and a program must end."""
_VOLATILE: Final = "_sequence_data"
"""The space that has the values of sequences of primary keys only after a snapshot or a start, as in Tarantool."""


def _work(directory: Path, seed: int, mvcc: bool, seconds: float, kills: bool) -> tuple[list[str], str | None]:
    """Run the child. Returns what it has found wrong, and its state, or None if it was killed."""
    command = [sys.executable, "-m", "test.soak.definition_work", str(directory), str(seed), str(mvcc), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
        assert child.stdout is not None
        if kills and child.stdout.readline() == "ready\n":
            time.sleep(random.Random(seed).uniform(0.3, seconds))
            child.kill()
        try:
            output, _ = child.communicate(timeout=seconds + _PATIENCE)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGABRT)
            output, _ = child.communicate()
            return [f"the child hangs: {output[-2000:]}"], None
    if kills and child.returncode == -signal.SIGKILL:
        return [], None
    lines = output.splitlines()
    finds = [json.loads(line.removeprefix("find ")) for line in lines if line.startswith("find ")]
    if child.returncode or not lines or not lines[-1].startswith("end "):
        return [*finds, f"the child ended with {child.returncode}: {output[-2000:]}"], None
    return finds, lines[-1].removeprefix("end ")


def _rows(state: str) -> dict[str, object]:
    """Return the rows of a state by name of their space; HASH indexes have another order in Tarantool."""
    rows: dict[str, list[object]] = json.loads(state)
    return {name: sorted(rows[name], key=json.dumps) for name in rows.keys() - {_VOLATILE}}


def _differences(before: str, after: str, who: str) -> list[str]:
    one, two = _rows(before), _rows(after)
    names = [name for name in sorted(one.keys() | two.keys()) if one.get(name) != two.get(name)]
    return [f"{name} before: {one.get(name)}, in {who}: {two.get(name)}"[:2000] for name in names]


def _read_by_cat(directory: Path) -> list[str]:
    files = [str(path) for path in sorted(directory.glob("*.[sx]*")) if path.suffix in (".snap", ".xlog")]
    command = [sys.executable, "-c", "from box.spark.entry_points import cat; cat()", *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    return [] if done.returncode == 0 else [f"lunabox-cat: {done.stderr[-1000:]}"]


def _read_by_tarantool(directory: Path, tarantool: str, state: str) -> list[str]:
    with tempfile.TemporaryDirectory() as copy:
        for path in directory.iterdir():
            if path.suffix in (".snap", ".xlog"):
                shutil.copy(path, copy)
        program = f"box.cfg{{log = 'log'}} io.write((function() {STATE} end)()) os.exit(0)"
        command = [tarantool, "-e", program]
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=_PATIENCE, check=False)
        if done.returncode:
            return [f"{tarantool}: {(done.stderr or done.stdout)[-1000:]}"]
        return _differences(state, done.stdout, tarantool)


def _run_one(directory: Path, seed: int, mvcc: bool, sweep: Sweep) -> list[str]:
    """Return what one run has found wrong."""
    kills = seed % 3 == 0
    finds, before = _work(directory, seed, mvcc, sweep.seconds or _SECONDS, kills)
    if finds or (before is None and not kills):
        return finds
    try:
        wrong, after = asyncio.run(asyncio.wait_for(examine(directory, mvcc), _PATIENCE))
    except Exception as error:
        return [f"the start after {'a kill' if kills else 'the stop'}: {type(error).__name__}: {error}"]
    finds += wrong
    if before is not None:
        finds += _differences(before, after, "the node after its start")
    finds += _read_by_cat(directory)
    if sweep.tarantool:
        finds += _read_by_tarantool(directory, sweep.tarantool, after)
    return finds


def run_campaign(seed: int, sweep: Sweep) -> bool:
    """Run `sweep.size` seeds, each with and without versions of tuples. Print failures and a summary.

    Returns True if there was no failure.
    """
    start, failures = time.monotonic(), 0
    for number in range(seed, seed + sweep.size):
        for mvcc in (False, True):
            directory = Path(tempfile.mkdtemp(prefix=f"definitions-{number}-"))
            finds = _run_one(directory, number, mvcc, sweep)
            if not finds:
                shutil.rmtree(directory)
                continue
            failures += 1
            print(f"definitions, seed {number}, {mvcc=}, {directory}", *finds[:5], sep="\n    ", flush=True)
    seconds = time.monotonic() - start
    print(
        f"definitions, seed {seed}: {2 * sweep.size} runs, {failures} failed ({seconds:.0f} s)",
        flush=True,
    )
    return failures == 0
