"""The definition of a collation, as `_collation` keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CollationDef:
    """A decoded `_collation` tuple."""

    id: int
    name: str
    owner: int
    type: str
    locale: str
    options: dict[str, Any]
