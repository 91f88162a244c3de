"""The Spark data source and `lunabox-export` read spaces from the directory of a node that does not run."""

from __future__ import annotations

import asyncio
import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from box import Node
from box.data.codec import unpack

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")
pyarrow_parquet = pytest.importorskip("pyarrow.parquet", reason="the extra 'spark' is not installed")

from .spark_files import FORMAT, NEEDS_SPARK, make_snapshot  # noqa: E402

pytestmark = NEEDS_SPARK


def test_a_space_is_a_data_frame(spark: Any, tmp_path: Path) -> None:
    make_snapshot(
        tmp_path,
        f"""
        local s = box.schema.space.create('goods', {{format = {FORMAT}}})
        s:create_index('pk')
        for i = 1, 20000 do s:insert{{i, 'name ' .. i, i + 0.25}} end
        """,
    )
    frame = spark.read.format("box").option("path", str(tmp_path)).option("space", "goods").load()
    assert frame.schema.simpleString() == "struct<id:bigint,name:string,value:double>"
    assert frame.rdd.getNumPartitions() > 1
    assert frame.count() == 20000
    assert frame.where("id = 77").collect()[0].asDict() == {"id": 77, "name": "name 77", "value": 77.25}


def test_every_field_type_has_a_column(spark: Any, tmp_path: Path) -> None:
    make_snapshot(
        tmp_path,
        """
        local s = box.schema.space.create('types', {format = {
            {'id', 'unsigned'}, {'i', 'integer'}, {'n', 'number'}, {'b', 'boolean'}, {'s', 'scalar'},
            {'a', 'array'}, {'m', 'map'}, {'nothing', 'string', is_nullable = true},
        }})
        s:create_index('pk')
        s:insert{1, -5, 1.5, true, 'text', {1, 'two'}, {key = 'value'}, box.NULL, 'more'}
        """,
    )
    reader = spark.read.format("box").option("path", str(tmp_path)).option("space", "types").option("rest", "rest")
    (row,) = reader.load().collect()
    assert row.asDict() == {
        "id": 1,
        "i": -5,
        "n": 1.5,
        "b": True,
        "s": '"text"',
        "a": '[1, "two"]',
        "m": '{"key": "value"}',
        "nothing": None,
        "rest": '["more"]',
    }


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"space": "nothing"}, "Space 'nothing' does not exist"),
        ({}, "option 'space' is required"),
        ({"space": "goods", "colour": "red"}, "unexpected option 'colour'"),
        ({"space": "goods", "partitions": "many"}, "option 'partitions' must be a positive integer"),
    ],
)
def test_wrong_options_have_a_clear_error(spark: Any, tmp_path: Path, options: dict[str, str], text: str) -> None:
    make_snapshot(tmp_path, "box.schema.space.create('goods'):create_index('pk')")
    with pytest.raises(Exception, match=text):
        spark.read.format("box").option("path", str(tmp_path)).options(**options).load().count()


def test_the_log_counts_at_a_moment(spark: Any, tmp_path: Path) -> None:
    async def run() -> None:
        async with Node(tmp_path, log_level=0) as node:
            await node.eval(
                f"""
                local s = box.schema.space.create('goods', {{format = {FORMAT}}})
                s:create_index('pk')
                for i = 1, 1000 do s:insert{{i, 'name ' .. i, i + 0.25}} end
                box.snapshot()
                for i = 991, 1010 do s:upsert({{i, 'new', 0.5}}, {{{{'=', 2, 'changed'}}}}) end
                s:delete(1)
                """
            )

    asyncio.run(run())
    frame = spark.read.format("box").options(path=str(tmp_path), space="goods", as_of="latest").load()
    assert frame.count() == 1009
    assert frame.where("name = 'changed'").count() == 10
    with pytest.raises(Exception, match=r"the log ends at .* is not reached yet"):
        spark.read.format("box").options(path=str(tmp_path), space="goods", as_of="99999").load()


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_the_command_exports_text_formats(tmp_path: Path, kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    from box.spark.export import main

    data = tmp_path / "data"
    data.mkdir()
    make_snapshot(
        data,
        f"""
        local s = box.schema.space.create('goods', {{format = {FORMAT}}})
        s:create_index('pk')
        s:insert{{1, 'pear, "ripe"', 2.5}} s:insert{{2, 'fig', 1.5}}
        """,
    )
    out = tmp_path / "out"
    assert main([str(data), "goods", "--to", kind, str(out), "--master", "local[2]"]) == 0
    assert re.search(
        r"2 rows of space goods written to .* \(\d+\.\d s, [\d,]+ rows/s\)$", capfd.readouterr().out, re.MULTILINE
    )
    lines = [line for part in sorted(out.glob(f"part-*.{kind}")) for line in part.read_text().splitlines()]
    if kind == "json":
        rows = [json.loads(line) for line in lines]
    else:
        body = [line for line in lines if not line.startswith("id,")]
        rows = [dict(zip(("id", "name", "value"), row, strict=True)) for row in csv.reader(body, escapechar="\\")]
    assert sorted((int(row["id"]), row["name"], float(row["value"])) for row in rows) == [
        (1, 'pear, "ripe"', 2.5),
        (2, "fig", 1.5),
    ]


def test_the_command_exports_every_space_as_asked_for(
    spark: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from box.spark.export import main

    async def run() -> None:
        async with Node(tmp_path / "data", log_level=0) as node:
            await node.eval(
                f"""
                for _, name in pairs{{'one', 'two'}} do
                    local s = box.schema.space.create(name, {{format = {FORMAT}}})
                    s:create_index('pk')
                    for i = 1, 100 do s:insert{{i, 'name ' .. i % 2, i + 0.5}} end
                end
                box.snapshot()
                box.space.two:insert{{101, 'name 1', 0.5}}
                """
            )

    (tmp_path / "data").mkdir()
    asyncio.run(run())
    options = "--all --to orc --as-of latest --where value<51 --columns id,name --partition-by name".split()
    options += "--compression zlib --progress".split()
    assert main([str(tmp_path / "data"), str(tmp_path / "out"), *options]) == 0
    out = capfd.readouterr().out
    assert "50 rows of space one written" in out
    assert "51 rows of space two written" in out
    assert sorted(path.name for path in (tmp_path / "out" / "two").iterdir() if path.is_dir()) == [
        "name=name 0",
        "name=name 1",
    ]
    back = spark.read.orc(str(tmp_path / "out" / "two"))
    assert sorted(row.id for row in back.where("name = 'name 1'").collect()) == [*range(1, 51, 2), 101]
    assert main([str(tmp_path / "data"), str(tmp_path / "out"), *options]) == 1
    assert "already exists" in capfd.readouterr().err


def test_the_command_tells_what_is_wrong(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from box.spark.export import main

    assert main([str(tmp_path / "missing"), "s", "--to", "csv", str(tmp_path / "out")]) == 1
    assert "can't read directory" in capfd.readouterr().err
    assert main([str(tmp_path), "s", "--to", "csv", str(tmp_path / "out")]) == 1
    assert "Can't find snapshot" in capfd.readouterr().err


@pytest.mark.slow
def test_many_tuples_in_parquet_equal_the_space(spark: Any, tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    expected: dict[int, tuple[str, float]] = {}

    async def fill() -> None:
        async with Node(data, wal_mode="none", log_level=0, memtx_memory=1 << 30) as node:
            await node.eval(
                f"""
                local s = box.schema.space.create('big', {{format = {FORMAT}}})
                s:create_index('pk')
                for i = 1, 200000 do s:replace{{i, 'name of ' .. i * 7 % 1000003, i * 0.5 + 0.25}} end
                box.snapshot()
                """
            )
            core = node._embedding.core
            for raw in core.tuples.read_view(core.schema.space_by_name("big")):
                number, name, value = unpack(raw)
                expected[number] = (name, value)

    asyncio.run(fill())
    assert len(expected) == 200_000
    frame = spark.read.format("box").option("path", str(data)).option("space", "big").load()
    frame.write.parquet(str(out))
    seen = 0
    for part in sorted(out.glob("part-*.parquet")):
        table = pyarrow_parquet.read_table(part)
        columns = [table.column(name).to_pylist() for name in ("id", "name", "value")]
        for number, name, value in zip(*columns, strict=True):
            assert expected.pop(number) == (name, value)
            seen += 1
    assert (seen, expected) == (200_000, {})


def test_a_query_over_a_directory(spark: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`lunabox sql --master` offers spaces as views that include the log, and refuses statements other than queries."""
    from console.commands.sql import main

    make_snapshot(
        tmp_path,
        f"""
        local s = box.schema.space.create('goods', {{format = {FORMAT}}})
        s:create_index('pk')
        for i = 1, 100 do s:insert{{i, 'name ' .. i % 7, i + 0.25}} end
        """,
    )

    def ask(statement: str, *options: str) -> int:
        return main([str(tmp_path), statement, "--master", "local[2]", *options])

    query = "SELECT name, count(*) AS n FROM goods WHERE id < 50 GROUP BY name ORDER BY name LIMIT 2"
    assert ask(query, "--format", "json") == 0
    assert [json.loads(line) for line in capfd.readouterr().out.splitlines()] == [
        {"name": "name 0", "n": 7},
        {"name": "name 1", "n": 7},
    ]
    assert ask("SELECT * FROM nothing") == 1
    assert "nothing" in capfd.readouterr().err
    assert ask("SELECT FROM FROM") == 1
    assert "FROM" in capfd.readouterr().err
    for change in ("INSERT INTO goods VALUES (1, '', 1)", "CREATE TABLE t (id INT)", "DROP VIEW goods"):
        assert ask(change) == 1
        assert "none" in capfd.readouterr().err
