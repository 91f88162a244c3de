"""Fixtures of the simulation's tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from box.txn.promoter import Promoter
from box.wire.messages import Claim


@pytest.fixture
def without_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let leaders write a PROMOTE without a claim, as Tarantool 2.8.1 does, so that no majority may know of it."""

    async def unclaimed(self: Promoter, term: int, check_leads: Callable[[], None]) -> Claim:
        check_leads()
        return self._decide(term)

    monkeypatch.setattr(Promoter, "_claimed", unclaimed)
