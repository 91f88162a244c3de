"""What the README says of embedded nodes, error injections and options is so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from box.errinj import ErrorInjections
from box.instance.config import OPTIONS

ROOT = Path(__file__).parents[3]


def shown(pattern: str) -> str:
    """What the README says there."""
    match = re.search(pattern, (ROOT / "README.md").read_text(), re.DOTALL)
    assert match is not None
    return match[1]


def product(*without: str) -> str:
    """The text of the product's files."""
    files = [
        path for top in ("box", "lua", "console") for kind in ("py", "lua") for path in (ROOT / top).rglob(f"*.{kind}")
    ]
    return "".join(path.read_text() for path in files if str(path.relative_to(ROOT)) not in without)


@pytest.mark.parametrize("beginning", ["import asyncio\n", "from box.sync import Node\n"])
def test_the_examples(tmp_path: Path, beginning: str) -> None:
    """They run in an empty directory, twice, and print what their comments say."""
    source = shown(rf"```python\n({beginning}.*?)```").replace("listen=3301", "listen='unix/:./socket'")
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


def test_the_error_injections_that_work() -> None:
    """They are those that the product asks for."""
    named = re.findall(r"`([A-Z_*]+)`", shown(r"\n\| error injection \|(.*?)\n"))
    text = product("box/errinj.py")
    used = {name for name in ErrorInjections().values if re.search(rf"{name}\b", text)}
    assert used == {name for name in ErrorInjections().values if any(fnmatch(name, f"ERRINJ_{one}") for one in named)}


def test_the_options_that_do_nothing() -> None:
    """They are those that nothing but the registry of options knows, and statistics of engines that are not here."""
    named = re.findall(r"`([a-z_*]+)`", shown(r"accepted and do nothing here: (.*?)\."))
    text = product(
        "box/instance/config.py",
        "box/embed/node_options.py",
        "box/error_codes.py",
        "lua/modules/suite/instance.lua",
        "lua/modules/box/idle_stat.lua",
    )
    unused = {name for name in OPTIONS if not re.search(rf"\b{name}\b", text)}
    assert unused == {name for name in OPTIONS if any(fnmatch(name, one) for one in named)}
