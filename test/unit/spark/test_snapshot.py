"""Reading snapshots without a node: definitions, block ranges, damaged files."""

from __future__ import annotations

import random
from pathlib import Path
from uuid import uuid4

import pytest

from box.data.codec import pack
from box.errors import BoxError, ErrorCode
from box.journal.snapshot import SnapshotSpace, write_snapshot
from box.journal.storage import FileStorage
from box.spark.columns import columns_of, values_by_column
from box.spark.snapshot import Snapshot, newest_snapshot
from box.wire.vclock import VClock

SPACE_ID, INDEX_ID, GOODS = 280, 288, 512
FORMAT = [{"name": "id", "type": "unsigned"}, {"name": "name", "type": "string"}, {"name": "price", "type": "double"}]


def goods(count: int) -> list[list[object]]:
    rng = random.Random(1)
    return [[number, f"name {rng.random()}", number / 4] for number in range(count)]


def write(directory: Path, tuples: list[list[object]], signature: int = 7, fields: object = FORMAT) -> Path:
    """A snapshot with one user space `goods` between two others."""
    definitions = [[GOODS - 1, 1, "before", "memtx", 0, {}, []], [GOODS, 1, "goods", "memtx", 0, {}, fields]]
    indexes = [[GOODS, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]]]
    spaces = [
        SnapshotSpace(SPACE_ID, [pack(row) for row in definitions], 0),
        SnapshotSpace(INDEX_ID, [pack(row) for row in indexes], 0),
        SnapshotSpace(GOODS - 1, [pack([number]) for number in range(1000)], 0),
        SnapshotSpace(GOODS, [pack(row) for row in tuples], 0),
        SnapshotSpace(GOODS + 1, [pack([number]) for number in range(1000)], 0),
    ]
    return Path(write_snapshot(FileStorage(), str(directory), VClock({1: signature}), uuid4(), spaces))


def read(snapshot: Snapshot, count: int) -> list[list[object]]:
    space = snapshot.space("goods")
    return [fields for part in snapshot.partitions(count) for fields in snapshot.tuples(space.id, part)]


def test_the_newest_snapshot_counts(tmp_path: Path) -> None:
    write(tmp_path, [], 7)
    newest = write(tmp_path, [], 20)
    (tmp_path / "00000000000000000099.snap.inprogress").touch()
    assert newest_snapshot(tmp_path) == newest


def test_a_directory_without_snapshots_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BoxError) as caught:
        newest_snapshot(tmp_path)
    assert caught.value.code == ErrorCode.MISSING_SNAPSHOT
    with pytest.raises(BoxError, match="can't read directory"):
        newest_snapshot(tmp_path / "missing")


@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 1000])
def test_every_tuple_is_in_exactly_one_partition(tmp_path: Path, partitions: int) -> None:
    expected = goods(30_000)
    snapshot = Snapshot(write(tmp_path, expected))
    parts = snapshot.partitions(partitions)
    assert len(parts) <= partitions
    assert len(parts) > 1 or partitions == 1
    assert read(snapshot, partitions) == expected


def test_a_space_is_found_by_name_and_by_id(tmp_path: Path) -> None:
    snapshot = Snapshot(write(tmp_path, []))
    assert snapshot.space("goods") == snapshot.space(str(GOODS))
    assert snapshot.space("goods").parts == [(0, "unsigned")]
    with pytest.raises(BoxError, match="Space 'nothing' does not exist"):
        snapshot.space("nothing")


def test_a_truncated_file_is_noticed_at_every_length(tmp_path: Path) -> None:
    path = write(tmp_path, goods(3000))
    whole = path.read_bytes()
    for size in range(0, len(whole), 97):
        path.write_bytes(whole[:size])
        with pytest.raises(BoxError):
            Snapshot(path).partitions(2)


def test_a_flipped_bit_is_an_error_or_a_skipped_block(tmp_path: Path) -> None:
    path = write(tmp_path, goods(30_000))
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(BoxError, match=r"checksum mismatch|at "):
        read(Snapshot(path), 2)
    left = read(Snapshot(path, skip_corrupt=True), 2)
    assert 0 < len(left) < 30_000


def test_a_log_is_not_a_snapshot(tmp_path: Path) -> None:
    path = write(tmp_path, [])
    path.write_bytes(path.read_bytes().replace(b"SNAP", b"XLOG", 1))
    with pytest.raises(BoxError) as caught:
        Snapshot(path).partitions(1)
    assert caught.value.code == ErrorCode.INVALID_XLOG_TYPE


def test_columns_follow_format_and_index_parts(tmp_path: Path) -> None:
    snapshot = Snapshot(write(tmp_path, [], fields=[{"name": "id", "type": "unsigned"}, {"name": "x", "type": "any"}]))
    columns = columns_of(snapshot.space("goods"), rest="more")
    assert [(column.name, column.type) for column in columns] == [("id", "bigint"), ("x", "string"), ("more", "string")]
    values = values_by_column(columns, [[1, {"a": [1, "b"]}, 2.5, None], [2]])
    assert values == [[1, 2], ['{"a": [1, "b"]}', None], ["[2.5, null]", None]]


def test_a_space_without_format_has_columns_for_its_keys(tmp_path: Path) -> None:
    snapshot = Snapshot(write(tmp_path, [], fields=[]))
    assert [column.name for column in columns_of(snapshot.space("goods"))] == ["field_1"]
    assert [column.name for column in columns_of(snapshot.space("before"))] == ["tuple"]


def test_a_number_beyond_a_bigint_needs_the_decimal_option(tmp_path: Path) -> None:
    space = Snapshot(write(tmp_path, [])).space("goods")
    with pytest.raises(BoxError, match="does not fit a bigint"):
        values_by_column(columns_of(space), [[2**63, "", 0.0]])
    assert values_by_column(columns_of(space, unsigned="decimal"), [[2**63, "", 0.0]])[0] == [2**63]
