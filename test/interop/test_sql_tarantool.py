"""Generated SQL statements give equal results on Lunabox and on Tarantool 2.8.

`LUNABOX_TARANTOOL` names the executable, `SQL_STATEMENTS` the number of statements of a script.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from test.interop import sql_areas, sql_reference, sql_statements, sql_tables, sql_users
from test.interop.test_indexes_tarantool import TARANTOOL, is_of_the_line, lines_of

COUNT = int(os.environ.get("SQL_STATEMENTS", "300"))
STEPS = {"operators": 20, "functions": 40, "comparisons": 10, "casts": 4, "wrong": 3}
"""Of these chapters only every so many queries run here; `REFERENCE_STEP=1` runs them whole."""
if "REFERENCE_STEP" in os.environ:
    STEPS = dict.fromkeys(sql_reference.CHAPTERS, int(os.environ["REFERENCE_STEP"]))

pytestmark = [
    pytest.mark.tarantool,
    pytest.mark.skipif(not is_of_the_line(), reason="no Tarantool 2.8 on PATH, nor in LUNABOX_TARANTOOL"),
]


def differences(text: str, directory: Path) -> list[str]:
    """Run a script on Lunabox and Tarantool; return each statement whose results differ, with both results."""
    assert TARANTOOL is not None
    ours = lines_of(str(Path(sys.executable).with_name("lunabox")), text, directory / "ours")
    theirs = lines_of(TARANTOOL, text, directory / "theirs")
    statements = text.split("]==]")
    return [
        f"{statements[number].split('[==[')[-1]}\n  ours   {line}\n  theirs {other}"
        for number, (line, other) in enumerate(zip(ours, theirs, strict=True))
        if line != other
    ]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_statements_give_the_same(seed: int, tmp_path: Path) -> None:
    found = differences(sql_statements.script(seed, COUNT), tmp_path)
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize("seed", [2, 3])
def test_statements_on_generated_tables_give_the_same(seed: int, tmp_path: Path) -> None:
    found = differences(sql_tables.script(seed, COUNT * 2 // 3), tmp_path)
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize("seed", [2, 3])
def test_statements_of_other_areas_give_the_same(seed: int, tmp_path: Path) -> None:
    found = differences(sql_areas.script(seed, COUNT), tmp_path)
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize("seed", [1, 3])
def test_statements_of_users_give_the_same(seed: int, tmp_path: Path) -> None:
    found = differences(sql_users.script(seed, COUNT // 2), tmp_path)
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize("chapter", sql_reference.CHAPTERS)
def test_a_chapter_of_the_reference_gives_the_same(chapter: str, tmp_path: Path) -> None:
    found = differences(sql_reference.script(chapter, STEPS.get(chapter, 1)), tmp_path)
    assert not found, "\n".join(found[:20])
