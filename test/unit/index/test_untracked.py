"""The hook that keeps trees out of the garbage collector's lists."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from box.index.untracked import CollectorWatch


def test_a_start_does_not_walk_over_the_whole_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start does not visit all objects of the program; before, that stopped a large program for a
    tenth of a second.
    """
    looked_at: list[int | None] = []
    get_objects = gc.get_objects

    def note(generation: int | None = None) -> list[Any]:
        looked_at.append(generation)
        return get_objects(generation)

    monkeypatch.setattr(gc, "get_objects", note)
    monkeypatch.setattr(CollectorWatch, "_on", set())
    gc.disable()
    watch = CollectorWatch()
    try:
        watch.begin()
        assert looked_at == [0]
    finally:
        watch.end()
        gc.enable()
