"""What keeps an instance from taking changes: the table of `box.instance.mode`."""

from __future__ import annotations

from itertools import combinations

import pytest

from box.instance.mode import AccessMode, ReadOnlyReason

SETTABLE = [reason for reason in ReadOnlyReason if reason is not ReadOnlyReason.SYNCHRO]


class Limbo:
    """Whether another instance owns the queue, and what the mode has made of it."""

    def __init__(self) -> None:
        self.is_foreign = False
        self.is_read_only = False

    def refresh_mode(self) -> None:
        self.is_read_only = self.is_foreign


def make() -> tuple[AccessMode, Limbo, list[str]]:
    """A mode, its limbo, and the reasons that were seen at each change."""
    limbo, seen = Limbo(), list[str]()
    mode = AccessMode(limbo, lambda: seen.append(str(mode.reason)))
    return mode, limbo, seen


def test_a_new_instance_is_loading() -> None:
    """Until its start is done and it is in sync it takes no changes."""
    mode, _, seen = make()
    assert (mode.is_read_only, mode.reason, repr(mode)) == (True, ReadOnlyReason.LOADING, "<mode loading>")
    mode.set(ReadOnlyReason.LOADING, False)
    assert (mode.is_read_only, mode.reason, repr(mode)) == (True, ReadOnlyReason.ORPHAN, "<mode orphan>")
    mode.set(ReadOnlyReason.ORPHAN, False)
    assert (mode.is_read_only, mode.reason, repr(mode)) == (False, None, "<mode writable>")
    assert seen == ["orphan", "None"]


@pytest.mark.parametrize("count", range(5))
def test_the_first_reason_of_the_table_is_told(count: int) -> None:
    """With any set of reasons: read-only if there is one, the topmost is the reason, each is known to hold."""
    for held in combinations(ReadOnlyReason, count):
        mode, limbo, _ = make()
        limbo.is_foreign = ReadOnlyReason.SYNCHRO in held
        for reason in SETTABLE:
            mode.set(reason, reason in held)
        assert mode.is_read_only == bool(held)
        assert mode.is_held == bool(set(held) - {ReadOnlyReason.SYNCHRO})
        assert mode.reason == next(iter(held), None)
        assert [reason for reason in ReadOnlyReason if mode.holds(reason)] == list(held)


def test_any_reason_makes_read_only() -> None:
    """Whatever the reason."""
    mode, limbo, _ = make()
    for reason in ReadOnlyReason:
        for other in SETTABLE:
            mode.set(other, other is reason)
        limbo.is_foreign = reason is ReadOnlyReason.SYNCHRO
        mode.look_again()
        assert mode.is_read_only
    mode.set(reason, False)
    assert not mode.is_read_only


def test_the_limbo_counts_once_it_is_looked_at() -> None:
    """Its owner may change at any time; the mode follows when it is told, and tells others."""
    mode, limbo, seen = make()
    mode.set(ReadOnlyReason.ORPHAN, False)
    mode.set(ReadOnlyReason.LOADING, False)
    limbo.is_foreign = True
    assert not mode.is_read_only
    mode.look_again()
    assert mode.is_read_only
    assert seen == ["loading", "None", "synchro"]
