"""The campaign "datetimes": compares generated statements of the Lua module `datetime` in Lunabox and Tarantool 2.11.

`LUNABOX_TARANTOOL_211` names Tarantool's executable. Each statement whose result or error differs is printed, and the
campaign fails. What is known to differ (docs/reference/lua/modules.md) is not generated.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from test.interop.test_datetime_tarantool import TARANTOOL, differences

_STATEMENTS: Final = 2000
"""The number of statements of one seed."""


def run_campaign(seed: int, size: int) -> bool:
    """Run `size` statements, rounded up to whole seeds, and return True if all agree."""
    if not TARANTOOL:
        print("LUNABOX_TARANTOOL_211 names no Tarantool 2.11")
        return True
    count = different = 0
    for number in range(seed, seed + -(-size // _STATEMENTS)):
        with tempfile.TemporaryDirectory(prefix="datetimes") as directory:
            found = differences(number, _STATEMENTS, Path(directory))
        for text in found:
            print(f"seed {number}: {text}", flush=True)
        count, different = count + _STATEMENTS, different + len(found)
    print(f"{different} of {count} statements differ")
    return different == 0
