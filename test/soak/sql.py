"""The campaign "sql": runs generated SQL statements on generated tables, of other areas, and on a schema with triggers
and foreign keys, in Lunabox and Tarantool 2.8.1, and compares.

Tarantool's executable is `LUNABOX_TARANTOOL`, or `tarantool` on PATH. Each statement whose rows, columns or error
differ is printed; the campaign fails if more than one in a hundred differs. Some statements crash Tarantool 2.8.1: a
script with such a one is named and left out.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Final

from test.interop import sql_areas, sql_tables, sql_users
from test.interop.test_indexes_tarantool import TARANTOOL, is_of_the_line, lines_of
from test.interop.test_sql_tarantool import differences

_STATEMENTS: Final = 250
"""The number of statements of one seed and kind; each seed has tables of its own."""
_ALLOWED: Final = 0.01
"""The share of statements that may differ."""


def _ends_early(text: str, directory: Path) -> bool:
    """Return whether Tarantool itself crashes, or ends a script with an error."""
    assert TARANTOOL is not None
    try:
        lines_of(TARANTOOL, text, directory)
    except AssertionError:
        return True
    return False


def run_campaign(seed: int, size: int) -> bool:
    """Run `size` statements, rounded up to whole seeds, and return True if at least 99 % agree."""
    if not is_of_the_line():
        print("no Tarantool 2.8 on PATH, nor in LUNABOX_TARANTOOL")
        return True
    count = different = 0
    for number in range(seed, seed + -(-size // (3 * _STATEMENTS))):
        for kind in (sql_tables, sql_areas, sql_users):
            with tempfile.TemporaryDirectory(prefix="sql") as directory:
                script = kind.script(number, _STATEMENTS)
                try:
                    found = differences(script, Path(directory))
                except subprocess.TimeoutExpired:
                    found = [f"a program of {kind.__name__} takes too long: perhaps a recursion without an end"]
                except AssertionError:
                    if not _ends_early(script, Path(directory) / "again"):
                        raise
                    print(f"seed {number}: Tarantool does not reach the end of {kind.__name__}", flush=True)
                    continue
            for text in found:
                print(f"seed {number}: {text}", flush=True)
            count, different = count + _STATEMENTS, different + len(found)
    print(f"{different} of {count} statements differ")
    return different <= _ALLOWED * count
