"""What Tarantool 2.11 has and 2.8.1 lacks is in the list of the reference, as there or as left out.

`LUNABOX_TARANTOOL_211` names the 2.11; the 2.8.1 is `tarantool` on PATH.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "test" / "interop" / "census.lua"
LATER = os.environ.get("LUNABOX_TARANTOOL_211", "")
TARANTOOL = shutil.which("tarantool")

pytestmark = pytest.mark.timeout(300)


def names_of(command: list[str], directory: Path) -> set[str]:
    """Return the public names of an instance, see census.lua."""
    directory.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([*command, str(SCRIPT), "names"], cwd=directory, env=environment, check=True, timeout=200)
    return set((directory / "names").read_text().split("\n")) - {""}


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "hooks"))
    from reference_tables import later

    return later


def test_what_is_said_to_be_here_is(later: Any, tmp_path: Path) -> None:
    """Each name that the list calls here exists, and none that it calls left out does."""
    found = names_of([sys.executable, "-m", "console"], tmp_path / "ours")
    listed = later.names()
    assert [item.name for item in listed if item.is_here and not any(map(item.covers, found))] == []
    here = [item for item in listed if item.is_here]
    left_out = [item for item in listed if not item.is_here and item.name not in SHARED]
    wrong = [name for name in found if any(item.covers(name) for item in left_out)]
    assert [name for name in wrong if not any(item.covers(name) for item in here)] == []


SHARED = frozenset({"box.stat.*", "box.error.*", "log.box_api.*", "tarantool.build.*", "box.cfg.feedback_*"})
"""Families of which 2.8.1 has members as well."""


@pytest.mark.skipif(not LATER or not TARANTOOL, reason="there is no Tarantool 2.8.1 or no 2.11")
def test_the_list_is_complete(later: Any, tmp_path: Path) -> None:
    """Each name that a 2.11 has and a 2.8.1 lacks is in the list."""
    new = names_of([LATER], tmp_path / "later") - names_of([str(TARANTOOL)], tmp_path / "earlier")
    assert sorted(name for name in new if not any(item.covers(name) for item in later.names())) == []
