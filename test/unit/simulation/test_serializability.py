"""The check for serializability: what it allows, and the anomalies that it names."""

from __future__ import annotations

from collections.abc import Sequence

from box.testing.simulation.history import ClientCall, Ending
from box.testing.simulation.serializability import ListAppend, ListRead, Operation, check_serializability
from box.testing.simulation.transaction_workload import torn_reports


def read(key: str, *values: int) -> ListRead:
    return ListRead(key, values)


def append(key: str, value: int) -> ListAppend:
    return ListAppend(key, value)


def call(began: float, ended: float, *operations: Operation, ending: Ending = Ending.OK) -> ClientCall:
    return ClientCall("client", "transaction", 0, list(operations), began, ended, ending)


def violations(calls: Sequence[ClientCall], **final: tuple[int, ...]) -> str:
    return "\n".join(check_serializability(calls, final))


def test_one_after_the_other_is_serialisable() -> None:
    calls = [
        call(0, 1, read("x"), append("x", 1)),
        call(2, 3, read("x", 1), append("x", 2), append("y", 3)),
        call(4, 5, read("x", 1, 2), read("y", 3)),
    ]
    assert violations(calls, x=(1, 2), y=(3,)) == ""


def test_transactions_at_the_same_time_may_come_in_either_order() -> None:
    calls = [call(0, 9, read("x", 2), append("x", 1)), call(0, 9, read("x"), append("x", 2))]
    assert violations(calls, x=(2, 1)) == ""


def test_write_skew_is_a_cycle() -> None:
    """Write skew is reported: both transactions have read what the other has not yet written."""
    calls = [call(0, 9, read("x"), append("y", 1)), call(0, 9, read("y"), append("x", 2))]
    text = violations(calls, x=(2,), y=(1,))
    assert "not serialisable" in text
    assert text.count("rw") == 2


def test_a_lost_update_is_a_cycle() -> None:
    calls = [call(0, 9, read("x"), append("x", 1)), call(0, 9, read("x"), append("x", 2))]
    assert "not serialisable" in violations(calls, x=(1, 2))


def test_a_transaction_that_begins_after_another_one_ended_sees_its_writes() -> None:
    calls = [call(0, 1, append("x", 1)), call(2, 3, read("x"), append("y", 2))]
    assert "real" in violations(calls, x=(1,), y=(2,))
    calls[0].ended = 2.5
    assert violations(calls, x=(1,), y=(2,)) == ""


def test_a_phantom_is_a_cycle() -> None:
    """A phantom is reported: one transaction finds nothing in two places, between which another one
    adds a row to both.
    """
    calls = [call(0, 9, read("x"), read("y", 2), append("z", 3)), call(0, 9, append("x", 1), append("y", 2))]
    assert "not serialisable" in violations(calls, x=(1,), y=(2,), z=(3,))


def test_reads_that_no_order_explains() -> None:
    refused = call(0, 1, append("x", 1), ending=Ending.FAILED)
    assert "which was refused" in violations([refused, call(2, 3, read("x", 1))], x=(1,))
    assert "which nobody has written" in violations([call(2, 3, read("x", 7))], x=(7,))
    assert "in the end there is (1,)" in violations([call(0, 1, append("x", 1)), call(2, 3, read("x", 1, 2))], x=(1,))
    halves = [call(0, 9, append("x", 1), append("x", 2)), call(0, 9, read("x", 1))]
    assert "in the middle of" in violations(halves, x=(1, 2))


def test_what_was_acknowledged_is_there_and_what_nobody_knows_may_be() -> None:
    assert "acknowledged, and lost" in violations([call(0, 1, append("x", 1))], x=())
    unknown = call(0, 1, append("x", 1), ending=Ending.UNKNOWN)
    assert violations([unknown], x=()) == ""
    assert violations([unknown, call(2, 3, read("x", 1))], x=(1,)) == ""


def test_reports_read_one_state() -> None:
    """Two reports of one transaction that differ, or that show half of another transaction, are reported."""

    transactions = [call(0, 1, append("a", 10), append("b", 20), append("c", 30))]
    whole = call(0, 1, read("a", 10), read("b", 5, 20), read("a", 10))
    nothing = call(0, 1, read("a"), read("b", 5))
    assert list(torn_reports([whole, nothing], transactions)) == []
    changed = call(0, 1, read("a"), read("a", 10))
    assert ["object a has changed" in text for text in torn_reports([changed], transactions)] == [True]
    half = call(0, 1, read("a", 10), read("b", 5))
    assert ["is there" in text for text in torn_reports([half], transactions)] == [True]
