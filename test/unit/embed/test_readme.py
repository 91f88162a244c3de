"""What the README shows of embedded nodes is what happens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_example(tmp_path: Path) -> None:
    """It runs in an empty directory, twice, and prints what its comments say."""
    match = re.search(r"```python\n(import asyncio\n.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert match is not None
    source = match[1].replace("listen=3301", "listen='unix/:./socket'")
    said = re.findall(r"print\(.*\)  # (.*)", source)
    for _ in range(2):
        outcome = subprocess.run(
            [sys.executable, "-c", source],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert outcome.stdout.splitlines() == said, outcome.stderr
