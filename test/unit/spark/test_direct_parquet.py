"""Parquet written by Spark's tasks has the rows of the table, completely or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from box.errors import BoxError
from box.spark.direct_parquet import can_write, write_table
from box.spark.export import main
from box.spark.skips import SkipCount
from box.spark.source_options import SourceOptions
from box.spark.table import Table

from .files import goods, write

pq = pytest.importorskip("pyarrow.parquet", reason="the extra 'spark' is not installed")


class Local:
    """A fake Spark session that runs each task twice, as after a failure."""

    @property
    def sparkContext(self) -> Local:
        return self

    def parallelize(self, items: Iterable[Any], count: int) -> Local:
        self._items = list(items)
        return self

    def map(self, function: Callable[[Any], Any]) -> Local:
        for item in self._items:
            function(item)
        self._items = [function(item) for item in self._items]
        return self

    def collect(self) -> list[Any]:
        return self._items


def table_of(path: Path, **options: str) -> Table:
    return Table.open(SourceOptions.of({"path": str(path), "space": "goods", **options}))


def test_rows_are_written_once_whatever_the_attempts(tmp_path: Path) -> None:
    path = write(tmp_path / "data", goods(5000))
    out = tmp_path / "out"
    assert write_table(Local(), table_of(path), str(out), compression="zstd", overwrite=False) == 5000
    names = sorted(item.name for item in out.iterdir())
    assert names[0] == "_SUCCESS"
    assert all(name.endswith(".zstd.parquet") for name in names[1:])
    rows = [tuple(row.values()) for name in names[1:] for row in pq.read_table(out / name).to_pylist()]
    assert rows == [tuple(row) for row in goods(5000)]


def test_what_is_there_is_kept_unless_told_otherwise(tmp_path: Path) -> None:
    path, out = write(tmp_path / "data", goods(10)), tmp_path / "out"
    write_table(Local(), table_of(path), f"file:{out}", compression=None, overwrite=False)
    with pytest.raises(BoxError, match="already exists: take another one, or --overwrite"):
        write_table(Local(), table_of(path), str(out), compression=None, overwrite=False)
    before = set(out.iterdir())
    write_table(Local(), table_of(path, columns="name"), str(out), compression="none", overwrite=True)
    assert set(out.iterdir()) & before == {out / "_SUCCESS"}
    assert pq.read_table(out).column_names == ["name"]


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "data", [*goods(10), [11, "text", "no number"]])
    with pytest.raises(BoxError, match="column 'price'"):
        write_table(Local(), table_of(path), str(tmp_path / "out"), compression=None, overwrite=False)
    assert not (tmp_path / "out").exists()


def damaged(directory: Path) -> Path:
    """Write a snapshot with a broken block in its middle."""
    path = write(directory, goods(30_000))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return path


def test_skipped_blocks_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    skips = SkipCount()
    table = table_of(damaged(tmp_path / "data"), onCorrupt="skip")
    rows = write_table(Local(), table, str(tmp_path / "out"), compression=None, overwrite=False, skips=skips)
    assert 0 < rows < 30_000
    assert skips.text == ", 1 broken block skipped", "once, although each task ran twice"
    capsys.readouterr()
    assert (
        sum(batch.num_rows for share in table.shares(()) for batch in table.read(share, (), pa.schema([]), ())) == rows
    )
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "in one part" in line] == [
        "box: 00000000000000000007.snap, 1 broken block skipped in one part"
    ]
    assert any("skipped: tx checksum mismatch" in line for line in lines)


def test_a_dry_run_counts_skipped_blocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged(tmp_path)
    assert main([str(tmp_path), "goods", "--dry-run", "--skip-corrupt"]) == 0
    assert capsys.readouterr().out.endswith(" rows, 1 broken block skipped\n")


def test_other_stores_and_codecs_are_left_to_spark() -> None:
    assert can_write("out", None)
    assert can_write("file:/out", "gzip")
    assert not can_write("s3://bucket/out", None)
    assert not can_write("out", "bzip2")
