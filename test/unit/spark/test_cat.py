"""`lunabox-cat` prints rows of a node's files, filtered and in three forms."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from box import Node
from box.spark.cat import main
from box.version import VERSION

SOURCE = """
    local s = box.schema.space.create('goods', {format = {{'id', 'unsigned'}, {'name', 'string'}}})
    s:create_index('pk')
    s:insert{1, 'pear'}
    box.snapshot()
    s:replace{2, 'fig'}
    s:update(2, {{'=', 2, 'dried fig'}})
    s:upsert({3, 'plum'}, {{'=', 2, 'prune'}})
    s:delete(1)
    box.begin() s:insert{4, 'a'} s:insert{5, 'b'} box.commit()
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("cat")

    async def run() -> None:
        async with Node(directory, log_level=0) as node:
            await node.eval(SOURCE)

    asyncio.run(run())
    return directory


def cat(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main([str(argument) for argument in arguments]) == 0
    return capsys.readouterr().out


def snapshot(data: Path) -> Path:
    return max(data.glob("*.snap"))


def log(data: Path) -> Path:
    """Return the log file with the changes; a node leaves another, empty one when it stops."""
    return sorted(data.glob("*.xlog"))[-2]


def test_every_row_is_a_yaml_document(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row for row in yaml.safe_load_all(cat(capsys, log(data))) if row]
    assert [row["HEADER"]["type"] for row in rows] == ["REPLACE", "UPDATE", "UPSERT", "DELETE", "INSERT", "INSERT"]
    assert rows[0]["BODY"] == {"space": "goods", "space_id": 512, "tuple": [2, "fig"]}
    assert rows[1]["BODY"]["key"] == [2]
    assert rows[1]["BODY"]["tuple"] == [["=", 2, "dried fig"]]
    assert rows[5]["HEADER"]["tsn"] == rows[4]["HEADER"]["lsn"]


def test_every_row_is_a_line_of_json(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [json.loads(line) for line in cat(capsys, "--format", "json", snapshot(data), log(data)).splitlines()]
    assert len(rows) == 7
    assert rows[0]["BODY"]["tuple"] == [1, "pear"]
    assert rows[0]["HEADER"]["type"] == "INSERT"


def test_a_table_has_a_heading_and_a_line_for_each_row(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = cat(capsys, "--format", "table", log(data)).splitlines()
    assert lines[0].split() == ["lsn", "id", "time", "type", "space", "body"]
    assert len(lines) == 7
    assert lines[1].split()[3:] == ["REPLACE", "goods", "tuple=[2,", '"fig"]']


def test_rows_are_chosen_by_space_lsn_replica_and_operation(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def chosen(*arguments: object) -> list[dict[str, dict[str, object]]]:
        return [json.loads(line) for line in cat(capsys, "--format", "json", log(data), *arguments).splitlines()]

    every = chosen()
    first = every[0]["HEADER"]["lsn"]
    assert isinstance(first, int)
    assert chosen("--space", "goods") == chosen("--space", 512) == every
    assert chosen("--space", "other") == []
    assert [row["HEADER"]["lsn"] for row in chosen("--from", first + 1, "--to", first + 2)] == [first + 1, first + 2]
    assert chosen("--replica", 1) == every
    assert chosen("--replica", 2) == []
    assert [row["HEADER"]["type"] for row in chosen("--operation", "delete", "--operation", "Upsert")] == [
        "UPSERT",
        "DELETE",
    ]


def test_system_spaces_are_shown_on_demand(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = cat(capsys, "--format", "json", "--show-system", snapshot(data)).splitlines()
    assert len(shown) > 300
    by_name = cat(capsys, "--format", "json", "--space", "_space", snapshot(data)).splitlines()
    assert {json.loads(line)["BODY"]["space_id"] for line in by_name} == {280}


def test_an_unknown_operation_is_named(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([str(log(data)), "--operation", "drop"])
    assert "'drop' is none of: insert, replace, update, delete" in capsys.readouterr().err


def test_what_is_wrong_names_file_and_position(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "missing.xlog")]) == 1
    assert "failed to open" in capsys.readouterr().err
    text = tmp_path / "text.xlog"
    text.write_text("hello\n\n")
    assert main([str(text)]) == 1
    assert f"lunabox-cat: {text}: " in capsys.readouterr().err
    damaged = bytearray(log(data).read_bytes())
    damaged[-10] ^= 0xFF
    broken = tmp_path / log(data).name
    broken.write_bytes(damaged)
    assert main([str(broken)]) == 1
    assert f"{broken}: tx checksum mismatch at " in capsys.readouterr().err
    assert main([str(broken), "--skip-corrupt"]) == 0
    assert re.search(r"skipped the block at \d+: tx checksum mismatch", capsys.readouterr().err)


def test_a_log_that_is_cut_off_ends_there_and_a_snapshot_is_an_error(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / log(data).name
    cut.write_bytes(log(data).read_bytes()[:-8])
    assert len(cat(capsys, "--format", "json", cut).splitlines()) < 6
    cut = tmp_path / snapshot(data).name
    cut.write_bytes(snapshot(data).read_bytes()[:-8])
    assert main([str(cut)]) == 1
    assert "no EOF marker" in capsys.readouterr().err


def test_a_reader_that_has_enough_ends_the_command_quietly(data: Path) -> None:
    command = f"{sys.executable} -m box.spark.cat --show-system {snapshot(data)} | head -n 1"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=60)
    assert (ran.stdout, ran.stderr) == ("---\n", "")


WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, *_):
        if name in ("pyarrow", "pyspark", "numpy", "numba", "fsspec"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from box.spark import entry_points
sys.exit(entry_points.%s())
"""


def run_without(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command without the packages of the extra `spark`."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT % command, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_missing_package_of_the_export_is_named() -> None:
    """`lunabox-export` without the extra's packages names the first one."""
    run = run_without("export", "data", "goods", "--to", "csv", "out")
    assert run.returncode == 2
    assert run.stderr == "lunabox-export: numpy is not installed: pip install '.[spark]' in a clone of Lunabox\n"


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--help"], 0, "--dry-run"),
        (["--version"], 0, f"lunabox-export {VERSION}"),
        (["data"], 2, "3 arguments are needed, 1 given"),
    ],
)
def test_the_command_line_of_the_export_needs_no_package(arguments: list[str], code: int, text: str) -> None:
    run = run_without("export", *arguments)
    assert run.returncode == code
    assert text in run.stdout + run.stderr


def test_cat_needs_no_extra(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`lunabox-cat` works without extras, with names of spaces, which for a log come from the snapshot."""
    run = run_without("cat", "--format", "json", str(log(data)))
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == cat(capsys, "--format", "json", log(data))


@pytest.mark.parametrize(
    ("redirection", "code", "text"),
    [
        (">/dev/full", 1, "lunabox-cat: standard output: No space left on device\n"),
        (">&-", 0, ""),
        ("2>&- >/dev/full", 1, ""),
    ],
)
def test_output_that_cannot_be_written(data: Path, redirection: str, code: int, text: str) -> None:
    """A full disk is reported in a line; an output that is closed is wanted by nobody."""
    source = "import sys; from box.spark import entry_points; sys.exit(entry_points.cat())"
    command = shlex.join([sys.executable, "-c", source, str(log(data))])
    run = subprocess.run(
        f"{command} {redirection}", shell=True, capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, run.stderr) == (code, text)


def test_a_file_that_cannot_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["/proc/self/mem"]) == 1
    assert "lunabox-cat: failed to read '/proc/self/mem' file: Input/output error" in capsys.readouterr().err


def test_a_space_without_rows_is_reported(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--space", "nosuch", "--space", "goods", "--space", "77", str(log(data))]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "lunabox-cat: no row of a space '77'",
        "lunabox-cat: no row of a space 'nosuch'; "
        "a log alone has ids only, a snapshot beside it has the names of spaces",
    ]


def test_a_directory_is_refused_with_advice(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(data)]) == 1
    advice = f"{data} is a directory: name files in it, such as {data}/*.snap"
    assert capsys.readouterr().err == f"lunabox-cat: {advice}\n"
