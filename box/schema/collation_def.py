"""The definition of a collation, as in the space `_collation`."""

from __future__ import annotations

from typing import Any, NamedTuple


class CollationDef(NamedTuple):
    """A decoded `_collation` tuple."""

    id: int
    name: str
    owner: int
    type: str
    locale: str
    options: dict[str, Any]
