"""Tables read from Tarantool's data directories with `as_of` have the rows that its space had at that moment."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from box.spark.cat import rows_of
from test.unit.spark.test_as_of import Program, decoders, read

pytestmark = [
    pytest.mark.tarantool,
    pytest.mark.skipif(shutil.which("tarantool") is None, reason="Tarantool's executable is not installed"),
]

BEGIN = """
box.cfg{log = 'tarantool.log', checkpoint_count = 100, wal_max_size = 4096}
function moment()
    local clock = {}
    for id, lsn in pairs(box.info.vclock) do table.insert(clock, id .. ': ' .. lsn) end
    local tuples, width = s:select(), math.max(1, #s:format())
    setmetatable(tuples, {__serialize = 'seq'})
    print('MOMENT ' .. require('json').encode({table.concat(clock, ', '), box.info.signature, tuples, width}))
end
"""


def run_program(directory: Path, seed: int) -> list[tuple[str, int, list[tuple[Any, ...]]]]:
    """Make random changes on Tarantool; return the vclock, the signature and the rows at some moments."""
    program = Program(seed)
    parts = [BEGIN, program.create(), *(f"s:replace{program.tuple()}" for _ in range(30)), "box.snapshot()"]
    for number in range(40):
        parts.append(f"do {program.step()} end" + (" moment()" if number % 8 == 7 else ""))
    (directory / "script.lua").write_text("\n".join([*parts, "os.exit(0)"]))
    done = subprocess.run(
        ["tarantool", "script.lua"], cwd=directory, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    found = []
    for line in done.stdout.splitlines():
        if line.startswith("MOMENT "):
            clock, signature, tuples, width = json.loads(line.removeprefix("MOMENT "))
            rows = sorted(((tuple(row) + (None,) * width)[:width] for row in tuples), key=repr)
            found.append((f"{{{clock}}}", signature, rows))
    return found


@pytest.mark.parametrize("seed", range(20, 26))
def test_a_table_at_a_moment_has_the_rows_that_tarantool_had(tmp_path: Path, seed: int) -> None:
    moments = run_program(tmp_path, seed)
    assert len(moments) == 5
    for clock, signature, expected in moments:
        for decoder in decoders():
            assert read(tmp_path, clock, decoder=decoder) == expected
        assert read(tmp_path, str(signature)) == expected
    assert read(tmp_path) == moments[-1][2]


def test_rows_of_tarantools_files_are_printed(tmp_path: Path) -> None:
    run_program(tmp_path, 20)
    files = sorted([*tmp_path.glob("*.snap"), *tmp_path.glob("*.xlog")])
    rows = [item for file in files for item in rows_of(str(file))]
    assert {item.space for item in rows} >= {"goods", "_space", "_index"}
    assert all(item.row.lsn >= 0 for item in rows)


SYNCHRONOUS = """
box.cfg{log = 'tarantool.log', replication_synchro_timeout = 0.05}
s = box.schema.space.create('goods', {is_sync = true, format = {{'id', 'unsigned'}, {'name', 'string'}}})
s:create_index('pk')
s:insert{1, 'one'}
box.snapshot()
s:insert{2, 'two'}
box.cfg{replication_synchro_quorum = 2}
assert(not pcall(s.insert, s, {3, 'three'}))
assert(not pcall(s.replace, s, {1, 'uno'}))
box.cfg{replication_synchro_quorum = 1}
s:insert{4, 'four'}
box.cfg{replication_synchro_quorum = 2, replication_synchro_timeout = 1000}
require('fiber').create(s.insert, s, {5, 'five'})
require('fiber').sleep(0.1)
os.exit(0)
"""


def test_synchronous_transactions_of_tarantool_count_once_they_are_confirmed(tmp_path: Path) -> None:
    (tmp_path / "script.lua").write_text(SYNCHRONOUS)
    subprocess.run(["tarantool", "script.lua"], cwd=tmp_path, capture_output=True, timeout=60, check=True)
    assert read(tmp_path) == [(1, "one"), (2, "two"), (4, "four")]
    types = [item.row.type for file in sorted(tmp_path.glob("*.xlog")) for item in rows_of(str(file))]
    assert {40, 41} <= set(types), "the log has no CONFIRM, or no ROLLBACK"
