"""Spark passes conditions and columns to the data source, which skips rows, columns and blocks that are not needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .spark_files import FORMAT, NEEDS_SPARK, make_snapshot

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

pytestmark = NEEDS_SPARK

ROWS = 30_000
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("pushdown") / "data"
    make_snapshot(
        directory,
        f"""
        local s = box.schema.space.create('goods')
        s:format({{{{'id', 'unsigned'}}, {{'name', 'string'}}, {{'value', 'number', is_nullable = true}}}})
        s:create_index('pk')
        for i = 1, {ROWS} do s:insert{{i, 'name ' .. i % 100, i % 10 ~= 0 and i / 4 or box.NULL}} end
        """,
    )
    return directory


@pytest.fixture(params=[False, True], ids=["off", "on"])
def pushdown(request: pytest.FixtureRequest, spark: Any) -> Iterator[bool]:
    spark.conf.set(PUSHDOWN, str(request.param).lower())
    yield request.param
    spark.conf.unset(PUSHDOWN)


def load(spark: Any, data: Path, **options: object) -> Any:
    return spark.read.format("box").options(path=str(data), space="goods", **options).load()


@pytest.mark.parametrize("decoder", ["auto", "compiled"])
def test_conditions_give_the_same_rows_handed_over_or_not(spark: Any, data: Path, pushdown: bool, decoder: str) -> None:
    if decoder == "compiled":
        pytest.importorskip("numba", reason="the extra 'spark' is not installed")
    frame = load(spark, data, decoder=decoder)
    expected = [(i, f"name {i % 100}", i / 4 if i % 10 else None) for i in range(1, ROWS + 1)]
    conditions: dict[str, Any] = {
        "id = 77": lambda row: row[0] == 77,
        "id >= 29990 and id < 29995": lambda row: 29990 <= row[0] < 29995,
        "id in (1, 500, 999999)": lambda row: row[0] in (1, 500),
        "name = 'name 7' and id <= 1000": lambda row: row[1] == "name 7" and row[0] <= 1000,
        "name like 'name 9%' and id < 200": lambda row: row[1].startswith("name 9") and row[0] < 200,
        "value is null and id < 100": lambda row: row[2] is None and row[0] < 100,
        "not (value > 10) and id < 300": lambda row: row[2] is not None and row[2] <= 10 and row[0] < 300,
        "id < 0": lambda row: False,
    }
    if decoder == "auto":  # chooses Python for so few bytes; other tests compare the decoders
        conditions = dict(list(conditions.items())[:3])
    for condition, passes in conditions.items():
        found = sorted(tuple(row) for row in frame.where(condition).collect())
        assert found == [row for row in expected if passes(row)], condition


def test_spark_is_told_which_conditions_the_source_takes(
    spark: Any, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.conf.set(PUSHDOWN, "true")
    try:
        load(spark, data).where("id > 5 and name = 'x' and value * 2 > 1").explain(mode="formatted")
    finally:
        spark.conf.unset(PUSHDOWN)
    lines = capsys.readouterr().out.splitlines()
    (pushed,) = {line for line in lines if line.startswith("PushedFilters")}
    assert "GreaterThan(id,5)" in pushed
    assert "EqualTo(name,x)" in pushed


def test_columns_are_chosen_by_option_and_by_schema(spark: Any, data: Path) -> None:
    frame = load(spark, data, columns="value, id")
    assert frame.columns == ["value", "id"]
    assert frame.where("id = 3").collect() == [(0.75, 3)]
    by_schema = spark.read.format("box").schema("name string").options(path=str(data), space="goods").load()
    assert by_schema.distinct().count() == 100


def test_rows_are_counted_without_columns(spark: Any, data: Path) -> None:
    assert load(spark, data, columns="").count() == ROWS


def test_an_unknown_column_is_named(spark: Any, data: Path) -> None:
    with pytest.raises(Exception, match="the space has no column 'cost'; it has: id, name, value"):
        load(spark, data, columns="cost")


def test_several_directories_are_one_table_with_their_instances(spark: Any, tmp_path: Path) -> None:
    for number in (1, 2):
        make_snapshot(
            tmp_path / f"node{number}",
            f"""
            local s = box.schema.space.create('goods', {{format = {FORMAT}}})
            s:create_index('pk')
            s:insert{{{number}, 'of {number}', 0.5}}
            """,
        )
    reader = spark.read.format("box").option("space", "goods")
    by_list = reader.load([str(tmp_path / "node1"), f"file:{tmp_path}/node2"])
    by_glob = reader.load(f"{tmp_path}/node*")
    assert by_list.columns == ["id", "name", "value", "instance"]
    rows = sorted(tuple(row) for row in by_list.collect())
    assert [row[:3] for row in rows] == [(1, "of 1", 0.5), (2, "of 2", 0.5)]
    assert len({row[3] for row in rows}) == 2
    assert sorted(tuple(row) for row in by_glob.collect()) == rows
    assert [row.id for row in by_glob.where(f"instance = '{rows[1][3]}'").collect()] == [2]


def test_a_glob_without_a_match_is_named(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"no file or directory matches '.*/none\*'"):
        spark.read.format("box").option("space", "goods").load(f"{tmp_path}/none*")
