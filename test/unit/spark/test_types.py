"""Columns in requested types, and values that do not fit them, by both decoders."""

from __future__ import annotations

import datetime
import struct
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgpack
import pyarrow as pa
import pytest

from box.data.times.points import Interval
from box.errors import BoxError
from box.spark.columns import adopted
from box.spark.reference import arrow_type
from box.spark.source_options import SourceOptions
from box.spark.table import Table

from .files import write
from .test_as_of import decoders

FIELDS = [
    {"name": "id", "type": "unsigned"},
    {"name": "x", "type": "any"},
    {"name": "a", "type": "array"},
    {"name": "m", "type": "map"},
    {"name": "t", "type": "datetime", "is_nullable": True},
    {"name": "d", "type": "decimal", "is_nullable": True},
]
NOON = datetime.datetime(2026, 1, 31, 12, 0, 0, 250_000, datetime.UTC)


def stamp(seconds: int, nanoseconds: int = 0, offset: int = 0) -> msgpack.ExtType:
    data = (
        struct.pack("<q", seconds)
        if not (nanoseconds or offset)
        else struct.pack("<qihh", seconds, nanoseconds, offset, 0)
    )
    return msgpack.ExtType(4, data)


ROWS: list[list[Any]] = [
    [1, 5, [1.5, 2], {"k": 1}, stamp(int(NOON.timestamp()), 250_000_999, 180), Decimal("12.34")],
    [2, "text", [], {}, None, None],
    [3, None, [None], {"k": 2, "l": None}, stamp(-1), Decimal(-1)],
]


def read(path: Path, decoder: str, types: dict[str, pa.DataType] | None = None, **options: str) -> list[dict[str, Any]]:
    """Read all rows; `types` are requested types that differ from the columns' own."""
    table = Table.open(SourceOptions.of({"path": str(path), "space": "goods", "decoder": decoder, **options}))
    columns = [
        adopted(column, column.type, types[column.name]) if types and column.name in types else column
        for column in table.columns
    ]
    schema = pa.schema([pa.field(column.name, arrow_type(column), column.is_nullable) for column in columns])
    batches = [batch for share in table.shares(()) for batch in table.read(share, columns, schema, ())]
    return sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: str(row["id"]))


@pytest.mark.parametrize("decoder", decoders())
def test_datetimes_of_newer_peers_are_timestamps(tmp_path: Path, decoder: str) -> None:
    rows = read(write(tmp_path, ROWS, fields=FIELDS), decoder)
    assert [row["t"] for row in rows] == [NOON, None, datetime.datetime(1969, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)]


def test_spark_reads_datetimes(tmp_path: Path) -> None:
    """The reader that Spark uses takes columns of timestamps."""
    pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")
    from pyspark.sql.types import StructType, TimestampType

    from box.spark.source import BoxDataSource

    write(tmp_path, ROWS, fields=FIELDS)
    source = BoxDataSource({"path": str(tmp_path), "space": "goods"})
    reader = source.reader(StructType().add("t", TimestampType(), True))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    found = [row["t"] for batch in batches for row in batch.to_pylist()]
    assert NOON in found
    assert len(found) == 3


@pytest.mark.parametrize("decoder", decoders())
def test_intervals_of_newer_versions_are_structs_of_their_parts(tmp_path: Path, decoder: str) -> None:
    fields = [{"name": "id", "type": "unsigned"}, {"name": "v", "type": "interval"}, {"name": "x", "type": "any"}]
    fields[1]["is_nullable"] = fields[2]["is_nullable"] = True  # type: ignore[assignment]
    month = Interval(year=-1, month=2, week=3, day=2**40, hour=-5, min=6, sec=7, nsec=-8, adjust="last")
    rows = read(write(tmp_path, [[1, month, month], [2, None], [3, Interval()]], fields=fields), decoder)
    assert [row["v"] for row in rows] == [asdict(month), None, asdict(Interval())]
    text = "-1 years, 2 months, 3 weeks, 1099511627776 days, -5 hours, 6 minutes, 7 seconds, -8 nanoseconds"
    assert rows[0]["x"] == f'"{text}"'
    with pytest.raises(BoxError, match=r"column 'v': does not fit struct<year:int,.*: 5"):
        read(write(tmp_path / "other", [[1, 5]], fields=fields), decoder)
    assert [row["v"] for row in read(tmp_path / "other", decoder, misfits="null")] == [None]


@pytest.mark.parametrize("decoder", decoders())
def test_mixed_values_have_the_form_that_is_asked_for(tmp_path: Path, decoder: str) -> None:
    path = write(tmp_path, ROWS, fields=FIELDS)
    (first, second, third) = read(path, decoder)
    assert (first["x"], first["a"], first["m"]) == ("5", "[1.5, 2]", '{"k": 1}')
    assert (second["x"], third["x"]) == ('"text"', None)
    (first, second, third) = read(path, decoder, any_as="binary", array_as="binary", map_as="binary")
    assert [msgpack.unpackb(first[name]) for name in ("x", "a", "m")] == [5, [1.5, 2], {"k": 1}]
    assert (second["a"], third["x"]) == (b"\x90", None)
    types = {"a": pa.list_(pa.float64()), "m": pa.map_(pa.string(), pa.int64())}
    (first, second, third) = read(path, decoder, types, array_as="array<double>", map_as="map<string,bigint>")
    assert (first["a"], first["m"]) == ([1.5, 2.0], [("k", 1)])
    assert (second["a"], second["m"]) == ([], [])
    assert (third["a"], third["m"]) == ([None], [("k", 2), ("l", None)])
    types = {"m": pa.struct([("k", pa.int64()), ("l", pa.string())])}
    assert [row["m"] for row in read(path, decoder, types, map_as="struct<k:bigint,l:string>")] == [
        {"k": 1, "l": None}, {"k": None, "l": None}, {"k": 2, "l": None},
    ]  # fmt: skip


@pytest.mark.parametrize("decoder", decoders())
def test_decimals_have_the_precision_that_is_asked_for(tmp_path: Path, decoder: str) -> None:
    path = write(tmp_path, ROWS, fields=FIELDS)
    assert [row["d"] for row in read(path, decoder, decimal="20,2")] == [Decimal("12.34"), None, Decimal("-1.00")]
    with pytest.raises(BoxError, match=r"column 'd': does not fit a decimal\(20, 1\): Decimal\('12.34'\)"):
        read(path, decoder, decimal="20,1")


@pytest.mark.parametrize("decoder", decoders())
def test_misfits_are_errors_or_null_or_told(tmp_path: Path, decoder: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[list[Any]] = [[1, "one", 0.5], [2, 7, "x"], [2**63, "three", 1.5], [4, None, 2.5], [5, "five", 3.5]]
    path = write(tmp_path, rows)
    with pytest.raises(BoxError, match=r"column '(id|name|price)'"):
        read(path, decoder)
    found = read(path, decoder, misfits="null")
    assert [tuple(row.values()) for row in found] == [
        (1, "one", 0.5), (2, None, None), (4, None, 2.5), (5, "five", 3.5), (None, "three", 1.5),
    ]  # fmt: skip
    assert "3 values are null, because column '" in capsys.readouterr().err
    found = read(path, decoder, rejects="wrong")
    told = {str(row["id"]): row["wrong"] for row in found}
    assert told["1"] is told["4"] is told["5"] is None
    assert "column 'name': does not fit string: 7" in told["2"]
    assert "column 'price': does not fit double: 'x'" in told["2"]
    assert "does not fit a bigint" in told["None"]


def test_misfits_of_typed_columns_are_told(tmp_path: Path) -> None:
    path = write(tmp_path, [[1, 5], [2, "text"], [3, True]], fields=[FIELDS[0], FIELDS[1]])
    for decoder in decoders():
        found = read(path, decoder, {"x": pa.int64()}, any_as="bigint", rejects="wrong")
        assert [(row["id"], row["x"]) for row in found] == [(1, 5), (2, None), (3, None)]
        assert "'text' is no int64" in found[1]["wrong"]
        with pytest.raises(BoxError, match="column 'x': a value does not fit int64"):
            read(path, decoder, {"x": pa.int64()}, any_as="bigint")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"decimal": "39,2"}, "option 'decimal' must be precision and scale"),
        ({"decimal": "5,6"}, "option 'decimal' must be precision and scale"),
        ({"misfits": "skip"}, "option 'misfits' must be one of: fail, null"),
        ({"misfits": "fail", "rejects": "r"}, "option 'rejects' goes with 'misfits' null"),
    ],
)
def test_wrong_options_about_types_are_named(options: dict[str, str], text: str) -> None:
    with pytest.raises(BoxError, match=text):
        SourceOptions.of({"path": "p", "space": "s"} | options)
