"""Generated programs that use the libraries of Lua get equal replies from Lunabox and Tarantool 2.8.

`LUNABOX_TARANTOOL` names the executable, `LIBRARY_PROGRAMS` how many programs of each class run,
`LIBRARY_PROGRAMS_SEED` the first seed.
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

from test.interop.console_programs import ConsoleNode, console_node
from test.interop.library_programs.classes import CLASSES
from test.interop.program_comparison import compare

TARANTOOL = os.environ.get("LUNABOX_TARANTOOL") or shutil.which("tarantool")
COUNT = int(os.environ.get("LIBRARY_PROGRAMS", "20"))
SEED = int(os.environ.get("LIBRARY_PROGRAMS_SEED", "0"))


@cache
def _is_of_the_line() -> bool:
    if TARANTOOL is None:
        return False
    shown = subprocess.run([TARANTOOL, "--version"], capture_output=True, text=True, timeout=30).stdout
    return shown.startswith("Tarantool 2.8.")


@pytest.fixture(scope="module")
def nodes() -> Iterator[tuple[ConsoleNode, ConsoleNode]]:
    assert TARANTOOL is not None
    with console_node(str(Path(sys.executable).with_name("lunabox"))) as ours, console_node(TARANTOOL) as theirs:
        yield ours, theirs


@pytest.mark.tarantool
@pytest.mark.timeout(300)
@pytest.mark.skipif(not _is_of_the_line(), reason="no Tarantool 2.8 on PATH, nor in LUNABOX_TARANTOOL")
@pytest.mark.parametrize("kind", CLASSES.names)
def test_programs_get_the_same_replies(kind: str, nodes: tuple[ConsoleNode, ConsoleNode]) -> None:
    """At most one statement in a hundred has a different reply, and one besides; the failure shows them."""
    result = compare(CLASSES, kind, range(SEED, SEED + COUNT), *nodes)
    assert len(result.differences) <= 1 + result.count / 100, "\n".join(result.differences)


@pytest.mark.parametrize("kind", CLASSES.names)
def test_programs_follow_from_their_seed(kind: str) -> None:
    programs = [CLASSES.program(kind, seed) for seed in range(20)]
    assert programs == [CLASSES.program(kind, seed) for seed in range(20)]
    modules = CLASSES.modules(kind)
    assert all(program[: len(modules)] == modules for program in programs)
    assert len({tuple(program) for program in programs}) > 15
