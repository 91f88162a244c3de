"""A few seeds of the campaign "replication", and tests of how it judges its history (`make soak` runs many seeds)."""

from __future__ import annotations

import pytest

from box.errors import fiber_is_cancelled

from . import campaign
from .history import History, Outcome


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_faults(seed: int) -> None:
    """After random faults the instances are equal and have all acknowledged rows."""
    print(campaign.run(seed))


def test_what_a_history_allows() -> None:
    """The history demands acknowledged rows, forbids refused ones and allows open ones."""
    one, other = (512, 1), (512, 2)
    history = History()
    history.add({one: [1, "a"]}).settle(None)
    history.add({one: [1, "b"]}).settle("an error")
    late = history.add({one: [1, "c"]})
    late.is_frozen = True
    late.settle(None)
    late.is_frozen = False
    late.settle(fiber_is_cancelled())
    assert late.outcome is Outcome.OPEN
    assert history.errors({one: [1, "a"]}) == history.errors({one: [1, "c"]}) == []
    assert history.errors({one: [1, "b"]}) == ["(512, 1): [1, 'b'] instead of [[1, 'a'], [1, 'c']]"]
    assert history.errors({}) == ["(512, 1): None instead of [[1, 'a'], [1, 'c']]"]
    assert history.errors({one: [1, "a"], other: [2]}) == ["(512, 2): [2] was never written"]
    history.add({one: None}).settle(None)
    assert history.errors({}) == []


def test_a_torn_transaction_is_found() -> None:
    """The history reports an open transaction of which only a part is there."""
    one, other = (512, 1), (512, 2)
    history = History()
    history.add({one: [1], other: [2]})
    assert history.errors({one: [1], other: [2]}) == history.errors({}) == []
    assert history.errors({one: [1]}) == ["only [(512, 1)] of the transaction [(512, 1), (512, 2)]"]
