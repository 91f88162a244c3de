"""Which rows of a log take effect: the table in `log_rows`, line by line."""

from __future__ import annotations

import pytest

from box.spark.log_rows import Decisions, transactions
from box.wire.constants import GROUP_LOCAL, Flag, RequestType
from box.wire.messages import SynchroRequest, synchro_row
from box.wire.row import Row

SYNC = int(Flag.WAIT_SYNC | Flag.WAIT_ACK)


def change(lsn: int, replica_id: int = 1, flags: int = 0, group_id: int = 0) -> Row:
    return Row(RequestType.REPLACE, replica_id, lsn, group_id=group_id, flags=flags)


def decide(kind: RequestType, lsn: int, owner: int = 1, *, origin: int = 1, term: int = 0) -> Row:
    row = synchro_row(SynchroRequest(kind, owner, lsn, term, origin))
    row.replica_id, row.lsn = origin, 1000
    return row


def without_effect(*steps: Row) -> set[int]:
    """Return the LSNs without effect after transactions of one row each."""
    decisions = Decisions()
    for row in steps:
        decisions.take([row])
    return {lsn for _, lsn in decisions.without_effect()}


CONFIRM, ROLLBACK, PROMOTE = RequestType.CONFIRM, RequestType.ROLLBACK, RequestType.PROMOTE


def test_transactions_count_at_once_while_none_waits() -> None:
    assert without_effect(change(1), change(2)) == set()


def test_a_synchronous_transaction_counts_once_it_is_confirmed() -> None:
    assert without_effect(change(1, flags=SYNC)) == {1}
    assert without_effect(change(1, flags=SYNC), decide(CONFIRM, 1)) == set()


def test_what_follows_waits_too_and_shares_the_fate_of_what_it_follows() -> None:
    rows = change(1, flags=SYNC), change(2), change(3, flags=SYNC), change(4)
    assert without_effect(*rows) == {1, 2, 3, 4}
    assert without_effect(*rows, decide(CONFIRM, 1)) == {3, 4}
    assert without_effect(*rows, decide(CONFIRM, 3)) == set()
    assert without_effect(*rows, decide(ROLLBACK, 3)) == {1, 2, 3, 4}
    assert without_effect(*rows, decide(ROLLBACK, 3), decide(CONFIRM, 1)) == {3, 4}


def test_a_promotion_that_had_no_effect_where_it_came_from() -> None:
    promotion = decide(PROMOTE, 1, origin=2, term=3)
    assert without_effect(change(2, flags=SYNC), promotion, decide(CONFIRM, 2)) == {2}
    promotion.flags = int(Flag.VOID)
    assert without_effect(change(2, flags=SYNC), promotion, decide(CONFIRM, 2)) == set()


def test_rows_of_local_spaces_alone_do_not_wait() -> None:
    assert without_effect(change(1, flags=SYNC), change(1, replica_id=0, group_id=GROUP_LOCAL)) == {1}


def test_rolled_back_rows_stay_so() -> None:
    assert without_effect(change(1, flags=SYNC), decide(ROLLBACK, 1), change(2), decide(CONFIRM, 2)) == {1}


def test_a_decision_about_another_instance_says_nothing() -> None:
    assert without_effect(change(1, flags=SYNC), decide(CONFIRM, 5, owner=2)) == {1}


@pytest.mark.parametrize(("owner", "left"), [(1, {3}), (2, {1, 3})])
def test_a_promotion_confirms_up_to_its_lsn_and_undoes_the_rest(owner: int, left: set[int]) -> None:
    rows = change(1, flags=SYNC), change(3, flags=SYNC)
    assert without_effect(*rows, decide(PROMOTE, 1, owner, origin=2, term=2)) == left


def test_a_promotion_of_an_earlier_term_says_nothing() -> None:
    rows = decide(PROMOTE, 0, 0, origin=3, term=5), change(1, flags=SYNC)
    assert without_effect(*rows, decide(PROMOTE, 1, 1, origin=2, term=4)) == {1}


def test_without_flags_the_space_says_whether_a_transaction_waits() -> None:
    """In files of versions before 2.8, which lack flags, the space says whether a transaction is synchronous."""
    decisions = Decisions()
    decisions.take([change(1)], is_synchronous=True)
    decisions.take([change(2)])
    assert decisions.without_effect() == {(1, 1), (1, 2)}
    decisions.take([decide(CONFIRM, 1)])
    assert not decisions.is_waiting
    assert decisions.without_effect() == set()


def test_all_rows_of_a_transaction_share_its_fate() -> None:
    first, last = change(1), change(2, flags=SYNC)
    first.is_commit = False
    decisions = Decisions()
    for transaction in transactions([first, last, change(3)]):
        decisions.take(transaction)
    assert decisions.without_effect() == {(1, 1), (1, 2), (1, 3)}
