"""The tutorial of the simulation: its test finds the defect of its queue, and passes with the fix."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
CODE = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "simulation.md").read_text(), re.DOTALL)


def run(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=directory,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def test_the_bug_is_found_and_mended(tmp_path: Path) -> None:
    queue, conftest, test, remedy = CODE
    for name, text in (("task_queue.py", queue), ("conftest.py", conftest), ("test_task_queue.py", test)):
        (tmp_path / name).write_text(text)
    broken = run(tmp_path, "--simulation-seed", "3")
    assert broken.returncode == 1, broken.stdout + broken.stderr
    assert "the last task did not come about" in broken.stdout
    begin, end = queue.index("    async def create"), queue.index("    async def put")
    (tmp_path / "task_queue.py").write_text(queue[:begin] + remedy + "\n" + queue[end:])
    mended = run(tmp_path, "--simulation-seeds", "3")
    assert mended.returncode == 0, mended.stdout + mended.stderr
    assert "3 passed" in mended.stdout
