"""All runs of suites in one process of pytest share the process that nodes are forked from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from console.suite import warm

from .shared_warm import make_shared, shared_warm


@pytest.fixture(scope="session", autouse=True)
def end_of_the_shared_process() -> Iterator[None]:
    """End the shared process after the last test."""
    yield
    if shared_warm.cache_info().currsize and (shared := shared_warm()) is not None:
        shared.end()


@pytest.fixture(autouse=True)
def share_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `console.suite.cli.main`, called in this process, use the shared process."""
    monkeypatch.setattr(warm, "make_warm", make_shared)
