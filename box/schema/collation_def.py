"""The definition of a collation, as in the space `_collation`."""

from __future__ import annotations

from typing import Any, NamedTuple

from box.data.collation import Collation, order_of


class CollationDef(NamedTuple):
    """A decoded `_collation` tuple."""

    id: int
    name: str
    owner: int
    type: str
    locale: str
    options: dict[str, Any]

    @property
    def collation(self) -> Collation:
        """The collation that keys are made with."""
        if self.type == "BINARY":
            return Collation(self.id, self.name, "BINARY", "", "")
        options = {name: value.lower() for name, value in self.options.items()}
        strength = options.pop("strength", "tertiary")
        return Collation(self.id, self.name, self.type, self.locale, strength, tuple(sorted(options.items())))

    @property
    def order(self) -> int:
        """The number by which keys and queries refer to the collation."""
        return order_of(self.collation)
