"""The limbo's transition table, without clock, files or tasks."""

from __future__ import annotations

import pytest

from box.errors import BoxError
from box.txn.limbo import Decision, Limbo, LimboOutcome, LimboState
from box.txn.transaction import NO_LSN, LimboEntry
from box.wire.constants import RequestType
from box.wire.messages import SynchroRequest

from ._world import code

ME, OTHER, THIRD = 1, 2, 3


def limbo_of(owner: int, *lsns: int, quorum: int = 2) -> Limbo:
    """Make a limbo on instance ME with entries of an owner; LSN 0 stands for an asynchronous entry."""
    limbo = Limbo(quorum, timeout=5.0)
    limbo.instance_id = ME
    for lsn in lsns:
        entry = Entry(wait_ack=bool(lsn))
        limbo.append(0 if owner == ME else owner, entry)
        entry.lsn = lsn or NO_LSN
        entry.since = 100.0
    return limbo


class Entry(LimboEntry):
    """A commit with only what the limbo reads."""

    def __init__(self, *, wait_ack: bool = True) -> None:
        self.wait_ack = wait_ack
        self.lsn = NO_LSN
        self.since = None


def lsns(entries: list[LimboEntry]) -> list[int]:
    return [entry.lsn for entry in entries]


def write(limbo: Limbo, decision: Decision | None) -> LimboOutcome:
    """Write the row that the limbo asked for."""
    assert decision is not None
    limbo.begin(decision)
    limbo.end(written=True)
    return limbo.process(SynchroRequest(decision.type, limbo.owner_id, decision.lsn, 0, limbo.instance_id))


def test_quorum_counts_instances() -> None:
    """The owner's own write counts as an acknowledgement; the newest entry with a quorum is confirmed."""
    limbo = limbo_of(ME, 10, 11, 12, quorum=2)
    limbo.acknowledge(ME, 12)
    assert limbo.decide(100) is None
    limbo.acknowledge(OTHER, 11)
    limbo.acknowledge(OTHER, 5)  # an old acknowledgement changes nothing
    decision = limbo.decide(100)
    assert decision == Decision(RequestType.CONFIRM, 11)
    outcome = write(limbo, decision)
    assert lsns(outcome.committed) == [10, 11]
    assert limbo.state is LimboState.WAITING
    assert limbo.decide(100) is None


def test_three_of_four() -> None:
    """A quorum of three in four instances needs three acknowledgements."""
    limbo = limbo_of(ME, 10, quorum=3)
    for replica_id in (ME, OTHER):
        limbo.acknowledge(replica_id, 10)
        assert limbo.decide(100) is None
    limbo.acknowledge(THIRD, 10)
    assert limbo.decide(100) == Decision(RequestType.CONFIRM, 10)


def test_acknowledgement_before_the_own_write() -> None:
    """An acknowledgement of a replica may come before the owner's own write is complete."""
    limbo = limbo_of(ME, quorum=2)
    entry = Entry()
    limbo.append(0, entry)
    limbo.acknowledge(OTHER, 10)
    assert limbo.decide(0) is None
    entry.lsn = 10
    limbo.acknowledge(ME, 10)
    assert limbo.decide(0) == Decision(RequestType.CONFIRM, 10)


def test_smaller_quorum_confirms() -> None:
    """A smaller quorum confirms entries that it satisfies at once."""
    limbo = limbo_of(ME, 10, quorum=3)
    limbo.acknowledge(ME, 10)
    limbo.acknowledge(OTHER, 10)
    assert limbo.decide(0) is None
    limbo.quorum = 2
    assert limbo.decide(0) == Decision(RequestType.CONFIRM, 10)


def test_timeout_rolls_everything_back() -> None:
    """When the first entry times out, all entries are rolled back, newest first."""
    limbo = limbo_of(ME, 10, 0, 12)
    assert limbo.deadline == 105.0
    assert limbo.decide(104.9) is None
    limbo.timeout = 3.0
    decision = limbo.decide(104.9)
    assert decision == Decision(RequestType.ROLLBACK, 10)
    limbo.begin(decision)
    assert limbo.state is LimboState.ROLLING_BACK
    with pytest.raises(BoxError) as failure:
        limbo.append(0, Entry())
    assert code(failure.value) == "SYNC_ROLLBACK"
    limbo.end(written=True)
    outcome = limbo.process(SynchroRequest(RequestType.ROLLBACK, ME, 10, 0, ME))
    assert lsns(outcome.rolled_back) == [12, NO_LSN, 10]
    assert limbo.state is LimboState.EMPTY
    assert limbo.rollback_count == 3


def test_confirm_on_its_way_excludes_the_timeout() -> None:
    """Entries that are being confirmed do not time out, unless the write of the CONFIRM fails."""
    limbo = limbo_of(ME, 10, 11, quorum=1)
    limbo.acknowledge(ME, 10)
    decision = limbo.decide(1000)
    assert decision == Decision(RequestType.CONFIRM, 10)
    limbo.begin(decision)
    assert limbo.state is LimboState.CONFIRMING
    assert limbo.decide(1000) is None
    assert limbo.deadline is None
    limbo.end(written=False)
    assert limbo.confirmed_lsn == 0
    assert limbo.decide(1000) == Decision(RequestType.CONFIRM, 10)
    assert len(limbo) == 2


def test_others_between_synchronous_ones() -> None:
    """Asynchronous entries are committed with the synchronous ones before them."""
    limbo = limbo_of(ME, 10, 0, 11, 0, 0, quorum=1)
    limbo.acknowledge(ME, 10)
    outcome = write(limbo, limbo.decide(100))
    assert lsns(outcome.committed) == [10, NO_LSN]
    limbo.acknowledge(ME, 11)
    outcome = write(limbo, limbo.decide(100))
    assert lsns(outcome.committed) == [11, NO_LSN, NO_LSN]
    assert limbo.is_empty


def test_an_owner_who_comes_again_makes_nobody_read_only() -> None:
    """Entries of a former owner that comes again leave the instance writable, as in Tarantool; the limbo refuses its
    writes.
    """
    limbo = limbo_of(OTHER, 10)
    assert limbo.is_read_only
    limbo.process(SynchroRequest(RequestType.CONFIRM, OTHER, 10, 0, OTHER))
    assert limbo.is_empty
    limbo.append(OTHER, Entry())
    assert not limbo.is_read_only
    with pytest.raises(BoxError) as failure:
        limbo.append(0, Entry())
    assert code(failure.value) == "UNCOMMITTED_FOREIGN_SYNC_TXNS"
    limbo.refresh_mode()
    assert limbo.is_read_only


def test_foreign_entries() -> None:
    """Entries of another instance make this one read-only; only that instance may add to them."""
    limbo = limbo_of(OTHER, 10)
    assert limbo.is_read_only
    assert limbo.decide(1000) is None
    for origin in (0, THIRD):
        with pytest.raises(BoxError) as failure:
            limbo.append(origin, Entry())
        assert code(failure.value) == "UNCOMMITTED_FOREIGN_SYNC_TXNS"
    limbo.append(OTHER, Entry(wait_ack=False))
    assert lsns(limbo.process(SynchroRequest(RequestType.CONFIRM, THIRD, 10, 0, THIRD)).committed) == []
    assert lsns(limbo.process(SynchroRequest(RequestType.CONFIRM, OTHER, 10, 0, OTHER)).committed) == [10, NO_LSN]
    assert not limbo.is_read_only
    limbo.append(0, Entry())
    assert limbo.owner_id == ME


def test_rollback_row() -> None:
    """A ROLLBACK row removes the entries from its LSN on, newest first."""
    limbo = limbo_of(OTHER, 10, 0, 11, 0, 12)
    outcome = limbo.process(SynchroRequest(RequestType.ROLLBACK, OTHER, 11, 0, OTHER))
    assert lsns(outcome.rolled_back) == [12, NO_LSN, 11]
    assert lsns(list(limbo)) == [10, NO_LSN]
    assert limbo.process(SynchroRequest(RequestType.ROLLBACK, OTHER, 99, 0, OTHER)) == LimboOutcome([], [])


def test_promote_row() -> None:
    """PROMOTE confirms up to its LSN, rolls back the rest and changes the owner."""
    limbo = limbo_of(OTHER, 10, 11, 12)
    outcome = limbo.process(SynchroRequest(RequestType.PROMOTE, OTHER, 11, 1, THIRD))
    assert (lsns(outcome.committed), lsns(outcome.rolled_back)) == ([10, 11], [12])
    assert limbo.owner_id == THIRD
    assert limbo.greatest_term == 1
    assert not limbo.is_outdated(THIRD)
    assert limbo.is_outdated(OTHER)


def test_demote_row_of_newer_versions() -> None:
    """DEMOTE decides as PROMOTE does and leaves the limbo without an owner, so that any instance may claim it."""
    limbo = limbo_of(OTHER, 10, 11, 12)
    outcome = limbo.process(SynchroRequest(RequestType.PROMOTE, OTHER, 11, 3, OTHER, is_demotion=True))
    assert (lsns(outcome.committed), lsns(outcome.rolled_back)) == ([10, 11], [12])
    assert (limbo.owner_id, limbo.greatest_term, len(limbo.entries)) == (0, 3, 0)
    limbo.append(0, Entry())
    assert limbo.owner_id == ME


def test_promote_of_somebody_who_did_not_have_the_queue() -> None:
    """A PROMOTE of a new owner that knew another limbo rolls everything back; one of an older term is ignored."""
    limbo = limbo_of(OTHER, 10)
    assert lsns(limbo.process(SynchroRequest(RequestType.PROMOTE, THIRD, 50, 5, THIRD)).rolled_back) == [10]
    assert limbo.owner_id == THIRD
    assert not limbo.process(SynchroRequest(RequestType.PROMOTE, THIRD, 0, 4, OTHER)).has_effect
    assert limbo.owner_id == THIRD


def test_failed_write_of_an_entry() -> None:
    """When the journal fails, entries leave the limbo newest first."""
    limbo = limbo_of(ME, 10, 11)
    first, second = limbo
    with pytest.raises(AssertionError):
        limbo.abort(first)
    limbo.abort(second)
    limbo.abort(first)
    assert limbo.is_empty
    assert repr(limbo) == "<limbo EMPTY of 1, 0 entries, confirmed 0>"
