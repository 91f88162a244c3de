"""Generated Lua programs about indexes print equal lines on Lunabox and on Tarantool 2.8.

`LUNABOX_TARANTOOL` names the executable, `INDEX_PROGRAMS` the number of programs for each kind of index.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from test.interop.index_programs import KINDS, script

TARANTOOL = os.environ.get("LUNABOX_TARANTOOL") or shutil.which("tarantool")
COUNT = int(os.environ.get("INDEX_PROGRAMS", "120"))
SEED = int(os.environ.get("INDEX_SEED", "1"))
_BATCH = 60
_DEADLINE = 240.0


@cache
def is_of_the_line() -> bool:
    if TARANTOOL is None:
        return False
    shown = subprocess.run([TARANTOOL, "--version"], capture_output=True, text=True, timeout=30).stdout
    return shown.startswith("Tarantool 2.8.")


pytestmark = [
    pytest.mark.tarantool,
    pytest.mark.skipif(not is_of_the_line(), reason="no Tarantool 2.8 on PATH, nor in LUNABOX_TARANTOOL"),
]


def lines_of(executable: str, text: str, directory: Path) -> list[str]:
    directory.mkdir()
    (directory / "script.lua").write_text(text)
    done = subprocess.run(
        [executable, "script.lua"],
        cwd=directory,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_DEADLINE,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize("kind", KINDS)
def test_programs_print_the_same(kind: str, tmp_path: Path) -> None:
    assert TARANTOOL is not None
    for number in range(-(-COUNT // _BATCH)):
        text = script(kind, SEED + number, min(_BATCH, COUNT))
        ours = lines_of(str(Path(sys.executable).with_name("lunabox")), text, tmp_path / f"ours{number}")
        theirs = lines_of(TARANTOOL, text, tmp_path / f"theirs{number}")
        assert ours == theirs, f"seed {SEED + number}"
