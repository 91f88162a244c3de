"""The iterators by their wire numbers."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class IteratorType(IntEnum):
    """The wire numbers of the iterators. TREE supports 0 to 6, HASH supports ALL, EQ and GT."""

    EQ = 0
    REQ = 1
    ALL = 2
    LT = 3
    LE = 4
    GE = 5
    GT = 6
    BITS_ALL_SET = 7
    BITS_ANY_SET = 8
    BITS_ALL_NOT_SET = 9
    OVERLAPS = 10
    NEIGHBOR = 11

    @property
    def is_reverse(self) -> bool:
        return self in REVERSE


REVERSE: Final = frozenset({IteratorType.REQ, IteratorType.LT, IteratorType.LE})
"""The iterators that go from greater to lesser keys."""
