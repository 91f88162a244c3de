"""Writes that take longer than `too_long_threshold` are named in the log of messages."""

from __future__ import annotations

from box.journal.slow_writes import SlowWrites
from box.wire.constants import RequestType
from box.wire.entry import JournalEntry
from box.wire.row import Row


class Warnings:
    """A log that keeps warnings."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def warn(self, text: str) -> None:
        self.texts.append(text)

    info = error = crit = verbose = debug = warn


def entry(*kinds: RequestType) -> JournalEntry:
    return JournalEntry([Row(kind) for kind in kinds], lambda entry: None)


def test_each_transaction_of_a_batch_is_named() -> None:
    """The warning has the number of rows and the lsn of the first; decisions on transactions are no transactions."""
    log = Warnings()
    insert, confirm = RequestType.INSERT, RequestType.CONFIRM
    batch = [entry(insert), entry(confirm), entry(insert, insert, insert)]
    SlowWrites(log).tell(batch, 15, 1.23456, 0.0)
    assert log.texts == [
        "too long WAL write: 1 rows at LSN 11: 1.235 sec",
        "too long WAL write: 3 rows at LSN 13: 1.235 sec",
    ]


def test_the_time_counts_from_the_oldest_batch() -> None:
    slow = SlowWrites(Warnings())
    for now in (1.0, 2.0, 3.0):
        slow.hand_over(now)
    assert [slow.come_back(2, 4.0), slow.come_back(1, 5.0)] == [3.0, 2.0]


def test_ten_warnings_in_five_seconds() -> None:
    """What is left out is counted, and told before the next message."""
    log = Warnings()
    slow = SlowWrites(log)
    for now in range(13):
        slow.tell([entry(RequestType.INSERT)], 1, 2.0, now / 10)
    assert len(log.texts) == 10
    slow.tell([entry(RequestType.INSERT)], 2, 2.0, 5.1)
    assert log.texts[10:] == ["3 messages suppressed", "too long WAL write: 1 rows at LSN 2: 2.000 sec"]
