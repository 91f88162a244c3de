"""The fork that the suite runner makes before its imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from console.suite.early_fork import fork_early

# A program for a new process, because a fork keeps all imported modules. It prints which modules were loaded at the
# fork.
FORK = """
import os, sys
from console.suite.early_fork import fork_early
early = fork_early(['suite'])
print(sorted({'asyncio', 'argparse', 'logging', 'box'} & {*sys.modules}), flush=True)
from pathlib import Path
from console.suite.warm import WarmStarter
starter = WarmStarter(early)
with open('out', 'wb') as out:
    process = starter.spawn(['s.lua'], cwd=Path.cwd(), env={'A': 'b'}, stdout=out, stderr=out)
while process.returncode is None:
    os.sched_yield()
print(process.returncode, Path('out').read_text(), flush=True)
starter.close()
starter.close()
"""


def test_a_fork_of_the_runner_forks_nodes(tmp_path: Path) -> None:
    """The runner's early fork forks nodes; it has imported nothing large, and has no input or output of the runner."""
    (tmp_path / "s.lua").write_text("print(os.getenv('A'), io.read('*a') == '') os.exit(4)")
    run = subprocess.run(
        [sys.executable, "-c", FORK],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert run.stdout == "[]\n4 b\ttrue\n\n"
    assert run.stderr == ""


@pytest.mark.parametrize("option", ["-h", "--version", "--exec", "--executable=x", "--no-fork"])
def test_no_fork_without_nodes_of_this_package(option: str) -> None:
    assert fork_early(["suite", option, "x"]) is None


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_standard_descriptors_may_be_closed(tmp_path: Path, closed: str) -> None:
    """A run works with closed standard descriptors, whose numbers the connection to the fork does not get."""
    (tmp_path / "suite.ini").write_text("[default]\ncore = app\n")
    (tmp_path / "a.test.lua").write_text("print('TAP version 13\\n1..1\\nok 1')")
    run = subprocess.run(
        ["bash", "-c", f'"$0" -m console.suite.cli "$1" {closed}', sys.executable, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert ("1 passed" in run.stdout) == (">&-" not in closed.replace("2>&-", ""))
