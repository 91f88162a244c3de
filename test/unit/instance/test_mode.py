"""What makes an instance read-only: the table of `box.instance.mode`."""

from __future__ import annotations

from itertools import combinations

import pytest

from box.instance.mode import AccessMode, ReadOnlyReason

SETTABLE = [reason for reason in ReadOnlyReason if reason is not ReadOnlyReason.SYNCHRO]


class Limbo:
    """A stand-in for the limbo, with what `Mode` reads and sets."""

    def __init__(self) -> None:
        self.is_foreign = False
        self.is_read_only = False

    def refresh_mode(self) -> None:
        self.is_read_only = self.is_foreign


def make() -> tuple[AccessMode, Limbo, list[str]]:
    """Make a mode, its limbo, and the list of reasons seen at each change."""
    limbo, seen = Limbo(), list[str]()
    mode = AccessMode(limbo, lambda: seen.append(str(mode.reason)))
    return mode, limbo, seen


def test_a_new_instance_is_loading() -> None:
    """A new instance is read-only until its start is complete and it is in sync."""
    mode, _, seen = make()
    assert (mode.is_read_only, mode.reason, repr(mode)) == (True, ReadOnlyReason.LOADING, "<mode loading>")
    mode.set(ReadOnlyReason.LOADING, False)
    assert (mode.is_read_only, mode.reason, repr(mode)) == (True, ReadOnlyReason.ORPHAN, "<mode orphan>")
    mode.set(ReadOnlyReason.ORPHAN, False)
    assert (mode.is_read_only, mode.reason, repr(mode)) == (False, None, "<mode writable>")
    assert seen == ["orphan", "None"]


@pytest.mark.parametrize("count", range(5))
def test_the_first_reason_of_the_table_is_told(count: int) -> None:
    """With any set of reasons the instance is read-only, and the topmost reason of the table is shown."""
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
    """Each reason alone makes the instance read-only."""
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
    """The limbo's owner counts from the moment when it is first read; the mode follows its changes and
    tells listeners.
    """
    mode, limbo, seen = make()
    mode.set(ReadOnlyReason.ORPHAN, False)
    mode.set(ReadOnlyReason.LOADING, False)
    limbo.is_foreign = True
    assert not mode.is_read_only
    mode.look_again()
    assert mode.is_read_only
    assert seen == ["loading", "None", "synchro"]
