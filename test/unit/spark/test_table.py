"""Tables over one or more files: paths, options, shares and the rows read from them."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from box.errors import BoxError
from box.spark.conditions import Condition
from box.spark.paths import expand
from box.spark.source_options import SourceOptions
from box.spark.table import Table, _share_count

from .files import FORMAT, arrow_schema, goods, write

ONE, TWO = UUID(int=1), UUID(int=2)


def rows(table: Table, *filters: Condition) -> list[tuple[Any, ...]]:
    schema = arrow_schema(table.columns)
    shares = table.shares(filters)
    batches = [batch for share in shares for batch in table.read(share, table.columns, schema, filters)]
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def open_table(*paths: str, **options: str) -> Table:
    settings = SourceOptions.of({"space": "goods", "paths": str(list(paths)).replace("'", '"'), **options})
    return Table.open(settings)


@pytest.mark.parametrize("decoder", ["python", "compiled"])
def test_all_rows_of_a_space_are_read_once(tmp_path: Path, decoder: str) -> None:
    if decoder == "compiled":
        pytest.importorskip("numba", reason="the extra 'spark' is not installed")
    write(tmp_path, goods(20_000))
    table = open_table(str(tmp_path), decoder=decoder, partitions="5")
    assert rows(table) == [tuple(row) for row in goods(20_000)]
    assert rows(table, Condition("id", ">=", 100), Condition("id", "<", 103)) == [
        tuple(row) for row in goods(103)[100:]
    ]


@pytest.mark.parametrize(("size", "count"), [(0, 4), (40, 4), (47, 4), (49, 8), (80, 8), (100, 12)])
def test_the_number_of_shares_suits_two_and_four_cores(size: int, count: int) -> None:
    """Shares have about 8 MB, and their number is a multiple of four."""
    assert _share_count(size << 20) == count


def test_the_modules_of_a_worker_are_left_out_of_garbage_collection(tmp_path: Path) -> None:
    """Spark's worker collects garbage after each task, which would visit all modules each time."""
    pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")
    from pyspark.sql.types import LongType, StructType

    from box.spark.source import BoxDataSource, _freeze_modules

    write(tmp_path, goods(3))
    reader = BoxDataSource({"path": str(tmp_path), "space": "goods"}).reader(StructType().add("id", LongType(), False))
    _freeze_modules.cache_clear()
    gc.unfreeze()
    try:
        assert sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part)) == 3
        assert gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()


def test_several_directories_are_one_table(tmp_path: Path) -> None:
    write(tmp_path / "a", goods(3), instance=ONE)
    write(tmp_path / "b", goods(2), instance=TWO)
    table = open_table(f"{tmp_path}/a", f"file://{tmp_path}/b")
    assert [column.name for column in table.columns] == ["id", "name", "price", "instance"]
    assert sorted((row[3], row[0]) for row in rows(table)) == [
        (str(ONE), 0),
        (str(ONE), 1),
        (str(ONE), 2),
        (str(TWO), 0),
        (str(TWO), 1),
    ]
    assert [row[0] for row in rows(table, Condition("instance", "=", str(TWO)))] == [0, 1]


def test_directories_with_other_columns_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a", goods(3))
    write(tmp_path / "b", goods(3), fields=FORMAT[:2])
    with pytest.raises(BoxError, match=r"b/.*\.snap: space 'goods' has other columns than in .*a/.*read the two apart"):
        open_table(f"{tmp_path}/?")


def test_a_field_that_is_nullable_in_one_directory_is_nullable_in_the_table(tmp_path: Path) -> None:
    write(tmp_path / "a", goods(3))
    write(tmp_path / "b", [[7, None, 0.5]], fields=[FORMAT[0], FORMAT[1] | {"is_nullable": True}, FORMAT[2]])
    table = open_table(f"{tmp_path}/a", f"{tmp_path}/b")
    assert [column.is_nullable for column in table.columns] == [False, True, False, False]
    assert rows(table)[-1][:3] == (7, None, 0.5)


def test_a_path_may_be_a_url_of_another_store(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec", reason="the extra 'remote' is not installed")
    store = fsspec.filesystem("memory")
    for name in ("a", "b"):
        store.pipe(f"/copies/{name}/00000000000000000007.snap", write(tmp_path / name, goods(5000)).read_bytes())
    assert rows(open_table("memory://copies/a")) == [tuple(row) for row in goods(5000)]
    assert expand(["memory://copies/*"]) == ["memory:///copies/a", "memory:///copies/b"]
    assert len(rows(open_table("memory://copies/*"))) == 10_000
    with pytest.raises(BoxError, match="can't read directory memory://copies/c"):
        open_table("memory://copies/c")


def test_broken_blocks_are_passed_over_and_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, goods(30_000))
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(BoxError, match=rf"{path}: tx checksum mismatch at \d+; to read .* onCorrupt to 'skip'"):
        rows(open_table(str(path)))
    assert 0 < len(rows(open_table(str(path), onCorrupt="skip"))) < 30_000
    assert "bytes at" in capfd.readouterr().err


def test_an_unfinished_snapshot_is_an_error_that_tells_what_can_be_done(tmp_path: Path) -> None:
    path = write(tmp_path, goods(30_000))
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(
        BoxError, match=rf"{path}: no EOF marker: the file is still being written, or was cut off .*skip"
    ):
        open_table(str(path))
    assert 0 < len(rows(open_table(str(path), onCorrupt="skip"))) < 30_000


@pytest.mark.parametrize("name", ["00000000000000000007.xlog", "00000000000000000007.snap.inprogress"])
@pytest.mark.parametrize("options", [{}, {"as_of": "latest"}])
def test_a_path_to_another_file_is_an_error(tmp_path: Path, name: str, options: dict[str, str]) -> None:
    path = tmp_path / name
    path.write_bytes(b"text")
    with pytest.raises(BoxError, match=rf"'{path}' is neither a directory nor a .snap file: name one of the two"):
        open_table(str(path), **options)


def test_a_value_that_does_not_fit_names_file_block_and_column(tmp_path: Path) -> None:
    path = write(tmp_path, [[1, "a", 0.5], [2, 5, 0.5]])
    with pytest.raises(BoxError, match=rf"{path}: column 'name': does not fit string: 5 in the block at \d+"):
        rows(open_table(str(path)))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"columns": "id,cost"}, "the space has no column 'cost'; it has: id, name, price"),
        ({"decoder": "c"}, "option 'decoder' must be one of: auto, compiled, python"),
        ({"partitions": "0"}, "option 'partitions' must be a positive integer"),
        ({"instance": "id"}, "two columns 'id'"),
        ({"any_as": "jason"}, "option 'any_as' must be json, binary or a type of Spark's SQL, not 'jason'"),
        ({"map_as": "<string>"}, "option 'map_as' must be json, binary or a type of Spark's SQL, not '<string>'"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, options: dict[str, str], text: str) -> None:
    write(tmp_path, [])
    with pytest.raises(BoxError, match=text):
        open_table(str(tmp_path), **options)


@pytest.mark.parametrize("paths", ["[]", "no", "[1]", '[""]'])
def test_several_paths_come_as_a_json_array(paths: str) -> None:
    with pytest.raises(BoxError, match="option 'paths' must be a JSON array of paths"):
        SourceOptions.of({"space": "s", "paths": paths})


def test_a_space_whose_tuples_are_in_other_files_is_refused(tmp_path: Path) -> None:
    """A space whose tuples are in other files is an error; the table would have the log's rows alone."""
    write(tmp_path, [], engine="vinyl")
    with pytest.raises(BoxError, match="does not support reading space 'goods' of the engine 'vinyl'"):
        open_table(str(tmp_path))
