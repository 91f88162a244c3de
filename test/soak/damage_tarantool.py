"""The campaign "damage-tarantool": starts Lunabox and Tarantool from the same damaged files and compares the rows.

The damages are drawn as in `test.soak.damage`. Tarantool's executable is `LUNABOX_TARANTOOL`, or `tarantool` on PATH;
each of its starts has a directory of its own.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import subprocess
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from box.errors import BoxError
from test.bench.__main__ import tarantool_command
from test.crash.instance import SPACE
from test.soak import damage
from test.soak.damage import Damage, Original, Rows
from test.soak.shares import Sweep

_PATIENCE: Final = 60.0
"""Seconds for one run of Tarantool."""
_MEMORY: Final = 32 * 1024 * 1024
"""The option `memtx_memory` of Tarantool in bytes: a small arena makes its start quick."""
_SCRIPT: Final = """
box.cfg{log = 'tarantool.log', force_recovery = %s, memtx_memory = %d}
local rows = {}
local space = box.space[%d]
if space ~= nil and space.index[0] ~= nil then
    for _, row in space:pairs() do table.insert(rows, row) end
end
print(require('json').encode(rows))
os.exit(0)
"""


class Comparison(NamedTuple):
    """The rows that Lunabox and Tarantool have after a start, None where it refused to start."""

    damage: Damage
    own: Rows | None
    theirs: Rows | None

    @property
    def described(self) -> str:
        if self.own != self.theirs:
            return "differs"
        return "refused" if self.own is None else "the same rows"


async def _own_rows(files: dict[str, bytes], force_recovery: bool) -> Rows | None:
    try:
        instance = await damage.started(damage.disk_of(files), force_recovery=force_recovery)
    except BoxError:
        return None
    try:
        return damage.rows_of(instance)
    finally:
        await instance.close()


def _tarantools_rows(command: tuple[str, ...], files: dict[str, bytes], force_recovery: bool) -> Rows | None:
    directory = Path(tempfile.mkdtemp(prefix="damage"))
    try:
        for path, content in files.items():
            (directory / path).write_bytes(content)
        (directory / "start.lua").write_text(_SCRIPT % (str(force_recovery).lower(), _MEMORY, SPACE))
        done = subprocess.run(
            [*command, "start.lua"], cwd=directory, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
        return dict(json.loads(done.stdout)) if done.returncode == 0 else None
    finally:
        shutil.rmtree(directory)


def compare(command: tuple[str, ...], original: Original, change: Damage) -> Comparison:
    """Start Lunabox and Tarantool (`command`) from the same damaged files."""
    files = dict(original.files)
    files[change.path] = change.apply(files[change.path])
    own = asyncio.run(_own_rows(files, change.force_recovery))
    return Comparison(change, own, _tarantools_rows(command, files, change.force_recovery))


def run_campaign(seed: int, sweep: Sweep) -> bool:
    """Run the damages of `seed`, print each difference and a summary, and return True if there was none."""
    command = tarantool_command()
    if command is None:
        print("damage-tarantool: skipped, no Tarantool on PATH or in LUNABOX_TARANTOOL")
        return True
    original = Original()
    counts: Counter[tuple[str, str]] = Counter()
    damages = list(original.damages(random.Random(seed), sweep.size))
    for found in sweep.outcomes(partial(compare, command, original), damages):
        counts[found.damage.described, found.described] += 1
        if found.own != found.theirs:
            print(f"damage-tarantool, seed {seed}, {found}", flush=True)
    print(f"damage-tarantool, seed {seed}: {sum(counts.values())} damages")
    for (described, decision), count in sorted(counts.items()):
        print(f"  {described}: {count} {decision}", flush=True)
    return not any(decision == "differs" for _, decision in counts)
