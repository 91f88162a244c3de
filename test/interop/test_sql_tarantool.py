"""Generated statements of SQL give the same on this node and on Tarantool 2.8, line by line.

`LUNABOX_TARANTOOL` names the executable, `SQL_STATEMENTS` how many statements a script has.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from test.interop.sql_statements import script
from test.interop.test_indexes_tarantool import TARANTOOL, is_of_the_line, lines_of

COUNT = int(os.environ.get("SQL_STATEMENTS", "300"))

pytestmark = [
    pytest.mark.tarantool,
    pytest.mark.skipif(not is_of_the_line(), reason="no Tarantool 2.8 on PATH, nor in LUNABOX_TARANTOOL"),
]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_statements_give_the_same(seed: int, tmp_path: Path) -> None:
    assert TARANTOOL is not None
    text = script(seed, COUNT)
    ours = lines_of(str(Path(sys.executable).with_name("lunabox")), text, tmp_path / "ours")
    theirs = lines_of(TARANTOOL, text, tmp_path / "theirs")
    statements = text.split("]==]")
    differences = [
        f"{statements[number].split('[==[')[-1]}\n  ours   {line}\n  theirs {other}"
        for number, (line, other) in enumerate(zip(ours, theirs, strict=True))
        if line != other
    ]
    assert not differences, "\n".join(differences[:20])
