"""Reading snapshots without a node: definitions, shares of a file, skipped blocks, damaged files."""

from __future__ import annotations

from pathlib import Path

import pytest

from box.data.codec import unpack
from box.errors import BoxError, ErrorCode
from box.spark.blocks import BlockFile, BlockRange
from box.spark.key_ranges import KeyRange
from box.spark.paths import newest_snapshot
from box.spark.snapshot import Scope, find_space, narrow, sorted_field
from box.spark.values import raw_tuples

from .files import GOODS, PRIMARY, goods, write

MANY = 60_000


def read(path: Path, ranges: list[BlockRange]) -> list[list[object]]:
    with BlockFile(str(path)) as file:
        blocks = [block for item in ranges for block in file.blocks(item)]
    return [unpack(raw) for block in blocks for raw in raw_tuples(block.rows, GOODS)]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("large"), goods(MANY), around=20_000)


def test_the_newest_snapshot_counts(tmp_path: Path) -> None:
    write(tmp_path, [], 7)
    newest = write(tmp_path, [], 20)
    (tmp_path / "00000000000000000099.snap.inprogress").touch()
    assert newest_snapshot(str(tmp_path)) == str(newest)
    assert newest_snapshot(str(newest)) == str(newest)


def test_a_directory_without_snapshots_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BoxError, match=f"Can't find snapshot in {tmp_path}: run box.snapshot") as caught:
        newest_snapshot(str(tmp_path))
    assert caught.value.code == ErrorCode.MISSING_SNAPSHOT
    with pytest.raises(BoxError, match="can't read directory"):
        newest_snapshot(str(tmp_path / "missing"))


@pytest.mark.parametrize("count", [1, 2, 3, 7, 1000])
def test_every_tuple_is_in_exactly_one_share(large: Path, count: int) -> None:
    with BlockFile(str(large)) as file:
        shares = file.shares(count)
    assert len(shares) <= count
    assert len(shares) > 1 or count == 1
    assert read(large, shares) == goods(MANY)


def test_shares_are_planned_without_reading_the_file_through(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 0
    read_bytes = BlockFile._read

    def counted(self: BlockFile, position: int, size: int) -> bytes:
        nonlocal taken
        taken += size
        return read_bytes(self, position, size)

    monkeypatch.setattr("box.spark.blocks._WINDOW", 1 << 16)
    monkeypatch.setattr(BlockFile, "_read", counted)
    with BlockFile(str(large)) as file:
        assert len(file.shares(3)) == 3
        assert taken < file.size / 2


def test_other_spaces_are_left_out_by_the_first_rows_of_blocks(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("box.spark.snapshot._PIECE_MIN", 1 << 12)
    with BlockFile(str(large)) as file:
        whole = file.data.end - file.data.start
        ranges = narrow(file, Scope(GOODS))
        last = narrow(file, Scope(GOODS + 1))
    assert read(large, ranges) == goods(MANY)
    assert sum(item.end - item.start for item in ranges) < whole
    assert sum(item.end - item.start for item in last) < whole / 2


@pytest.mark.parametrize(
    ("low", "high"), [(0, 0), (100, 130), (30_000, 30_600), (MANY - 1, MANY + 5), (None, 50), (MANY - 50, None)]
)
def test_a_range_of_keys_is_found_by_first_keys(
    large: Path, low: int | None, high: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("box.spark.snapshot._PIECE_MIN", 1 << 12)
    with BlockFile(str(large)) as file:
        ranges = narrow(file, Scope(GOODS, 0, KeyRange(low, high)))
        whole = file.data.end - file.data.start
    found = read(large, ranges)
    wanted = range(0 if low is None else low, min(MANY - 1 if high is None else high, MANY - 1) + 1)
    assert {row[0] for row in found} >= set(wanted)
    assert sum(item.end - item.start for item in ranges) < whole / 2


def test_keys_beyond_the_data_leave_little_to_read(large: Path) -> None:
    with BlockFile(str(large)) as file:
        ranges = narrow(file, Scope(GOODS, 0, KeyRange(MANY * 2, None)))
    assert [row for row in read(large, ranges) if row[0] == MANY * 2] == []


def test_a_space_is_found_by_name_and_by_id(tmp_path: Path) -> None:
    path = str(write(tmp_path, []))
    assert find_space(path, "goods") == find_space(path, str(GOODS))
    primary = find_space(path, "goods").primary
    assert primary is not None
    assert [(part.field, part.type) for part in primary.parts] == [(0, "unsigned")]
    with pytest.raises(BoxError, match="Space 'nothing' does not exist"):
        find_space(path, "nothing")


@pytest.mark.parametrize(
    ("kind", "parts", "field"),
    [
        ("tree", [[0, "unsigned"]], 0),
        ("tree", [{"field": 2, "type": "string"}], 2),
        ("tree", [{"field": 2, "type": "string", "collation": 1}], None),
        ("tree", [{"field": 2, "type": "string", "path": "a.b"}], None),
        ("tree", [[0, "number"]], None),
        ("hash", [[0, "unsigned"]], None),
    ],
)
def test_only_plain_trees_tell_the_order_of_a_file(tmp_path: Path, kind: str, parts: object, field: int | None) -> None:
    path = write(tmp_path, [], indexes=[[*PRIMARY[:3], kind, {}, parts]])
    assert sorted_field(find_space(str(path), "goods").primary) == field


def test_a_truncated_file_is_noticed_at_every_length(tmp_path: Path) -> None:
    path = write(tmp_path, goods(3000))
    whole = path.read_bytes()
    for size in range(0, len(whole), 97):
        path.write_bytes(whole[:size])
        with pytest.raises(BoxError):
            BlockFile(str(path))


def test_a_flipped_bit_is_an_error_or_a_skipped_block(tmp_path: Path) -> None:
    path = write(tmp_path, goods(30_000))
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    with BlockFile(str(path)) as file:
        ranges = file.shares(1)
    with pytest.raises(BoxError, match=r"checksum mismatch at \d+"):
        read(path, ranges)
    skipped: list[tuple[str, int, int, str]] = []
    with BlockFile(str(path), on_skip=lambda *what: skipped.append(what)) as file:
        left = [raw for block in file.blocks(file.data) for raw in raw_tuples(block.rows, GOODS)]
    assert 0 < len(left) < 30_000
    assert [(name, reason) for name, _, _, reason in skipped] == [(str(path), "tx checksum mismatch")]


def test_broken_block_headers_are_passed_over_to_the_next_block(tmp_path: Path) -> None:
    path = write(tmp_path, goods(30_000))
    with BlockFile(str(path)) as file:
        blocks = [block.position for block in file.blocks(file.data)]
    damaged = bytearray(path.read_bytes())
    damaged[blocks[2]] ^= 1
    path.write_bytes(damaged)
    skipped: list[tuple[str, int, int, str]] = []
    with BlockFile(str(path), on_skip=lambda *what: skipped.append(what)) as file:
        assert [block.position for block in file.blocks(file.data)] == [*blocks[:2], *blocks[3:]]
    assert [(position, size) for _, position, size, _ in skipped] == [(blocks[2], blocks[3] - blocks[2])]


def test_a_log_is_not_a_snapshot(tmp_path: Path) -> None:
    path = write(tmp_path, [])
    path.write_bytes(path.read_bytes().replace(b"SNAP", b"XLOG", 1))
    with pytest.raises(BoxError) as caught:
        BlockFile(str(path))
    assert caught.value.code == ErrorCode.INVALID_XLOG_TYPE
