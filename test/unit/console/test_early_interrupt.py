"""Ctrl-C while a command still imports its modules: the command ends, and no traceback is shown."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from box.exit_status import INTERRUPTED
from console.cli import run
from console.commands import sql

_INTERRUPT_AT_IMPORT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # the tests may run where a shell ignores it
from {entry} import main

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = {arguments!r}
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("entry", "module", "arguments", "code"),
    [
        ("console.cli", "console.streams", ["lunabox", "x.lua"], -signal.SIGINT),
        ("console.cli", "console.program", ["lunabox", "x.lua"], -signal.SIGINT),
        ("console.cli", "console.commands.sql", ["lunabox", "sql", "."], -signal.SIGINT),
        ("console.suite.cli", "console.suite.runner_options", ["lunabox-test", "."], INTERRUPTED),
        ("box.spark.entry_points", "box.spark.cat", ["lunabox-cat", "x"], -signal.SIGINT),
        ("box.testing.simulation_entry", "box.testing.simulation.command", ["lunabox-sim"], -signal.SIGINT),
    ],
)
def test_no_traceback_during_imports(tmp_path: Path, entry: str, module: str, arguments: list[str], code: int) -> None:
    """An interrupt ends the process as it ends a C program, or with the exit code that shells use for it."""
    text = _INTERRUPT_AT_IMPORT.format(entry=entry, module=module, arguments=arguments)
    if entry == "box.spark.entry_points":
        text = text.replace("import main", "import cat as main")
    done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (code, "")


def test_a_command_that_is_interrupted_where_it_does_not_expect_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """For instance while `lunabox sql` waits for its statement on standard input."""

    def interrupted(_: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(sql, "main", interrupted)
    assert run(["sql", "."]) == INTERRUPTED
