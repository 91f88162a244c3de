"""Lunabox and Tarantool 2.8 go on in each other's directories of SQL tables: rows and constraints are the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from test.interop.test_indexes_tarantool import TARANTOOL, is_of_the_line

pytestmark = [
    pytest.mark.tarantool,
    pytest.mark.skipif(not is_of_the_line(), reason="no Tarantool 2.8 on PATH, nor in LUNABOX_TARANTOOL"),
]

_COMMON = """
box.cfg{log = 'node.log', log_level = 2}
local json = require('json')
local function run(text)
    local result, reason = box.execute(text)
    print(text .. ' -> ' .. (reason and tostring(reason) or json.encode(result.rows or result)))
end
"""
MAKE = (
    'CREATE TABLE p (id INTEGER PRIMARY KEY AUTOINCREMENT, code STRING NOT NULL UNIQUE COLLATE "unicode_ci",'
    " n INTEGER DEFAULT 5 CONSTRAINT positive CHECK (n > 0))",
    "CREATE TABLE c (id INTEGER PRIMARY KEY AUTOINCREMENT, p STRING REFERENCES p (code) ON DELETE CASCADE,"
    " d DOUBLE DEFAULT 1.5, b BOOLEAN DEFAULT true, v VARBINARY, s SCALAR, u UNSIGNED)",
    "CREATE TABLE q (a INTEGER, b INTEGER, PRIMARY KEY (a, b), CONSTRAINT other UNIQUE (b, a))",
    "CREATE INDEX by_n ON p (n)",
    "CREATE TABLE audit (id INTEGER PRIMARY KEY AUTOINCREMENT, note STRING)",
    "CREATE TRIGGER arrived AFTER INSERT ON p FOR EACH ROW BEGIN INSERT INTO audit VALUES (NULL, NEW.code); END",
    "CREATE TRIGGER changed AFTER UPDATE ON p FOR EACH ROW WHEN NEW.n > OLD.n"
    " BEGIN INSERT INTO audit VALUES (NULL, 'more ' || NEW.code); END",
    "CREATE VIEW seen (code, d) AS SELECT p.code, c.d FROM p JOIN c ON c.p = p.code",
    "ALTER TABLE q ADD CONSTRAINT small CHECK (a < 100)",
    "ALTER TABLE q ADD CONSTRAINT to_p FOREIGN KEY (a) REFERENCES p (id)",
)
LOOK = (
    "SELECT * FROM p",
    "SELECT id, p, d, b, HEX(v), s, u FROM c",
    "SELECT * FROM q",
    "SELECT * FROM audit",
    "SELECT * FROM seen",
    'SELECT "name", "opts" FROM "_trigger"',
    'SELECT "name", "code" FROM "_ck_constraint"',
    'SELECT "name", "on_delete", "child_cols", "parent_cols" FROM "_fk_constraint"',
    'SELECT "id", "iid", "name", "type", "opts", "parts" FROM "_index" WHERE "id" >= 512',
    'SELECT "id", "name", "field_count", "flags", "format" FROM "_space" WHERE "id" >= 512',
    "PRAGMA foreign_key_list(c)",
    "PRAGMA index_list(p)",
)


def work(mark: str, number: int) -> tuple[str, ...]:
    """Changes with a mark of their own, some of which a constraint refuses, and a change of the tables."""
    return (
        f"INSERT INTO p (code) VALUES ('{mark}'), ('{mark}x')",
        f"INSERT INTO p (code) VALUES ('{mark.upper()}')",
        f"INSERT INTO p (code, n) VALUES ('{mark}y', 0)",
        "INSERT INTO p (n) VALUES (1)",
        f"INSERT INTO c (p, v, s, u) VALUES ('{mark}', x'00ff', 'text', 18446744073709551615),"
        f" ('{mark}x', NULL, 2.5, 1)",
        "INSERT INTO c (p) VALUES ('nobody')",
        f"UPDATE p SET n = n + {number} WHERE code = '{mark}'",
        f"UPDATE p SET n = -n WHERE code = '{mark}'",
        f"DELETE FROM p WHERE code = '{mark}x'",
        f"INSERT INTO q SELECT id, {number} FROM p WHERE code = '{mark}'",
        f"INSERT INTO q VALUES (99, {number})",
        f"UPDATE q SET b = b + 50 WHERE b = {number}",
        f"DELETE FROM p WHERE code = '{mark}'",
        f"CREATE TABLE extra{number} (id INTEGER PRIMARY KEY, n INTEGER CHECK (n <> {number}), UNIQUE (n))",
        f"INSERT INTO extra{number} VALUES (1, {number + 1})",
        f"INSERT INTO extra{number} VALUES (2, {number})",
        f"INSERT INTO extra{number} VALUES (2, {number + 1})",
        "DROP INDEX by_n ON p",
        "CREATE INDEX by_n ON p (n)",
        f"ALTER TABLE q ADD CONSTRAINT not_{number} CHECK (b <> {number + 50})",
        f"INSERT INTO q VALUES (1, {number + 50})",
    )


def _script(statements: tuple[str, ...], *, snapshot: bool) -> str:
    runs = "\n".join(f"run([==[{text}]==])" for text in statements)
    return f"{_COMMON}{runs}\n{'box.snapshot()' if snapshot else ''}\nos.exit(0)\n"


def _run(executable: str, directory: Path, statements: tuple[str, ...], *, snapshot: bool = False) -> list[str]:
    directory.mkdir(exist_ok=True)
    (directory / "script.lua").write_text(_script(statements, snapshot=snapshot))
    done = subprocess.run(
        [executable, "script.lua"],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize("snapshot", [False, True], ids=["log", "snapshot"])
@pytest.mark.parametrize("first", ["lunabox", "tarantool"])
def test_each_goes_on_in_the_files_of_the_other(first: str, snapshot: bool, tmp_path: Path) -> None:
    """Three runs on one directory by turns print what three runs of Tarantool alone print."""
    assert TARANTOOL is not None
    lunabox = str(Path(sys.executable).with_name("lunabox"))
    turns = [lunabox, TARANTOOL, lunabox] if first == "lunabox" else [TARANTOOL, lunabox, TARANTOOL]
    runs = [(*MAKE, *work("a", 1), *LOOK), (*LOOK, *work("b", 2), *LOOK), (*LOOK, *work("c", 3), *LOOK)]
    for executable, statements in zip(turns, runs, strict=True):
        mixed = _run(executable, tmp_path / "mixed", statements, snapshot=snapshot)
        alone = _run(TARANTOOL, tmp_path / "alone", statements, snapshot=snapshot)
        assert mixed == alone
