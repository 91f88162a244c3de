"""Generated requests, valid and invalid ones, have equal results and leave equal tuples on Lunabox and Tarantool.

Error codes are compared, and texts up to the parts that differ between versions ("got ...", tuples of duplicate keys).
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.tarantool,
    pytest.mark.skipif(shutil.which("tarantool") is None, reason="Tarantool `tarantool` is not installed"),
]

PRELUDE = """
box.cfg{log = 'log.txt', wal_mode = 'none', memtx_max_tuple_size = 3000}
local s = box.schema.space.create('s', {format = {{'id', 'unsigned'}, {'name', 'string', is_nullable = true}}})
s:create_index('pk')
s:create_index('by_name', {parts = {{2, 'string', is_nullable = true}}, unique = false})
local plain = box.schema.space.create('plain')
plain:create_index('pk', {parts = {{1, 'scalar'}}})
local function show(ok, ...)
    local problem = ...
    if not ok and type(problem) == 'cdata' then
        print('error', problem.code)
    elseif not ok then
        print('error', (tostring(problem):gsub('^.-%.lua:%d+: ', '')))
    else
        print(require('json').encode({...}))
    end
end
local function try(name, f, ...) io.write(name, ' ') show(pcall(f, ...)) end
"""
EPILOGUE = """
try('rows', function() return s:select() end)
try('plain', function() return plain:select() end)
try('by name', function() return s.index.by_name:select() end)
os.exit(0)
"""
VALUES = (
    "0", "1", "2", "3", "-1", "1.5", "2^53", "2^63", "'a'", "'b'", "''", "true", "false", "box.NULL", "{}", "{1}",
    "{a = 1}", "('x'):rep(3100)", "18446744073709551615ULL", "-5LL",
)  # fmt: skip


class Programs:
    """Makes random Lua statements over two spaces."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self) -> str:
        return self.random.choice(VALUES)

    def row(self) -> str:
        fields = [self.random.choice(("1", "2", "3", "4", self.value())), self.random.choice(("'a'", self.value()))]
        return "{" + ", ".join(fields[: self.random.choice((0, 1, 2, 2, 2, 2))]) + "}"

    def operations(self) -> str:
        # No fields beyond the end, where versions differ: 2.8 fills the gap with nulls, and does not delete there.
        operation = self.random.choice(("=", "+", "-", "!", "&", "|", "^", "?"))
        value = self.random.choice(VALUES[:-3])
        return f"{{{{'{operation}', {self.random.choice((1, 2))}, {value}}}}}"

    def statement(self) -> str:
        space = self.random.choice(("s", "s", "plain"))
        match self.random.randrange(9):
            case 0 | 1:
                return f"try('insert', {space}.insert, {space}, {self.row()})"
            case 2 | 3:
                return f"try('replace', {space}.replace, {space}, {self.row()})"
            case 4:
                return f"try('update', {space}.update, {space}, {self.value()}, {self.operations()})"
            case 5:
                return f"try('upsert', {space}.upsert, {space}, {self.row()}, {self.operations()})"
            case 6:
                return f"try('delete', {space}.delete, {space}, {self.value()})"
            case 7:
                iterator = self.random.choice(("EQ", "GE", "LT", "REQ", "ALL", "BITS_ALL_SET", "NOPE"))
                return f"try('select', {space}.select, {space}, {self.value()}, {{iterator = '{iterator}', limit = 9}})"
        return self.random.choice(("box.begin()", "box.commit()", "box.rollback()")).join(
            ("try('txn', function() ", " end)")
        )


def program(seed: int, count: int) -> str:
    programs = Programs(seed)
    return "\n".join((PRELUDE, *(programs.statement() for _ in range(count)), "pcall(box.rollback)", EPILOGUE))


def outcomes(executable: str, script: str, directory: Path) -> list[str]:
    directory.mkdir()
    (directory / "script.lua").write_text(script)
    done = subprocess.run(
        [executable, "script.lua"], cwd=directory, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("seed", range(4))
def test_generated_statements_end_as_in_tarantool(seed: int, tmp_path: Path) -> None:
    script = program(seed, 400)
    ours = outcomes(str(Path(sys.executable).with_name("lunabox")), script, tmp_path / "ours")
    theirs = outcomes("tarantool", script, tmp_path / "theirs")
    statements = [line for line in script.splitlines() if line.startswith("try(")]
    different = [
        (statement, mine, other)
        for statement, mine, other in zip(statements, ours, theirs, strict=True)
        if mine != other
    ]
    assert different == []
