"""Changes sorted by key: however they are spilled and merged, each key has its changes once and in order."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box.spark import change_runs
from box.spark.change_runs import CHANGES, ChangeRuns, merged
from box.wire.constants import RequestType

KINDS = [RequestType.REPLACE, RequestType.DELETE, RequestType.UPDATE, RequestType.UPSERT]
Change = tuple[bytes, int, int, bytes]

keys = st.integers(0, 9).map(lambda number: b"key %d" % number)
hot = st.one_of(st.just(b"key 5"), keys)
kinds = st.sampled_from([*KINDS, RequestType.UPDATE, RequestType.UPDATE])


def valid(changes: list[Change]) -> dict[bytes, list[Change]]:
    """Return for each key its changes from the last one on that does not depend on the tuple before."""
    found: dict[bytes, list[Change]] = {}
    for change in changes:
        if change[1] in (RequestType.UPDATE, RequestType.UPSERT):
            found.setdefault(change[0], []).append(change)
        else:
            found[change[0]] = [change]
    return found


def rows_of(batch: pa.RecordBatch) -> list[Change]:
    return [tuple(row.values()) for row in batch.to_pylist()]  # type: ignore[misc]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few rows exceed the memory budget."""
    monkeypatch.setattr(change_runs, "BUDGET", 200)
    monkeypatch.setattr(change_runs, "_PIECE_BYTES", 120)
    monkeypatch.setattr(change_runs, "_ROWS_HELD", 4)
    monkeypatch.setattr(change_runs, "_RUNS_A_LEVEL", 3)


@pytest.mark.usefixtures("small")
@settings(max_examples=120, deadline=None)
@given(st.lists(st.tuples(hot, kinds), max_size=150), st.data())
def test_each_key_has_its_changes_in_order(drawn: list[tuple[bytes, int]], data: st.DataObject) -> None:
    changes: list[Change] = [(key, kind, number, b"body %d" % number) for number, (key, kind) in enumerate(drawn)]
    runs = ChangeRuns()
    place = 0
    while place < len(changes):
        count = data.draw(st.integers(1, 30))
        some = changes[place : place + count]
        if data.draw(st.booleans()):
            runs.add(pa.RecordBatch.from_pylist([dict(zip(CHANGES.names, row, strict=True)) for row in some], CHANGES))
        else:
            for row in some:
                runs.add_row(*row)
        place += count
    assert bool(runs) == bool(changes)
    sequence = merged(runs)
    found: list[Change] = []
    for bound in [*sorted(data.draw(st.lists(keys, max_size=4))), None]:
        was_open: bytes | None = None
        for piece in sequence.until(bound):
            rows = rows_of(piece.changes)
            assert rows
            assert was_open is None or rows[0][0] == was_open
            assert {row[0] for row in rows} & {row[0] for row in found} == ({was_open} if was_open else set())
            assert not piece.is_open or len({row[0] for row in rows}) == 1
            was_open = rows[0][0] if piece.is_open else None
            assert bound is None or all(row[0] <= bound for row in rows)
            found += rows
        assert was_open is None
    assert [row[0] for row in found] == sorted(row[0] for row in found)
    wanted = valid(changes)
    # Runs keep what was valid in each of them: applied in order that is the same.
    assert valid(found) == wanted
    assert set(found) <= set(changes)


@pytest.mark.usefixtures("small")
def test_one_key_that_many_changes_have_is_given_piece_by_piece() -> None:
    changes: list[Change] = [(b"counter", RequestType.UPDATE, number, b"add one") for number in range(2000)]
    runs = ChangeRuns()
    for change in changes:
        runs.add_row(*change)
    assert runs.is_spilled
    pieces = list(merged(runs).until(None))
    assert [row for piece in pieces for row in rows_of(piece.changes)] == changes
    assert max(piece.changes.num_rows for piece in pieces) < 20
    assert [piece.is_open for piece in pieces] == [True] * (len(pieces) - 1) + [False]


@pytest.mark.usefixtures("small")
def test_what_is_cleared_is_gone() -> None:
    runs = ChangeRuns()
    for number in range(100):
        runs.add_row(b"key", RequestType.UPDATE, number, b"text")
    runs.clear()
    assert not runs
    assert not runs.is_spilled
    assert list(merged(runs).until(None)) == []


@pytest.mark.usefixtures("small")
def test_files_are_where_spark_wants_them_and_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/missing,{tmp_path}")
    made: list[str | None] = []
    temporary = change_runs.tempfile.TemporaryFile
    monkeypatch.setattr(change_runs.tempfile, "TemporaryFile", lambda dir: made.append(dir) or temporary(dir=dir))
    runs = ChangeRuns()
    for number in range(100):
        runs.add_row(b"%d" % number, RequestType.REPLACE, number, b"text")
    assert made
    assert set(made) == {str(tmp_path)}
    assert sum(piece.changes.num_rows for piece in merged(runs).until(None)) == 100
    assert list(tmp_path.iterdir()) == []


def test_memory_does_not_grow_with_the_changes() -> None:
    """Memory stays limited while changes of twenty times the budget pass."""
    runs = ChangeRuns()
    body = b"x" * 200
    greatest = 0
    before = pa.total_allocated_bytes()
    rows = 20 * change_runs.BUDGET // 240
    for start in range(0, rows, 5000):
        numbers = range(start, start + 5000)
        keys = pa.array([b"%08d" % (number * 7919 % 1000003) for number in numbers])
        columns = [keys, pa.array([3] * 5000, pa.uint8()), pa.array([0] * 5000, pa.int32()), pa.array([body] * 5000)]
        runs.add(pa.RecordBatch.from_arrays(columns, schema=CHANGES))
        greatest = max(greatest, pa.total_allocated_bytes() - before)
    last = b""
    for piece in merged(runs).until(None):
        found = piece.changes.column(0)
        assert last <= found[0].as_py()
        last = found[-1].as_py()
        greatest = max(greatest, pa.total_allocated_bytes() - before)
    assert greatest < 4 * change_runs.BUDGET
