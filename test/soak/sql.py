"""The campaign "sql": runs generated SQL statements on generated tables, of other areas, and on a schema with triggers
and foreign keys, in Lunabox and Tarantool 2.8.1, and compares.

Tarantool's executable is `LUNABOX_TARANTOOL`, or `tarantool` on PATH. Each statement whose rows, columns or error
differ is printed; the campaign fails if more than one in a hundred differs.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from test.interop import sql_areas, sql_tables, sql_users
from test.interop.test_indexes_tarantool import is_of_the_line
from test.interop.test_sql_tarantool import differences

_STATEMENTS: Final = 250
"""The number of statements of one seed and kind; each seed has tables of its own."""
_ALLOWED: Final = 0.01
"""The share of statements that may differ."""


def run_campaign(seed: int, size: int) -> bool:
    """Run `size` statements, rounded up to whole seeds, and return True if at least 99 % agree."""
    if not is_of_the_line():
        print("no Tarantool 2.8 on PATH, nor in LUNABOX_TARANTOOL")
        return True
    count = different = 0
    for number in range(seed, seed + -(-size // (3 * _STATEMENTS))):
        for kind in (sql_tables, sql_areas, sql_users):
            with tempfile.TemporaryDirectory(prefix="sql") as directory:
                found = differences(kind.script(number, _STATEMENTS), Path(directory))
            for text in found:
                print(f"seed {number}: {text}", flush=True)
            count, different = count + _STATEMENTS, different + len(found)
    print(f"{different} of {count} statements differ")
    return different <= _ALLOWED * count
