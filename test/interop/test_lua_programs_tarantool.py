"""Generated console programs get equal replies from Lunabox and Tarantool 2.8.

`LUNABOX_TARANTOOL` names the executable, `LUA_PROGRAMS` how many programs of each class run, `LUA_PROGRAMS_SEED` the
first seed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from test.interop.console_programs import ConsoleNode, console_node, normalised
from test.interop.lua_programs.kinds import CLASSES, MODULES
from test.interop.program_comparison import compare

TARANTOOL = os.environ.get("LUNABOX_TARANTOOL") or shutil.which("tarantool")
COUNT = int(os.environ.get("LUA_PROGRAMS", "25"))
SEED = int(os.environ.get("LUA_PROGRAMS_SEED", "0"))


@cache
def _is_of_the_line() -> bool:
    if TARANTOOL is None:
        return False
    shown = subprocess.run([TARANTOOL, "--version"], capture_output=True, text=True, timeout=30).stdout
    return shown.startswith("Tarantool 2.8.")


needs_tarantool = pytest.mark.skipif(not _is_of_the_line(), reason="no Tarantool 2.8 on PATH, nor in LUNABOX_TARANTOOL")


@pytest.fixture(scope="module")
def nodes() -> Iterator[tuple[ConsoleNode, ConsoleNode]]:
    assert TARANTOOL is not None
    with console_node(str(Path(sys.executable).with_name("lunabox"))) as ours, console_node(TARANTOOL) as theirs:
        yield ours, theirs


@pytest.mark.tarantool
@needs_tarantool
@pytest.mark.parametrize("kind", CLASSES.names)
def test_programs_get_the_same_replies(kind: str, nodes: tuple[ConsoleNode, ConsoleNode]) -> None:
    """At most one statement in two hundred has a different reply, and two besides; the failure shows them."""
    result = compare(CLASSES, kind, range(SEED, SEED + COUNT), *nodes)
    assert len(result.differences) <= 2 + result.count / 200, "\n".join(result.differences)


def test_programs_follow_from_their_seed() -> None:
    for kind in CLASSES.names:
        assert CLASSES.program(kind, 5) == CLASSES.program(kind, 5) != CLASSES.program(kind, 6)
        assert CLASSES.program(kind, 5)[: len(MODULES)] == MODULES


def test_a_difference_is_found() -> None:
    """Normalised replies still differ if texts, values or their order differ."""
    assert normalised("---\n- error: 'builtin/fun.lua:7: x'\n...") == normalised(
        "---\n- error: 'builtin/fun.lua:9: x'\n..."
    )
    assert normalised("---\n- {a: 1}\n...") != normalised("---\n- {a: 2}\n...")
    assert normalised("---\n- 1\n- 2\n...") != normalised("---\n- 2\n- 1\n...")
    assert normalised("---\n- a: 1\n  b: 2\n...") == normalised("---\n- b: 2\n  a: 1\n...")
