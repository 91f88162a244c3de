"""Delta and Iceberg tables of exported files, read by the packages of these formats."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from box.spark import table_formats
from box.spark.direct_parquet import schema_of, write_table
from box.spark.export import _is_direct
from box.spark.export_options import job_of
from box.spark.sessions import first_line

from .files import FORMAT, goods, write
from .test_direct_parquet import Local, table_of

deltalake = pytest.importorskip("deltalake", reason="the extra 'delta' is not installed")
pytest.importorskip("pyiceberg", reason="the extra 'iceberg' is not installed")

WIDE = [
    *FORMAT,
    {"name": "bytes", "type": "varbinary"},
    {"name": "exact", "type": "decimal"},
    {"name": "any", "type": "any"},
]


def export(path: Path, out: Path, kind: str, **options: Any) -> int:
    table = table_of(path)
    count = write_table(Local(), table, str(out), compression=None, overwrite=options.get("overwrite", False))
    table_formats.make_table(kind, str(out), schema_of(table.columns))
    return count


def rows_of(out: Path, kind: str) -> list[tuple[Any, ...]]:
    """Return the rows that a reader finds by the path alone."""
    if kind == "delta":
        found = deltalake.DeltaTable(str(out)).to_pyarrow_table()
    else:
        from pyiceberg.table import StaticTable  # type: ignore[import-not-found, unused-ignore]

        version = (out / "metadata" / "version-hint.text").read_text()
        found = StaticTable.from_metadata(f"{out}/metadata/v{version}.metadata.json").scan().to_arrow()
    return sorted(tuple(row.values()) for row in found.to_pylist())


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_has_the_rows_of_the_space(tmp_path: Path, kind: str) -> None:
    path, out = write(tmp_path / "data", goods(5000)), tmp_path / "out"
    assert export(path, out, kind) == 5000
    assert rows_of(out, kind) == [tuple(row) for row in goods(5000)]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_what_is_there_is_replaced(tmp_path: Path, kind: str) -> None:
    path, out = write(tmp_path / "data", goods(10)), tmp_path / "out"
    export(path, out, kind)
    export(write(tmp_path / "data", goods(7), signature=8), out, kind, overwrite=True)
    assert rows_of(out, kind) == [tuple(row) for row in goods(7)]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize("tuples", [[], [[1, "one", 0.5, b"\xff", 7, [1, {"a": None}]]]], ids=["empty", "one"])
def test_every_type_and_no_rows(tmp_path: Path, kind: str, tuples: list[list[object]]) -> None:
    out = tmp_path / "out"
    export(write(tmp_path / "data", tuples, fields=WIDE), out, kind)
    assert [(*row[:4], int(row[4]), row[5]) for row in rows_of(out, kind)] == [
        (1, "one", 0.5, b"\xff", 7, '[1, {"a": null}]') for _ in tuples
    ]


def test_which_tables_are_written_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_direct(command: str) -> bool:
        job = job_of(["data", "goods", "out", *command.split()])
        return _is_direct(job.args, str(job.output))

    assert is_direct("--to parquet")
    assert is_direct("--to delta")
    assert is_direct("--to iceberg --compression zstd")
    assert not is_direct("--to csv")
    assert not is_direct("--to delta --where id>1")
    assert not is_direct("--to delta --conf spark.jars=delta-spark.jar"), "who names a package wants it"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not is_direct("--to delta")
    assert is_direct("--to parquet")


def test_a_package_for_another_spark_is_named() -> None:
    text = "An error occurred while calling o54.load.\n: java.lang.NoSuchMethodError: org.x.Y.z()\n\tat org.x.Y"
    assert (
        first_line(Exception(text))
        == "java.lang.NoSuchMethodError: org.x.Y.z() (a package for another version of Spark?)"
    )
    broken = "java.lang.NoClassDefFoundError: Could not initialize class java.lang.X"
    assert first_line(Exception(f"An error occurred while calling o54.load.\n: {broken}\n\tat a")) == broken
    assert first_line(
        Exception("An error occurred while calling o1.save.\n: java.io.IOException: no room\n\tat a")
    ) == ("java.io.IOException: no room")
    assert first_line(Exception("one\n  box: two")) == "box: two"
    failed = (
        "An error occurred while calling o1.save.\n"
        ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times "
        "(TID 0) (host executor driver): java.io.IOException: Mkdirs failed\n\tat x"
    )
    assert first_line(Exception(failed)) == "Mkdirs failed"
    failed = (
        failed.replace("Mkdirs failed", "") + "\nCaused by: java.io.IOException: No space left\nCaused by: a.BError: "
    )
    assert first_line(Exception(failed)) == "No space left"
    assert first_line(ValueError()) == "ValueError()"


def test_packages_are_looked_for_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Missing packages are reported before anything is written, unless Spark has one."""
    from box.spark import export as command

    class Session:
        """A Spark session without packages."""

        def __getattr__(self, name: str) -> Any:
            raise LookupError(name)

        def stop(self) -> None:
            pass

    write(tmp_path / "data", goods(3))
    monkeypatch.setattr(command, "_session", lambda args: (Session(), True))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for kind, package in (("delta", "deltalake"), ("iceberg", "pyiceberg")):
        assert command.main([str(tmp_path / "data"), "goods", "--to", kind, str(tmp_path / "out")]) == 1
        error = capsys.readouterr().err
        assert f"--to {kind} needs the package {package} (pip install '.[{kind}]' in a clone of Lunabox)" in error
        assert "spark.jars.packages=" in error
    assert not (tmp_path / "out").exists()
