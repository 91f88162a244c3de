"""`lunabox sql` runs queries on files, while a node uses them and afterwards."""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io
import json
import shutil
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest
import yaml

from box import BoxError, Node
from box.sync import Node as BlockingNode
from console.commands.sql import main

ROWS = [{"ID": 1, "NAME": "pear", "PRICE": 2.5}, {"ID": 2, "NAME": 'a "b", c', "PRICE": None}]


async def fill(node: Node) -> None:
    """Write a snapshot with one row, and another row in the log."""
    await node.execute("CREATE TABLE goods (id INTEGER PRIMARY KEY, name STRING, price DOUBLE)")
    await node.execute("INSERT INTO goods VALUES (1, 'pear', 2.5)")
    await node.eval("box.snapshot()")
    await node.execute("INSERT INTO goods VALUES (2, 'a \"b\", c', NULL)")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files") / "data"

    async def work() -> None:
        async with Node(path) as node:
            await fill(node)

    asyncio.run(work())
    return path


def digests(directory: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in directory.iterdir()}


def test_rows_as_a_table(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = digests(directory)
    assert main([str(directory), "SELECT id, name, price FROM goods ORDER BY id"]) == 0
    output = capfd.readouterr()
    assert output.out.splitlines() == [
        "ID │ NAME     │ PRICE",
        "───┼──────────┼──────",
        " 1 │ pear     │   2.5",
        ' 2 │ a "b", c │  null',
        "2 rows",
    ]
    assert output.err == ""
    assert digests(directory) == before


def test_other_forms(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    query = [str(directory), "SELECT * FROM goods ORDER BY id", "--format"]
    assert main([*query, "json"]) == 0
    assert [json.loads(line) for line in capfd.readouterr().out.splitlines()] == ROWS
    assert main([*query, "csv"]) == 0
    assert list(csv.reader(io.StringIO(capfd.readouterr().out))) == [
        ["ID", "NAME", "PRICE"],
        ["1", "pear", "2.5"],
        ["2", 'a "b", c', ""],
    ]
    assert main([*query, "yaml"]) == 0
    assert yaml.safe_load(capfd.readouterr().out) == ROWS


def test_equal_names_stay_apart(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([str(directory), 'SELECT 1 AS a, 2 AS a, 3 AS "A_2"', "--format", "json"]) == 0
    assert sorted(json.loads(capfd.readouterr().out).values()) == [1, 2, 3]


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("SELECT FROM", "Syntax error at line 1 near 'FROM'"),
        ("SELECT * FROM nothing", "Space 'NOTHING' does not exist"),
        ("DELETE FROM goods", "Can't modify data because this instance is in read-only mode."),
        ("DROP TABLE goods", "Can't modify data because this instance is in read-only mode."),
        ("CREATE TABLE t (id INT PRIMARY KEY)", "Can't modify data because this instance is in read-only mode."),
    ],
)
def test_errors_have_the_texts_of_the_node(
    directory: Path, capfd: pytest.CaptureFixture[str], statement: str, text: str
) -> None:
    before = digests(directory)
    assert main([str(directory), statement]) == 1
    assert capfd.readouterr() == ("", f"lunabox sql: {text}\n")
    assert digests(directory) == before


def test_a_snapshot_without_the_log(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    newest = max(directory.glob("*.snap"))
    assert main([str(newest), "SELECT COUNT(*) AS n FROM goods", "--format", "json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"N": 1}
    assert main([str(newest), "SELECT COUNT(*) AS n FROM goods", "--format", "json", "--log", str(directory)]) == 0
    assert json.loads(capfd.readouterr().out) == {"N": 2}


def test_a_node_runs_on_the_directory(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Queries on the files of a running node have its acknowledged rows, but not transactions without a quorum."""

    async def work() -> None:
        async with Node(tmp_path, replication_synchro_quorum=2, replication_synchro_timeout=1000) as node:
            await fill(node)
            space = await node.schema.create_space("agreed", format=[("id", "unsigned")], is_sync=True)
            await space.create_index("pk")
            waiting = asyncio.create_task(space.insert([1]))
            query = 'SELECT COUNT(*), (SELECT COUNT(*) FROM "agreed") FROM goods'
            assert await asyncio.to_thread(main, [str(tmp_path), query, "--format", "csv"]) == 0
            waiting.cancel()
            assert len(await node.execute("SELECT * FROM goods")) == 2

    asyncio.run(work())
    assert capfd.readouterr().out.splitlines()[1] == "2,0"


def test_options_before_the_statement(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--format", "csv", "DIR", "QUERY"], ["DIR", "--format", "csv", "QUERY"]):
        names = {"DIR": str(directory), "QUERY": "SELECT COUNT(*) AS n FROM goods"}
        assert main([names.get(argument, argument) for argument in arguments]) == 0
        assert capfd.readouterr().out.splitlines() == ["N", "2"]


def test_a_name_that_sql_has_folded_is_explained(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Whoever creates `goods` in Lua or Python has to quote it in SQL."""

    async def work() -> None:
        async with Node(tmp_path) as node:
            space = await node.schema.create_space("Goods", format=[("id", "unsigned")])
            await space.create_index("pk")
            await node.eval("box.snapshot()")
            for run in (node.execute, node.prepare):
                with pytest.raises(BoxError) as caught:
                    await run("SELECT * FROM goods")
                assert caught.value.__notes__ == [ADVICE]
            with pytest.raises(BoxError) as caught:
                await node.execute("SELECT * FROM other")
            assert not hasattr(caught.value, "__notes__")

    asyncio.run(work())
    assert main([str(tmp_path), "SELECT * FROM goods"]) == 1
    assert capfd.readouterr().err.splitlines() == ["lunabox sql: Space 'GOODS' does not exist", ADVICE]
    with BlockingNode(tmp_path) as node, pytest.raises(BoxError) as caught:
        node.execute("SELECT * FROM goods")
    assert caught.value.__notes__ == [ADVICE]


ADVICE = 'SQL folds names without quotes to upper case: write "Goods" in double quotes.'


def test_directories_without_files(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "SELECT 1"]) == 1
    assert main([str(tmp_path / "x"), "SELECT 1"]) == 1
    assert main([str(tmp_path / "x.snap"), "SELECT 1"]) == 1
    assert capfd.readouterr().err.splitlines() == [
        f"lunabox sql: There is no snapshot in {tmp_path}: run box.snapshot() on its node first",
        f"lunabox sql: error reading directory '{tmp_path}/x': No such file or directory",
        f"lunabox sql: There is no snapshot {tmp_path}/x.snap",
    ]
    (tmp_path / f"{9:020d}.snap").write_text("cut")
    assert main([str(tmp_path), "SELECT 1"]) == 1
    error = capfd.readouterr().err
    assert error == f"lunabox sql: No snapshot in {tmp_path} can be read\n"


def test_files_that_are_cut_off(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The error names the file by the path that the user gave, or at least the directory, and the option that helps."""
    shutil.copytree(directory, tmp_path / "cut")
    monkeypatch.chdir(tmp_path)
    snapshot = max(Path("cut").glob("*.snap"))
    snapshot.write_bytes(snapshot.read_bytes()[:-4])
    assert main(["cut/", "SELECT 1"]) == 1
    assert capfd.readouterr().err == f"lunabox sql: snapshot `{snapshot}' has no EOF marker\n"
    assert main([str(snapshot), "SELECT 1"]) == 1
    assert capfd.readouterr().err == f"lunabox sql: snapshot `{snapshot}' has no EOF marker\n"
    snapshot.write_bytes(b"")
    assert main(["cut", "SELECT 1"]) == 1
    assert capfd.readouterr().err == "lunabox sql: cut: Unexpected end of file, run with --skip-corrupt\n"


def test_broken_files(directory: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Broken files are an error, or are skipped with a line for each."""
    for file in directory.iterdir():
        content = bytearray(file.read_bytes())
        if b'a "b", c' in content:
            place = content.index(b'a "b", c')
            content[place - 16 : place] = bytes(16)
        (tmp_path / file.name).write_bytes(content)
    assert main([str(tmp_path), "SELECT 1"]) == 1
    first = capfd.readouterr()
    assert (first.out, len(first.err.splitlines())) == ("", 1)
    assert main([str(tmp_path), "SELECT COUNT(*) FROM goods", "--skip-corrupt", "--format", "csv"]) == 0
    second = capfd.readouterr()
    assert second.out.splitlines()[1] == "1"
    assert second.err


def test_many_rows_are_each_written_once(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Rows are formatted in slices."""
    query = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r WHERE x < 2500) SELECT x FROM r"
    assert main([str(directory), query, "--format", "csv"]) == 0
    assert capfd.readouterr().out.split() == ["X", *map(str, range(1, 2501))]
    assert main([str(directory), query, "--format", "json"]) == 0
    assert [json.loads(line)["X"] for line in capfd.readouterr().out.splitlines()] == list(range(1, 2501))


def test_repeated_names_get_numbers_in_json(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([str(directory), "SELECT 1 AS a, 2 AS a, 3 AS a", "--format", "json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"A": 1, "A_2": 2, "A_3": 3}


def test_help_succeeds(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "lunabox sql" in capfd.readouterr().out


def test_values_of_other_types_have_no_quotes_in_a_table(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    number = UUID("4750b471-8346-45db-8d61-4170fd51be33")
    with BlockingNode(tmp_path / "data") as node:
        space = node.schema.create_space("t", format=[("id", "uuid"), ("price", "decimal")])
        space.create_index("pk")
        space.insert([number, Decimal("1.50")])
    assert main([str(tmp_path / "data"), 'SELECT * FROM "t"']) == 0
    (row,) = capfd.readouterr().out.splitlines()[2:3]
    assert [cell.strip() for cell in row.split("│")] == [str(number), "1.50"]


def test_the_directory_of_the_log_may_be_relative(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is found from where the command runs, not from the directory of the snapshots."""
    newest = max(directory.glob("*.snap"))
    monkeypatch.chdir(directory.parent)
    query = "SELECT COUNT(*) AS n FROM goods"
    assert main([str(newest), query, "--format", "json", "--log", directory.name]) == 0
    assert json.loads(capfd.readouterr().out) == {"N": 2}
