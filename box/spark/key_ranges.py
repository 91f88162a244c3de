"""Ranges of the first part of a primary key, by which pieces of files are selected.

They are a module of their own because `lunabox-cat` works without pyarrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


def sort_key(value: Any) -> Any:
    """Return a key part in a form that Python sorts as an index without collation does: text as its bytes."""
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class KeyRange:
    """A range of first key parts in the form of `sort_key`: from `low` to `high`, both included; None means no
    bound."""

    low: Any = None
    high: Any = None

    def is_before(self, key: Any) -> bool:
        """Return whether all keys of the range are less than `key`."""
        return self.high is not None and isinstance(key, type(self.high)) and bool(self.high < key)

    def is_after(self, key: Any) -> bool:
        """Return whether all keys of the range are greater than `key`."""
        return self.low is not None and isinstance(key, type(self.low)) and bool(key < self.low)

    def holds(self, key: Any) -> bool:
        """Return whether `key` has the type of the bounds and is in the range."""
        same = all(bound is None or isinstance(key, type(bound)) for bound in (self.low, self.high))
        return same and not self.is_before(key) and not self.is_after(key)
