"""The campaign "definitions": tasks change definitions, rows and transactions at once; then the node starts again.

Each seed runs twice, without and with `memtx_use_mvcc_engine`, for some seconds in a child process
(`test.soak.definition_child`). Every third child is killed, and another one goes on with its files; the others stop.
Checked after each child:

    work        every step ends in time; no internal error, no error in the loop, no text of one in the log
    replica     one that has joined meanwhile has the same rows, and starts from its own files
    start       the node starts from its files, and with the same rows as before the stop
    kill        what was acknowledged is there
    rows        indexes agree with their primary index; foreign keys and checks hold
    files       `lunabox-cat` reads all of them; Tarantool 2.8 starts from them with the same rows

Tarantool's executable is `--tarantool`, else `LUNABOX_TARANTOOL`, else `tarantool` on PATH if it is version 2.8. A seed
draws the same steps each time, but moments differ, so that a rare failure may take several runs of its seed. The
directory of a failure is kept, and its path is printed.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from test.interop.test_indexes_tarantool import TARANTOOL, is_of_the_line
from test.soak.definition_checks import OWN, STATE, differences, examine, lost
from test.soak.definition_child import replica_of
from test.soak.shares import Sweep

_SECONDS: Final = 2.0
"""How long the tasks of one child go on."""
_PATIENCE: Final = 180.0
"""Seconds within which a child, a start and a program must end."""
_DONE: Final = re.compile(r"done (\d+) (\d+)\n")


class Outcome(NamedTuple):
    """What a child has found wrong, its state, or None if it was killed, and its acknowledged steps by task."""

    finds: list[str]
    state: str | None
    acknowledged: dict[int, int]


def _work(directory: Path, seed: int, mvcc: bool, seconds: float, kills: bool) -> Outcome:
    """Run the child; with `kills` kill it at a random moment."""
    command = [sys.executable, "-m", "test.soak.definition_child", str(directory), str(seed), str(mvcc), str(seconds)]
    path = directory.with_name("output")
    with path.open("w") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as child:
        deadline = time.monotonic() + seconds + _PATIENCE
        if kills:
            while "ready" not in path.read_text() and child.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            time.sleep(random.Random(seed).uniform(0.3, seconds))
            child.kill()
        try:
            child.wait(deadline - time.monotonic())
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGABRT)
            child.wait()
    text = path.read_text()
    acknowledged = {int(task): int(number) for task, number in _DONE.findall(text)}
    lines = text.splitlines()
    finds = [json.loads(line.removeprefix("find ")) for line in lines if line.startswith("find ")]
    if child.returncode == -signal.SIGABRT:
        finds.append(f"the child hangs: {text[-2000:]}")
    elif kills and child.returncode == -signal.SIGKILL:
        return Outcome([], None, acknowledged)
    elif child.returncode or not lines or not lines[-1].startswith("end "):
        finds.append(f"the child ended with {child.returncode}: {text[-2000:]}")
    else:
        return Outcome(finds, lines[-1].removeprefix("end "), acknowledged)
    return Outcome(finds, None, acknowledged)


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
        return differences(state, done.stdout, tarantool)


def _started(directory: Path, what: str, **options: object) -> Outcome:
    """Start a node from a directory and check it; `what` says for failures which start this is."""
    try:
        wrong, state = asyncio.run(asyncio.wait_for(examine(directory, **options), _PATIENCE))
    except Exception as error:
        return Outcome([f"{what}: {type(error).__name__}: {error}"], None, {})
    return Outcome(wrong, state, {})


def _checked(directory: Path, mvcc: bool, worked: Outcome, tarantool: str) -> list[str]:
    """Start from the files that a child has left, and return what is wrong with them."""
    what = "the start after a kill" if worked.state is None else "the start after the stop"
    finds, after, _ = _started(directory, what, memtx_use_mvcc_engine=mvcc)
    if after is None:
        return finds
    if worked.state is not None:
        finds += differences(worked.state, after, "the node after its start")
    finds += lost(worked.acknowledged, after)
    replica = replica_of(directory)
    if any(replica.glob("*.snap")):
        options = {"read_only": True, "memtx_use_mvcc_engine": mvcc}
        wrong, copy, _ = _started(replica, "the start of the replica", **options)
        finds += wrong
        if copy is not None and worked.state is not None:
            finds += differences(worked.state, copy, "the replica after its start", OWN)
        finds += _read_by_cat(replica)
        shutil.rmtree(replica)
    finds += _read_by_cat(directory)
    if tarantool:
        finds += _read_by_tarantool(directory, tarantool, after)
    return finds


def _run_one(directory: Path, seed: int, mvcc: bool, seconds: float, tarantool: str) -> list[str]:
    """Return what one run has found wrong."""
    for kills in (True, False) if seed % 3 == 0 else (False,):
        worked = _work(directory, seed, mvcc, seconds, kills)
        if worked.finds:
            return worked.finds
        if finds := _checked(directory, mvcc, worked, tarantool):
            return finds
    return []


def run_campaign(seed: int, sweep: Sweep) -> bool:
    """Run `sweep.size` seeds, each with and without versions of tuples. Print failures and a summary.

    Returns True if there was no failure.
    """
    start, failures, seconds = time.monotonic(), 0, sweep.seconds or _SECONDS
    tarantool = sweep.tarantool or (TARANTOOL if is_of_the_line() else None) or ""
    if not tarantool:
        print("definitions: files are not read by Tarantool: no Tarantool 2.8 on PATH or in LUNABOX_TARANTOOL")
    for number in range(seed, seed + sweep.size):
        for mvcc in (False, True):
            root = Path(tempfile.mkdtemp(prefix=f"definitions-{number}-"))
            finds = _run_one(root / "node", number, mvcc, seconds, tarantool)
            if not finds:
                shutil.rmtree(root)
                continue
            failures += 1
            print(f"definitions, seed {number}, {mvcc=}, {root}", *finds[:5], sep="\n    ", flush=True)
            print(
                f"    again: python -m test.soak --size 1 --seed {number} --seconds {seconds:g} definitions", flush=True
            )
    took = time.monotonic() - start
    print(f"definitions, seed {seed}: {2 * sweep.size} runs, {failures} failed ({took:.0f} s)", flush=True)
    return failures == 0
