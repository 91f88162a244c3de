"""The campaign "arguments": calls every public function of Lua and Python with hostile arguments, in child processes.

Lua (`hostile.lua`): each call returns, raises a box.error or raises a text that names nothing of Python; the log has no
traceback; no call blocks the node for long; the process ends normally. Python: see `python_arguments`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "test/unit/boxlua/hostile.lua"
_SECONDS_A_CALL = 60
"""Seconds for one call of every function, all together; most take a few milliseconds."""
_FINDS = ("FIND", "STUCK", "SLOW")
"""The first words of lines in which hostile.lua reports a failure."""


def run_campaign(seed: int, size: int) -> bool:
    """Call each function of Lua `size` times, then those of Python with each hostile value, and `size` times with two
    of them. Print failures and a summary, and return True if there was no failure.
    """
    is_good = _run_lua(seed, size)
    for number in (None, *range(size)):
        chosen = [] if number is None else ["--seed", str(seed * 1000 + number)]
        command = [sys.executable, "-m", "test.soak.python_arguments", *chosen]
        print(f"arguments, seed {seed}: {' '.join(command[2:])}", flush=True)
        done = subprocess.run(command, cwd=ROOT, stderr=subprocess.DEVNULL, timeout=3600, check=False)
        is_good = is_good and done.returncode == 0
    return is_good


def _run_lua(seed: int, size: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="arguments") as name:
        directory = Path(name)
        with (directory / "calls").open("w+", errors="replace") as calls:
            try:
                done = subprocess.run(
                    [sys.executable, "-m", "console", str(PROGRAM), f"{seed}-{size}"],
                    cwd=directory,
                    env=os.environ | {"PYTHONPATH": str(ROOT)},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=calls,
                    text=True,
                    errors="replace",
                    timeout=300 + _SECONDS_A_CALL * size,
                    check=False,
                )
                output, code = done.stdout, done.returncode
            except subprocess.TimeoutExpired as error:
                output, code = (error.stdout or b"").decode(errors="replace"), None
            calls.seek(0)
            last = calls.read().splitlines()[-1:]
        path = directory / "hostile.log"
        log = path.read_text(errors="replace") if path.exists() else ""
    lines = output.splitlines()
    problems = [line for line in lines if line.startswith(_FINDS)]
    if code != 0:
        problems.append(f"exit code {code} after {last}")
    if "Traceback" in log:
        problems.append(log[log.index("Traceback") :][:2000])
    for problem in problems:
        print(f"arguments, seed {seed}: {problem}", flush=True)
    print(f"arguments, seed {seed}: {lines[-1] if lines else 'no output'}", flush=True)
    return not problems
