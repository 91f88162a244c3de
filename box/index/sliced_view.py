"""What views of indexes have in common: they are read in slices, and an empty slice is not the end."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

SLICE: Final = 512
"""The number of tuples that are taken at once, within about a tenth of a millisecond."""


class SlicedView:
    """A view that is read in slices; see `TupleView` of `box.index.view`."""

    @abstractmethod
    def take(self, limit: int = SLICE) -> list[bytes] | None:
        """Return the next tuples after a short turn, or None at the end; the list may be empty before."""

    def fetch(self, limit: int = SLICE) -> list[bytes]:
        """Return the next tuples; [] only at the end."""
        while (tuples := self.take(limit)) is not None:
            if tuples:
                return tuples
        return []
