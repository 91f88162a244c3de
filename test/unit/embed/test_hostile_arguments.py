"""Every public Python function with hostile arguments (test/soak/python_arguments.py), in a child process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
FEWEST_FUNCTIONS = 130
FEWEST_CALLS = 1500


def test_hostile_arguments(tmp_path: Path) -> None:
    """Each call returns, or raises an error that says what is wrong; the node works afterwards."""
    done = subprocess.run(
        [sys.executable, "-m", "test.soak.python_arguments", "--every", "13", "--without-starts"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("FIND")] == []
    summary = re.fullmatch(r"(\d+) Python functions, (\d+) calls, 0 finds", lines[-1])
    assert summary is not None, (lines[-1], done.stderr[-3000:])
    assert done.returncode == 0
    assert int(summary[1]) > FEWEST_FUNCTIONS
    assert int(summary[2]) > FEWEST_CALLS
