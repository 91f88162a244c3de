"""The command line of `lunabox-export`, and what it finds without Spark."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from box import Node
from box.spark.export import main
from box.spark.export_options import exported_spaces, job_of
from box.spark.progress import bar

from .files import write


@pytest.mark.parametrize(
    "command",
    ["data goods --to parquet out", "--to parquet data goods out", "data --to parquet goods out --overwrite"],
)
def test_places_may_stand_between_options(command: str) -> None:
    job = job_of(command.split())
    assert (job.directory, job.space, job.output, job.args.to) == ("data", "goods", "out", "parquet")


def test_all_spaces_need_no_name_and_a_dry_run_no_output() -> None:
    job = job_of("data out --all --to csv".split())
    assert (job.directory, job.space, job.output) == ("data", None, "out")
    job = job_of("data goods --dry-run".split())
    assert (job.directory, job.space, job.output) == ("data", "goods", None)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("data --to csv", "3 arguments are needed, 1 given"),
        ("data goods out more --to csv", "3 arguments are needed, 4 given"),
        ("data goods out", "--to is needed: parquet, csv, json, orc"),
        ("data goods out --to xml", "invalid choice"),
        ("data goods out --to csv --partitions 0", "'0' is not a positive integer"),
    ],
)
def test_a_wrong_command_line_says_what_is_needed(command: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        job_of(command.split())
    assert caught.value.code == 2
    assert text in capsys.readouterr().err


def test_options_reach_the_data_source() -> None:
    job = job_of("d s o --to csv --as-of latest --log wal --columns a,b --skip-corrupt --rest more".split())
    options = {"path": "d", "space": "s", "as_of": "latest", "log": "wal", "columns": "a,b", "rest": "more"}
    assert job.options("s").items() >= options.items()
    assert job.options("s")["onCorrupt"] == "skip"
    assert "columns" not in job_of("d s o --to csv --columns a --where b=1".split()).options("s")


def test_a_dry_run_tells_schema_rows_and_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, [[1, "one", 0.5], [2, "two", None]])
    assert main([str(tmp_path), "goods", "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"space goods in {path}, {path.stat().st_size} bytes of files",
        "  id: bigint not null",
        "  name: string not null",
        "  price: double not null",
        "  2 rows",
    ]


def test_a_dry_run_counts_with_the_log_and_for_every_space(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def run() -> None:
        async with Node(tmp_path, log_level=0) as node:
            await node.eval(
                """
                for _, name in pairs{'one', 'two'} do box.schema.space.create(name):create_index('pk') end
                box.space.one:insert{1}
                box.snapshot()
                box.space.one:insert{2} box.space.two:insert{1}
                """
            )

    asyncio.run(run())
    assert exported_spaces(job_of([str(tmp_path), "--all", "--dry-run"])) == ["one", "two"]
    assert main([str(tmp_path), "--all", "--dry-run"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.endswith(" rows")] == [
        "  1 rows",
        "  0 rows",
    ]
    assert main([str(tmp_path), "--all", "--dry-run", "--as-of", "latest"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.endswith(" rows")] == ["2", "1"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["goods", "out", "--columns", "id,cost"], "--columns: there is no column 'cost'; there are: id, name, price"),
        (["goods", "out", "--partition-by", "day"], "--partition-by: there is no column 'day'"),
        (["stock", "out"], "Space 'stock' does not exist"),
        (["goods", "out", "--as-of", "soon"], "as_of 'soon' is neither"),
    ],
)
def test_what_is_wrong_is_said_before_spark_starts(
    tmp_path: Path, arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, [])
    assert main([str(tmp_path), *arguments, "--to", "csv"]) == 1
    assert text in capsys.readouterr().err


def test_the_bar_shows_parts_rows_a_second_and_the_time_left() -> None:
    assert bar("goods", 10, 40, 3_000_000, 5.0) == (
        "goods [#######.......................] 10 of 40 parts, 600,000 rows/s, 15 s left"
    )
    assert bar("goods", 0, 4, 0, 1.0) == "goods [..............................] 0 of 4 parts"
