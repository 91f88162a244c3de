"""The vector clock."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from box.errors import BoxError
from box.wire.vclock import VClock


def test_components() -> None:
    """A missing component is 0, and components advance only by `follow`."""
    clock = VClock({1: 5})
    assert (clock[1], clock[7], dict(clock)) == (5, 0, {1: 5})
    assert clock.follow(1, 6) == 5
    assert clock.follow(2, 3) == 0
    assert clock.signature == clock.sum() == 9
    for replica_id, lsn in ((1, 6), (1, 5), (32, 1)):
        with pytest.raises(AssertionError):
            clock.follow(replica_id, lsn)
    clock.reset(2)
    clock.reset(1, 2)
    assert clock == {1: 2}


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ({}, {}, 0),
        ({1: 1}, {1: 1}, 0),
        ({1: 2}, {1: 1}, 1),
        ({1: 1}, {1: 1, 2: 1}, -1),
        ({1: 2}, {2: 1}, None),
        ({0: 5, 1: 1}, {1: 2}, None),
    ],
)
def test_compare(left: dict[int, int], right: dict[int, int], expected: int | None) -> None:
    assert VClock(left).compare(VClock(right)) == expected
    assert VClock(right).compare(VClock(left)) == (None if expected is None else -expected)


def test_compare_without_zero() -> None:
    assert VClock({0: 5, 1: 1}).compare({1: 2}, ignore_zero=True) == -1
    assert VClock({1: 3}).covers({0: 9, 1: 3}, ignore_zero=True)
    assert not VClock({1: 3}).covers({0: 9, 1: 3})
    assert not VClock({1: 3}).covers({2: 1})


def test_merges() -> None:
    clock = VClock({0: 9, 1: 5, 2: 2, 3: 1})
    clock.merge_min({1: 3, 2: 4})
    assert clock == {0: 9, 1: 3, 2: 2}
    clock.merge_max({1: 1, 4: 8})
    assert clock == {0: 9, 1: 3, 2: 2, 4: 8}
    assert clock.copy() is not clock
    assert clock.without_zero() == {1: 3, 2: 2, 4: 8}


def test_text() -> None:
    clock = VClock({2: 7, 1: 12})
    assert str(clock) == "{1: 12, 2: 7}"
    assert repr(clock) == "VClock({1: 12, 2: 7})"
    for text in ("{1: 12, 2: 7}", " {2:7 ,\t1 : 12} ", "{1: 12, 2: 7, }"):
        assert VClock.parse(text) == clock
    assert VClock.parse("{}") == {}
    for text in (
        "",
        "{1}",
        "{1: }",
        "{1: 2",
        "{1: -2}",
        "{32: 1}",
        "{1: 1, 1: 2}",
        "{1: 1} x",
        "{1: 9223372036854775808}",
    ):
        with pytest.raises(ValueError, match="not a vclock"):
            VClock.parse(text)


def test_wire() -> None:
    """Component 0 is neither sent nor accepted."""
    assert VClock({2: 7, 0: 4, 1: 300}).encode() == bytes.fromhex("82 01cd012c 0207")
    assert VClock.decode(msgpack.packb({0: 5, 1: 0, 2: 7})) == {2: 7}
    wrong: tuple[Any, ...] = ([], {1: "x"}, {"a": 1}, {1: True}, {40: 1})
    for value in wrong:
        with pytest.raises(BoxError, match="invalid VCLOCK"):
            VClock.decode(msgpack.packb(value))
    with pytest.raises(BoxError, match="invalid VCLOCK"):
        VClock.decode(b"\xc1")


def test_of_pairs() -> None:
    assert VClock.of([(1, 0), (2, 5)]) == {2: 5}
