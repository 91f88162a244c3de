"""The record of transactions that were skipped: its limits, and what it keeps of each."""

from __future__ import annotations

import pytest

from box.replication import passed_rows
from box.replication.passed_rows import PassedRows
from box.wire.row import Row


def _transaction(first: int, rows: int) -> list[Row]:
    return [Row(3, 2, first + number, tsn=first, body=b"x" * 100) for number in range(rows)]


def test_bodies_are_let_go() -> None:
    """The record drops the bodies of rows without an effect."""
    passed = PassedRows(lambda transaction: True)
    assert passed.add(_transaction(1, 3))
    [found] = passed
    assert [(row.type, row.lsn, row.tsn, row.body) for row in found] == [(3, lsn, 1, b"") for lsn in (1, 2, 3)]


@pytest.mark.parametrize(("rows", "remembered"), [(1, 5), (2, 5), (3, 3), (10, 1), (11, 0)])
def test_transactions_and_rows_are_bounded(rows: int, remembered: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record keeps at most five transactions or ten rows."""
    monkeypatch.setattr(passed_rows, "_TRANSACTIONS", 5)
    monkeypatch.setattr(passed_rows, "_ROWS", 10)
    passed = PassedRows(lambda transaction: True)
    taken = [passed.add(_transaction(number * rows + 1, rows)) for number in range(7)]
    assert taken == [number < remembered for number in range(7)]
    assert len(passed) == remembered


def test_those_of_no_interest_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transactions that have arrived from another source are dropped when there is no room."""
    monkeypatch.setattr(passed_rows, "_ROWS", 4)
    here = 0
    passed = PassedRows(lambda transaction: transaction[-1].lsn > here)
    assert passed.add(_transaction(1, 2))
    assert passed.add(_transaction(3, 2))
    assert not passed.add(_transaction(5, 2))
    here = 2
    assert passed.add(_transaction(5, 2))
    assert [transaction[0].lsn for transaction in passed] == [3, 5]
    assert not passed.add(_transaction(7, 1))


def test_a_full_record_looks_for_room_now_and_then() -> None:
    """A full record looks for room now and then, not at each row."""
    looks = 0

    def may_be_void(transaction: list[Row]) -> bool:
        nonlocal looks
        looks += 1
        return looks < 5_000

    passed = PassedRows(may_be_void)
    taken = [passed.add(_transaction(lsn, 1)) for lsn in range(1, 4_001)]
    assert taken.count(False) > 1_000
    assert taken[-1], "there is room again"
    assert looks < 10_000
