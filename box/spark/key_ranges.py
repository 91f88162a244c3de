"""Ranges of the first part of a primary key, by which files are cut.

They stand apart from the conditions because `lunabox-cat` works without pyarrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


def sort_key(value: Any) -> Any:
    """A key part in a form that Python orders as an index without a collation does: text by its bytes."""
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The first parts of keys that can pass, as `sort_key`: from `low` to `high`, both included; None is no bound."""

    low: Any = None
    high: Any = None

    def is_before(self, key: Any) -> bool:
        """All of the range is smaller than `key`."""
        return self.high is not None and isinstance(key, type(self.high)) and bool(self.high < key)

    def is_after(self, key: Any) -> bool:
        """All of the range is greater than `key`."""
        return self.low is not None and isinstance(key, type(self.low)) and bool(key < self.low)

    def holds(self, key: Any) -> bool:
        """`key` is of the bounds' type and in the range."""
        same = all(bound is None or isinstance(key, type(bound)) for bound in (self.low, self.high))
        return same and not self.is_before(key) and not self.is_after(key)
