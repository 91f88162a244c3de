"""Fixtures: an empty dictionary, and that of a new instance."""

from __future__ import annotations

import pytest

from .harness import Dictionary


@pytest.fixture
def empty() -> Dictionary:
    """The dictionary before any row."""
    return Dictionary()


@pytest.fixture
def dictionary() -> Dictionary:
    """The dictionary of a new instance."""
    result = Dictionary()
    result.bootstrap()
    return result
