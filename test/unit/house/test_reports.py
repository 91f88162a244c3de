"""Pytest reports failures, whatever a test has left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FAILING = """
import gc, sys, traceback

class Noisy:
    "Formats a traceback when it is collected, as a task does whose exception nobody has taken; another one follows."

    def __init__(self):
        self.me = self

    def __del__(self):
        try:
            (1).real.x + len([3])
        except AttributeError:
            traceback.format_exc()
        if not sys.is_finalizing():
            Noisy()

def test_fails():
    gc.set_threshold(100)
    Noisy()
    text = [
{lines}
    ]
    assert text == []
"""
MODULE = "\n".join(f"def check_{number}(value):\n    assert value == [{number}], value" for number in range(100))
IMPORTING = """
import importlib
import pytest

pytest.register_assert_rewrite(*{late})

def pytest_terminal_summary():
    for name in {late}:
        importlib.import_module(name)
"""


def test_a_failure_is_told_amid_garbage(tmp_path: Path) -> None:
    test = tmp_path / "test_noisy.py"
    test.write_text(FAILING.format(lines="\n".join(f"        str({number})," for number in range(300))))
    late = [f"late_{number}" for number in range(8)]
    (tmp_path / "conftest.py").write_text(IMPORTING.format(late=late))
    for name in late:
        (tmp_path / f"{name}.py").write_text(MODULE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "test.conftest", "-c", "/dev/null"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), str(test)], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    told = f"{done.stderr[-4000:]}\n{done.stdout[-4000:]}"
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, f"{done.returncode}\n{told}"
    assert "INTERNALERROR" not in done.stdout + done.stderr, told
    assert "1 failed" in done.stdout, told
