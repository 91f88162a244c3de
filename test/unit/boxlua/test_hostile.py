"""Every public function with absurd arguments (hostile.lua), in a child process.

Each call returns, raises a box.error or raises a text that names nothing of Python; the log has no traceback; no call
blocks the node for long; the process ends normally.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import FLAVOURS

PROGRAM = Path(__file__).with_name("hostile.lua")
ROOT = PROGRAM.parents[3]
DEADLINE = 280
FEWEST_FUNCTIONS = 900
FUNCTIONS = {"luajit20": "", "luajit21": "msgpack.decode,msgpack.encode,json.decode,box.session.su,space:insert"}
"""Functions to call with each LuaJIT: all with the default, some with the other; empty means all."""


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_hostile_arguments(tmp_path: Path, flavour: str) -> None:
    names = [FUNCTIONS[flavour]] if FUNCTIONS[flavour] else []
    done = subprocess.run(
        [sys.executable, "-m", "console", str(PROGRAM), "short", *names],
        cwd=tmp_path,
        env=os.environ | {"LUNABOX_LUAJIT": flavour, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=DEADLINE,
        check=False,
    )
    lines = done.stdout.splitlines()
    last_call = done.stderr.splitlines()[-1:]
    assert done.returncode == 0, (last_call, lines[-3:])
    assert [line for line in lines if line.startswith(("FIND", "STUCK", "SLOW"))] == []
    log = (tmp_path / "hostile.log").read_text(errors="replace")
    assert "Traceback" not in log, log[log.index("Traceback") :][:3000]
    summary = re.fullmatch(r"(\d+) functions, (\d+) calls, 0 finds, 0 stuck", lines[-1])
    assert summary is not None, lines[-1]
    assert int(summary[1]) > FEWEST_FUNCTIONS
    assert int(summary[2]) > (100 if names else 40 * FEWEST_FUNCTIONS)
